"""Edits of a note by what they name: a heading, a block, a property or a text. Pure.

What an edit doesn't name stays byte for byte; new lines end as the first line of the note does.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from server.errors import InvalidRequest, NotFound
from server.markdown.block_edits import add_line, delete_block, find_block, replace_block
from server.markdown.frontmatter import split
from server.markdown.line_breaks import in_breaks, line_break, plain
from server.markdown.note import Note, parse
from server.markdown.properties import MalformedError, read
from server.markdown.property_lines import (
    append_to_property,
    delete_property,
    find_key,
    missing,
    set_property,
)
from server.markdown.section_edits import add_below, create, cut, replace_below
from server.markdown.sections import find
from server.markdown.text_edits import find_text

Target = Literal["heading", "block", "frontmatter", "text"]
Verb = Literal["append", "prepend", "replace", "delete"]
Read = Callable[[str, str], Note]

_MARK = "\ufeff"
_TEXT = re.compile(r"\[\[|\{\{|[#&*!%@`|>]")
_QUOTED = ('"', "'")


def patch(
    text: str,
    name: str,
    target: Target,
    selector: str,
    operation: Verb,
    content: str | None,
    *,
    create_missing: bool = False,
    read_note: Read = parse,
) -> str:
    """The note's text after the edit; the same text when nothing changes.

    `name` is the file's name; `read_note` does what `parse` does. Raises `InvalidRequest`,
    `NotFound` and `Ambiguous`.
    """
    given = plain(content or "")
    _require(operation, given)
    if text.startswith(_MARK):
        rest, selector = text.removeprefix(_MARK), selector.removeprefix(_MARK)
        note = partial(read_note, rest, name)
        return _MARK + _patch(rest, note, target, selector, operation, given, create_missing)
    note = partial(read_note, text, name)
    return _patch(text, note, target, selector, operation, given, create_missing)


def _patch(
    text: str,
    note: Callable[[], Note],
    target: Target,
    selector: str,
    operation: Verb,
    given: str,
    create_missing: bool,
) -> str:
    if target == "text":
        return _patch_text(text, selector, operation, given)
    if target == "frontmatter":
        return _patch_property(text, selector, operation, given, create_missing)
    lines = given.rstrip("\n")
    if operation in ("append", "prepend") and not lines.strip():
        raise _empty(operation)
    if target == "block":
        return _patch_block(text, note(), selector, operation, lines, create_missing)
    return _patch_heading(text, note(), selector, operation, lines, create_missing)


def _require(operation: Verb, content: str) -> None:
    if operation == "delete" and content:
        raise InvalidRequest(
            "A deletion takes no content.", "Leave content out, or use operation 'replace'."
        )
    if operation in ("append", "prepend") and not content:
        raise _empty(operation)


def _empty(operation: Verb) -> InvalidRequest:
    return InvalidRequest(
        f"There is no content to {operation}.",
        "Give content, or use operation 'delete' to remove what the selector names.",
    )


def _patch_heading(
    text: str, note: Note, selector: str, operation: Verb, content: str, create_missing: bool
) -> str:
    if selector.strip().lstrip("#").strip().startswith("^"):
        raise InvalidRequest(f"{selector[:80]!r} is a block's id.", "Use target 'block'.")
    try:
        section = find(text, note, selector)
    except NotFound as error:
        if operation == "delete":
            raise
        if not create_missing:
            hint = f"{error.hint} Pass create_missing=true to add it."
            raise NotFound(error.message, hint, **error.details) from None
        return create(text, note, selector, content)
    if operation == "delete":
        return cut(text, note, section.start, section.end)
    if operation == "replace":
        return replace_below(text, note, section, content)
    return add_below(text, note, section, content, at_end=operation == "append")


def _patch_block(
    text: str, note: Note, selector: str, operation: Verb, content: str, create_missing: bool
) -> str:
    try:
        section, block = find_block(text, note, selector)
    except NotFound as error:
        if create_missing:
            raise InvalidRequest(
                "A block can't be created: which text the id should name can't be known.",
                "Write the id into the content of an edit by heading or text. " + error.hint,
            ) from None
        raise
    if operation == "delete":
        return delete_block(text, note, section)
    if operation == "replace":
        return replace_block(text, section, block, content)
    return add_line(text, note, section, content, below=operation == "append")


def _patch_text(text: str, selector: str, operation: Verb, content: str) -> str:
    start, end = find_text(text, selector)
    new = in_breaks(content, line_break(text))
    if operation == "append":
        return text[:end] + new + text[end:]
    if operation == "prepend":
        return text[:start] + new + text[start:]
    if plain(text[start:end]) == content:
        return text
    return text[:start] + new + text[end:]


def _patch_property(
    text: str, key: str, operation: Verb, content: str, create_missing: bool
) -> str:
    key = key.strip()
    if operation == "delete":
        return delete_property(text, key)
    block = split(text)
    known = find_key(block.properties, key)
    malformed = block.warning and not block.properties
    if known is None and not create_missing and not malformed:
        raise missing(block.properties, key, "Pass create_missing=true to add it.")
    value = parse_value(content)
    if operation == "replace":
        return set_property(text, key, value)
    values = value if isinstance(value, list) else [value]
    return append_to_property(text, key, values, at_front=operation == "prepend")


def parse_value(content: str) -> Any:
    """What a property's value says when it is given as text, as Obsidian would read it.

    Text that YAML would take for something else than its author meant stays text: a comment, a
    link, a template, an anchor, folded lines.
    """
    given = content.strip()
    if _TEXT.match(given):
        return given
    source = f"k: {given}" if "\n" not in given else "k:\n  " + given.replace("\n", "\n  ")
    try:
        values = read(source).values
    except MalformedError:
        return given
    value = values.get("k")
    if len(values) != 1 or (isinstance(value, str) and not given.startswith(_QUOTED)):
        return given
    return value
