"""How a property's value compares with one that is asked for, one rule after the other."""

import datetime
import json
import re
from typing import Any

from server.markdown.frontmatter import jsonable
from server.markdown.properties import typed

_DAY = r"\d{4}-\d\d-\d\d"
_TIME = r"[T ]\d\d:\d\d(?::\d\d)?"
_ASKED_MOMENT = re.compile(rf"\d{{4}}(?:-\d\d)?|{_DAY}(?:{_TIME})?")
_STORED_MOMENT = re.compile(rf"{_DAY}(?:{_TIME})?")


def compares(value: Any, op: str, asked: Any) -> bool:
    """Whether one value (not a list) passes `eq`, `contains`, `gt`, `gte`, `lt` or `lte`."""
    if op == "eq":
        return _equal(value, asked)
    if op == "contains":
        return _text(asked) in _text(value) or str(asked).strip().casefold() in _text(value)
    number, moment = _number(asked), _asked_moment(asked)
    if number is not None and _number(value) is not None:
        return _in_order(_number(value), op, number)
    if moment is not None and (stored := moment_of(value)) is not None:
        return _in_order(stored[: len(moment)], op, moment)
    if number is None and moment is None and _text(value) and _number(value) is None:
        return _in_order(_text(value), op, _text(asked))
    return False


def _equal(value: Any, asked: Any) -> bool:
    if _text(value) == _text(asked):
        return True
    number = _number(asked)
    if number is not None and _text(value) == _text(number):
        return True
    moment, stored = _asked_moment(asked), moment_of(value)
    return moment is not None and stored is not None and stored[: len(moment)] == moment


def _in_order(one: Any, op: str, other: Any) -> bool:
    return bool(
        {"gt": one > other, "gte": one >= other, "lt": one < other, "lte": one <= other}[op]
    )


def _text(value: Any) -> str:
    """What Obsidian shows, without regard to case."""
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.date):
        return value.isoformat().casefold()
    if isinstance(value, list | dict):
        return json.dumps(jsonable(value), ensure_ascii=False).casefold()
    text = str(value).strip()
    if isinstance(value, str) and _STORED_MOMENT.fullmatch(text):
        text = text.replace(" ", "T")
    return text.casefold()


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value.strip():
        value = typed(value.strip())
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def moment_of(value: Any) -> str | None:
    """A stored date as text down to the second."""
    if isinstance(value, str) and _STORED_MOMENT.fullmatch(value):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{value.isoformat()}T00:00:00" if isinstance(value, datetime.date) else None


def _asked_moment(asked: Any) -> str | None:
    """A date that is asked for, as precise as it was written."""
    text = str(asked).strip()
    return text.replace(" ", "T") if _ASKED_MOMENT.fullmatch(text) else None
