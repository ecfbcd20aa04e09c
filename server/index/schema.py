"""The tables, and how a connection to them is opened.

One row of `notes` stands for any file or folder, so that links and listings speak of one id. The
FTS table is contentless: its rowid is the note's id and the text itself is in the mirror.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from server.index.tallies import TALLIES

VERSION = 6
READABLE = frozenset({4, 5})
"""Older versions whose tables the queries of this one can read: they serve until a new index is built."""

TABLES = """
CREATE TABLE folders(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE notes(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, disk TEXT NOT NULL, key TEXT NOT NULL,
    name_lc TEXT, folder_id INTEGER NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, etag TEXT, md5 TEXT, title TEXT, words INTEGER NOT NULL DEFAULT 0,
    warning TEXT, racy INTEGER NOT NULL DEFAULT 0, indexed_at_ns INTEGER NOT NULL,
    segment INTEGER, offset INTEGER, length INTEGER, created_ns INTEGER);
CREATE INDEX notes_key ON notes(key);
CREATE INDEX notes_name ON notes(name_lc);
CREATE INDEX notes_folder ON notes(folder_id);
CREATE INDEX notes_modified ON notes(mtime_ns) WHERE kind='note';
CREATE INDEX notes_created ON notes(coalesce(created_ns, mtime_ns)) WHERE kind='note';
CREATE INDEX notes_title ON notes(title COLLATE NOCASE) WHERE kind='note';
CREATE INDEX notes_segment ON notes(segment, offset, length) WHERE segment IS NOT NULL;
CREATE TABLE links(
    src INTEGER, n INTEGER, dst INTEGER, kind TEXT, embed INTEGER, target TEXT, name_lc TEXT,
    sub TEXT, alias TEXT, line INTEGER, pos INTEGER, end INTEGER,
    PRIMARY KEY(src, n)) WITHOUT ROWID;
CREATE INDEX links_dst ON links(dst) WHERE dst IS NOT NULL;
CREATE INDEX links_name ON links(name_lc) WHERE name_lc IS NOT NULL;
CREATE INDEX links_open ON links(name_lc) WHERE dst IS NULL AND name_lc IS NOT NULL;
CREATE TABLE tags(
    tag_lc TEXT, note INTEGER, tag TEXT, direct INTEGER, PRIMARY KEY(tag_lc, note)) WITHOUT ROWID;
CREATE INDEX tags_note ON tags(note);
CREATE TABLE props(
    note INTEGER, n INTEGER, key_lc TEXT, key TEXT, listed INTEGER, type TEXT, value,
    folded TEXT, number REAL, moment REAL, PRIMARY KEY(note, n)) WITHOUT ROWID;
CREATE INDEX props_key ON props(key_lc, type, value);
CREATE INDEX props_folded ON props(key_lc, folded);
CREATE INDEX props_number ON props(key_lc, number) WHERE number IS NOT NULL;
CREATE INDEX props_moment ON props(key_lc, moment) WHERE moment IS NOT NULL;
CREATE TABLE aliases(
    note INTEGER, n INTEGER, alias_lc TEXT, alias TEXT, PRIMARY KEY(note, n)) WITHOUT ROWID;
CREATE INDEX aliases_alias ON aliases(alias_lc);
CREATE TABLE headings(
    note INTEGER, n INTEGER, level INTEGER, text TEXT, line INTEGER, start INTEGER,
    PRIMARY KEY(note, n)) WITHOUT ROWID;
CREATE TABLE blocks(
    note INTEGER, n INTEGER, block TEXT, line INTEGER, start INTEGER,
    PRIMARY KEY(note, n)) WITHOUT ROWID;
CREATE TABLE tasks(
    note INTEGER, n INTEGER, mark TEXT, text TEXT, line INTEGER, done INTEGER,
    PRIMARY KEY(note, n)) WITHOUT ROWID;
CREATE TABLE changes(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ns INTEGER, kind TEXT, path TEXT, old_path TEXT);
CREATE INDEX changes_at ON changes(at_ns);
CREATE INDEX changes_later ON changes(seq) WHERE kind<>'created';
CREATE TABLE revision(n INTEGER NOT NULL);
INSERT INTO revision VALUES(0);
CREATE TRIGGER notes_come AFTER INSERT ON notes BEGIN UPDATE revision SET n=n+1; END;
CREATE TRIGGER notes_go AFTER DELETE ON notes BEGIN UPDATE revision SET n=n+1; END;
CREATE TRIGGER notes_change AFTER UPDATE OF path, folder_id, kind, mtime_ns, created_ns ON notes
    BEGIN UPDATE revision SET n=n+1; END;
CREATE VIRTUAL TABLE fts USING fts5(
    title, aliases, headings, tags, body,
    content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
CREATE TABLE fulltext(
    note INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, used_ns INTEGER NOT NULL,
    held INTEGER NOT NULL);
CREATE INDEX fulltext_used ON fulltext(held, used_ns, note, bytes);
CREATE TABLE fulltext_sum(used INTEGER NOT NULL, evicted INTEGER NOT NULL);
INSERT INTO fulltext_sum VALUES(0, 0);
CREATE TRIGGER fulltext_come AFTER INSERT ON fulltext BEGIN
    UPDATE fulltext_sum SET used=used+NEW.held*NEW.bytes, evicted=evicted+1-NEW.held; END;
CREATE TRIGGER fulltext_go AFTER DELETE ON fulltext BEGIN
    UPDATE fulltext_sum SET used=used-OLD.held*OLD.bytes, evicted=evicted-1+OLD.held; END;
CREATE TRIGGER fulltext_change AFTER UPDATE OF held, bytes ON fulltext BEGIN
    UPDATE fulltext_sum SET used=used+NEW.held*NEW.bytes-OLD.held*OLD.bytes,
    evicted=evicted+OLD.held-NEW.held; END;
"""

DETAILS = ("tags", "props", "aliases", "headings", "blocks", "tasks")
"""The tables that hold a note's own rows under `note`."""

BUDGET = 512 * 1024 * 1024


def _configure(db: apsw.Connection, **pragmas: int | str) -> None:
    # One at a time: a statement that answers with a row ends a script there, unread.
    for name, value in pragmas.items():
        db.pragma(name, value)


def _configure_reads(db: apsw.Connection, budget: int) -> None:
    db.set_busy_timeout(10_000)
    # Every connection maps the file for itself: together they must not outgrow a small budget.
    mapped = min(BUDGET, budget) // 4
    _configure(db, mmap_size=mapped, cache_size=-8192, temp_store="MEMORY")


def connect_writer(file: Path, budget: int = BUDGET) -> apsw.Connection:
    """The one connection that writes. Raises an `apsw.Error` when the file is no sound index."""
    file.touch(mode=0o600)
    db = apsw.Connection(str(file))
    try:
        _configure_reads(db, budget)
        # Only an empty file takes the page size; only a checkpoint thread may pay for checkpoints.
        _configure(db, page_size=8192, journal_mode="WAL", wal_autocheckpoint=0)
        # A power cut may take the last commits, never the rest: the next scan brings them back.
        _configure(db, synchronous="NORMAL", journal_size_limit=67_108_864)
        # A batch of a first scan touches pages all over: those that don't fit are written twice.
        _configure(db, cache_size=-(min(BUDGET, budget) // 8192))
        if _is_empty(db):
            with db:
                db.execute(TABLES + TALLIES)
                db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("SELECT max(id) FROM notes").fetchall()
        db.execute("SELECT count(*) FROM fts WHERE fts MATCH 'probe'").fetchall()
    except BaseException:
        db.close(True)
        raise
    return db


def connect_reader(file: Path, budget: int = BUDGET) -> apsw.Connection:
    """A connection that can only read."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    _configure_reads(db, budget)
    return db


def select(db: apsw.Connection, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return db.execute(statement, bindings).fetchall()


@contextmanager
def at_once(db: apsw.Connection) -> Iterator[None]:
    """All reads inside the block see the database as it was at the first of them."""
    with db:
        yield


def version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))


def _is_empty(db: apsw.Connection) -> bool:
    return not select(db, "SELECT 1 FROM sqlite_schema LIMIT 1")
