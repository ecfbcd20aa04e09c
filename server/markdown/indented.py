"""Where indented code stands. Few notes have any, so it is kept apart from the scan."""

import re

# Indented code never interrupts a paragraph: only after a line like these can it begin.
_POSSIBLE = re.compile(
    r"\n(?:[ \t\r]*+| {0,3}(?:\#|```|~~~|---|\*\*\*|___)[^\n]*+)\n(?: {4}| {0,3}\t)[ \t]*+[^\s]"
)
_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)")
_FENCE = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
_INTERRUPTION = re.compile(r"#{1,6}(?:[ \t]|$)|([-*_])[ \t]*(?:\1[ \t]*){2,}$")


def find_code(body: str) -> list[tuple[int, int]]:
    """The lines of indented code, each with the line break before it; `body` begins with one."""
    if not (body.startswith(("\n    ", "\n\t")) or _POSSIBLE.search(body)):
        return []
    lines = _Lines()
    spans = []
    at = 0
    for line in body[1:].split("\n"):
        end = at + 1 + len(line)
        if lines.is_code(line):
            spans.append((at, end))
        at = end
    return spans


class _Lines:
    """Walks the lines: list items shift what counts as indented, fences hide everything."""

    def __init__(self) -> None:
        self._items: list[int] = []  # the columns where the contents of the open list items begin
        self._fence = ""
        self._paragraph = False

    def is_code(self, line: str) -> bool:
        text = line.strip()
        if self._fence:
            if text.startswith(self._fence) and not text.strip(self._fence[0]):
                self._fence = ""
            return False
        if not text:
            self._paragraph = False
            return False
        indent = len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
        if not self._paragraph or _INTERRUPTION.match(text):
            self._leave(indent)
        if not self._paragraph and indent >= 4 + (self._items[-1] if self._items else 0):
            return True
        self._read(text, indent)
        return False

    def _leave(self, indent: int) -> None:
        while self._items and self._items[-1] > indent:
            self._items.pop()

    def _read(self, text: str, indent: int) -> None:
        if _INTERRUPTION.match(text):
            self._paragraph = False
            return
        while item := _ITEM.match(text):
            self._leave(indent)
            indent += max(2, len(item[0].expandtabs(4)))
            self._items.append(indent)
            text = text[item.end() :]
        fence = _FENCE.match(text)
        self._fence = fence[0] if fence else ""
        self._paragraph = bool(text) and not fence
