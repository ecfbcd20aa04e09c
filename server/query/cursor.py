"""A place in a query, and errors that point at it."""

import re
import unicodedata
from typing import NoReturn

from server.errors import InvalidRequest

_BLANK = re.compile(r"\s*")
_WORD = re.compile(r'[^\s()"]+')
_AROUND = 40


class Cursor:
    """Moves through a text; never backwards."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self.text)

    @property
    def char(self) -> str:
        """The character here; "" at the end."""
        return self.text[self.at : self.at + 1]

    def skip(self) -> None:
        """Go past white space."""
        self.match(_BLANK)

    def word(self) -> str:
        """Go past what has no white space, parentheses or quotes in it."""
        return self.match(_WORD)

    def match(self, pattern: re.Pattern[str]) -> str:
        """Go past what the pattern finds here; "" when it finds nothing."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def takes(self, sign: str) -> bool:
        """Go past `sign` if it stands here."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def sees_word(self, word: str) -> bool:
        found = _WORD.match(self.text, self.at)
        return found is not None and found[0] == word

    def takes_word(self, word: str) -> bool:
        """Go past exactly this word, and the white space behind it."""
        if not self.sees_word(word):
            return False
        self.at += len(word)
        self.skip()
        return True

    def quoted(self) -> str:
        """Go past a text in quotes; what is between them."""
        start = self.at
        end = self.text.find('"', start + 1)
        if end < 0:
            self.fail('This " is never closed', start, 'Close it with another ".')
        self.at = end + 1
        return self.text[start + 1 : end]

    def fail(self, problem: str, at: int, hint: str) -> NoReturn:
        """Raise `InvalidRequest` with the text and a mark below its character `at`."""
        raise InvalidRequest(
            f"{problem}, at character {at + 1} of the query:\n{_pointed(self.text, at)}",
            hint,
            position=at,
        )


def _pointed(text: str, at: int) -> str:
    start = max(0, at - _AROUND)
    shown = "".join(c if c.isprintable() else " " for c in text[start : at + _AROUND])
    gap = (unicodedata.east_asian_width(char) in "WF" for char in shown[: at - start])
    return f"{shown}\n{''.join('　' if wide else ' ' for wide in gap)}^"
