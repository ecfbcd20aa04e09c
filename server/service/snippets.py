"""The few words around what was found. Pure, and quick on long notes.

Letters are compared as full-text search compares them: without case, without accents, and Chinese,
Japanese and Korean by their characters instead of by words.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from server.query.tree import Text

CHARS = 160
"""What a snippet has at most, marks included."""

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3105-\u318e\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_ASIAN = re.compile(f"[{_CJK}]")
_TOKEN = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_BREAK = re.compile(f"[\\s{_CJK}]")
_OPEN = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSE = re.compile(r"\n---[ \t]*\r?(?:\n|\Z)")
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_EMPHASIS = re.compile(r"\*\*|==")
_MOST_TEXTS = 16
_MOST_HITS = 40
_STRETCH, _OVERLAP = 8_192, 200
"""How much is searched at once, and how far a match may run on into the next stretch."""


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    text: int
    """Which text matched; 0 for none."""


class Snippets:
    """Makes the snippets of one query's hits."""

    def __init__(self, texts: Sequence[Text]) -> None:
        # Each by itself: a pattern that begins with plain letters is found many times faster.
        found = [(_expression(text.words), text.prefix) for text in texts[:_MOST_TEXTS]]
        self._patterns = [(re.compile(part), prefix) for part, prefix in found if part]

    def of(self, text: str, chars: int = CHARS) -> str:
        """The part of a note that says most about the texts, each match in **…**.

        Properties are shown only when nothing else matches; a note in which nothing matches (its
        name did) is shown from its beginning.
        """
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        top, bottom, body = _properties(text)
        for start, end in ((body, len(text)), (top, bottom)):
            if hits := self._hits(text, start, end):
                return _cut(text, _best(hits, chars), start, end, chars)
        start = len(text) - len(text[body:].lstrip())
        return _cut(text, [_Hit(start, start, 0)], start, len(text), chars)

    def _hits(self, text: str, start: int, end: int) -> list[_Hit]:
        """The matches of the first stretch that has any."""
        for at in range(start, end, _STRETCH) if self._patterns else ():
            folded = fold(text[at : min(end, at + _STRETCH + _OVERLAP)])
            hits = [
                _Hit(at + begin, at + stop, which)
                for which, (pattern, prefix) in enumerate(self._patterns, 1)
                for begin, stop in itertools.islice(_words(pattern, folded, prefix), _MOST_HITS)
            ]
            if hits:
                return _apart(hits)
        return []


def _words(pattern: re.Pattern[str], folded: str, prefix: bool) -> Iterator[tuple[int, int]]:
    """Where the pattern matches whole words; with `prefix` the last one is gone through."""
    for found in pattern.finditer(folded):
        begin, end = found.span()
        if _is_letter(folded, begin) and _is_letter(folded, begin - 1):
            continue
        if _is_letter(folded, end - 1) and _is_letter(folded, end):
            if not prefix:
                continue
            while _is_letter(folded, end):
                end += 1
        yield begin, end


def _is_letter(text: str, at: int) -> bool:
    """Whether a word goes through this place, as words are in scripts that part them."""
    char = text[at : at + 1] if at >= 0 else ""
    return char.isalnum() and not _ASIAN.match(char)


def _apart(hits: list[_Hit]) -> list[_Hit]:
    """The hits in their order, without those that lie over another."""
    apart: list[_Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if not apart or hit.start >= apart[-1].end:
            apart.append(hit)
    return apart


def _best(hits: list[_Hit], chars: int) -> list[_Hit]:
    """Neighbours that fit together: with the most different texts, then the most matches."""
    best, worth, end = hits[:1], (0, 0), 0
    for first in range(len(hits)):
        end = max(end, first + 1)
        while end < len(hits) and _room(hits[first : end + 1], chars) >= 0:
            end += 1
        group = hits[first:end]
        if (value := (len({hit.text for hit in group}), len(group))) > worth:
            best, worth = group, value
    return best


def _room(group: list[_Hit], chars: int) -> int:
    """The characters that are left for what is around the matches and their marks."""
    return chars - 2 - 4 * len(group) - (group[-1].end - group[0].start)


def _cut(text: str, group: list[_Hit], start: int, end: int, chars: int) -> str:
    """The window around the matches, from the beginning of their line if that is near."""
    first = group[0].start
    if _room(group, chars) < 0:
        last = max(first, first + chars - 6)
        whole = _edge(text, last, first, -1)
        group = [_Hit(first, whole if whole > first else last, group[0].text)]
    room = max(0, _room(group, chars))
    left = max(start, first - room // 3)
    line = text.rfind("\n", left, first) + 1
    left = line or (left if left == start else _edge(text, left, first, 1))
    right = min(end, group[-1].end + room - (first - left))
    right = right if right == end else _edge(text, right, group[-1].end, -1)
    shown, at = "", left
    for hit in group:
        mark = "**" if hit.text else ""
        shown += f"{_plain(text[at : hit.start])}{mark}{_plain(text[hit.start : hit.end])}{mark}"
        at = hit.end
    shown = " ".join((shown + _plain(text[at:right])).split())
    before = "…" if text[start:left].strip() else ""
    return f"{before}{shown}{'…' if text[right:end].strip() else ''}"


def _expression(words: str) -> str:
    """A regex for the words over folded text; "" when there are none."""
    joined, last = "", ""
    for token in _TOKEN.findall(fold(unicodedata.normalize("NFC", words))):
        if last:
            apart = not _ASIAN.match(token) and not _ASIAN.match(last)
            joined += r"[\W_]+" if apart else r"[\W_]*"
        joined += re.escape(token)
        last = token
    return joined


def fold(text: str) -> str:
    """The text without case and accents, every character still in its place."""
    small = text.lower()
    if small.isascii():
        return small
    if len(small) != len(text):
        small = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return _ACCENTED.sub(_bare, small)


def _bare(accented: re.Match[str]) -> str:
    base = unicodedata.normalize("NFD", accented[0])[0]
    return base if base.isascii() else accented[0]


def _properties(text: str) -> tuple[int, int, int]:
    """Where the properties at the top begin and end, and where the body begins."""
    opening = _OPEN.match(text)
    closing = _CLOSE.search(text, opening.end() - 1) if opening else None
    return (opening.end(), closing.start() + 1, closing.end()) if opening and closing else (0, 0, 0)


def _edge(text: str, at: int, stop: int, step: int) -> int:
    """The nearest place towards `stop` where no word is cut."""
    while at != stop and not (_BREAK.match(text, at - 1) or _BREAK.match(text, at)):
        at += step
    return at


def _plain(text: str) -> str:
    return _EMPHASIS.sub("", text)
