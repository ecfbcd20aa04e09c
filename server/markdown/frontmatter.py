"""The block of properties at the top of a note: found, read, written. Pure.

A block that cannot be read never costs a note anything but its properties: `split` answers with
a warning instead of raising, and the note goes on as text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from server.markdown.properties import MalformedError, Reading, read, typed

_OPEN = re.compile(r"\ufeff?---[ \t]*\r?(?:\n|\Z)")
_CLOSE = re.compile(r"\n---[ \t]*\r?(?:\n|\Z)")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """What stands above the body; `body` is where the body starts, 0 when there is no block."""

    properties: Mapping[str, Any]
    raw: str
    body: int
    warning: str | None = None
    linked: tuple[tuple[int, int, str], ...] = ()
    """Texts that hold `[[`: start and end in the whole file, and the text itself."""


def split(text: str) -> Frontmatter:
    """Read the block at the top. Never raises: what can't be read becomes a warning."""
    opening = _OPEN.match(text)
    if opening is None:
        return Frontmatter({}, "", 0)
    start = opening.end()
    closing = _CLOSE.search(text, start - 1)
    if closing is None:
        return Frontmatter({}, "", 0, "frontmatter, line 1: the opening --- is never closed")
    raw, body = text[start : closing.start() + 1], closing.end()
    try:
        reading = _read(raw)
    except MalformedError as error:
        return Frontmatter({}, raw, body, f"frontmatter, line {error.line + 2}: {error.problem}")
    warning = None
    if reading.repeated:
        key, line = reading.repeated[0]
        warning = f"frontmatter, line {line + 2}: {key[:80]!r} is there twice, the last one counts"
    linked = tuple((start + at, start + end, value) for at, end, value in reading.linked)
    return Frontmatter(reading.values, raw, body, warning, linked)


def _read(raw: str) -> Reading:
    try:
        return read(raw)
    except MalformedError:
        # JSON is YAML but for its pairs of surrogate escapes.
        if not raw.lstrip().startswith("{") or not _PAIR.search(raw):
            raise
    return Reading(read(_PAIR.sub(_paired, raw)).values, (), ())


def _paired(pair: re.Match[str]) -> str:
    units = bytes.fromhex(pair[0].replace("\\u", ""))
    return units.decode("utf-16-be")


class _Dumper(yaml.SafeDumper):
    """Writes as Obsidian does: indented lists, no anchors, empty for null, ISO dates."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return _tag(value)
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


_TAGS: Mapping[type, str] = {
    type(None): "tag:yaml.org,2002:null",
    bool: "tag:yaml.org,2002:bool",
    int: "tag:yaml.org,2002:int",
    float: "tag:yaml.org,2002:float",
    date: "tag:yaml.org,2002:timestamp",
    datetime: "tag:yaml.org,2002:timestamp",
    str: "tag:yaml.org,2002:str",
}
_OTHER_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+")
_LITERAL = re.compile(r"\S(?:.*\S)?\n?", re.DOTALL)
_RARE_BREAK = re.compile(r"[\r\x85\u2028\u2029]")


def _tag(plain: str) -> str:
    value = typed(plain)
    if isinstance(value, str) and _OTHER_NUMBER.fullmatch(plain):
        return _TAGS[float]
    return _TAGS[type(value)]


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value and _LITERAL.fullmatch(value) and not _RARE_BREAK.search(value):
        style = "|"
    elif value.startswith("[") or value != value.strip() or _RARE_BREAK.search(value):
        style = '"'
    return dumper.represent_scalar(_TAGS[str], value, style)


def _moment(dumper: yaml.SafeDumper, value: date) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TAGS[date], value.isoformat())


_Dumper.add_representer(str, _text)
_Dumper.add_representer(date, _moment)
_Dumper.add_representer(datetime, _moment)
_Dumper.add_representer(
    type(None), lambda dumper, _: dumper.represent_scalar(_TAGS[type(None)], "")
)
_HANDLER = YAMLHandler()


def render(properties: Mapping[str, Any]) -> str:
    """The block for a new note, in the order given; nothing when there are no properties."""
    if not properties:
        return ""
    lines = _HANDLER.export(dict(properties), Dumper=_Dumper, sort_keys=False, width=1 << 30)
    return f"---\n{lines}\n---\n"


def jsonable(value: Any) -> Any:
    """The same value in JSON's types: dates as ISO text, infinities and NaN as text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value.isoformat() if isinstance(value, date) else str(value)
