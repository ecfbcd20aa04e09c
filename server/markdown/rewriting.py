"""Changing the links and headings of a text, and not a character of the rest. Pure.

A note must have been read from the very text that is changed; `read` reads texts that are not
quite UTF-8 too. Every change is proved by reading the outcome: what can't be written is refused.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote, unquote

from server.errors import InvalidRequest
from server.markdown.elements import Heading, Link
from server.markdown.links import DESTINATION_SOURCE, WIKI
from server.markdown.note import Note, parse

_DESTINATION = re.compile(DESTINATION_SOURCE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SCALAR_LEAD = re.compile(r"(?:[&!]\S*\s+)*")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PERCENT = re.compile(r"%(?=[0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ATX = re.compile(r" {0,3}#{1,6}(?=[ \t\r\n]|\Z)")
_CLOSING = re.compile(r"(?<=[ \t])#+$")
_BLOCK_ID = re.compile(r"(?<=[ \t])\^[A-Za-z0-9-]+$")
_LINE_BREAK = re.compile(r"[\n\r]")

Span = tuple[int, int]


def read(text: str) -> Note:
    """The note that a text decoded with `surrogateescape` holds, at the offsets of that text.

    YAML takes no surrogates: a single odd byte would cost the note the links in its properties.
    """
    return parse(_SURROGATE.sub("\ufffd", text), "")


def relink(text: str, note: Note, wanted: Mapping[int, str]) -> str:
    """The text with other targets in some of its links, by their position in `note.links`.

    Targets are given as a reader understands them, without percent-encoding or escapes: each is
    written the way its link was. Raises `InvalidRequest` when one can't be.
    """
    return _rewrite(text, note, wanted, {})


def resection(text: str, note: Note, wanted: Mapping[int, str]) -> str:
    """The text with other sections, written without the first `#`, in some of its links.

    The links must have a section. Raises `InvalidRequest` when one can't be written.
    """
    return _rewrite(text, note, {}, wanted)


def retitle(text: str, heading: Heading, new: str) -> str:
    """The text with a heading renamed; its marks and its block id stay.

    Raises `InvalidRequest` when the text would no longer be read as before but for that name.
    """
    new = new.strip()
    if not new or _LINE_BREAK.search(new):
        raise InvalidRequest("A heading is one line of text.", "Give a name without line breaks.")
    start, end = _title_span(text, heading)
    kept = _BLOCK_ID.search(text[start:end])
    if kept and not _BLOCK_ID.search(new):
        new += text[start + len(text[start : start + kept.start()].rstrip()) : end]
    gap = " " if start == end else ""
    changed = text[:start] + gap + new + text[end:]
    before, after = read(text), read(changed)
    expected = [
        (one.level, " ".join((new if one.start == heading.start else one.text).split()))
        for one in before.headings
    ]
    found = [(one.level, " ".join(one.text.split())) for one in after.headings]
    below = len(text) - heading.end
    if found != expected or _below(text, before, below) != _below(changed, after, below):
        raise InvalidRequest(
            f"{new[:80]!r} can't be the text of this heading.",
            "It would be read as something else: leave out marks that begin lines, comments or code.",
        )
    return changed


def _title_span(text: str, heading: Heading) -> Span:
    """Where a heading's text stands, without its marks."""
    line = text[heading.start : heading.end].rstrip()
    if marks := _ATX.match(line):
        start, closing = marks.end(), _CLOSING.search(line, marks.end())
        end = closing.start() if closing else len(line)
        end = end if line[start:end].strip() else start
    else:
        start, end = 0, max(line.rfind("\n"), 0)
    return _trimmed(text, heading.start + start, heading.start + end)


def _below(text: str, note: Note, size: int) -> list[tuple[object, ...]]:
    """What the last `size` characters of a text hold."""
    floor = len(text) - size
    links = [_meaning(link) for link in note.links if link.start >= floor]
    return [*links, *((block.id,) for block in note.blocks if block.start >= floor)]


def _rewrite(text: str, note: Note, targets: Mapping[int, str], sections: Mapping[int, str]) -> str:
    edits: list[tuple[Span, str]] = []
    expected = list(note.links)
    for n in {*targets, *sections}:
        link = note.links[n]
        target, section, spelled = _parts(text, note, link)
        if n in targets:
            edits.append((target, spelled(targets[n], target, "/")))
            expected[n] = replace(expected[n], target=targets[n])
        if n in sections:
            edits.append((section, spelled(sections[n], section, "#")))
            expected[n] = replace(expected[n], section=sections[n])
    pieces, at = [], 0
    for (start, end), new in sorted(edits):
        pieces += [text[at:start], new]
        at = end
    changed = "".join(pieces) + text[at:]
    _prove(changed, expected, [*targets.values(), *sections.values()])
    return changed


