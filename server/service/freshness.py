"""How far an answer can be trusted: whether it came from the vault or from what was last seen of it."""

import time
from dataclasses import dataclass

from server.scanner.scanner import Scanner
from server.vault.guard import Guard


@dataclass(frozen=True, slots=True)
class Freshness:
    """`stale` with `as_of` while the vault can't be reached; `incomplete` while not all is indexed."""

    stale: bool | None = None
    as_of: str | None = None
    incomplete: str | None = None


class Clock:
    """Knows the freshness of what the index says."""

    def __init__(self, guard: Guard, scanner: Scanner) -> None:
        self._guard = guard
        self._scanner = scanner

    def now(self, *, evicted: int = 0) -> Freshness:
        """The freshness of an answer from the index; `evicted` notes were not searched by text."""
        progress = self._scanner.progress
        gaps = list[str]()
        if not progress.first_done:
            part = f"{100 * progress.done // progress.total} %" if progress.total else "walking"
            gaps.append(f"first scan still running ({part})")
        elif progress.rebuilding:
            done = 100 * progress.done // progress.total if progress.total else 0
            gaps.append(f"the index is being built anew ({done} %)")
        if evicted:
            notes = "1 note is" if evicted == 1 else f"{evicted} notes are"
            gaps.append(f"{notes} not in the full-text index")
        incomplete = "; ".join(gaps) or None
        if self._guard.health.ok:
            return Freshness(incomplete=incomplete)
        return Freshness(True, iso(progress.last_success or self._guard.health.since), incomplete)


def iso(seconds: float) -> str:
    """A time in UTC for people and programs."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def iso_ns(nanoseconds: int) -> str:
    return iso(nanoseconds / 1e9)
