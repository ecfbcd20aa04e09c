"""Everything that one write changes: rows, full text, links of others, the list of changes.

A transaction lives inside a database transaction of the one writer. It never commits by itself.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw

from server.index.content import clear_content, insert_content, replace_content
from server.index.facts import Facts, derive
from server.index.fulltext import Texts, evict
from server.index.links import Names, Resolver, refresh_names, refresh_source
from server.index.mirror import Mirror
from server.index.names import folder_of, key_of, link_name
from server.index.rows import COLUMNS, Document, Row, row_of
from server.index.schema import select
from server.models import Entry, FileStat, Kind, etag_of, kind_of

KEPT_CHANGES = 20_000

_KNOWN = f"SELECT {COLUMNS} FROM notes WHERE path=?"  # noqa: S608 - our own names
_NOTE = (
    "INSERT OR REPLACE INTO notes(id, path, disk, key, name_lc, folder_id, kind, size, mtime_ns, "
    "etag, md5, title, words, warning, racy, indexed_at_ns, segment, offset, length) "
    f"VALUES({', '.join('?' * 19)})"
)
# REPLACE would write every index of the table, and most of what they hold stays.
_CHANGED = (
    "UPDATE notes SET disk=?, size=?, mtime_ns=?, etag=?, md5=?, title=?, words=?, warning=?, "
    "racy=?, indexed_at_ns=?, segment=?, offset=?, length=?, created_ns=NULL WHERE id=?"
)
_RENAME = (
    "UPDATE notes SET path=?, disk=?, key=?, name_lc=?, folder_id=?, kind=?, size=?, mtime_ns=? "
    "WHERE id=?"
)
_TOUCH = "UPDATE notes SET size=?, mtime_ns=?, racy=?, disk=coalesce(?, disk) WHERE path=?"
_SEEN = "UPDATE notes SET indexed_at_ns=? WHERE path=?"
_CHANGE = "INSERT INTO changes(at_ns, kind, path, old_path) VALUES(?,?,?,?)"
_FORGET = "DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?"


Former = tuple[str | None, int | None, int | None, int | None]
Logged = tuple[str, str, str | None]
"""One change: created, modified, moved or deleted; the path, and where it was before a move."""


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A note whose content has to be stored."""

    item: Document
    known: Row | None
    etag: str
    facts: Facts


