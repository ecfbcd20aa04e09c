"""A call that is sent twice is made once: idempotency keys."""

import hashlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from server.errors import InvalidRequest, Timeout, Unavailable
from server.history.store import Claim, History
from server.models import Caller
from server.service.loading import Loader
from server.vault.files import OutcomeOpen
from server.vault.paths import parse_path
from server.workers import Deadline, Workers

Result = Mapping[str, Any]
AboutTo = Callable[[str], None]
"""Told the etag of a write right before it is made."""

_MOST_CHARS = 200
_LINGER = 30.0


class Once:
    """Keeps the results of calls by their keys, for each caller apart."""

    def __init__(self, history: History, loader: Loader, local: Workers) -> None:
        self._history = history
        self._loader = loader
        self._local = local
        self._flying: dict[tuple[str, str], float] = {}

    async def run(
        self,
        caller: Caller,
        key: str | None,
        tool: str,
        request: Mapping[str, Any],
        path: str,
        make: Callable[[AboutTo | None], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """The result of `make`, or that of an earlier call with the same key, `replayed`.

        Raises `Conflict` when the key was used for something else, `Unavailable` while the earlier
        call still runs.
        """
        if key is None:
            return await make(None)
        if not 1 <= len(key) <= _MOST_CHARS:
            raise InvalidRequest(
                f"An idempotency key has 1 to {_MOST_CHARS} characters.", "A UUID serves well."
            )
        mark = (caller.name, key)
        if self._flying.get(mark, 0.0) > time.monotonic():
            raise _running()
        self._flying[mark] = math.inf
        try:
            return await self._run(mark, tool, _hash(request), path, make)
        except (OutcomeOpen, Timeout):
            # A thread that hangs with the mount may still write for a while.
            self._flying[mark] = time.monotonic() + _LINGER
            raise
        finally:
            if self._flying[mark] == math.inf:
                del self._flying[mark]

    async def _run(
        self,
        mark: tuple[str, str],
        tool: str,
        request_hash: str,
        path: str,
        make: Callable[[AboutTo | None], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        claim = await self._ask(self._history.claim, *mark, tool, request_hash)
        if claim.state == "open":
            if await self._was_made(claim):
                result = {"path": claim.path, "created": False, "etag": claim.after}
                await self._ask(self._history.fulfil, *mark, result)
                return result | {"replayed": True}
            # Nobody works on it here any more, so what this server left open is free again.
            await self._ask(self._history.release, *mark)
            claim = await self._ask(self._claim_again, *mark, tool, request_hash)
        if claim.state == "done":
            return {**(claim.result or {}), "replayed": True}
        if claim.state == "open":
            raise _running()
        try:
            result = await make(lambda etag: self._history.expect(*mark, path, etag))
        except (OutcomeOpen, Timeout):
            # Nobody knows whether it was made: the next try looks.
            raise
        except BaseException:
            await self._ask(self._history.release, *mark)
            raise
        if result.get("dry_run"):
            # Nothing was written: a server that writes must not take this for done.
            await self._ask(self._history.release, *mark)
        else:
            await self._ask(self._history.fulfil, *mark, result)
        return result

    def _claim_again(self, caller: str, key: str, tool: str, request_hash: str) -> Claim:
        return self._history.claim(caller, key, tool, request_hash, retry=True)

    async def _was_made(self, claim: Claim) -> bool:
        """Whether the vault ever held what the earlier call was about to write."""
        if claim.path is None or claim.after is None:
            return False
        entries, _ = await self._ask(self._history.of, claim.path, limit=200)
        # Its own entry may still be open; who changed the note next found what it wrote. What the
        # note held before the call says nothing.
        since = [entry for entry in entries if entry.at_ns >= claim.at_ns]
        if any(claim.after in (entry.after, entry.before) for entry in since):
            return True
        loaded = await self._loader.load(parse_path(claim.path))
        return loaded is not None and loaded.etag == claim.after

    async def _ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await self._local.run_async(Deadline.after(30), call, *args, **kwargs)


def _running() -> Unavailable:
    return Unavailable(
        "An earlier call with this idempotency key is still running.", "Send it again in a moment."
    )


def _hash(request: Mapping[str, Any]) -> str:
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
