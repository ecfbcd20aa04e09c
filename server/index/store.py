"""The index: SQLite for what notes say, a mirror for their bytes. All of it can be rebuilt.

The only room that knows SQLite. It never looks at the vault: callers bring content and stats.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from server.errors import Unavailable
from server.index.compaction import Compaction
from server.index.facts import derive
from server.index.finds import Finds
from server.index.graph import Graph
from server.index.links import Names
from server.index.mirror import SEGMENT_BYTES, Mirror
from server.index.reads import Reads
from server.index.rows import Counts, Document, LinkRow, Located, Row, SnapshotRow
from server.index.schema import VERSION, connect_writer, version
from server.index.transaction import Transaction
from server.index.vocabulary import Vocabulary
from server.models import Entry, FileStat, etag_of
from server.telemetry import log

__all__ = ["Counts", "Document", "Index", "LinkRow", "Located", "Row", "SnapshotRow"]

MAX_INDEXED = 10 * 1024 * 1024

_WAL_PAGES = 8192
_MOST_NAMES = 50_000
_UNSOUND = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SQLError)


class Index(Finds, Graph, Vocabulary, Reads):
    """Reads from any thread; writes one at a time, each a transaction."""

    def __init__(
        self, file: Path, db: apsw.Connection, mirror: Mirror, clock: Callable[[], int]
    ) -> None:
        super().__init__(file, mirror)
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._wal_pages = 0
        self._names: Names = {}
        db.set_wal_hook(self._on_commit)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], int] = time.time_ns,
    ) -> "Index":
        """Open the index in `folder`; one that is damaged or of another version starts empty."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "index.db"
        if _mark(file).exists():
            _discard(folder, "it was found damaged")
        try:
            db = connect_writer(file)
        except _UNSOUND as error:
            _discard(folder, str(error))
            db = connect_writer(file)
        if version(db) != VERSION:
            db.close(True)
            _discard(folder, "its format is of another version")
            db = connect_writer(file)
        last = db.execute("SELECT coalesce(max(segment), 0) FROM notes").get
        mirror = Mirror(folder / "mirror", last, segment_bytes)
        Compaction(db, mirror).reconcile()
        return cls(file, db, mirror, clock)

    @property
    def is_complete(self) -> bool:
        """Whether a whole scan was ever stored: an index in the making must not pass for the vault."""
        return self._complete.exists()

    def set_complete(self) -> None:
        """A whole scan is stored."""
        self._complete.touch(mode=0o600)

    @property
    def _complete(self) -> Path:
        return self._file.with_name("complete")

    def close(self) -> None:
        """End it: the database is checkpointed when its last connection closes."""
        self._pool.close()
        with self._lock:
            self._db.close(True)
            self._mirror.close()

    def put(self, items: Sequence[Document], *, max_bytes: int = MAX_INDEXED) -> None:
        """Store notes with everything they say. Larger ones, and binary ones, get a warning."""
        items = list({item.path: item for item in items}.values())
        # Parsing is most of the work, so it's done before anybody has to wait for the lock.
        facts = {}
        for item in items:
            row = self.get(item.path)
            if row is None or row.etag != etag_of(item.data):
                facts[item.path] = derive(item.path, item.data, max_bytes)
        with self._transaction(max_bytes) as transaction:
            transaction.put(items, facts)

    def put_files(self, entries: Sequence[Entry]) -> None:
        """Store attachments and folders."""
        with self._transaction() as transaction:
            transaction.put_files(entries)

    def touch(self, path: str, stat: FileStat, racy: bool) -> None:
        """Take over a stat: the content is what it was."""
        with self._transaction() as transaction:
            transaction.touch(path, stat, racy)

    def remove(self, paths: Sequence[str], *, before_ns: int | None = None) -> None:
        """Forget files; unknown paths are passed over, and rows that are newer than `before_ns`."""
        with self._transaction() as transaction:
            transaction.remove(paths, before_ns)

    def rename(self, old: str, new: str, disk: str, stat: FileStat) -> bool:
        """Give a file another path; a folder takes along what is in it. False when unknown."""
        with self._transaction() as transaction:
            return transaction.rename(old, new, disk, stat)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database as far as readers allow."""
        with self._writing() as db:
            self._checkpoint(db)

    def compact(self, max_dead_ratio: float = 0.5) -> int:
        """Rewrite segments that are mostly dead; how many bytes that gave back."""
        freed = 0
        with self._writing() as db:
            candidates = Compaction(db, self._mirror).candidates(max_dead_ratio)
        for segment in candidates:
            with self._writing() as db, db:
                freed += Compaction(db, self._mirror).rewrite(segment)
            self._mirror.retire([segment])
        return freed

    def check(self) -> list[str]:
        """Everything SQLite finds wrong; it reads the whole database."""
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
                transaction = Transaction(db, self._mirror, self._clock(), max_bytes, names)
                yield transaction
                transaction.finish()
            self._names = names if len(names) < _MOST_NAMES else {}
            if self._wal_pages > _WAL_PAGES:
                self._checkpoint(db)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._lock, self._sound():
            yield self._db

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        with self._sound(), super()._read() as db:
            yield db

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Damage found while running is marked, so that the next start begins anew."""
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            _mark(self._file).touch()
            raise Unavailable(
                "The index is damaged.", "Restart the server: it then builds the index anew."
            ) from error

    def _checkpoint(self, db: apsw.Connection) -> None:
        self._mirror.sync()
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._wal_pages = 0

    def _on_commit(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK


def _mark(file: Path) -> Path:
    return file.with_name("damaged")


def _discard(folder: Path, reason: str) -> None:
    log(logging.WARNING, "the index is built anew", reason=reason)
    for name in ("index.db", "index.db-wal", "index.db-shm", "damaged", "complete"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "mirror", ignore_errors=True)
