"""The tables, and how a connection to them is opened.

A content is stored once, under its etag, compressed unless that makes it longer; a long one comes as
it is and is compressed when the history is tidied. It is compressed exactly when it takes fewer bytes
than its `size`. No count of references is kept: entries name
contents in `before`, and what none names may go.
"""

from pathlib import Path
from typing import Any

import apsw

VERSION = 1

TABLES = """
CREATE TABLE blobs(hash TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE entries(
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_ns INTEGER NOT NULL, caller TEXT NOT NULL,
    session TEXT, tool TEXT NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
    path_key TEXT NOT NULL, other TEXT, other_key TEXT, before TEXT, after TEXT,
    operation TEXT NOT NULL, state INTEGER NOT NULL, owner TEXT NOT NULL);
CREATE INDEX entries_path ON entries(path_key);
CREATE INDEX entries_other ON entries(other_key) WHERE other_key IS NOT NULL;
CREATE INDEX entries_before ON entries(before) WHERE before IS NOT NULL;
CREATE INDEX entries_operation ON entries(operation);
CREATE INDEX entries_at ON entries(at_ns);
CREATE INDEX entries_open ON entries(id) WHERE state=0;
CREATE TABLE keys(
    caller TEXT, key TEXT, tool TEXT NOT NULL, request_hash TEXT NOT NULL, operation TEXT,
    path TEXT, after TEXT, result TEXT, at_ns INTEGER NOT NULL, owner TEXT NOT NULL,
    PRIMARY KEY(caller, key)) WITHOUT ROWID;
CREATE INDEX keys_at ON keys(at_ns);
CREATE TABLE totals(entries INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO totals VALUES(0, 0);
CREATE TRIGGER blobs_come AFTER INSERT ON blobs BEGIN
    UPDATE totals SET bytes=bytes+length(NEW.data); END;
CREATE TRIGGER blobs_go AFTER DELETE ON blobs BEGIN
    UPDATE totals SET bytes=bytes-length(OLD.data); END;
CREATE TRIGGER entries_come AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries=entries+1; END;
CREATE TRIGGER entries_go AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries=entries-1; END;
"""

_PROBES = (
    "SELECT hash, size FROM blobs LIMIT 1",
    "SELECT max(id), path_key, other_key, owner FROM entries",
    "SELECT request_hash, owner FROM keys LIMIT 1",
    "SELECT entries + bytes FROM totals",
)


def connect_writer(file: Path, first_id: int = 1) -> apsw.Connection:
    """The one connection that writes. Raises an `apsw.Error` when the file is no sound history."""
    file.touch(mode=0o600)
    db = apsw.Connection(str(file))
    try:
        db.set_busy_timeout(10_000)
        # One at a time: a statement that answers with a row ends a script there, unread.
        db.pragma("journal_size_limit", 16_777_216)
        db.pragma("cache_size", -4096)
        db.pragma("temp_store", "MEMORY")
        if not select(db, "SELECT 1 FROM sqlite_schema LIMIT 1"):
            # Only a file without tables takes these, and the log must come last.
            db.execute("PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("PRAGMA journal_mode=WAL")
            with db:
                db.execute(TABLES)
                db.execute("INSERT INTO sqlite_sequence VALUES('entries', ?)", (first_id - 1,))
                db.execute(f"PRAGMA user_version={VERSION}")
        if version(db) <= VERSION:
            for probe in _PROBES:
                db.execute(probe).fetchall()
    except BaseException:
        db.close(True)
        raise
    return db


def connect_reader(file: Path) -> apsw.Connection:
    """A connection that can only read."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(10_000)
    return db


def select(db: apsw.Connection, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return db.execute(statement, bindings).fetchall()


def version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))
