"""From a log of changes to what became of each note. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from server.index.reads import Match
from server.models import kind_of

Change = Literal["created", "modified", "moved", "deleted"]


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of one note: created, modified, moved or deleted; `at_ns` is its last change."""

    path: str
    change: Change
    at_ns: int
    old_path: str | None = None


_Fate = tuple[int, str | None, bool, bool]
"""When it changed last, the path it had before (None: it wasn't there), is it written, is it gone."""


def collapse(log: Iterable[Sequence[Any]], sees: Match) -> list[Changed]:
    """One entry for each note, the latest first; `log` holds (at, kind, path, old path) in order.

    What the caller may not see is not there for it: a note that was moved out of sight is deleted,
    one that came into sight is created.
    """
    fates: dict[str, _Fate] = {}
    for at_ns, kind, path, old_path in log:
        if kind_of(path) == "note":
            _follow(fates, at_ns, kind, path, old_path)
    found = [entry for path, fate in fates.items() if (entry := _told(path, fate, sees))]
    found.sort(key=lambda entry: (-entry.at_ns, entry.path))
    return found


def _follow(
    fates: dict[str, _Fate], at_ns: int, kind: str, path: str, old_path: str | None
) -> None:
    _, origin, written, gone = fates.pop(path, (0, path, False, False))
    if kind == "created":
        # A note that was deleted and is back was written; any other wasn't there before.
        fates[path] = at_ns, origin if gone else None, True, False
    elif kind == "modified":
        fates[path] = at_ns, origin, True, False
    elif kind == "deleted":
        if origin is not None:
            fates[path] = at_ns, origin, written, True
    elif old_path is not None:
        _, origin, written, _ = fates.pop(old_path, (0, old_path, False, False))
        fates[path] = at_ns, origin, written, False


def _told(path: str, fate: _Fate, sees: Match) -> Changed | None:
    at_ns, origin, written, gone = fate
    seen = sees(path)
    was_seen = seen if origin == path else origin is not None and sees(origin)
    if gone or not seen:
        if not was_seen or origin is None:
            return None
        moved = seen and origin != path
        return Changed(path if seen else origin, "deleted", at_ns, origin if moved else None)
    if not was_seen:
        return Changed(path, "created", at_ns)
    if origin == path:
        return Changed(path, "modified", at_ns) if written else None
    return Changed(path, "moved", at_ns, origin)
