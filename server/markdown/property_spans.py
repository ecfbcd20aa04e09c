"""Where each property stands in the source of the block at the top of a note. Pure.

Reads the events of the parser for their positions only; what the values mean is read elsewhere.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from server.markdown.line_breaks import line_end

Kind = Literal["scalar", "literal", "flow", "flow list", "block", "block list"]

_COLON = re.compile(r"[ \t]*:")
_KEPT_BREAKS = re.compile(r"[|>][0-9]?\+")
_COMMENT = re.compile(r"[ \t]+#.*")


class OpaqueError(Exception):
    """The properties don't stand on lines of their own."""


@dataclass(slots=True)
class Span:
    """A property's source: offsets in the block, the line break after the value left out.

    `line` is where its line starts, `colon` the offset after its colon, or -1 when the key isn't
    written plainly on that line. The value runs from `start` to `end`, the last line it stands on
    runs to `stop`. `items` are those of a list.
    """

    key: str
    line: int
    indent: int
    colon: int
    start: int
    end: int = 0
    stop: int = 0
    kind: Kind = "flow"
    items: list[tuple[int, int]] = field(default_factory=list)


def find_spans(raw: str) -> list[Span]:
    """Every property in order, those written twice included. Raises `OpaqueError`."""
    try:
        events = list(yaml.parse(raw, yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        raise OpaqueError from None
    if len(events) < 5:
        return []
    root, *content = events[2:-2]
    if type(root) is not yaml.MappingStartEvent or root.flow_style:
        raise OpaqueError
    nodes = _nodes(raw, content[:-1])
    return [_span(raw, key, value) for key, value in zip(nodes, nodes, strict=True)]


def comment(raw: str, span: Span) -> str:
    """The comment at the end of the property's line, with the blanks before it."""
    first = line_end(raw, span.colon)
    below = span.kind in ("literal", "block list", "block")
    found = None
    if below or span.start > first:
        found = _COMMENT.search(raw, span.colon, first)
    if found is None and not below:
        found = _COMMENT.fullmatch(raw, span.end, span.stop)
    return found[0] if found else ""


@dataclass(frozen=True, slots=True)
class _Node:
    """A key or a value: its source, and the sources of the nodes right below it."""

    opening: Any
    start: int
    end: int
    below: tuple[tuple[int, int], ...]


def _nodes(raw: str, events: list[Any]) -> Iterator[_Node]:
    """The nodes at the level of the events, one after the other."""
    open_: list[tuple[Any, int, list[tuple[int, int]]]] = []
    last = 0
    for event in events:
        start: int = event.start_mark.index
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event, start, []))
            last = max(last, start)
            continue
        opening: Any = event
        below: list[tuple[int, int]] = []
        if not isinstance(event, yaml.CollectionEndEvent):
            last = max(last, _leaf_end(raw, event))
        else:
            opening, start, below = open_.pop()
            # The end of a block stands where the next one starts: its last leaf ends it.
            if opening.flow_style:
                last = max(last, _leaf_end(raw, event))
        if open_:
            open_[-1][2].append((start, last))
        else:
            yield _Node(opening, start, last, tuple(below))


def _leaf_end(raw: str, event: Any) -> int:
    start, end = event.start_mark.index, event.end_mark.index
    if type(event) is not yaml.ScalarEvent or event.style not in ("|", ">"):
        return int(end)
    # The blank lines below are part of the value only when it says so.
    source = raw[start:end]
    if not _KEPT_BREAKS.match(source):
        return int(start + len(source.rstrip("\r\n")))
    return int(end - (2 if source.endswith("\r\n") else 1 if source.endswith("\n") else 0))


def _span(raw: str, key: _Node, value: _Node) -> Span:
    line = raw.rfind("\n", 0, key.start) + 1
    colon = _COLON.match(raw, key.end)
    name = key.opening.value if type(key.opening) is yaml.ScalarEvent else raw[key.start : key.end]
    span = Span(name, line, key.start - line, -1, value.start, value.end)
    if not raw[line : key.start].strip(" ") and colon and colon.end() <= value.start:
        span.colon = colon.end()
    span.stop = line_end(raw, value.end)
    opening = value.opening
    if type(opening) is yaml.ScalarEvent:
        span.kind = "literal" if opening.style in ("|", ">") else "scalar"
    elif isinstance(opening, yaml.CollectionStartEvent):
        span.kind = "flow" if opening.flow_style else "block"
        bare = not (opening.anchor or opening.tag)
        if bare and type(opening) is yaml.SequenceStartEvent:
            span.kind = "flow list" if opening.flow_style else "block list"
            span.items = list(value.below)
    return span
