"""The line breaks of a note: which one it uses, and new text written with it. Pure."""

import re

_CRLF = "\r\n"
_BLANKS = " \t\r\n"
_BLANK_LINES = re.compile(r"(?:[ \t]*+\r?\n)*+")


def line_break(text: str) -> str:
    """The line break that the first line of the text ends with."""
    end = text.find("\n")
    return _CRLF if end > 0 and text[end - 1] == "\r" else "\n"


def plain(text: str) -> str:
    """The text with every line ending in a plain line feed."""
    return text.replace(_CRLF, "\n") if "\r" in text else text


def in_breaks(text: str, eol: str) -> str:
    """The text with every line ending in `eol`."""
    lines = plain(text)
    return lines if eol == "\n" else lines.replace("\n", eol)


def line_end(text: str, at: int) -> int:
    """Where the line around an offset ends, before its line break."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end


def before_break(text: str, at: int) -> int:
    """Where the line ends whose line break ends at an offset; the offset itself if none does."""
    if text[at - 1 : at] != "\n":
        return at
    return at - 2 if text[at - 2 : at - 1] == "\r" else at - 1


def first_text(text: str, start: int, end: int) -> int:
    """Where the first line starts that isn't blank; `end` when all are."""
    found = _BLANK_LINES.match(text, start, end)
    at = found.end() if found else start
    return at if text[at:end].strip(_BLANKS) else end


def last_text(text: str, start: int, end: int) -> int:
    """Where the last line ends that isn't blank, before its line break; `start` when all are."""
    size = len(text[start:end].rstrip(_BLANKS))
    return min(line_end(text, start + size), end) if size else start
