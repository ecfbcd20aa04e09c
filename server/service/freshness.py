"""How far an answer can be trusted: whether it came from the vault or from what was last seen of it."""

import time
from dataclasses import dataclass

from server.scanner.scanner import Scanner
from server.vault.guard import Guard


@dataclass(frozen=True, slots=True)
class Freshness:
    """`stale` with `as_of` while the vault can't be reached; `incomplete` until the first scan is done."""

    stale: bool | None = None
    as_of: str | None = None
    incomplete: str | None = None


class Clock:
    """Knows the freshness of what the index says."""

    def __init__(self, guard: Guard, scanner: Scanner) -> None:
        self._guard = guard
        self._scanner = scanner

    def now(self) -> Freshness:
        """The freshness of an answer from the index."""
        progress = self._scanner.progress
        incomplete = None
        if not progress.first_done:
            part = f"{100 * progress.done // progress.total} %" if progress.total else "walking"
            incomplete = f"first scan still running ({part})"
        if self._guard.health.ok:
            return Freshness(incomplete=incomplete)
        return Freshness(True, iso(progress.last_success or self._guard.health.since), incomplete)


def iso(seconds: float) -> str:
    """A time in UTC for people and programs."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def iso_ns(nanoseconds: int) -> str:
    return iso(nanoseconds / 1e9)
