"""How much the full text of the notes weighs, and whose is given up when that is too much.

The weight is an estimate: SQLite keeps about three quarters of the bytes of the text that is
indexed, whatever it says. Only this part of the index counts against the budget, because only this
part can be given up; the rows about notes and the mirror stay. A sum kept by triggers makes the
question cheap at any size.

Everything here works inside a transaction of the one writer, or on a connection that only reads.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from server.index.schema import select

_EVERY = 2_000
"""Notes that one transaction gives up at most: nobody should wait long for it."""
_ROOM = 0.95
"""The share of the budget that is filled up again, so that notes don't come only to go."""
_MOST_USES = 10_000

_INSERT = "INSERT INTO fts(rowid, title, aliases, headings, tags, body) VALUES(?,?,?,?,?,?)"
_DELETE = "DELETE FROM fts WHERE rowid=?"
# Not REPLACE: that would take the old row away without its trigger.
_WEIGH = (
    "INSERT INTO fulltext(note, bytes, used_ns, held) VALUES(?,?,?,?) ON CONFLICT(note) "
    "DO UPDATE SET bytes=excluded.bytes, used_ns=excluded.used_ns, held=excluded.held"
)
# What a word finds is remembered by revision.
_REVISED = "UPDATE revision SET n=n+1"
_USED = (
    "UPDATE fulltext SET used_ns=?1 WHERE note=(SELECT id FROM notes WHERE path=?2) "
    "AND used_ns<?1 RETURNING note, held"
)
_FOLDERS = (
    "SELECT folders.path, max(fulltext.used_ns) FROM fulltext JOIN notes ON notes.id=fulltext.note "
    "JOIN folders ON folders.id=notes.folder_id GROUP BY folders.id ORDER BY 2 DESC LIMIT ?"
)
_OLDEST = "SELECT note, bytes FROM fulltext WHERE held=1 ORDER BY used_ns, note LIMIT ?"
_NEWEST = "SELECT note, bytes FROM fulltext WHERE held=0 ORDER BY used_ns DESC, note DESC LIMIT ?"


@dataclass(frozen=True, slots=True)
class Usage:
    """What full text takes (estimated), what it may take, and how many notes had to leave it."""

    used: int
    budget: int
    evicted: int


class Uses:
    """The notes that somebody read or found since they were last taken, the latest at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: dict[str, None] = {}

    def add(self, path: str) -> None:
        with self._lock:
            self._paths.pop(path, None)
            self._paths[path] = None
            if len(self._paths) > _MOST_USES:
                del self._paths[next(iter(self._paths))]

    def take(self) -> list[str]:
        with self._lock:
            taken, self._paths = list(self._paths), {}
        return taken


class Texts:
    """The full text that a transaction takes away and puts in, all of it at its end.

    From then on every statement with a trigger would make FTS5 set a savepoint, too.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._gone: set[int] = set()
        self._come: dict[int, tuple[Any, ...]] = {}

    def hold(self, texts: Sequence[tuple[int, int, tuple[Any, ...]]]) -> None:
        """Index the texts of (note, when it was used, text); none of them is in the index."""
        weights = [(note, _weight(text), used_ns, True) for note, used_ns, text in texts]
        self._db.executemany(_WEIGH, weights)
        self._come.update((note, text) for note, _, text in texts)

    def drop(self, notes: Iterable[int]) -> None:
        """Forget the texts of these notes."""
        for note in notes:
            self._come.pop(note, None)
            self._gone.add(note)

    def flush(self) -> None:
        """Do all of it."""
        if self._come:
            self._db.execute(_REVISED)
        self._db.executemany(_DELETE, [(note,) for note in self._gone])
        self._db.executemany(_INSERT, [(note, *text) for note, text in self._come.items()])


def evict(db: apsw.Connection, budget: int) -> int:
    """Give up the full text of the notes that were not used for the longest; how many those are."""
    over = usage(db, budget).used - budget
    if over <= 0:
        return 0
    chosen = []
    for note, size in select(db, _OLDEST, _EVERY):
        if over <= 0:
            break
        chosen.append((note,))
        over -= size
    db.executemany("UPDATE fulltext SET held=0 WHERE note=?", chosen)
    db.executemany(_DELETE, chosen)
    if chosen:
        db.execute(_REVISED)
    return len(chosen)


def mark_used(db: apsw.Connection, paths: Iterable[str], now: int) -> list[int]:
    """Remember that notes were used, in this order; those of them whose full text is missing."""
    missing = []
    for turn, path in enumerate(paths):
        missing += [note for note, held in select(db, _USED, now + turn, path) if not held]
    return missing


def returning(db: apsw.Connection, budget: int, most: int) -> list[int]:
    """The evicted notes for which there is room, those that were used last before all others."""
    room = int(_ROOM * budget) - usage(db, budget).used
    chosen = []
    for note, size in select(db, _NEWEST, most):
        room -= size
        if room < 0:
            break
        chosen.append(note)
    return chosen


def last_use(db: apsw.Connection, note: int) -> int | None:
    """When an evicted note was used; None when it isn't evicted any more."""
    rows = select(db, "SELECT used_ns FROM fulltext WHERE note=? AND held=0", note)
    return int(rows[0][0]) if rows else None


def usage(db: apsw.Connection, budget: int) -> Usage:
    used, evicted = select(db, "SELECT used, evicted FROM fulltext_sum")[0]
    return Usage(used, budget, evicted)


def _weight(text: tuple[Any, ...]) -> int:
    return 64 + sum(len(part.encode(errors="replace")) for part in text) * 3 // 4


def used_folders(db: apsw.Connection, limit: int) -> list[str]:
    """The folders whose notes were used last, those first."""
    return [str(path) for path, _ in select(db, _FOLDERS, limit)]
