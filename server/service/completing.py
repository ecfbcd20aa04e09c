"""What could come next in an argument: paths, tags, topics, projects, numbers of decisions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from server.access.decision import Access, Sight
from server.index.store import Index
from server.markdown.decisions import label, number_of
from server.models import Caller
from server.workers import Deadline, Workers

What = Literal["note", "folder", "tag", "topic", "project", "adr", "since"]
MOST = 100
_TIMEOUT = 5.0
_LONGEST = 500
_DECISIONS = 5_000
_AGES = ("1d", "3d", "1w", "2w", "4w")


@dataclass(frozen=True, slots=True)
class Completions:
    """Some of the `total` values that begin as asked."""

    values: Sequence[str]
    total: int


class Completing:
    """Answers from the index alone. The caller comes first."""

    def __init__(self, index: Index, access: Access, local: Workers) -> None:
        self._index = index
        self._access = access
        self._local = local
        self._sources: dict[What, Callable[[str, Sight], tuple[Sequence[str], int]]] = {
            "note": lambda begun, sees: index.beginning(begun, "note", MOST, sees),
            "folder": lambda begun, sees: index.beginning(begun, "folder", MOST, sees),
            "tag": self._tags,
            "topic": lambda begun, sees: index.values_of("topic", begun, MOST, sees),
            "project": lambda begun, sees: index.values_of("project", begun, MOST, sees),
            "adr": self._decisions,
            "since": _ages,
        }

    async def complete(self, caller: Caller, what: What, begun: str) -> Completions:
        """What the caller may see of that kind and begins so."""
        sees = self._access.sees(caller)
        begun = begun.strip().encode(errors="replace").decode()[:_LONGEST]

        def run() -> Completions:
            values, total = self._sources[what](begun, sees)
            return Completions(values, total)

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    def _tags(self, begun: str, sees: Sight) -> tuple[Sequence[str], int]:
        tags, total = self._index.tags(begun.lstrip("#"), sees, sort="count", limit=MOST, offset=0)
        return [tag.tag for tag in tags], total

    def _decisions(self, begun: str, sees: Sight) -> tuple[Sequence[str], int]:
        """Numbers, or labels like ADR-007 when letters were typed; the latest first."""
        paths, _ = self._index.beginning("adr-", "note", _DECISIONS, sees)
        values, _ = self._index.values_of("adr", "", _DECISIONS, sees)
        numbers = {number_of(path.rpartition("/")[2]) for path in paths}
        numbers |= {int(value) for value in values if value.isdecimal() and len(value) < 7}
        named = label if begun[:1].isalpha() else str
        found = [named(n) for n in sorted(filter(None, numbers), reverse=True)]
        found = [text for text in found if text.lower().startswith(begun.lower())]
        return found[:MOST], len(found)


def _ages(begun: str, _sees: Sight) -> tuple[Sequence[str], int]:
    found = [age for age in _AGES if age.startswith(begun)]
    return found, len(found)
