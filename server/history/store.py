"""The history as the rest of the server knows it.

A change is begun here, durably, before the vault is touched, and finished or dropped after. What a
server that died left begun is settled by the next one, which looks at what the vault holds.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import apsw

from server.errors import Unavailable
from server.history.database import Database
from server.history.keys import Keys
from server.history.retention import LONG, forget, tidy
from server.history.rows import Author, Change, Claim, Entry, Tidied, Usage, key_of
from server.history.schema import select
from server.history.versions import Versions, pack
from server.models import etag_of
from server.telemetry import log

__all__ = ["Author", "Change", "Claim", "Entry", "History", "Tidied", "Usage"]

_DAY_NS = 24 * 3600 * 10**9
_BEGUN = (
    "INSERT INTO entries(at_ns, caller, session, tool, kind, path, path_key, other, other_key,"
    " before, after, operation, state, owner)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?) RETURNING id"
)
_OPEN = "SELECT id, path, path_key, other, before, after, owner FROM entries WHERE state=0 ORDER BY id DESC"


class History(Versions, Keys):
    """Safe for many threads; several servers may share one."""

    def __init__(
        self, database: Database, max_bytes: int, max_age_days: float, clock: Callable[[], int]
    ) -> None:
        Versions.__init__(self, database)
        Keys.__init__(self, database, clock)
        self._max_bytes = max_bytes
        self._max_age_ns = int(max_age_days * _DAY_NS)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        max_bytes: int,
        max_age_days: float,
        clock: Callable[[], int] = time.time_ns,
    ) -> "History":
        """Open the history in `folder`; one that is damaged is set aside and begun anew.

        Raises `Unavailable` when the folder can't be used or the file is of a newer version.
        """
        return cls(Database(folder), max_bytes, max_age_days, clock)

    def begin(self, author: Author, changes: Sequence[Change]) -> list[int]:
        """Keep what is about to be changed: on the disk when this returns, all of it or nothing.

        Raises `Unavailable` when it can't be stored: the vault must not be touched then.
        """
        if not changes:
            return []
        # Hashing and packing are most of the work, so they're done before anybody has to wait.
        contents = [_stored(change.before) for change in changes]
        now = self._clock()
        with self._database.write(durable=True) as db:
            owner = self._database.presence.token
            return [
                _begin(db, author, change, content, now, owner)
                for change, content in zip(changes, contents, strict=True)
            ]

    def finish(self, ids: Sequence[int]) -> None:
        """The changes were made."""
        self._conclude(ids, made=True)

    def drop(self, ids: Sequence[int]) -> None:
        """The changes were not made: forget them."""
        self._conclude(ids, made=False)

    def settle(self, current: Callable[[str], str | None], *, own: Collection[int] = ()) -> None:
        """Decide about changes whose server died: one was not made if the note holds what it held.

        `current` gives a file's etag, None when there is no file. Whatever it raises ends this; the
        rest stays begun until the next time. `own` are changes of this server whose outcome it
        doesn't know either.
        """
        with self._database.read() as db:
            begun = select(db, _OPEN)
        lives = {owner: self._database.presence.lives(owner) for *_, owner in begun}
        made = dropped = 0
        # The newest first: what one of them found tells what the one before it wrote.
        for number, path, key, other, before, after, owner in begun:
            if lives[owner] and number not in own:
                continue
            found = self._found_next(number, key)
            holds = found[0][0] if found else current(path)
            if other is None:
                # What is neither was changed again, most likely on top of it: keep what was before.
                was_made = holds == after or holds != before
            else:
                # A moved attachment has no etag here, so a file in the new place must do.
                was_made = holds == after if after is not None else bool(found) or holds is not None
            if was_made:
                self.finish([number])
                made += 1
            else:
                self.drop([number])
                dropped += 1
        if made or dropped:
            log(logging.INFO, "changes of unknown outcome", made=made, dropped=dropped)

    def tidy(self) -> Tidied:
        """Compress what came in a hurry, delete what is too old or too much, oldest first, and give
        the room back to the disk.
        """
        return tidy(
            self._database,
            max_bytes=self._max_bytes,
            max_age_ns=self._max_age_ns,
            now=self._clock(),
        )

    def usage(self) -> Usage:
        """How much is kept of what may be kept."""
        with self._database.read() as db:
            entries, used = select(db, "SELECT entries, bytes FROM totals")[0]
        return Usage(entries, used, self._max_bytes)

    def close(self) -> None:
        """End it."""
        self._database.close()

    def _conclude(self, ids: Sequence[int], *, made: bool) -> None:
        # The vault is what it is by now: an entry that can't be updated is settled later.
        if not ids:
            return
        try:
            with self._database.write(durable=False) as db:
                if made:
                    db.executemany("UPDATE entries SET state=1 WHERE id=?", [(n,) for n in ids])
                else:
                    forget(db, ids, state=0)
        except Unavailable as error:
            log(logging.WARNING, "entries of the history stay begun", reason=error.message)

    def _found_next(self, number: int, key: str) -> list[tuple[str | None]]:
        """What the next change to the note found in it, if there was one."""
        with self._database.read() as db:
            return select(
                db,
                "SELECT before FROM entries WHERE id>? AND state=1"
                " AND (path_key=? AND other_key IS NULL OR other_key=?) ORDER BY id LIMIT 1",
                number, key, key,
            )  # fmt: skip


def _stored(data: bytes | None) -> tuple[str, int, bytes] | None:
    if data is None:
        return None
    # Somebody waits for this write, and compressing a long content takes longer than storing it.
    return etag_of(data), len(data), data if len(data) >= LONG else pack(data)


def _begin(
    db: apsw.Connection,
    author: Author,
    change: Change,
    content: tuple[str, int, bytes] | None,
    now: int,
    owner: str,
) -> int:
    if content is not None:
        db.execute("INSERT OR IGNORE INTO blobs(hash, size, data) VALUES(?, ?, ?)", content)
    before = content[0] if content is not None else None
    other_key = key_of(change.other) if change.other is not None else None
    row = (
        now, author.caller, author.session, author.tool, change.kind, change.path,
        key_of(change.path), change.other, other_key, before, change.after_etag, author.operation,
        owner,
    )  # fmt: skip
    return int(db.execute(_BEGUN, row).get)
