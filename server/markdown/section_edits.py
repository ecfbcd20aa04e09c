"""A heading's section changed, with the blank lines around it left as they are. Pure.

The texts here have no byte order mark.
"""

import re
from collections.abc import Sequence

from server.errors import InvalidRequest, NotFound
from server.markdown.elements import Heading
from server.markdown.line_breaks import (
    before_break,
    first_text,
    in_breaks,
    last_text,
    line_break,
    line_end,
    plain,
)
from server.markdown.note import Note
from server.markdown.sections import Section, find

_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t\r\n]|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t\r]*(?:\n|\Z)")
_DEEPEST = 6


def add_below(text: str, note: Note, section: Section, content: str, *, at_end: bool) -> str:
    """The text with lines added at the end of a section or right below its heading."""
    first = first_text(text, section.body, section.end)
    if first == section.end:
        at = _top_of_blank(text, section)
    elif at_end:
        at = last_text(text, first, section.end)
    else:
        at = before_break(text, first)
    return _with_lines(text, note, at, at, content)


def replace_below(text: str, note: Note, section: Section, content: str) -> str:
    """The text with other lines below the heading, sub-headings included.

    Content that repeats the heading's own line at its top is taken without it.
    """
    body, end = section.body, section.end
    line, _, rest = content.lstrip("\n").partition("\n")
    if line.strip() and line.strip() == plain(text[section.start : body]).strip():
        content = rest
    first = first_text(text, body, end)
    top = _top_of_blank(text, section) if first == end else before_break(text, first)
    if top > before_break(text, body):
        content = content.lstrip("\n")
    if first == end:
        return add_below(text, note, section, content, at_end=True) if content else text
    last = last_text(text, first, end)
    if plain(text[first:last]) == content:
        return text
    if content:
        return _with_lines(text, note, before_break(text, first), last, content)
    rest = plain(text[last:end]).removeprefix("\n")
    gap = text[body:first] if not rest and end < len(text) else ""
    return text[:body] + gap + text[last:].removeprefix("\r").removeprefix("\n")


def cut(text: str, note: Note, start: int, end: int) -> str:
    """The text without a stretch of whole lines, and without the blank lines left over."""
    floor = note.frontmatter.body
    above, below = text[:start], text[end:]
    if first_text(below, 0, len(below)) == len(below):
        last = last_text(above, floor, start)
        following = text.find("\n", last, start) + 1
        return above[: following or last] if last > floor else above[:floor]
    line = text[text.rfind("\n", floor, before_break(text, start)) + 1 : before_break(text, start)]
    if line.strip() and start > floor and not _ATX.match(line) and _underlined(text, note, end):
        return above + line_break(text) + below
    return above + below


def create(text: str, note: Note, selector: str, content: str) -> str:
    """The text with a new heading and the content below it.

    A path's missing headings are created under the deepest one that is there. Without one, they go
    to the end of the note at the level of its highest headings: below a lone level 1, which is the
    note's title, and at level 2 in a note without headings.
    """
    names = [name.strip() for name in selector.split("#") if name.strip()]
    if not names or "\n" in selector or "\r" in selector:
        raise InvalidRequest(
            f"{selector[:80]!r} can't be a heading.", "Name one line, or a path as in 'A#B'."
        )
    parent, known = _deepest(text, note, names)
    level = parent.heading.level + 1 if parent and parent.heading else _top(note.headings)
    missing = names[known:]
    if level + len(missing) - 1 > _DEEPEST:
        raise InvalidRequest(
            f"Below {names[known - 1][:80]!r} there is no room: headings have {_DEEPEST} levels.",
            "Create it under a higher heading.",
        )
    gap = "\n\n" if _spaced(text, note.headings) else "\n"
    lines = [f"{'#' * (level + n)} {name}" for n, name in enumerate(missing)]
    block = gap.join([*lines, content] if content else lines)
    floor = note.frontmatter.body
    end = parent.end if parent else len(text)
    last = last_text(text, floor, end)
    if last > floor:
        return _with_lines(text, note, last, last, "\n" + block)
    eol = line_break(text)
    above = text[:floor]
    if note.frontmatter.body and not above.endswith("\n"):
        above += eol
    return above + in_breaks(block, eol) + (text[floor:] or eol)


def _with_lines(text: str, note: Note, at: int, end: int, content: str) -> str:
    """The text with the content on lines of its own below the line that ends at `at`.

    `end` is where a line ends too. A blank line keeps apart what would become a heading.
    """
    eol = line_break(text)
    above = text[text.rfind("\n", 0, at) + 1 : at]
    if _UNDERLINE.match(content) and above.strip() and not _ATX.match(above):
        content = "\n" + content
    below = text.find("\n", end) + 1
    if below and _underlined(text, note, below):
        content += "\n"
    lines = in_breaks(content, eol)
    start = text.find("\n", at) + 1
    if not start:
        return text[:at] + eol + lines
    return text[:start] + lines + (text[end:] if end > at else eol + text[start:])


def _underlined(text: str, note: Note, at: int) -> bool:
    """Whether the line at an offset would take a line above it into a heading."""
    if _UNDERLINE.match(text, at):
        return True
    return not _ATX.match(text, at) and any(heading.start == at for heading in note.headings)


def _top_of_blank(text: str, section: Section) -> int:
    """Where content goes in a section of blank lines: below the first, if one is left below."""
    blank = text.count("\n", section.body, section.end)
    if blank > 1 or (blank and section.end == len(text)):
        return line_end(text, section.body)
    return before_break(text, section.body)


def _deepest(text: str, note: Note, names: Sequence[str]) -> tuple[Section | None, int]:
    for known in range(len(names) - 1, 0, -1):
        try:
            return find(text, note, "#".join(names[:known])), known
        except NotFound:
            continue
    return None, 0


def _top(headings: Sequence[Heading]) -> int:
    levels = [heading.level for heading in headings]
    highest = min(levels, default=2)
    return 2 if highest == 1 and levels.count(1) == 1 else highest


def _spaced(text: str, headings: Sequence[Heading]) -> bool:
    """Whether most headings of the note have a blank line below them."""
    spaced = sum(text.startswith(("\n", "\r\n"), heading.end) for heading in headings)
    return spaced * 2 > len(headings)
