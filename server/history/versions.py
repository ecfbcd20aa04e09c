"""Reading the history: what was changed, by whom, and what was there before."""

import json
import logging
import zlib
from typing import Any

import apsw

from server.history.database import Database
from server.history.rows import Entry, key_of
from server.history.schema import select
from server.models import etag_of
from server.telemetry import log

_MOST_HOPS = 32
_ENTRY = (
    "e.id, e.at_ns, e.caller, e.session, e.tool, e.kind, e.path, e.other, e.before, e.after,"
    " e.operation, b.size FROM entries AS e LEFT JOIN blobs AS b ON b.hash=e.before"
)
_AT = (
    "SELECT e.id FROM json_each(?1) AS p JOIN entries AS e"
    " ON e.path_key=p.value->>0 AND e.id<p.value->>1 WHERE e.state=1"
    " UNION SELECT e.id FROM json_each(?1) AS p JOIN entries AS e"
    " ON e.other_key=p.value->>0 AND e.id<p.value->>1 WHERE e.state=1 ORDER BY 1 DESC"
)


class Versions:
    """Entries come out once their change is made; one that is only begun is nobody's version yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, path: str, *, limit: int, offset: int = 0) -> tuple[list[Entry], int]:
        """What happened at `path`, newest first, and how many entries there are in all.

        A note that was moved here brings along what happened at its former path up to the move.
        """
        with self._database.read() as db:
            places = json.dumps(_places(db, key_of(path)))
            ids = [row[0] for row in select(db, _AT, places)]
            page = json.dumps(ids[offset : offset + limit])
            chosen = "WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.id DESC"
            return _entries(db, chosen, page), len(ids)

    def entry(self, version: int) -> Entry | None:
        """The entry with that id."""
        with self._database.read() as db:
            return next(iter(_entries(db, "WHERE e.id=? AND e.state=1", version)), None)

    def content(self, etag: str) -> bytes | None:
        """The content with that etag; None when it isn't kept or isn't what it was.

        Raises `Unavailable` when the history can't be read at all.
        """
        try:
            with self._database.read() as db:
                rows = _stored(db, etag)
            data = unpack(*rows[0]) if rows else None
        except zlib.error:
            data = b""
        if data is not None and etag_of(data) != etag:
            log(logging.ERROR, "a content in the history is damaged", etag=etag)
            return None
        return data

    def since(
        self,
        at_ns: int,
        *,
        caller: str | None = None,
        session: str | None = None,
        operation: str | None = None,
        limit: int,
    ) -> list[Entry]:
        """What was changed at that time and later, oldest first."""
        given = {"caller": caller, "session": session, "operation": operation}
        wanted = {name: value for name, value in given.items() if value is not None}
        where = "".join(f" AND e.{name}=?" for name in wanted)
        with self._database.read() as db:
            return _entries(
                db, f"WHERE e.at_ns>=? AND e.state=1{where} ORDER BY e.id LIMIT ?",
                at_ns, *wanted.values(), limit,
            )  # fmt: skip

    def recent(
        self,
        limit: int,
        offset: int = 0,
        *,
        caller: str | None = None,
        path_prefix: str | None = None,
    ) -> list[Entry]:
        """What was changed last, newest first; a move counts where it came from and where it went."""
        prefix = key_of(path_prefix or "")
        with self._database.read() as db:
            return _entries(
                db,
                "WHERE e.state=1 AND (?1 IS NULL OR e.caller=?1)"
                " AND (substr(e.path_key, 1, ?2)=?3 OR substr(e.other_key, 1, ?2)=?3)"
                " ORDER BY e.id DESC LIMIT ?4 OFFSET ?5",
                caller, len(prefix), prefix, limit, offset,
            )  # fmt: skip


def pack(data: bytes) -> bytes:
    """How a content is kept: compressed when that makes it shorter."""
    packed = zlib.compress(data, 1)
    return packed if len(packed) < len(data) else data


def unpack(size: int, data: bytes) -> bytes:
    """The content again. Raises `zlib.error` when it is damaged."""
    return data if len(data) == size else zlib.decompress(data, bufsize=size or 1)


def _entries(db: apsw.Connection, clauses: str, *bindings: Any) -> list[Entry]:
    return [Entry(*row) for row in select(db, f"SELECT {_ENTRY} {clauses}", *bindings)]


def _stored(db: apsw.Connection, etag: str) -> list[tuple[int, bytes]]:
    try:
        return select(db, "SELECT size, data FROM blobs WHERE hash=?", etag)
    except apsw.CorruptError as error:
        # The rest of the file may be sound, and this content is as good as lost.
        log(logging.ERROR, "a part of the history is damaged", reason=str(error))
        return []


def _places(db: apsw.Connection, key: str) -> list[tuple[str, int]]:
    """Where the note has been, each place with the id of the entry that ended its time there."""
    places = {key: 1 << 62}
    waiting = [key]
    while waiting and len(places) < _MOST_HOPS:
        here = waiting.pop(0)
        moves = select(
            db,
            "SELECT other_key, max(id) FROM entries WHERE path_key=? AND id<? AND state=1"
            " AND other_key IS NOT NULL GROUP BY other_key ORDER BY 2 DESC LIMIT ?",
            here, places[here], _MOST_HOPS,
        )  # fmt: skip
        for former, move in moves:
            if move > places.get(former, 0):
                places[former] = move
                waiting.append(former)
    return list(places.items())
