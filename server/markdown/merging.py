"""Two edits of one text, merged line by line where they don't meet. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from server.markdown.matching import find_hunks, split_lines

_MAX_CHANGED = 20_000  # lines


def merge(base: str, ours: str, theirs: str) -> str | None:
    """Both edits of `base` in one text; None when they touch each other or change too much.

    An edit that both made counts once. Two texts added at the end merge when one of them is how
    the other begins.
    """
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    lines, left, right = split_lines(base), split_lines(ours), split_lines(theirs)
    edits = _edits(lines, left), _edits(lines, right)
    if max(map(_changed, edits)) > _MAX_CHANGED:
        return None
    chosen = _interleaved(lines, *edits)
    if chosen is None:
        return None
    merged: list[str] = []
    at = 0
    for edit in chosen:
        merged += lines[at : edit.start]
        merged += edit.lines
        at = edit.end
    return "".join(merged + lines[at:])


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines `start` to `end` of the base, and what they become."""

    start: int
    end: int
    lines: Sequence[str]


def _edits(base: Sequence[str], side: Sequence[str]) -> list[_Edit]:
    return [
        _Edit(hunk.start, hunk.end, side[hunk.new_start : hunk.new_end])
        for hunk in find_hunks(base, side)
    ]


def _changed(edits: Sequence[_Edit]) -> int:
    return sum(edit.end - edit.start + len(edit.lines) for edit in edits)


def _interleaved(
    base: Sequence[str], ours: Sequence[_Edit], theirs: Sequence[_Edit]
) -> list[_Edit] | None:
    """The edits of both sides in order; None when two of them touch."""
    chosen: list[_Edit] = []
    mine, yours = list(reversed(ours)), list(reversed(theirs))
    while mine and yours:
        a, b = mine[-1], yours[-1]
        if a.end < b.start:
            chosen.append(mine.pop())
        elif b.end < a.start:
            chosen.append(yours.pop())
        else:
            both = _joined(base, a, b)
            if both is None:
                return None
            chosen.append(both)
            mine.pop()
            yours.pop()
    chosen += reversed(mine or yours)
    return chosen if all(a.end < b.start for a, b in pairwise(chosen)) else None


def _joined(base: Sequence[str], a: _Edit, b: _Edit) -> _Edit | None:
    """One edit for two in the same place, if both made it or one goes on where the other ends."""
    if (a.start, a.end) != (b.start, b.end):
        return None
    if a.lines == b.lines:
        return a
    short, long = sorted(("".join(a.lines), "".join(b.lines)), key=len)
    replaced = "".join(base[a.start : a.end])
    # A last line without a line break is replaced by itself when something is added below it.
    adds = not replaced or short.startswith(replaced + "\n") or short.startswith(replaced + "\r\n")
    on = short.endswith("\n") or long.startswith(("\n", "\r\n"), len(short))
    if a.end < len(base) or not adds or not on or not long.startswith(short):
        return None
    return a if "".join(a.lines) == long else b
