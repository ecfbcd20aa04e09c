"""What can be done with any SQLite file of ours, whatever is in it: look whether it is sound, copy it.

Both work beside servers that write to it. What a file means is known to the room that owns it.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

_STEPS = 50_000
_PAGES = 256


def missing_feature() -> str | None:
    """What the SQLite at hand can't do but has to; None when it can do everything."""
    db = apsw.Connection(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE plain USING fts5(body)")
    except apsw.Error:
        return "full text search (FTS5)"
    try:
        db.execute(
            "CREATE VIRTUAL TABLE lean USING fts5(body, content='', contentless_delete=1);"
            "INSERT INTO lean(rowid, body) VALUES(1, 'x'); DELETE FROM lean WHERE rowid=1"
        )
    except apsw.Error:
        return "FTS5 tables without content (contentless_delete)"
    finally:
        db.close(True)
    return None


def sqlite_version() -> str:
    """The version of the SQLite at hand."""
    return str(apsw.sqlite_lib_version())


def damage(file: Path, seconds: float) -> str | None:
    """What is wrong with a database; None when nothing was found in that time."""
    end = time.monotonic() + seconds
    try:
        db = _reader(file, traceless=True)
        try:
            db.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            said = [str(row[0]) for row in db.execute("PRAGMA quick_check(3)")]
        finally:
            db.close(True)
    except apsw.InterruptError:
        return None
    except apsw.Error as error:
        return str(error)[:200]
    return None if said == ["ok"] else "; ".join(said)[:200]


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query finds, without a trace; nothing when the file isn't there or can't be read."""
    if not file.exists():
        return []
    try:
        with closing(_reader(file, traceless=True)) as db:
            return db.execute(query).fetchall()
    except apsw.Error:
        return []


def copy_database(source: Path, target: Path) -> None:
    """A copy of one moment, made while others may write. Raises `OSError` when it can't be made."""
    try:
        with closing(_reader(source)) as old, closing(apsw.Connection(str(target))) as new:
            with new.backup("main", old, "main") as copying:
                while not copying.done:
                    copying.step(_PAGES)
            # A file that stands alone: no log beside it that could be forgotten.
            new.execute("PRAGMA journal_mode=DELETE")
    except apsw.Error as error:
        raise OSError(f"{source.name} can't be copied: {error}") from error


def _reader(file: Path, *, traceless: bool = False) -> apsw.Connection:
    """A connection that reads; a traceless one makes no files, if nobody has the database open."""
    alone = traceless and not file.with_name(f"{file.name}-wal").exists()
    name = f"file:{quote(str(file))}?mode=ro{'&immutable=1' if alone else ''}"
    db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(10_000)
    return db
