"""A block changed by its id, which goes on naming it. Pure."""

import re

from server.errors import InvalidRequest
from server.markdown.elements import Block
from server.markdown.line_breaks import before_break, in_breaks, line_break, line_end, plain
from server.markdown.note import Note
from server.markdown.section_edits import cut
from server.markdown.sections import Section, find

_ITEM = re.compile(
    r"(?P<lead>[ \t>]*)(?P<mark>(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)(?P<box>\[.\][ \t]+)?"
)
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+")
_QUOTE = re.compile(r"[ \t]*>[ \t>]*")
_FENCE = re.compile(r"^[ \t>]*(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)
_NO_ID_INSIDE = re.compile(r"[ \t]*(?:```|~~~|\||\$\$)")


def find_block(text: str, note: Note, selector: str) -> tuple[Section, Block]:
    """The block with its lines. Raises `NotFound` and `Ambiguous`."""
    name = selector.strip().lstrip("#").strip().removeprefix("^")
    section = find(text, note, f"^{name}")
    block = next(one for one in note.blocks if one.id.casefold() == name.casefold())
    for heading in note.headings:
        own = heading.start <= block.start < heading.end
        if own and text[heading.start : block.start].strip(" \t#"):
            # The line below a heading's text may be what makes it one.
            return Section(heading.start, heading.end, heading, heading.end), block
    start = _start(text, note, section, block)
    return Section(start, _end(text, section, block), None, start), block


def _start(text: str, note: Note, section: Section, block: Block) -> int:
    """Where the block starts: a heading right above is no part of it, all lines of code are."""
    line = text.rfind("\n", 0, block.start) + 1
    if not text[line : block.start].strip(" \t>"):
        code = _code_start(text, note.frontmatter.body, line)
        if code is not None:
            return code
    ends = [one.end for one in note.headings if section.start <= one.start and one.end <= line]
    return ends[-1] if ends and text[ends[-1] : block.start].strip() else section.start


def _code_start(text: str, floor: int, end: int) -> int | None:
    """Where the fenced code starts that is the last thing before an offset."""
    opening = None
    for fence in _FENCE.finditer(text, floor, end):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2].strip():
            if not text[fence.end() : end].strip(" \t\r\n>"):
                return opening.start()
            opening = None
    return None


def _end(text: str, section: Section, block: Block) -> int:
    """Where the block ends: a quote right below a list item that it isn't in is no part of it."""
    item = _ITEM.match(text, section.start, section.end)
    end = text.find("\n", block.start, section.end) + 1
    if item is None or ">" in item["lead"]:
        return section.end
    while 0 < end < section.end:
        line = text[end : line_end(text, end)]
        if len(line) - len(line.lstrip(" \t")) <= len(item["lead"]):
            return end
        end = text.find("\n", end, section.end) + 1
    return section.end


def add_line(text: str, note: Note, section: Section, content: str, *, below: bool) -> str:
    """The text with lines above or below the block.

    An id must end its block, so a blank line keeps the content apart, save between list items.
    """
    eol, start = line_break(text), section.start
    end = before_break(text, section.end)
    first = text[start : line_end(text, start)]
    item = _ITEM.match(first)
    tight = bool(item and _ITEM.match(content))
    if item and tight and content[0] not in " \t>":
        content = _prefixed(content, item["lead"])
    gap = "" if tight or section.heading else "\n"
    if below:
        following = text[section.end : line_end(text, section.end)]
        added = in_breaks(f"{gap}{content}\n{_gap(content, following)}", eol)
        if end == section.end:
            return text + eol + added.removesuffix(eol)
        return text[: section.end] + added + text[section.end :]
    floor = note.frontmatter.body
    line = text.rfind("\n", floor, before_break(text, start)) + 1
    above = text[max(line, floor) : before_break(text, start)] if start > floor else ""
    return text[:start] + in_breaks(f"{_gap(content, above)}{content}\n{gap}", eol) + text[start:]


def replace_block(text: str, section: Section, block: Block, content: str) -> str:
    """The text with another block of the same id; a list item stays one of its list."""
    content = content.strip("\n")
    if not content:
        raise InvalidRequest(
            "A block can't be replaced by nothing: its id would name nothing.",
            "Use operation 'delete' to remove the block with its id.",
        )
    eol, start = line_break(text), section.start
    end = before_break(text, section.end)
    content = re.sub(rf"\s+\^{re.escape(block.id)}\s*\Z", "", content, flags=re.IGNORECASE)
    line = text.rfind("\n", 0, block.start) + 1
    if section.heading:
        end = line_end(text, block.start)
    content = _in_kind(text[start : line_end(text, start)], content)
    if text[max(line, start) : block.start].strip(" \t>"):
        new = _with_id(content, _marker(text, block))
    elif line > start:
        # The id stands on a line of its own, and stays there with the blank line above it.
        end = start + len(text[start:line].rstrip(" \t\r\n>"))
        new = content
    else:
        new, end = f"{content}\n\n", start
    if plain(text[start:end]) == new:
        return text
    return text[:start] + in_breaks(new, eol) + text[end:]


def delete_block(text: str, note: Note, section: Section) -> str:
    """The text without the block, its id, and one of the blank lines around it."""
    end = section.end
    above = text[: before_break(text, section.start)]
    if not above.rpartition("\n")[2].strip():
        below = line_end(text, end)
        if not text[end:below].strip() and below < len(text):
            end = text.index("\n", end) + 1
    return cut(text, note, section.start, end)


def _gap(content: str, neighbour: str) -> str:
    """A blank line between the content and a line outside, where they would run together."""
    if not neighbour.strip() or _ATX.match(neighbour):
        return ""
    return "" if _ITEM.match(neighbour) and _ITEM.match(content) else "\n"


def _prefixed(content: str, lead: str) -> str:
    return "\n".join(lead + line if line.strip() else lead.rstrip() for line in content.split("\n"))


def _in_kind(first: str, content: str) -> str:
    """The content as what the block is: a list item, a heading, or a quote."""
    if item := _ITEM.match(first):
        if _ITEM.match(content):
            return content if content[0] in " \t>" else _prefixed(content, item["lead"])
        line, _, rest = content.partition("\n")
        below = _prefixed(rest, item["lead"] + " " * len(item["mark"])) if rest else ""
        return item[0] + line + ("\n" + below if rest else "")
    if heading := _ATX.match(first):
        if "\n" in content:
            raise InvalidRequest(
                "The id names a heading, which has one line.",
                "Give one line, or use target 'heading' for what is below it.",
            )
        return content if _ATX.match(content) else heading[0] + content
    quote = _QUOTE.match(first)
    return _prefixed(content, quote[0]) if quote and not _QUOTE.match(content) else content


def _marker(text: str, block: Block) -> str:
    """The id with the blanks around it."""
    start = block.start
    while text[start - 1] in " \t":
        start -= 1
    return text[start : line_end(text, block.start)]


def _with_id(content: str, marker: str) -> str:
    """The content with the id at its end; of a list item, at the end of its own first lines."""
    lines = content.split("\n")
    last = len(lines) - 1
    if _ITEM.match(content):
        inner = (n for n in range(1, len(lines)) if not lines[n].strip() or _ITEM.match(lines[n]))
        last = next(inner, len(lines)) - 1
    elif _NO_ID_INSIDE.match(lines[last]):
        return f"{content}\n\n{marker.strip()}"
    lines[last] = lines[last].rstrip() + marker
    return "\n".join(lines)
