"""Names that a text speaks of without linking them. Pure.

Whether a mention stands where a link could, is asked of the parser itself: every mention is written
as a link, and those count that are then found to be one. So code, math and comments are left out.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from server.markdown.note import Link, parse

_APART = re.compile(
    r"(?<!\w)[A-Za-z][A-Za-z0-9+.-]{0,20}+://\S++"  # addresses
    r"|(?<!\S)#[^\s#]\S*+"  # tags
    r"|\[[^\[\]\n]*+\]\([^()\n]*+\)"  # links to elsewhere
)
Span = tuple[int, int]


def naming(names: Iterable[str], inside: Callable[[str], bool]) -> re.Pattern[str] | None:
    """What finds any of the names as whole words, None when none has a letter.

    `inside` tells the characters of scripts that are written without spaces: there a name begins
    and ends wherever it stands.
    """
    wanted = {unicodedata.normalize("NFC", name.strip()) for name in names}
    parts = []
    for name in sorted(wanted, key=lambda name: (-len(name), name)):
        if any(char.isalnum() for char in name):
            before = "" if inside(name[0]) or not _is_word(name[0]) else r"(?<!\w)"
            after = "" if inside(name[-1]) or not _is_word(name[-1]) else r"(?!\w)"
            parts.append(before + re.escape(name) + after)
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def mentions(text: str, pattern: re.Pattern[str]) -> list[Span]:
    """Where `text`, which is in NFC, mentions a name outside links, tags, properties and code."""
    found = [match.span() for match in pattern.finditer(text)]
    # Most mentions are links: seeing that without the parser is what makes this fast.
    found = [span for span in found if not text.startswith("[[", span[0] - 2)]
    if not found:
        return []
    note = parse(text, "")
    apart = [(link.start, link.end) for link in note.links]
    apart += [match.span() for match in _APART.finditer(text)]
    apart.append((0, note.frontmatter.body))
    free = _outside(found, _merged(apart))
    return _linkable(text, free) if free else []


def excerpt(text: str, start: int, end: int, size: int) -> str:
    """The line of `text[start:end]`, cut to about `size` characters around it when it is longer."""
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    line = text[begin : len(text) if stop < 0 else stop].rstrip("\r")
    if len(line) <= size:
        return line.strip()
    room = max(0, size - (end - start)) // 2
    first = max(0, min(start - begin - room, len(line) - size))
    cut = line[first : first + size].strip()
    return ("…" if first else "") + cut + ("…" if first + size < len(line) else "")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _outside(found: Sequence[Span], apart: Sequence[Span]) -> list[Span]:
    starts = [start for start, _ in apart]
    free = []
    for start, end in found:
        at = bisect_right(starts, end - 1) - 1
        if at < 0 or apart[at][1] <= start:
            free.append((start, end))
    return free


def _linkable(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans that are links once they are written as such."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], "[[", text[start:end], "]]"]
        at = end
    links: Iterable[Link] = parse("".join([*parts, text[at:]]), "").links
    starts = {link.start + link.embed for link in links}
    return [span for n, span in enumerate(spans) if span[0] + 4 * n in starts]
