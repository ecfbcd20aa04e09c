"""Lists of properties in the style they are written in; items that stay keep their source. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.markdown.frontmatter import render
from server.markdown.line_breaks import in_breaks
from server.markdown.property_spans import Span

_SEPARATOR = re.compile(r"\s*,\s*")
_OPENING = re.compile(r"\[\s*")
_UNSAFE_IN_FLOW = re.compile(r"[,\[\]{}\n]|: |:$")
_RARE_BREAK = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")


def relist(raw: str, span: Span, old: Sequence[Any], new: Sequence[Any], eol: str) -> str | None:
    """The block with another list, in the style it has; None when that style can't be kept."""
    if len(span.items) != len(old):
        return None
    if span.kind == "block list":
        return _reblock(raw, span, _kept(old, new), new, eol)
    if span.kind == "flow list":
        return _reflow(raw, span, _kept(old, new), new)
    return None


def block_items(values: Sequence[Any], eol: str, sources: Mapping[int, str]) -> str:
    """The lines of a list, where the items that have a source are written as it says."""
    lines = [
        f"  - {sources[n]}{eol}" if n in sources else _block_item(value, "  ", " ", eol)
        for n, value in enumerate(values)
    ]
    return "".join(lines)


def _kept(old: Sequence[Any], new: Sequence[Any]) -> list[int | None]:
    """For every new item the old one that it is, each taken once."""
    free: dict[str, list[int]] = {}
    for n in reversed(range(len(old))):
        free.setdefault(repr(old[n]), []).append(n)
    found = [free.get(repr(item)) for item in new]
    return [places.pop() if places else None for places in found]


def _reblock(
    raw: str, span: Span, kept: Sequence[int | None], new: Sequence[Any], eol: str
) -> str | None:
    """Each item's lines reach from the item before to its own end: a comment above is its own."""
    top = raw.rfind("\n", 0, span.start) + 1
    indent = raw[top : span.start]
    bounds = [top]
    for _, end in span.items:
        below = raw.find("\n", end) + 1
        bounds.append(below or len(raw))
    start = span.items[0][0]
    gap = raw[span.start + 1 : start]
    if indent.strip() or raw[span.start] != "-" or bounds != sorted(set(bounds)):
        return None
    if not gap or gap.strip(" "):
        gap = " "
    lines = [
        _block_item(item, indent, gap, eol) if n is None else raw[bounds[n] : bounds[n + 1]]
        for n, item in zip(kept, new, strict=True)
    ]
    return raw[:top] + "".join(lines) + raw[bounds[-1] :]


def _block_item(value: Any, indent: str, gap: str, eol: str) -> str:
    lines = [line[2:] for line in render({"k": [value]}).split("\n")[2:-2]]
    if len(lines) == 1 and len(lines[0]) > 2:
        lines = [f"-{gap}{lines[0][2:]}"]
    return "".join(in_breaks((indent + line if line else line) + "\n", eol) for line in lines)


def _reflow(raw: str, span: Span, kept: Sequence[int | None], new: Sequence[Any]) -> str | None:
    start, end, items = span.start, span.end, span.items
    if raw[start] != "[" or raw[end - 1] != "]":
        return None
    sources = [
        _flow(item) if n is None else raw[items[n][0] : items[n][1]]
        for n, item in zip(kept, new, strict=True)
    ]
    if not items:
        return f"{raw[: start + 1]}{', '.join(sources)}{raw[end - 1 :]}"
    first, last = items[0][0], items[-1][1]
    between = _separator(raw, span)
    stay, count = list(range(len(items))), len(items)
    if kept[:count] == stay and set(kept[count:]) <= {None}:
        added = "".join(between + source for source in sources[count:])
        return raw[:last] + added + raw[last:]
    if kept[-count:] == stay and set(kept[:-count]) <= {None}:
        added = "".join(source + between for source in sources[:-count])
        return raw[:first] + added + raw[first:]
    return raw[:first] + between.join(sources) + raw[last:]


def _separator(raw: str, span: Span) -> str:
    """What stands between two items of this list."""
    if len(span.items) > 1:
        found = _SEPARATOR.fullmatch(raw, span.items[-2][1], span.items[-1][0])
        return found[0] if found else ", "
    opening = _OPENING.fullmatch(raw, span.start, span.items[0][0])
    return "," + opening[0][1:] if opening and "\n" in opening[0] else ", "


def _flow(value: Any) -> str:
    """A value as it is written inside brackets."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(str(key))}: {_flow(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if value is None:
        return "null"
    source = render({"k": value})[len("---\nk: ") : -len("\n---\n")]
    if isinstance(value, str) and source[:1] not in "\"'" and _UNSAFE_IN_FLOW.search(source):
        return _quoted(value)
    return source


def _quoted(value: str) -> str:
    """A JSON string, which is YAML too but for the line breaks that only YAML knows."""
    source = json.dumps(value, ensure_ascii=False)
    return _RARE_BREAK.sub(lambda rare: f"\\u{ord(rare[0]):04x}", source)
