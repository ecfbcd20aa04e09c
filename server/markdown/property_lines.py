"""Properties changed where they stand: only a key's own lines, byte for byte. Pure.

Every edit is read again before it is given back: the wanted value must be there and all other
values must be what they were, else the edit is refused.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from math import isnan
from typing import Any

import yaml

from server.errors import Ambiguous, InvalidRequest, NotFound
from server.markdown.frontmatter import Frontmatter, render, split
from server.markdown.line_breaks import in_breaks, line_break, line_end
from server.markdown.properties import MAX_DEPTH, typed
from server.markdown.property_lists import block_items, relist
from server.markdown.property_spans import OpaqueError, Span, comment, find_spans

_ABSENT = object()
_SHOWN = 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SPLIT = ("tags", "tag", "aliases", "alias")  # texts with commas in them are lists of old


def set_property(text: str, key: str, value: Any) -> str:
    """The text with the property set; the same text when that is its value already.

    A text that spells a date is one: JSON has no dates, and Obsidian writes them without quotes.
    Raises `InvalidRequest` and `Ambiguous`.
    """
    block = _opened(text)
    name = find_key(block.properties, key)
    if name is None:
        return _with_new(text, block, key, _meant(value))
    if same(block.properties[name], value):
        return text
    return _with_value(text, block, name, _meant(value))


def append_to_property(text: str, key: str, values: Sequence[Any], at_front: bool = False) -> str:
    """The text with the values in the property's list, those that are there already left out.

    One value becomes a list, an absent key is created. Raises `InvalidRequest` and `Ambiguous`.
    """
    block = _opened(text)
    name = find_key(block.properties, key)
    present = block.properties.get(name) if name is not None else None
    if isinstance(present, dict):
        raise InvalidRequest(
            f"The property {key[:80]!r} holds keys and values, not a list.",
            "Replace its value as a whole.",
        )
    old = _as_list(key, present)
    seen = {_folded(key, item) for item in old}
    new = []
    for item in [values] if isinstance(values, str) else values:
        meant = _meant(item)
        if (folded := _folded(key, meant)) not in seen:
            seen.add(folded)
            new.append(meant)
    if not new:
        return text
    wanted = [*new, *old] if at_front else [*old, *new]
    if name is None:
        return _with_new(text, block, key, wanted)
    return _with_value(text, block, name, wanted)


def delete_property(text: str, key: str) -> str:
    """The text without the property; a key that is there twice goes twice.

    With the last key the whole block goes, as in Obsidian, unless comments are left in it.
    Raises `NotFound`, `InvalidRequest` and `Ambiguous`.
    """
    block = _opened(text)
    name = find_key(block.properties, key)
    if name is None:
        raise missing(block.properties, key)
    raw = block.raw
    for span in reversed([span for span in _spans(raw) if span.key == name]):
        _require(span, name)
        raw = raw[: span.line] + raw[_below(raw, span) :]
    if not raw.strip():
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        bare = mark + text[block.body :]
        # A body that starts like a block would be read as one.
        if split(bare).body == 0 and split(bare).warning is None:
            return bare
    return _checked(text, block, raw, name, _ABSENT)


def find_key(properties: Mapping[str, Any], key: str) -> str | None:
    """The key as it is written: exactly so, else in another case. Raises `Ambiguous`."""
    if key in properties:
        return key
    found = [name for name in properties if name.casefold() == key.casefold()]
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} properties are named {key[:80]!r} but for their case.",
            "Write the key exactly as it is.",
            candidates=found[:_SHOWN],
        )
    return found[0] if found else None


def missing(properties: Mapping[str, Any], key: str, hint: str = "") -> NotFound:
    """The error for a key that isn't there."""
    names = [name[:80] for name in list(properties)[:_SHOWN]]
    known = f"Properties: {', '.join(names)}." if names else "The note has no properties."
    return NotFound(
        f"There is no property {key[:80]!r} in the note.", f"{known} {hint}".strip(), keys=names
    )


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same types; unlike in Python, 1 isn't True."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return isinstance(a, date) and isinstance(b, str) and same(a, typed(b or " "))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b) or (isinstance(a, float) and isnan(a) and isnan(b))


def _opened(text: str) -> Frontmatter:
    block = split(text)
    if block.warning and not block.properties:
        raise InvalidRequest(
            f"The properties can't be read: {block.warning}.",
            "Repair that line first, with target 'text' or by writing the whole note.",
        )
    return block


def _spans(raw: str) -> list[Span]:
    try:
        return find_spans(raw)
    except OpaqueError:
        raise InvalidRequest(
            "The properties don't stand on lines of their own (JSON, or rare YAML).",
            "Change them with target 'text' or by writing the whole note.",
        ) from None


def _require(span: Span, name: str) -> None:
    if span.colon < 0:
        raise InvalidRequest(
            f"The key {name[:80]!r} is not written as a plain 'key: value' line.",
            "Change it with target 'text'.",
        )


def _below(raw: str, span: Span) -> int:
    """Where the lines of the property end; comments indented below its value are its own."""
    end = raw.find("\n", span.stop) + 1
    while end < len(raw):
        line = raw[end : line_end(raw, end)]
        depth = len(line) - len(line.lstrip(" "))
        if depth <= span.indent or line[depth : depth + 1] != "#":
            break
        end = raw.find("\n", end) + 1
    return end or len(raw)


