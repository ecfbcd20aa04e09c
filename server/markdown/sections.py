"""Sections and blocks of a note, found by the names that links and agents use. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from server.errors import Ambiguous, NotFound
from server.markdown.elements import Block, Heading
from server.markdown.note import Note

_SHOWN = 10
_COMPARED = 200  # names, and characters of a name, that a guess is worth
_IGNORED = re.compile(r"[\s#^|:%\[\]\\]+")
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ALONE = re.compile(r"[ \t>]*\^[A-Za-z0-9-]+\s*")


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of the text: heading and all below it, or a block; `body` is past the heading."""

    start: int
    end: int
    heading: Heading | None
    body: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A heading with its path, the size of its own text and that of its whole section."""

    heading: Heading
    path: str
    own: int
    whole: int


def find(text: str, note: Note, selector: str) -> Section:
    """The section or block that a selector names: `Heading`, `Heading#Sub`, `^block`.

    Raises `NotFound` or `Ambiguous`.
    """
    wanted = selector.strip().lstrip("#").strip()
    if wanted.startswith("^"):
        return _find_block(text, note, wanted[1:])
    paths = _paths(note.headings)
    found = _matches(paths, wanted.split("#")) or _matches(paths, [wanted])
    if not found:
        raise _missing(paths, wanted)
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} headings are named {wanted[:80]!r}.",
            "Name the headings above it too, as in 'Parent#Heading'.",
            candidates=[{"heading": _spell(paths[i]), "line": paths[i][-1].line} for i in found],
        )
    heading = note.headings[found[0]]
    return Section(heading.start, _ends(text, note.headings)[found[0]], heading, heading.end)


def outline(text: str, note: Note) -> list[Outline]:
    """Every heading in order, with the sizes in characters of what is below it."""
    headings = note.headings
    nexts = [*(heading.start for heading in headings[1:]), len(text)]
    rows = zip(headings, _paths(headings), nexts, _ends(text, headings), strict=False)
    return [
        Outline(heading, _spell(path), following - heading.start, end - heading.start)
        for heading, path, following, end in rows
    ]


def _ends(text: str, headings: Sequence[Heading]) -> list[int]:
    """For every heading, where the next one of the same or a higher level starts."""
    ends = [len(text)] * len(headings)
    open_: list[int] = []
    for index, heading in enumerate(headings):
        while open_ and headings[open_[-1]].level >= heading.level:
            ends[open_.pop()] = heading.start
        open_.append(index)
    return ends


def _paths(headings: Sequence[Heading]) -> list[tuple[Heading, ...]]:
    """For every heading, the headings it stands under and itself."""
    paths: list[tuple[Heading, ...]] = []
    above: tuple[Heading, ...] = ()
    for heading in headings:
        above = (*(one for one in above if one.level < heading.level), heading)
        paths.append(above)
    return paths


def _matches(paths: Sequence[tuple[Heading, ...]], wanted: Sequence[str]) -> list[int]:
    """Which headings end a path on which the wanted names follow each other, gaps allowed."""
    names = [_fold(name) for name in wanted]
    found = []
    for index, path in enumerate(paths):
        if _fold(path[-1].text) == names[-1]:
            above = iter([_fold(heading.text) for heading in path[:-1]])
            if all(name in above for name in names[:-1]):
                found.append(index)
    exact = [i for i in found if len(paths[i]) == len(names)]
    return exact if len(exact) == 1 else found


def _fold(name: str) -> str:
    """What two spellings of a heading share; links can't hold `#`, `^`, `|`, `[`, `]` or `:`."""
    return _IGNORED.sub(" ", unicodedata.normalize("NFC", name)).strip().casefold()


def _spell(path: Sequence[Heading]) -> str:
    return "#".join(heading.text for heading in path)


def _missing(paths: Sequence[tuple[Heading, ...]], wanted: str) -> NotFound:
    spelled = list(dict.fromkeys(_spell(path) for path in paths))
    folded = {_fold(path[-1].text): _spell(path) for path in reversed(paths)}
    name = _fold(wanted.rpartition("#")[2])[:_COMPARED]
    near = get_close_matches(name, list(folded)[:_COMPARED], n=3)
    shown = [folded[name] for name in near] or spelled[:_SHOWN]
    hint = "The note has no headings."
    if shown:
        hint = ("Did you mean: " if near else "Headings: ") + "; ".join(shown) + "."
    return NotFound(f"There is no heading {wanted[:80]!r} in the note.", hint)


def _find_block(text: str, note: Note, name: str) -> Section:
    found = [block for block in note.blocks if block.id.casefold() == name.casefold()]
    if not found:
        ids = ", ".join(f"^{block.id}" for block in note.blocks[:_SHOWN])
        hint = f"Blocks: {ids}." if ids else "The note has no block ids."
        raise NotFound(f"There is no block ^{name[:80]} in the note.", hint)
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} blocks are named ^{name[:80]}.",
            "Give each block an id of its own.",
            candidates=[{"block": f"^{block.id}", "line": block.line} for block in found],
        )
    start, end = _block_span(text, note, found[0])
    return Section(start, end, None, start)


def _block_span(text: str, note: Note, block: Block) -> tuple[int, int]:
    lines = text.split("\n")
    first = last = block.line - 1
    floor = text.count("\n", 0, note.frontmatter.body)
    if _ALONE.fullmatch(lines[first]):
        # An id on a line of its own names the block above, with or without a blank line between.
        while first > floor and not lines[first - 1].strip():
            first -= 1
        first = max(first - 1, floor)
        while first > floor and lines[first - 1].strip() and not _HEADING.match(lines[first]):
            first -= 1
    else:
        while first > floor and _continues(lines[first - 1], lines[first]):
            first -= 1
        if _ITEM.match(lines[first]):
            depth = _indent(lines[first])
            while (
                last + 1 < len(lines)
                and lines[last + 1].strip()
                and _indent(lines[last + 1]) > depth
            ):
                last += 1
    starts = [0]
    for line in lines[: last + 1]:
        starts.append(starts[-1] + len(line) + 1)
    return starts[first], min(starts[last + 1], len(text))


def _continues(above: str, line: str) -> bool:
    starts = _ITEM.match(line) or _HEADING.match(line) or _HEADING.match(above)
    return bool(above.strip()) and not starts


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t>"))
