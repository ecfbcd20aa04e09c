"""Which lines of two texts are the same, in bounded time. Pure.

The lines that both texts have exactly once hold the rest in place (as in a patience diff); what
lies between them is compared in full only while that is cheap, and else counts as changed.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_BUDGET = 2_000_000  # comparisons that one call may spend on lines that are there several times


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines `start` to `end` of the one text, replaced by lines `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    """The lines with their line breaks; only a line feed ends a line."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def find_hunks(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """What changed, in order; two hunks never touch."""
    head, limit = 0, min(len(before), len(after))
    while head < limit and before[head] == after[head]:
        head += 1
    tail, limit = 0, limit - head
    while tail < limit and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    hunks: list[Hunk] = []
    at, new_at = 0, 0
    for i, j in [*_pairs(old, new), (len(old), len(new))]:
        if i > at or j > new_at:
            hunks.append(Hunk(head + at, head + i, head + new_at, head + j))
        at, new_at = i + 1, j + 1
    return hunks


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines that match, in order in both."""
    budget, at, new_at = _BUDGET, 0, 0
    for i, j in [*_anchors(old, new), (len(old), len(new))]:
        gap, new_gap = old[at:i], new[new_at:j]
        cost = _cost(gap, new_gap)
        if 0 < cost <= budget:
            budget -= cost
            matcher = SequenceMatcher(None, gap, new_gap, autojunk=False)
            for block in matcher.get_matching_blocks():
                for n in range(block.size):
                    yield at + block.a + n, new_at + block.b + n
        if i < len(old):
            yield i, j
        at, new_at = i + 1, j + 1


def _cost(old: Sequence[str], new: Sequence[str]) -> int:
    if not old or not new:
        return 0
    there = Counter(new)
    return sum(there[line] for line in old) * min(len(old), len(new))


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest run of lines in the same order, of those that each text has just once."""
    counts, new_counts = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if new_counts[line] == 1}
    found = [
        (i, places[line]) for i, line in enumerate(old) if counts[line] == 1 and line in places
    ]
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(found):
        size = bisect_left(ends, j)
        before.append(tops[size - 1] if size else -1)
        ends[size : size + 1] = [j]
        tops[size : size + 1] = [n]
    chain = []
    n = tops[-1] if tops else -1
    while n >= 0:
        chain.append(found[n])
        n = before[n]
    return chain[::-1]