def _meant(value: Any, depth: int = 0) -> Any:
    """The value with its texts that spell dates as dates, and tuples as lists."""
    if isinstance(value, str):
        moment = typed(value) if value[:1].isdigit() else None
        return moment if isinstance(moment, date) else value
    if isinstance(value, (list, tuple)):
        if depth > MAX_DEPTH:
            raise _unwritable()
        return [_meant(item, depth + 1) for item in value]
    return value


def _as_list(key: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str) and "," in value and key.lower() in _SPLIT:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value if isinstance(value, list) else [value]


def _folded(key: str, item: Any) -> str:
    """What two items of a list share that count as one; tags have no case."""
    if isinstance(item, str) and key.lower() in ("tags", "tag"):
        return item.strip().removeprefix("#").casefold()
    return f"{type(item).__name__} {item!r}"


def _with_new(text: str, block: Frontmatter, key: str, value: Any) -> str:
    eol = line_break(text)
    if not key.strip() or key != key.strip() or len(key) > 100 or _CONTROL.search(key):
        raise InvalidRequest(
            f"{key[:80]!r} can't be the name of a property.",
            "Use one line of at most 100 characters, without blanks around it.",
        )
    lines = in_breaks("\n".join(_rendered({key: value})) + "\n", eol)
    if not block.body:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        after = f"{mark}---{eol}{lines}---{eol}{text[len(mark) :]}"
        return _verified(text, block, after, key, value)
    spans = _spans(block.raw)
    if spans and spans[0].indent:
        lines = _indented(lines, spans[0].indent)
    return _checked(text, block, block.raw + lines, key, value)


def _with_value(text: str, block: Frontmatter, name: str, value: Any) -> str:
    """The text with the property's value replaced, in the style it has if it is a list."""
    span = [span for span in _spans(block.raw) if span.key == name][-1]
    _require(span, name)
    lines = _rendered({"k": value})
    if isinstance(value, list) and value:
        raw = _as_it_was(block.raw, span, block.properties[name], value, line_break(text))
        if raw is not None:
            with suppress(InvalidRequest):
                return _checked(text, block, raw, name, value)
    raw = _rewritten(block.raw, span, lines, line_break(text))
    return _checked(text, block, raw, name, value)


def _as_it_was(raw: str, span: Span, old: Any, value: list[Any], eol: str) -> str | None:
    """The list with the style and the sources of what is there already, where that can be."""
    if isinstance(old, list):
        return relist(raw, span, old, value, eol)
    if span.kind != "scalar" or not span.start < span.end <= line_end(raw, span.colon):
        return None
    source = raw[span.start : span.end]
    items = block_items(value, eol, {n: source for n, item in enumerate(value) if same(old, item)})
    below = _indented(items, span.indent).removesuffix(eol)
    return raw[: span.colon] + comment(raw, span) + eol + below + raw[span.stop :]


def _rewritten(raw: str, span: Span, lines: Sequence[str], eol: str) -> str:
    """The property with a new value in the way it is written on new notes."""
    first, *rest = lines
    first = first.removeprefix("k:").strip()
    one_line = span.start <= line_end(raw, span.colon)
    gap = raw[span.colon : span.start] if one_line and span.start < span.end else ""
    note = comment(raw, span)
    if not note and one_line and span.start < span.end and not rest and span.kind == "scalar":
        note = raw[span.end : span.stop]  # blanks at the end of the line
    below = "".join(eol + line for line in rest)
    line = f"{raw[: span.colon]}{(gap or ' ') + first if first else ''}{note}"
    return line + _indented(below, span.indent) + raw[span.stop :]


def _rendered(properties: Mapping[str, Any]) -> list[str]:
    """The lines that `render` writes between its fences."""
    try:
        return render(properties).split("\n")[1:-2]
    except (yaml.YAMLError, RecursionError):
        raise _unwritable() from None


def _unwritable() -> InvalidRequest:
    return InvalidRequest(
        "The value can't be written as a property.", "Use plain values, lists and short mappings."
    )


def _indented(lines: str, depth: int) -> str:
    if not depth:
        return lines
    shift = " " * depth
    return "\n".join(shift + line if line.strip() else line for line in lines.split("\n"))


def _checked(text: str, block: Frontmatter, raw: str, key: str, value: Any) -> str:
    """The text with another block, if it says what it should."""
    start = text.index("\n") + 1
    after = text[:start] + raw + text[start + len(block.raw) :]
    return _verified(text, block, after, key, value)


def _verified(text: str, block: Frontmatter, after: str, key: str, value: Any) -> str:
    now = split(after)
    found = dict(now.properties)
    expected = {name: kept for name, kept in block.properties.items() if name != key}
    written = found.pop(key, _ABSENT)
    body = text[block.body :].removeprefix("\ufeff") if not block.body else text[block.body :]
    if (
        (now.warning and not now.properties)
        or not same(found, expected)
        or (written is not value and not same(written, value))
        or after[now.body :] != body
    ):
        raise InvalidRequest(
            f"The property {key[:80]!r} can't be changed without changing more than its lines.",
            "Give a simpler value, or change it with target 'text'.",
        )
    return after
