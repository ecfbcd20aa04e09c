"""What is kept, how tightly and for how long: the oldest goes first.

A call waits no longer than for one small transaction, so everything here goes in steps.
"""

import time
from collections.abc import Iterable

import apsw

from server.history.database import Database
from server.history.keys import KEPT_NS
from server.history.rows import Tidied
from server.history.schema import select
from server.history.versions import pack

LONG = 16 * 1024
"""Bytes from which on a content is stored as it is and compressed here."""

_STEP_ENTRIES, _STEP_BYTES, _STEP_PAGES = 200, 4 * 1024 * 1024, 256
_PAUSE = 0.002
"""Other processes ask for the file again and again, so they need a moment in which it is free."""
_LOOSE = "SELECT hash FROM blobs WHERE size>=? AND length(data)=size"
_TIGHTEN = (
    "UPDATE blobs SET data=?2 WHERE hash=?1 AND length(data)=size RETURNING size-length(data)"
)
_OLDEST = (
    "SELECT e.id, coalesce(length(b.data), 0) FROM entries AS e"
    " LEFT JOIN blobs AS b ON b.hash=e.before WHERE e.state=1"
)


def tidy(database: Database, *, max_bytes: int, max_age_ns: int, now: int) -> Tidied:
    """Delete what is too old, then the oldest until the rest fits; give the disk its room back."""
    _compress(database)
    entries = freed = 0
    while True:
        with database.write(durable=False) as db:
            going = _too_old(db, now - max_age_ns) or _too_many(db, max_bytes)
            if not going:
                db.execute("DELETE FROM keys WHERE at_ns<?", (now - KEPT_NS,))
                break
            freed += forget(db, going, state=1)
            entries += len(going)
        time.sleep(_PAUSE)
    freed += _clear_unnamed(database)
    _shrink(database)
    return Tidied(entries, freed)


def _compress(database: Database) -> None:
    """Compress what was stored as it came. What doesn't get shorter is tried again next time."""
    with database.read() as db:
        hashes = [str(row[0]) for row in select(db, _LOOSE, LONG)]
    for item in hashes:
        with database.read() as db:
            rows = select(db, "SELECT data FROM blobs WHERE hash=? AND length(data)=size", item)
        packed = pack(rows[0][0]) if rows else b""
        if rows and len(packed) < len(rows[0][0]):
            with database.write(durable=False) as db:
                saved = sum(size for (size,) in select(db, _TIGHTEN, item, packed))
                db.execute("UPDATE totals SET bytes=bytes-?", (saved,))
        time.sleep(_PAUSE)


def forget(db: apsw.Connection, ids: Iterable[int], *, state: int) -> int:
    """Delete entries in that state and the contents only they named; how many bytes of these."""
    statement = "DELETE FROM entries WHERE id=? AND state=? RETURNING before"
    hashes: set[str] = set()
    for number in ids:
        found = select(db, statement, number, state)
        hashes.update(before for (before,) in found if before is not None)
    return _clear(db, hashes)


def _clear(db: apsw.Connection, hashes: Iterable[str]) -> int:
    statement = (
        "DELETE FROM blobs WHERE hash=?1 AND NOT EXISTS(SELECT 1 FROM entries WHERE before=?1)"
        " RETURNING length(data)"
    )
    return sum(size for item in hashes for (size,) in select(db, statement, item))


def _too_old(db: apsw.Connection, before_ns: int) -> list[int]:
    rows = select(db, f"{_OLDEST} AND e.at_ns<? ORDER BY e.at_ns LIMIT ?", before_ns, _STEP_ENTRIES)
    return _step(rows, _STEP_BYTES)


def _too_many(db: apsw.Connection, max_bytes: int) -> list[int]:
    excess = select(db, "SELECT bytes FROM totals")[0][0] - max_bytes
    if excess <= 0:
        return []
    rows = select(db, f"{_OLDEST} ORDER BY e.id LIMIT ?", _STEP_ENTRIES)
    return _step(rows, min(excess, _STEP_BYTES))


def _step(rows: list[tuple[int, int]], enough: int) -> list[int]:
    """The first rows that may free `enough`: fewer than needed when others name their contents too."""
    going: list[int] = []
    total = 0
    for number, size in rows:
        if total >= enough:
            break
        going.append(number)
        total += size
    return going


def _clear_unnamed(database: Database) -> int:
    """Delete contents that no entry names; there are none unless something went wrong."""
    with database.read() as db:
        rows = select(
            db,
            "SELECT hash FROM blobs WHERE NOT EXISTS(SELECT 1 FROM entries WHERE before=hash)",
        )
    hashes = [str(row[0]) for row in rows]
    freed = 0
    for start in range(0, len(hashes), 20):
        with database.write(durable=False) as db:
            freed += _clear(db, hashes[start : start + 20])
        time.sleep(_PAUSE)
    return freed


def _shrink(database: Database) -> None:
    free = 1
    while free:
        with database.idle() as db:
            db.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall()
            left = int(db.pragma("freelist_count"))
        free = left if left != free else 0
        time.sleep(_PAUSE if free else 0)
    with database.idle() as db:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
