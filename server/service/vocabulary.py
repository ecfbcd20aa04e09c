"""What the vault's notes are ordered by, and what happened to them lately: from the index alone."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from server.access.decision import Access
from server.errors import InvalidRequest
from server.index.changes import Changed
from server.index.store import Index
from server.index.vocabulary import Property, Sort, Tag, in_scope
from server.models import Caller, NotePath
from server.service.freshness import Clock, Freshness, iso_ns
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_folder
from server.workers import Deadline, Workers

T = TypeVar("T")

_TIMEOUT = 10.0
_VALUES = 5
_AGO = re.compile(r"\s*(\d{1,6})\s*([mhdw])\s*")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of the `total` items."""

    items: Sequence[T]
    total: int
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of notes, with their titles; `log_since` when the log begins after `since`."""

    items: Sequence[tuple[Changed, str | None]]
    total: int
    since: str
    log_since: str | None
    freshness: Freshness


class Vocabulary:
    """The use cases that count. Every method takes the caller first."""

    def __init__(
        self,
        index: Index,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._index = index
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._now = now

    def url(self, path: str) -> str | None:
        """The obsidian:// link of a path, when the Obsidian vault is known."""
        return self._obsidian().url(path)

    async def tags(
        self,
        caller: Caller,
        *,
        prefix: str,
        scope: Sequence[str],
        sort: Sort,
        limit: int,
        offset: int,
    ) -> Page[Tag]:
        """The tags of the notes that the caller may see."""
        sees, inside = self._access.sees(caller), self._scope(caller, scope)

        def run() -> Page[Tag]:
            wanted = prefix.strip().lstrip("#")
            found, total = self._index.tags(
                wanted, sees, inside, sort=sort, limit=limit, offset=offset
            )
            return Page(found, total, self._clock.now())

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def properties(
        self,
        caller: Caller,
        *,
        prefix: str,
        scope: Sequence[str],
        sort: Sort,
        limit: int,
        offset: int,
    ) -> Page[Property]:
        """The properties of the notes that the caller may see."""
        sees, inside = self._access.sees(caller), self._scope(caller, scope)

        def run() -> Page[Property]:
            found, total = self._index.properties(
                prefix.strip(), sees, inside,
                sort=sort, limit=limit, offset=offset, values=_VALUES,
            )  # fmt: skip
            return Page(found, total, self._clock.now())

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def changes(
        self, caller: Caller, since: str, *, scope: Sequence[str], limit: int, offset: int
    ) -> Changes:
        """What became of notes since a moment, the latest first."""
        sees, inside = self._access.sees(caller), in_scope(self._scope(caller, scope))
        since_ns = moment(since, self._now())

        def run() -> Changes:
            found, oldest = self._index.changes(since_ns, sees)
            chosen = [
                entry
                for entry in found
                if inside(entry.path) or (entry.old_path is not None and inside(entry.old_path))
            ]
            page = chosen[offset : offset + limit]
            titles = self._index.titles(entry.path for entry in page)
            since_when = iso_ns(oldest) if oldest is not None and oldest > since_ns else None
            return Changes(
                [(entry, titles.get(entry.path)) for entry in page], len(chosen),
                iso_ns(since_ns), since_when, self._clock.now(),
            )  # fmt: skip

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    def _scope(self, caller: Caller, scope: Sequence[str]) -> list[NotePath]:
        """The folders that count. Raises `PermissionDenied` for one with nothing to be read."""
        parsed = [parse_folder(raw) for raw in scope]
        for folder in parsed:
            self._access.require_reach(caller, folder)
        return parsed


def moment(since: str, now_ns: int) -> int:
    """A date, a time or an age like '2h' in nanoseconds. Raises `InvalidRequest`."""
    if ago := _AGO.fullmatch(since.lower()):
        age = timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return max(0, now_ns - int(age.total_seconds()) * 1_000_000_000)
    try:
        when = datetime.fromisoformat(since.strip())
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0, min(int(when.timestamp()), 1 << 33) * 1_000_000_000)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{since[:80]!r} is no moment.",
            "Use '2026-02-20', '2026-02-20T08:00Z', '2h', '3d' or '1w'.",
        ) from None