class Transaction:
    """Collects what changed while it writes; `finish` settles the links of others."""

    def __init__(
        self,
        db: apsw.Connection,
        mirror: Mirror,
        now: int,
        max_bytes: int,
        names: Names,
    ) -> None:
        self._db = db
        self._resolver = Resolver(db, names)
        self._texts = Texts(db)
        self._known_names = names
        self._mirror = mirror
        self._now = now
        self._max_bytes = max_bytes
        self._folders: dict[str, int] = {}
        self._names: set[str | None] = set()
        self.changes: list[Logged] = []
        self.former: list[Former] = []
        """The texts that were replaced: etag, segment, offset, length."""
        self._next = int(db.execute("SELECT coalesce(max(id), 0) FROM notes").get) + 1

    def mark_first_scan(self) -> None:
        """What the log has up to here was found, not made: see `Vocabulary.changes`."""
        self.changes.append(("scanned", "", None))

    def put(
        self, items: Iterable[Document], facts: Mapping[str, Facts], etags: Mapping[str, str]
    ) -> None:
        """Store notes; `facts` and `etags` may already hold what is known of some of them."""
        fresh = [new for item in _last(items) if (new := self._fresh(item, facts, etags))]
        self.former += [_former(new.known) for new in fresh if new.known]
        texts = [new.item.data for new in fresh if new.facts.text]
        places = iter(self._mirror.append(texts) if texts else ())
        rows = [self._note(new, next(places) if new.facts.text else None) for new in fresh]
        stored = list(zip(rows, fresh, strict=True))
        self._db.executemany(_NOTE, [row for row, new in stored if not new.known])
        known = [(row[2], *row[7:], row[0]) for row, new in stored if new.known]
        self._db.executemany(_CHANGED, known)
        self._forget_names()
        used_ns = {row[0]: self._used(new) for row, new in stored}
        for store, is_known in ((insert_content, False), (replace_content, True)):
            contents = [
                (row[0], new.item.path, new.facts)
                for row, new in stored
                if (new.known is not None) == is_known
            ]
            if contents:
                store(self._db, contents, self._resolver, self._texts, used_ns)

    def put_files(self, entries: Iterable[Entry]) -> None:
        """Store attachments and folders, of which only a stat is known; so are notes that are
        too large to be read.
        """
        rows = []
        for entry in _last(entries):
            known = self._known(entry.path, entry.kind)
            row = self._file(entry.path, entry.disk, entry.kind, entry.stat, known)
            warning = None
            if entry.kind == "note":
                clear_content(self._db, [row[0]], self._texts)
                warning = "too large to be read"
            rows.append((*row, None, None, None, 0, warning, False, self._now, None, None, None))
            same = known and FileStat(known.size, known.mtime_ns) == entry.stat
            self._record(row, known, changed=not same)
        self._db.executemany(_NOTE, rows)

    def touch(self, path: str, stat: FileStat, racy: bool, disk: str | None = None) -> None:
        """Take over a stat: the content is what it was."""
        self._db.execute(_TOUCH, (stat.size, stat.mtime_ns, racy, disk, path))

    def remove(self, paths: Iterable[str], before_ns: int | None = None) -> None:
        """Forget files; unknown paths are passed over, and rows that are newer than `before_ns`."""
        rows = [row for path in paths if (row := self._known(path))]
        gone = [row for row in rows if before_ns is None or not self._is_newer(row, before_ns)]
        clear_content(self._db, (row.id for row in gone if row.kind == "note"), self._texts)
        self._db.executemany("DELETE FROM notes WHERE id=?", [(row.id,) for row in gone])
        self._names.update(link_name(key_of(row.path), row.kind) for row in gone)
        self.changes += [("deleted", row.path, None) for row in gone if row.kind != "folder"]

    def rename(self, old: str, new: str, disk: str, stat: FileStat) -> bool:
        """Give a file another path; a folder takes along what is in it. False when unknown."""
        known = self._known(old)
        if known is None:
            return False
        kind: Kind = "folder" if known.kind == "folder" else kind_of(new)
        if kind != known.kind:
            self.remove([old])
            self.put_files([Entry(new, disk, kind, stat)])
            self._doubt(new)
            return True
        if kind == "folder":
            self._rename_inside(known, new, disk)
        if new != old:
            self.remove([new])
        note, *columns = self._file(new, disk, kind, stat, known)
        self._db.execute(_RENAME, (*columns, note))
        self._names.update((link_name(key_of(old), kind), link_name(key_of(new), kind)))
        if kind != "folder":
            self.changes.append(("moved", new, old))
        if kind == "note":
            self._reread(known, new)
            if (stat.size, stat.mtime_ns) != (known.size, known.mtime_ns):
                # Somebody may have changed it unseen: its new stat must not vouch for the old text.
                self._db.execute("UPDATE notes SET racy=1 WHERE path=?", (new,))
        return True

    def finish(self, budget: int) -> None:
        """Settle what the changes mean for other notes and the budget, and remember the changes."""
        self._forget_names()
        refresh_names(self._db, self._resolver, self._names)
        if self.changes:
            self._db.executemany(_CHANGE, [(self._now, *change) for change in self.changes])
            self._db.execute(_FORGET, (KEPT_CHANGES,))
        self._texts.flush()
        evict(self._db, budget)

    def _forget_names(self) -> None:
        """Let the names that changed be looked up anew."""
        for name in self._names:
            self._known_names.pop(name or "", None)

    def _fresh(
        self, item: Document, facts: Mapping[str, Facts], etags: Mapping[str, str]
    ) -> _Fresh | None:
        """None when the index has this very content, which then only gets its new stat."""
        known, etag = self._known(item.path, "note"), etags.get(item.path) or etag_of(item.data)
        if known and item.looked_ns is not None and self._is_newer(known, item.looked_ns):
            return None
        if known and known.etag == etag and self._text(known) is not None:
            self.touch(item.path, item.stat, item.racy, item.disk)
            self._db.execute(_SEEN, (self._seen(item), item.path))
            return None
        found = facts.get(item.path) or derive(item.path, item.data, self._max_bytes)
        return _Fresh(item, known, etag, found)

    def _note(self, new: _Fresh, place: tuple[int, int] | None) -> tuple[Any, ...]:
        item, facts = new.item, new.facts
        row = self._file(item.path, item.disk, "note", item.stat, new.known)
        # A row without an etag lost its text; that alone is no change of the note.
        known = new.known.etag if new.known else ""
        self._record(row, new.known, changed=known not in (None, new.etag))
        md5 = hashlib.md5(item.data, usedforsecurity=False).hexdigest()
        content = (
            new.etag,
            md5,
            facts.title,
            facts.words,
            facts.warning,
            item.racy,
            self._seen(item),
        )
        return (*row, *content, *((*place, len(item.data)) if place else (None, None, None)))

    def _seen(self, item: Document) -> int:
        """When the content was in the vault: of two looks the later one counts, whoever stores first."""
        return self._now if item.looked_ns is None else item.looked_ns

    def _is_newer(self, row: Row, moment_ns: int) -> bool:
        """Whether a row is from after a moment; one of the future is from before the clock was set back."""
        return moment_ns < row.indexed_at_ns <= self._now

    def _used(self, new: _Fresh) -> int:
        """A change is a use; of a note that is merely new to the index its own time tells more."""
        return self._now if new.known else min(self._now, new.item.stat.mtime_ns)

    def _file(
        self, path: str, disk: str, kind: Kind, stat: FileStat, known: Row | None
    ) -> tuple[Any, ...]:
        if known is None:
            note, self._next = self._next, self._next + 1
        else:
            note = known.id
        key, folder = key_of(path), self._folder(folder_of(path))
        return note, path, disk, key, link_name(key, kind), folder, kind, stat.size, stat.mtime_ns

    def _record(self, row: Sequence[Any], known: Row | None, *, changed: bool) -> None:
        _, path, _, _, name, _, kind, *_ = row
        if known is None:
            self._names.add(name)
        if changed and kind != "folder":
            self.changes.append(("modified" if known else "created", path, None))

    def _rename_inside(self, folder: Row, new: str, disk: str) -> None:
        rows = select(
            self._db,
            "SELECT path, disk, size, mtime_ns FROM notes WHERE path > ? AND path < ?",
            folder.path + "/",
            folder.path + "0",
        )
        for path, old_disk, size, mtime_ns in rows:
            moved = disk + old_disk[len(folder.disk) :]
            self.rename(path, new + path[len(folder.path) :], moved, FileStat(size, mtime_ns))

    def _reread(self, known: Row, new: str) -> None:
        """A title may come from the name, so a renamed note is read again from the mirror."""
        data = self._text(known)
        if data is None:
            self._forget_names()
            refresh_source(self._db, self._resolver, known.id)
            self._doubt(new)
            return
        facts = derive(new, data, self._max_bytes)
        clear_content(self._db, [known.id], self._texts)
        self._db.execute("UPDATE notes SET title=? WHERE id=?", (facts.title, known.id))
        self._forget_names()
        content, used_ns = [(known.id, new, facts)], {known.id: self._now}
        insert_content(self._db, content, self._resolver, self._texts, used_ns)

    def _doubt(self, path: str) -> None:
        """Have the next scan read and store the file, whatever its stat says."""
        self._db.execute("UPDATE notes SET racy=1, etag=NULL WHERE path=?", (path,))

    def _folder(self, path: str) -> int:
        found = self._folders.get(path)
        if found is None:
            self._db.execute("INSERT OR IGNORE INTO folders(path) VALUES(?)", (path,))
            found = int(self._db.execute("SELECT id FROM folders WHERE path=?", (path,)).get)
            self._folders[path] = found
        return found

    def _known(self, path: str, kind: Kind | None = None) -> Row | None:
        """The row of a path. One of another kind than `kind` is removed first."""
        rows = [row_of(values) for values in select(self._db, _KNOWN, path)]
        if rows and kind and rows[0].kind != kind:
            self.remove([path])
            return None
        return rows[0] if rows else None

    def _text(self, row: Row) -> bytes | None:
        return self._mirror.text(row.segment, row.offset, row.length, row.etag)


def _former(row: Row) -> Former:
    return row.etag, row.segment, row.offset, row.length


_Item = TypeVar("_Item", Document, Entry)


def _last(items: Iterable[_Item]) -> Iterable[_Item]:
    """The last of the items with the same path."""
    return {item.path: item for item in items}.values()
