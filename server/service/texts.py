"""Between the text that agents send and the bytes that notes are."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from server.errors import InvalidRequest, TooLarge
from server.markdown.differences import unified_all
from server.markdown.frontmatter import render, split
from server.markdown.properties import MAX_CHARS

DIFF_CHARS = 2_000


def encoded(text: str, what: str = "content") -> bytes:
    """The bytes of a content. Raises `InvalidRequest` when it is no text."""
    if "\0" in text:
        raise InvalidRequest(f"The {what} holds a NUL character.", "Notes are text: leave it out.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"The {what} is not valid Unicode.", "Send it as plain UTF-8."
        ) from None


def decoded(data: bytes) -> str:
    """A note's text for an edit: bytes that are no UTF-8 come out of it as they went in."""
    if b"\0" in data:
        raise InvalidRequest(
            "The note is not text.", "It is a binary file, whatever its name says: leave it alone."
        )
    return data.decode("utf-8", "surrogateescape")


def head(frontmatter: Mapping[str, Any]) -> bytes:
    """The block above a new note's content, and one that can be read again."""
    try:
        if len(json.dumps(frontmatter, ensure_ascii=False)) > 2 * MAX_CHARS:
            raise TooLarge("The frontmatter is too long.", "Put long text into the content.")
        block = render(frontmatter)
        problem = split(block).warning
    except RecursionError:
        problem = "nested too deeply"
    if problem:
        raise InvalidRequest(
            f"The frontmatter could not be read again: {problem}.", "Use plain values and lists."
        )
    return encoded(block + "\n")


def diff_of(changes: Sequence[tuple[str, bytes | None, bytes | None]]) -> str:
    """What changes in some files, as people read it; None stands for no file."""
    texts = [(path, _shown(before), _shown(after)) for path, before, after in changes]
    return unified_all(texts, DIFF_CHARS)


def _shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
