"""How property values compare: as Obsidian shows them, without regard to case. Pure.

A stored value has up to three forms. `folded` is the text that Obsidian shows, caseless: `5` and
`"5"`, `true` and `"True"` have the same, and what is empty has "". `number` orders numbers, also
those written as text. `moment` orders dates and date-times, in seconds by the clock on the wall: an
offset from UTC is not applied.

A value that is asked for has the same forms. Its moment is a span as long as it is precise, so that
`2026-02-20`, `2026-02` and `2026` are equal to every date-time in them.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from server.index.names import key_of
from server.markdown.properties import typed
from server.query.tree import Scalar

CREATED = ("created", "date")
"""The properties that may tell when a note was made; the first that does counts."""

_LAST = 2**63 - 1
_EMPTY = ("[]", "{}")
_MOMENT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d)?(?P<part>\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?)?)?"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A value to compare with: all ways to show it, as written first; its number; its span as
    (first moment, first moment after).
    """

    folded: tuple[str, ...]
    number: float | None = None
    span: tuple[float, float] | None = None


def comparable(kind: str, value: Any) -> tuple[str, float | None, float | None]:
    """(folded, number, moment) of a value as it is stored."""
    match kind:
        case "null":
            return "", None, None
        case "bool":
            return "true" if value else "false", None, None
        case "num":
            return shown(value), float(value), None
        case "date":
            span = _span(value)
            return key_of(value), None, span[0] if span else None
        case "json":
            return "" if value in _EMPTY else key_of(value), None, None
        case _:
            text = value.strip()
            return key_of(text), _number(text), None


def asked(value: Scalar) -> Asked:
    """What a value stands for when notes are compared with it."""
    if value is None:
        return Asked(("",))
    if isinstance(value, bool):
        return Asked(("true" if value else "false",))
    text = value.strip() if isinstance(value, str) else shown(value)
    number = _number(text)
    spellings = (key_of(text), *(() if number is None else (shown(number),)))
    return Asked(tuple(dict.fromkeys(spellings)), number, _span(text))


def shown(number: float) -> str:
    """A number as it is written out: without a needless fraction."""
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e21
    return str(int(number) if whole else number).lower()


def created(props: Iterable[tuple[Any, ...]]) -> int | None:
    """When a note says that it was made, in nanoseconds; its rows are those of `Facts.props`."""
    said: dict[str, float] = {}
    for _, key, _, _, kind, value in props:
        if key in CREATED and kind == "date" and (span := _span(value)):
            said.setdefault(key, span[0])
    when = next((said[key] for key in CREATED if key in said), None)
    return None if when is None else max(-_LAST, min(_LAST, int(when) * 1_000_000_000))


def _number(text: str) -> float | None:
    value = typed(text) if text else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _span(text: str) -> tuple[float, float] | None:
    """The moments that a date, date-time, month or year stands for; None for any other text."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    clock = f"{found['minute'] or '00:00'}{found['second'] or ':00'}{(found['part'] or '')[:7]}"
    try:
        first = datetime.fromisoformat(f"{year:04d}-{month:02d}-{day:02d}T{clock}+00:00")
    except ValueError:
        return None
    try:
        return first.timestamp(), (first + _length(found, first)).timestamp()
    except (ValueError, OverflowError):
        # The last day of all calendars means "never".
        return first.timestamp(), math.inf


def _length(found: re.Match[str], first: datetime) -> timedelta:
    if found["part"]:
        return timedelta(microseconds=1)
    if found["second"]:
        return timedelta(seconds=1)
    if found["minute"]:
        return timedelta(minutes=1)
    if found["day"]:
        return timedelta(days=1)
    years = first.year + (first.month == 12 or not found["month"])
    months = first.month % 12 + 1 if found["month"] else 1
    return datetime(years, months, 1, tzinfo=UTC) - first
