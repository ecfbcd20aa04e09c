"""YAML properties, typed the way Obsidian types them. Pure: text in, plain values out.

Obsidian follows the YAML 1.2 core schema, so `yes`, `10:30` and `1_000` are text. Three choices
of our own, where a number would lose what was written: leading zeros (`007`), hexadecimal and
octal notation, and more than 18 digits stay text.

The events of libyaml are read in a loop rather than composed into nodes: composing recurses in C
and a deeply nested note would take the process down.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from math import inf, isinf, nan
from typing import Any

import yaml

MAX_CHARS = 200_000
MAX_DEPTH = 50
MAX_VALUES = 20_000

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{f"{sign}.{word}": inf for sign in ("", "+") for word in ("inf", "Inf", "INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
_NUMERIC = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?)"
)
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?P<time>[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[-+][0-9]{2}:?[0-9]{2})?)?"
)
_ROOT = ""


class MalformedError(Exception):
    """The text is no set of properties; `line` counts from 0 in the text that was read."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class Reading:
    """What the text says: values by key, keys written twice (with line), texts that hold links."""

    values: dict[str, Any]
    repeated: tuple[tuple[str, int], ...]
    linked: tuple[tuple[int, int, str], ...]


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is being filled."""

    items: Any
    start: int
    anchor: str | None
    count: int
    key: str | None = None


def typed(text: str) -> Any:
    """The value of an unquoted scalar: null, bool, int, float, date, datetime or text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if moment := _MOMENT.fullmatch(text):
        try:
            return datetime.fromisoformat(text) if moment["time"] else date.fromisoformat(text)
        except ValueError:
            return text
    number = float(text) if _FLOAT.fullmatch(text) else inf
    return text if isinf(number) else number


def read(raw: str) -> Reading:
    """Read a mapping. Raises `MalformedError` and nothing else, whatever the text is."""
    if len(raw) > MAX_CHARS:
        raise MalformedError(f"longer than {MAX_CHARS} characters", 0)
    try:
        return _Reader(raw).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise MalformedError(error.problem or "not YAML", mark.line if mark else 0) from None
    except (yaml.YAMLError, ValueError):
        raise MalformedError("holds characters that YAML does not allow", 0) from None


def _line(event: Any) -> int:
    return int(event.start_mark.line)


class _Reader:
    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._root: dict[str, Any] = {}
        self._frames = [_Frame(self._root, 0, None, 0, _ROOT)]
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._repeated: list[tuple[str, int]] = []
        self._linked: list[tuple[int, int, str]] = []

    def read(self) -> Reading:
        parser = yaml.CSafeLoader(self._raw)
        documents = 0
        while (event := parser.get_event()) is not None:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._open({}, event)
            elif kind is yaml.SequenceStartEvent:
                self._open([], event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise MalformedError("more than one document", _line(event))
        values = self._root.get(_ROOT)
        if values is None:
            values = {}
        elif not isinstance(values, dict):
            raise MalformedError("a list or a text instead of `key: value` lines", 0)
        return Reading(values, tuple(self._repeated), tuple(self._linked))

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        value: Any = text
        if event.implicit[0]:
            value = typed(text)
        if "[[" in text and self._awaits_value:
            self._linked.append((event.start_mark.index, event.end_mark.index, text))
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, text, event)

    def _open(self, items: Any, event: Any) -> None:
        if len(self._frames) > MAX_DEPTH:
            raise MalformedError(f"nested deeper than {MAX_DEPTH} levels", _line(event))
        start = event.start_mark.index
        self._frames.append(_Frame(items, start, event.anchor, self._count))

    def _close(self, event: Any) -> None:
        frame = self._frames.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.items, self._count - frame.count)
        # Only a list or mapping used as a key is named by its source, as in `{{date}}`.
        source = "" if self._awaits_value else self._raw[frame.start : event.end_mark.index]
        self._add(frame.items, source.strip(), event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise MalformedError(f"unknown or circular alias *{event.anchor}", _line(event))
        value, size = self._anchors[event.anchor]
        self._count += size
        self._add(value, value if isinstance(value, str) else f"*{event.anchor}", event)

    @property
    def _awaits_value(self) -> bool:
        frame = self._frames[-1]
        return frame.key is not None or type(frame.items) is list

    def _add(self, value: Any, source: str, event: Any) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise MalformedError(f"more than {MAX_VALUES} values", _line(event))
        frame = self._frames[-1]
        if type(frame.items) is list:
            frame.items.append(value)
        elif frame.key is None:
            frame.key = source
            if source in frame.items:
                self._repeated.append((source, _line(event)))
        else:
            frame.items[frame.key] = value
            frame.key = None
