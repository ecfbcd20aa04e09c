"""An exact stretch of a note, found once and changed. Pure."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from server.errors import Ambiguous, InvalidRequest, NotFound
from server.markdown.line_breaks import plain

_SHOWN = 10
_NEAR = 3
_COMPARED = 20  # lines, and
_LINE = 200  # characters of a line, that a guess is worth
_LINES = 20_000
_WORD = re.compile(r"\w+")
_CRLF = re.compile("\r\n")


def find_text(text: str, wanted: str) -> tuple[int, int]:
    """Where the one place is that reads so, whatever its line breaks. Raises if it isn't one."""
    wanted = plain(wanted)
    if not wanted:
        raise InvalidRequest("The text to look for is empty.", "Give a part of the note's text.")
    # Without a line break in it the text is looked for as it is.
    breaks = [at.start() for at in _CRLF.finditer(text)] if "\n" in wanted else []
    searched = plain(text) if breaks else text
    found = list(islice(_places(searched, wanted), _SHOWN + 1))
    if not found:
        raise _missing(searched, wanted)
    if len(found) > 1:
        raise _several(searched, found)
    shifted = [at - n for n, at in enumerate(breaks)]
    start, end = found[0], found[0] + len(wanted)
    return start + bisect_left(shifted, start), end + bisect_left(shifted, end)


def _places(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _several(text: str, found: list[int]) -> Ambiguous:
    candidates, line, counted = [], 1, 0
    for at in found[:_SHOWN]:
        line += text.count("\n", counted, at)
        counted = at
        candidates.append({"line": line, "text": _line_at(text, at)})
    count = len(found) if len(found) <= _SHOWN else f"more than {_SHOWN}"
    return Ambiguous(
        f"The text is there {count} times.",
        "Give more of the text around it, so that it occurs once.",
        candidates=candidates,
    )


def _line_at(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : len(text) if end < 0 else end].strip()[:_LINE]


def _missing(text: str, wanted: str) -> NotFound:
    near = _nearest(text, wanted)
    hint = "Read the note again and give the text exactly as it is."
    if near:
        hint = f"Line {near[0]['line']} is the nearest: give the text exactly as it is there."
    return NotFound("The text is not in the note.", hint, did_you_mean=near)


def _nearest(text: str, wanted: str) -> list[dict[str, Any]]:
    """The lines most like the first of the wanted ones; only those that share words are compared."""
    first = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:_LINE]
    words = set(_WORD.findall(first.casefold()))
    shared = []
    for number, line in enumerate(text.split("\n", _LINES)[:_LINES], 1):
        here = words.intersection(_WORD.findall(line[:_LINE].casefold()))
        if here:
            shared.append((-len(here), number, line.strip()[:_LINE]))
    matcher = SequenceMatcher(None, b=first.casefold(), autojunk=False)
    near = []
    for _, number, line in sorted(shared)[:_COMPARED]:
        matcher.set_seq1(line.casefold())
        if (ratio := matcher.ratio()) >= 0.5:
            near.append((-ratio, number, line))
    return [{"line": number, "text": line} for _, number, line in sorted(near)[:_NEAR]]
