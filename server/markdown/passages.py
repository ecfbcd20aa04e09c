"""A note cut into passages: stretches that can be read alone, each under its headings. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from server.markdown.note import Note
from server.markdown.sections import outline

_BREAK = re.compile(r"\n[ \t\r]*\n")
_LINE = re.compile(r"\n")
_SPACE = re.compile(r"\s(?=\S*$)")


@dataclass(frozen=True, slots=True)
class Passage:
    """`text[start:end]`, under the headings that `heading` names ('' above the first)."""

    heading: str
    start: int
    end: int


def passages(text: str, note: Note, size: int) -> list[Passage]:
    """Cut the body at headings, then at blank lines, so that no passage is longer than `size`."""
    found: list[Passage] = []
    parts = outline(text, note)
    starts = [note.frontmatter.body, *(part.heading.end for part in parts)]
    ends = [*(part.heading.start for part in parts), len(text)]
    for heading, start, end in zip(["", *(part.path for part in parts)], starts, ends, strict=True):
        found += [Passage(heading, *span) for span in _pieces(text, start, end, size)]
    return found


def _pieces(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Spans without blank edges; each takes as many paragraphs as fit."""
    while True:
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        if start >= end:
            return
        stop = end if end - start <= size else start + _cut(text[start : start + size])
        yield start, stop
        start = stop


def _cut(piece: str) -> int:
    """Where a piece is best cut: after a paragraph, a line, a word, or anywhere."""
    for pattern in (_BREAK, _LINE, _SPACE):
        last = 0
        for found in pattern.finditer(piece, len(piece) // 3):
            last = found.start()
        if last:
            return last
    return len(piece)