def _prove(changed: str, expected: list[Link], wanted: list[str]) -> None:
    meant = [_meaning(link) for link in expected]
    for reader in (read, lambda text: parse(text, "")):
        if [_meaning(link) for link in reader(changed).links] == meant:
            return
    raise InvalidRequest(
        "The links can't be written as they would have to be.",
        "Rename to something without # ^ | [ ] \\ and quotes, or change the links by hand.",
        wanted=wanted[:20],
    )


def _meaning(link: Link) -> tuple[object, ...]:
    # The text of a markdown link may hold another link, which may have changed.
    parts = (link.target, link.section, None if link.kind == "markdown" else link.alias)
    clean = (_SURROGATE.sub("\ufffd", part) if part else part for part in parts)
    return (*clean, link.embed, link.kind)


# Where a link's parts stand and how they are written

_Spell = Callable[[str, Span, str], str]


def _parts(text: str, note: Note, link: Link) -> tuple[Span, Span, _Spell]:
    """Where the target and the section stand, and how either is written there."""
    if link.kind == "markdown":
        start, end, angled = _find_destination(text, link)

        def percent(new: str, span: Span, separator: str) -> str:
            return _percent(new, text[slice(*span)], angled, separator)

        return *_divided(text, start, end), percent
    source = WIKI.match(text, link.start + link.embed)
    if source is None:
        raise _unlike(link)
    start, end = source.span("target")
    if source["alias"] is not None:
        # In a table the bar is written as `\|`, in double quotes perhaps as `\\|`.
        end = start + len(text[start:end].rstrip("\\"))
    quoted = _quotes(text, note, link) if link.kind == "property" else ""

    def plain(new: str, _span: Span, _separator: str) -> str:
        if quoted == "'":
            return new.replace("'", "''")
        return new.replace("\\", "\\\\").replace('"', '\\"') if quoted == '"' else new

    return *_divided(text, start, end), plain


def _unlike(link: Link) -> InvalidRequest:
    return InvalidRequest(
        f"There is no link to {link.target!r} in line {link.line}.", "Read the note again."
    )


def _trimmed(text: str, start: int, end: int) -> Span:
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(text[start:end].rstrip())


def _divided(text: str, start: int, end: int) -> tuple[Span, Span]:
    """The target before the first `#` and the section after it."""
    start, end = _trimmed(text, start, end)
    mark = text.find("#", start, end)
    if mark < 0:
        return (start, end), (end, end)
    section = mark + len(text[mark:end]) - len(text[mark:end].lstrip("#"))
    stop = mark - 1 if text[start:mark].endswith("\\") else mark
    return _trimmed(text, start, stop), _trimmed(text, section, end)


def _find_destination(text: str, link: Link) -> tuple[int, int, bool]:
    """Where a markdown link's destination stands, and whether in angle brackets."""
    # The alias may hold anything, even another link: only its length leads past it.
    at, _ = _trimmed(text, link.start + link.embed + 1, link.end)
    at += len(link.alias or "")
    while text[at : at + 1].isspace():
        at += 1
    found = _DESTINATION.match(text, at + 1, link.end)
    if found is None:
        raise _unlike(link)
    angled = found["angled"] is not None
    return *found.span("angled" if angled else "bare"), angled


def _quotes(text: str, note: Note, link: Link) -> str:
    """The quotation mark around the YAML text that holds a link; "" for plain ones and blocks."""
    linked = note.frontmatter.linked
    around = bisect_right(linked, link.start, key=lambda place: place[0])
    if not around:
        raise _unlike(link)
    start, end, _ = linked[around - 1]
    lead = _SCALAR_LEAD.match(text, start, end)
    first = text[lead.end()] if lead else ""
    return first if first in "'\"" else ""


def _percent(new: str, old: str, angled: bool, separator: str) -> str:
    """A destination as the old one was written: what was percent-encoded stays so."""
    encoded = {char for run in _ENCODED.findall(old) for char in unquote(run)}
    encoded |= set("<>#\\\r\n")
    kept = {unquote(part): part for part in old.split(separator)}
    all_foreign = any(not char.isascii() for char in encoded)

    def encode(part: str) -> str:
        escaped = _PERCENT.sub("%25", part)
        return "".join(
            quote(char, safe="")
            if char in encoded - {"%"}
            or (char.isspace() and not angled)
            or (all_foreign and not char.isascii())
            else char
            for char in escaped
        )

    spelled = separator.join(kept.get(part) or encode(part) for part in new.split(separator))
    if spelled != spelled.strip() or not (angled or _DESTINATION.fullmatch(f"({spelled})")):
        encoded |= {"(", ")", *filter(str.isspace, new)}
        spelled = separator.join(map(encode, new.split(separator)))
    # What looks like `scheme:` would leave the vault.
    return _SCHEME.sub(r"\1%3A", spelled, count=1) if _SCHEME.match(spelled) else spelled
