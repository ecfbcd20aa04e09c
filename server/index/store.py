"""The index: SQLite for what notes say, a mirror for their bytes. All of it can be rebuilt.

The only room that knows SQLite. It never looks at the vault: callers bring content and stats.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw

from server.errors import Unavailable
from server.index.backlog import Backlog
from server.index.compaction import Compaction
from server.index.facts import derive
from server.index.finds import Finds
from server.index.fulltext import (
    Texts,
    Usage,
    evict,
    last_use,
    mark_used,
    returning,
    usage,
    used_folders,
)
from server.index.generations import (
    FILE,
    clear,
    complete_mark,
    damage_mark,
    discard,
    request_mark,
    settle,
    spare,
)
from server.index.graph import Graph
from server.index.links import Names
from server.index.lists import Lists
from server.index.mirror import SEGMENT_BYTES, Mirror
from server.index.moves import Moves
from server.index.pages import Pages
from server.index.pool import UNSOUND, Pool, damaged
from server.index.reads import Reads
from server.index.rows import Counts, Document, LinkRow, Located, Row, SnapshotRow
from server.index.schema import BUDGET, READABLE, VERSION, connect_writer, select, version
from server.index.transaction import Former, Logged, Transaction
from server.index.vocabulary import Vocabulary
from server.markdown.note import parse
from server.markdown.rereading import Readings
from server.models import Entry, FileStat, etag_of
from server.telemetry import log

__all__ = ["Counts", "Document", "Index", "LinkRow", "Located", "Row", "SnapshotRow"]

MAX_INDEXED = 10 * 1024 * 1024

_WAL_PAGES = 8192
_MOST_BACK, _MOST_BACK_BYTES = 200, 4 * 1024 * 1024
_MOST_NAMES = 50_000
_MOST_FORMER = 5_000
_UNREADABLE = (*UNSOUND, apsw.FormatError, apsw.SQLError)


class Index(Finds, Graph, Lists, Moves, Pages, Vocabulary, Reads):
    """Reads from any thread; writes one at a time, each a transaction.

    When it turns out to be damaged, is of an older version, or when somebody wants it to be built
    anew, `target` is another index for a scan to fill. Until `promote` puts that in its place, this
    one goes on answering as well as it can.
    """

    def __init__(
        self,
        file: Path,
        db: apsw.Connection,
        mirror: Mirror,
        clock: Callable[[], int],
        budget: int,
        lock: "threading.Lock | None" = None,
    ) -> None:
        super().__init__(file, mirror, budget)
        self._budget = budget
        self._db = db
        self._clock = clock
        # A successor shares the lock: its connection is this one's after it is promoted.
        self._lock = lock or threading.Lock()
        self._wal_pages = 0
        self._names: Names = {}
        self.readings = Readings()
        """What was written last, for who edits it next."""
        self._backlog = Backlog(self._take_in)
        self._former: dict[str, tuple[int | None, int | None, int | None]] = {}
        self._folder = file.parent
        self._outdated = version(db) != VERSION
        self._successor: Index | None = None
        self._retired: list[tuple[Pool, apsw.Connection, Mirror, Path]] = []
        self.on_change: Callable[[Sequence[Logged] | None], None] = lambda _changes: None
        """Told of what each commit changed; None is anything. Others wait for it: it must be quick."""
        db.set_wal_hook(self._on_commit)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], int] = time.time_ns,
        budget: int = BUDGET,
    ) -> "Index":
        """Open the index in `folder`; one that is damaged or can't be read starts empty.

        `budget` is how many bytes full text may take.
        """
        settle(folder)
        index = cls._open(folder, segment_bytes, clock, budget)
        if index._outdated:
            log(
                logging.WARNING,
                "the index is of an older version: it serves until it is built anew",
            )
            index.target()
        return index

    @classmethod
    def _open(
        cls,
        place: Path,
        segment_bytes: int,
        clock: Callable[[], int],
        budget: int,
        lock: "threading.Lock | None" = None,
    ) -> "Index":
        file = place / FILE
        if damage_mark(place).exists():
            discard(place, "it was found damaged")
        try:
            db = connect_writer(file, budget)
        except _UNREADABLE as error:
            discard(place, str(error))
            db = connect_writer(file, budget)
        if version(db) not in (VERSION, *READABLE):
            db.close(True)
            discard(place, "its format is of another version")
            db = connect_writer(file, budget)
        last = db.execute("SELECT coalesce(max(segment), 0) FROM notes").get
        mirror = Mirror(place / "mirror", last, segment_bytes)
        Compaction(db, mirror).reconcile()
        return cls(file, db, mirror, clock, budget, lock)

    @property
    def is_complete(self) -> bool:
        """Whether a whole scan was ever stored: an index in the making must not pass for the vault."""
        return complete_mark(self._file.parent).exists()

    def set_complete(self) -> None:
        """A whole scan is stored: what comes from now on is news."""
        if not self.is_complete:
            with self._transaction() as transaction:
                transaction.mark_first_scan()
        complete_mark(self._file.parent).touch(mode=0o600)

    @property
    def needs_rebuild(self) -> bool:
        """Whether another index should take this one's place."""
        return self._outdated or self._is_damaged or request_mark(self._folder).exists()

    @property
    def _is_damaged(self) -> bool:
        return damage_mark(self._file.parent).exists()

    def target(self) -> "Index":
        """What a scan should fill: this index, or the one that shall take its place."""
        if not self.needs_rebuild:
            return self
        with self._lock:
            known = self._successor
            if known is None or known._is_damaged:
                if known is not None:
                    known._dispose()
                self._successor = known = self._succeeded()
        return known

    def _succeeded(self) -> "Index":
        place = spare(self._folder, self._file.parent)
        limit = self._mirror.segment_bytes
        successor = Index._open(place, limit, self._clock, self._budget, self._lock)
        # Revisions go on rising, so that no cached set of one generation passes for another's.
        revision = time.time_ns() // 1000
        successor._db.execute("UPDATE revision SET n=?", (revision,))
        return successor

    def promote(self) -> None:
        """Let the successor, which is complete, take over; what it replaces is deleted by `tend`."""
        with self._lock:
            successor = self._successor
            if successor is None:
                return
            self._retired.append((self._pool, self._db, self._mirror, self._file.parent))
            self._parts, self._db, self._file = successor._parts, successor._db, successor._file
            self._names = {}
            self._outdated = False
            self._db.set_wal_hook(self._on_commit)
            self._successor = None
            request_mark(self._folder).unlink(missing_ok=True)
        self.on_change(None)
        log(logging.INFO, "the index was built anew")

    def _clear_retired(self) -> None:
        """Delete what was replaced, now that whoever was reading it has had some time."""
        while self._retired:
            pool, db, mirror, place = self._retired.pop()
            pool.close()
            db.close(True)
            mirror.close()
            clear(place)

    def close(self) -> None:
        """End it: the database is checkpointed when its last connection closes."""
        self._backlog.close()
        with self._lock:
            self._clear_retired()
            if self._successor is not None:
                self._successor._dispose()
            self._dispose()

    def _dispose(self) -> None:
        self._pool.close()
        self._db.close(True)
        self._mirror.close()

    def _written(self) -> list["Index"]:
        """Who should learn of a change, after all that came before it."""
        self._backlog.settle()
        return self._targets()

    def _targets(self) -> list["Index"]:
        """With a successor, this one only while it is sound."""
        successor = self._successor
        if successor is None:
            return [self]
        return [successor] if self._outdated or self._is_damaged else [self, successor]

    def put(self, items: Sequence[Document], *, max_bytes: int = MAX_INDEXED) -> None:
        """Store notes with everything they say. Larger ones, and binary ones, get a warning."""
        items = list({item.path: item for item in items}.values())
        for index in self._written():
            index._put(items, max_bytes)

    def put_own(self, item: Document) -> None:
        """Store a note that was just written: before anybody asks, but nobody waits for it here."""
        self._backlog.add(item)

    def catch_up(self) -> None:
        """Return when all that was just written is stored."""
        self._backlog.settle()

    def _take_in(self, items: Sequence[Document]) -> None:
        for index in self._targets():
            index._put(items, MAX_INDEXED, own=True)

    def _put(self, items: Sequence[Document], max_bytes: int, *, own: bool = False) -> None:
        # Parsing is most of the work, so it's done before anybody has to wait for the lock.
        etags = {item.path: etag_of(item.data) for item in items}
        facts = {}
        for item in items:
            # What was just written is another content than before.
            row = None if own else self.get(item.path)
            if row is None or row.etag != etags[item.path]:
                # Who writes a note will most likely write it again; a scan comes by once.
                read_note = self.readings.parse if own else parse
                facts[item.path] = derive(item.path, item.data, max_bytes, read_note)
        with self._transaction(max_bytes) as transaction:
            transaction.put(items, facts, etags)

    def put_files(self, entries: Sequence[Entry]) -> None:
        """Store attachments and folders."""
        for index in self._written():
            with index._transaction() as transaction:
                transaction.put_files(entries)

    def touch(self, path: str, stat: FileStat, racy: bool) -> None:
        """Take over a stat: the content is what it was."""
        for index in self._written():
            with index._transaction() as transaction:
                transaction.touch(path, stat, racy)

    def remove(self, paths: Sequence[str], *, before_ns: int | None = None) -> None:
        """Forget files; unknown paths are passed over, and rows that are newer than `before_ns`."""
        for index in self._written():
            with index._transaction() as transaction:
                transaction.remove(paths, before_ns)

    def rename(self, old: str, new: str, disk: str, stat: FileStat) -> bool:
        """Give a file another path; a folder takes along what is in it. False when unknown."""
        found = False
        for index in self._written():
            with index._transaction() as transaction:
                found = transaction.rename(old, new, disk, stat) or found
        return found

    def former(self, etag: str) -> bytes | None:
        """A text that a note had before, unless that was too long ago."""
        self._backlog.settle()
        place = self._former.get(etag)
        return None if place is None else self._mirror.text(*place, etag)

    def _remember(self, former: Sequence[Former]) -> None:
        """What was replaced lies in the mirror until that is compacted."""
        for etag, *place in former:
            if etag is not None:
                self._former[etag] = (place[0], place[1], place[2])
        while len(self._former) > _MOST_FORMER:
            del self._former[next(iter(self._former))]

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database as far as readers allow."""
        with self._writing() as db:
            self._checkpoint(db)

    def compact(self, max_dead_ratio: float = 0.5) -> int:
        """Rewrite segments that are mostly dead; how many bytes that gave back."""
        freed = 0
        with self._writing() as db:
            mirror = self._mirror
            candidates = Compaction(db, mirror).candidates(max_dead_ratio)
        for segment in candidates:
            with self._writing() as db:
                if self._mirror is not mirror:
                    break
                with db:
                    freed += Compaction(db, mirror).rewrite(segment)
            mirror.retire([segment])
        return freed

    def usage(self) -> Usage:
        """What full text takes of its budget."""
        if self._outdated:
            return Usage(0, self._budget, 0)
        with self._read() as db:
            return usage(db, self._budget)

    def used_folders(self, limit: int = 50) -> list[str]:
        """The folders whose notes were used last, those first."""
        if self._outdated:
            return []
        with self._read() as db:
            return used_folders(db, limit)

    def tend(self) -> int:
        """Keep full text within its budget, and fill what room there is; how many notes came back.

        What was used since the last time comes back first, then the rest as far as there is room.
        One call brings back a part: call it again and again.
        """
        with self._lock:
            self._clear_retired()
        if self._outdated or self._is_damaged:
            return 0
        self._backlog.settle()
        used = self._uses.take()
        with self._writing() as db, db:
            wanted = mark_used(db, used, self._clock())
        over = True
        while over:
            with self._writing() as db, db:
                over = bool(evict(db, self._budget))
        with self._read() as db:
            wanted += returning(db, self._budget, _MOST_BACK)
        return self._bring_back(list(dict.fromkeys(wanted))) if wanted else 0

    def _bring_back(self, notes: Sequence[int]) -> int:
        """Index the full text of evicted notes again, from the mirror."""
        texts: dict[int, tuple[str, tuple[Any, ...]]] = {}
        room = _MOST_BACK_BYTES
        for note in notes:
            row = next(iter(self._rows("WHERE id=?", note)), None)
            data = self._mirror.text(row.segment, row.offset, row.length, row.etag) if row else None
            if row is None or data is None or row.etag is None:
                continue
            facts = derive(row.path, data, MAX_INDEXED)
            if facts.text:
                texts[note] = row.etag, facts.text
            room -= len(data)
            if room < 0:
                break
        with self._writing() as db, db:
            found = [
                (note, used_ns, text)
                for note, (etag, text) in texts.items()
                # It may have changed, and so come back, since its text was read.
                if (used_ns := last_use(db, note)) is not None
                and select(db, "SELECT etag FROM notes WHERE id=?", note) == [(etag,)]
            ]
            back = Texts(db)
            back.hold(found)
            back.flush()
            evict(db, self._budget)
        return len(found)

    def check(self) -> list[str]:
        """Everything SQLite finds wrong; it reads the whole database."""
        self._backlog.settle()
        with self._writing() as db:
            found = [str(row[0]) for row in db.execute("PRAGMA quick_check(20)")]
            try:
                db.execute("INSERT INTO fts(fts) VALUES('integrity-check')")
            except apsw.CorruptError as error:
                found.append(f"full text: {error}")
        return [problem for problem in found if problem != "ok"]

    @contextmanager
    def _transaction(self, max_bytes: int = MAX_INDEXED) -> Iterator[Transaction]:
        with self._writing() as db:
            # What a failed transaction learned about names is not true.
            names, self._names = self._names, {}
            with db:
                now = self._clock()
                transaction = Transaction(db, self._mirror, now, max_bytes, names)
                yield transaction
                transaction.finish(self._budget)
            self._names = names if len(names) < _MOST_NAMES else {}
            self._remember(transaction.former)
            if transaction.changes:
                self.on_change(transaction.changes)
            if self._wal_pages > _WAL_PAGES:
                self._checkpoint(db)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._lock:
            place = self._file.parent
            try:
                yield self._db
            except UNSOUND as error:
                damage_mark(place).touch()
                raise damaged() from error

    def _read(
        self, pool: Pool | None = None, *, wait: bool = True
    ) -> AbstractContextManager[apsw.Connection]:
        if wait:
            self._backlog.settle()
        elif not self._backlog.is_settled:
            raise Unavailable("The index is busy.", "Try again in a moment.")
        return super()._read(pool, wait=wait)

    def _checkpoint(self, db: apsw.Connection) -> None:
        self._mirror.sync()
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._wal_pages = 0

    def _on_commit(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK
