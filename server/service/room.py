"""How much one answer may carry, and how things are cut to it.

An answer travels twice in one message: as data, and escaped once more as text. Clients of the
session era drop a message of more than 1 MiB, so a page ends early rather than being lost whole.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

MESSAGE = 1 << 20
"""What a client takes at most, envelope included."""
ROOM = 900_000
"""What the parts of an answer may weigh together; the rest is for names and the envelope."""
SHORT = 500
_HEAVIEST = 16
"""More than any character weighs: a control character is escaped to 6 bytes, and then to 7."""


def weight(value: Any) -> int:
    """The bytes that plain data takes on the wire, both times."""
    return wire_bytes(_json(value))


def wire_bytes(text: str) -> int:
    """The bytes that an answer takes whose JSON is `text`."""
    return _bytes(text) + _bytes(_json(text))


def fitting(
    items: Iterable[T], room: int, shape: Callable[[T], Any] = lambda item: item
) -> list[T]:
    """The first items, as many as have room together; `shape` gives what is sent of one."""
    taken: list[T] = []
    for item in items:
        room -= weight(shape(item))
        if room < 0:
            break
        taken.append(item)
    return taken


def cut(text: str, room: int) -> str:
    """The beginning of a text that has room."""
    if _HEAVIEST * len(text) < room:
        return text
    while (heavy := weight(text)) > room:
        text = text[: len(text) * room // heavy]
    return text


def short(text: str) -> str:
    """A name or a line, not a novel: long ones end in an ellipsis."""
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
