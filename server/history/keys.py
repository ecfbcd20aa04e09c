"""Idempotency keys: a call that is sent twice is made once.

A call claims its key, names the write it is about to make, and leaves its result. Whatever is
between the first and the last when the server dies tells the next try what to look for.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import apsw

from server.errors import Conflict, Unavailable
from server.history.database import Database
from server.history.rows import Claim
from server.history.schema import select
from server.telemetry import log

KEPT_NS = 48 * 3600 * 10**9


class Keys:
    """Who claimed which key, and what came of it."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    def claim(
        self, caller: str, key: str, tool: str, request_hash: str, *, retry: bool = False
    ) -> Claim:
        """Take the key, or learn what became of an earlier call that had it.

        An open claim of a server that died is taken over with `retry`: for a caller who has looked
        and knows that the write was not made.

        Raises `Conflict` when that was another request, `Unavailable` when it can't be stored.
        """
        now = self._clock()
        with self._database.write(durable=True) as db:
            presence = self._database.presence
            known = self._known(db, caller, key, (tool, request_hash), now)
            if known is not None and not (retry and known.state == "open" and not known.running):
                return known
            db.execute(
                "INSERT OR REPLACE INTO keys(caller, key, tool, request_hash, at_ns, owner)"
                " VALUES(?, ?, ?, ?, ?, ?)",
                (caller, key, tool, request_hash, now, presence.token),
            )
        return Claim("new")

    def expect(
        self,
        caller: str,
        key: str,
        path: str,
        after_etag: str | None,
        *,
        operation: str | None = None,
    ) -> None:
        """Name the write that will now be made. Raises `Unavailable` when it can't be stored."""
        with self._database.write(durable=True) as db:
            db.execute(
                "UPDATE keys SET path=?, after=?, operation=? WHERE caller=? AND key=?",
                (path, after_etag, operation, caller, key),
            )

    def fulfil(self, caller: str, key: str, result: Mapping[str, Any]) -> None:
        """The call succeeded: a second one gets the same result."""
        # What the call did is done: that its result can't be stored is no failure of the call.
        self._note(
            "UPDATE keys SET result=? WHERE caller=? AND key=?", json.dumps(result), caller, key
        )

    def release(self, caller: str, key: str) -> None:
        """The call failed and wrote nothing: the key is free."""
        owner = self._database.presence.token
        self._note(
            "DELETE FROM keys WHERE caller=? AND key=? AND owner=? AND result IS NULL",
            caller, key, owner,
        )  # fmt: skip

    def _known(
        self, db: apsw.Connection, caller: str, key: str, request: tuple[str, str], now: int
    ) -> Claim | None:
        rows = select(
            db,
            "SELECT tool, request_hash, result, path, after, operation, owner, at_ns FROM keys"
            " WHERE caller=? AND key=? AND at_ns>=?",
            caller, key, now - KEPT_NS,
        )  # fmt: skip
        if not rows:
            return None
        tool, request_hash, result, path, after, operation, owner, at_ns = rows[0]
        if (tool, request_hash) != request:
            raise Conflict(
                "This idempotency key was used for another request.",
                "Use a new key for a new request, or send the same request again.",
            )
        if result is not None:
            return Claim("done", json.loads(result), path, after, operation)
        running = self._database.presence.lives(owner)
        # Who died before it named a write has written nothing: this call may go on.
        if not running and not path:
            return None
        return Claim("open", None, path, after, operation, running, at_ns)

    def _note(self, statement: str, *bindings: Any) -> None:
        try:
            with self._database.write(durable=False) as db:
                db.execute(statement, bindings)
        except Unavailable as error:
            log(logging.WARNING, "an idempotency key was not updated", reason=error.message)
