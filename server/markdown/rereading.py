"""Notes that are read again and again while somebody edits them.

A note that was changed in one place is scanned there only, from the heading above the change to the
next one below it: nothing but comments, HTML, math and indented code can mean something else because
of what stands beyond a heading, and texts that may have any of these are read as a whole.
"""

import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from server.markdown.elements import Heading, Link
from server.markdown.note import Note, parse
from server.markdown.overlap import shared_end, shared_start
from server.markdown.scan import Scan

_SHORTEST = 8_000  # characters of a text that is worth remembering
_MOST_CHARS = 2_000_000
_ATX = re.compile(r" {0,3}#{1,6}[ \t]")
_INDENTED = re.compile(
    r"\n(?:[ \t\r]*+| {0,3}(?:\#|```|~~~|---|\*\*\*|___)[^\n]*+)\n(?: {4}| {0,3}\t)"
)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text and what it says; `local` when what a part of it says depends on that part alone."""

    text: str
    note: Note
    local: bool


class Readings:
    """Reads notes like `parse`, and remembers the last ones. Safe for many threads."""

    def __init__(self, most_chars: int = _MOST_CHARS) -> None:
        self._most_chars = most_chars
        self._lock = threading.Lock()
        self._known: dict[str, _Reading] = {}

    def parse(self, text: str, name: str) -> Note:
        """What the note says; `name` is its file's name."""
        if len(text) < _SHORTEST:
            return parse(text, name)
        with self._lock:
            known = self._known.get(name)
        if known is not None and known.text == text:
            return known.note
        local = _is_local(text)
        note = _reread(known, text) if known is not None and known.local and local else None
        reading = _Reading(text, note or parse(text, name), local)
        self._remember(name, reading)
        return reading.note

    def _remember(self, name: str, reading: _Reading) -> None:
        with self._lock:
            self._known.pop(name, None)
            self._known[name] = reading
            total = sum(len(known.text) for known in self._known.values())
            while total > self._most_chars:
                total -= len(self._known.pop(next(iter(self._known))).text)


class _Part(Scan):
    """Scans from an offset until it comes upon a heading that starts at one of `stops`."""

    def __init__(self, text: str, origin: int, stops: Collection[int]) -> None:
        self._stops = stops
        self.stop: int | None = None
        super().__init__(text, origin)

    def _atx(self, found: re.Match[str], level: int) -> int:
        start = found.start() + 1 + self._shift
        if start not in self._stops:
            return super()._atx(found, level)
        self.stop = start
        return len(self._s)


def _is_local(text: str) -> bool:
    return not (
        "<" in text
        or "$" in text
        or text.startswith("\ufeff")
        or text.startswith(("    ", "\t"))
        or _INDENTED.search(text)
    )


def _reread(known: _Reading, text: str) -> Note | None:
    """What the text says, by what a text much like it said; None when that doesn't help."""
    was, note = known.text, known.note
    body = note.frontmatter.body
    start = shared_start(was, text)
    if start <= body or (not body and (was.startswith("---") or text.startswith("---"))):
        return None
    end = len(was) - shared_end(was, text, start)
    by = len(text) - len(was)
    above, below = _around(known, start, end)
    top, origin = (above.line, above.start) if above else (0, body)
    part = _Part(text, origin, {heading.start + by for heading in below})
    next_ = next((heading for heading in below if heading.start + by == part.stop), None)
    bottom, limit = (next_.line, next_.start) if next_ else (len(was) + 2, len(was) + 1)
    gone = _Part(was[:limit], origin, ())
    lines = text.count("\n", start, end + by) - was.count("\n", start, end)
    headings = (
        *(heading for heading in note.headings if heading.start < origin),
        *part.headings,
        *(_moved(heading, by, lines) for heading in note.headings if heading.start >= limit),
    )
    if list(gone.tags.items()) != list(part.tags.items()) or _top(headings) != _top(note.headings):
        return None
    return replace(
        note,
        headings=headings,
        links=(
            *(link for link in note.links if link.start < origin),
            *part.links,
            *(_shifted(link, by, lines) for link in note.links if link.start >= limit),
        ),
        blocks=(
            *(block for block in note.blocks if block.start < origin),
            *part.blocks,
            *(
                replace(block, line=block.line + lines, start=block.start + by)
                for block in note.blocks
                if block.start >= limit
            ),
        ),
        tasks=(
            *(task for task in note.tasks if task.line < top),
            *part.tasks,
            *(replace(task, line=task.line + lines) for task in note.tasks if task.line >= bottom),
        ),
    )


def _around(known: _Reading, start: int, end: int) -> tuple[Heading | None, Sequence[Heading]]:
    """The last heading above what changed, if there is one, and all below it."""
    text = known.text
    sure = [h for h in known.note.headings if _ATX.match(text, h.start)]
    above = [h for h in sure if h.end <= start and text[h.end - 1] == "\n"]
    return above[-1] if above else None, [h for h in sure if h.start > end]


def _moved(heading: Heading, by: int, lines: int) -> Heading:
    return replace(
        heading, line=heading.line + lines, start=heading.start + by, end=heading.end + by
    )


def _shifted(link: Link, by: int, lines: int) -> Link:
    # There may be hundreds, and `replace` takes three times as long.
    line, start, end = link.line + lines, link.start + by, link.end + by
    return Link(
        link.target, link.section, link.alias, link.embed, link.kind, line, start, end
    )  # fmt: skip


def _top(headings: Sequence[Heading]) -> str:
    """The heading that may be the title."""
    return next((h.text for h in headings if h.level == 1 and h.text), "")
