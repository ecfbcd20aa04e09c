"""What is shown of a found note: as little as lets an agent choose. Pure.

Twenty hits are to cost some 6 KB. Tags and properties are cut to a few, and the snippets share what
is left; in an order by relevance the first ones get more of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from server.service.snippets import CHARS

ITEM_BYTES = 290
"""What a hit may take on average."""
LEAST = 32
"""Shorter snippets say nothing."""
_TAGS, _PROPERTIES, _ITEMS, _VALUE = 3, 2, 2, 40
_TOLD_ELSEWHERE = frozenset(("tags", "tag", "title", "aliases", "alias", "cssclasses", "cssclass"))


def few_tags(tags: Sequence[str]) -> list[str]:
    """The first tags; how many more there are is not told."""
    return [_short(tag) for tag in tags[:_TAGS]]


def few_properties(properties: Mapping[str, Any], asked: Collection[str]) -> dict[str, Any]:
    """Short values of a few properties: those that were asked for, then the first ones."""
    known = {
        key: value
        for key, value in properties.items()
        if value not in (None, "") and key.lower() not in _TOLD_ELSEWHERE
    }
    first = [key for key in properties if key.lower() in asked]
    keys = dict.fromkeys([*first, *known])
    most = max(_PROPERTIES, len(first))
    return {_short(key): _brief(properties[key]) for key in list(keys)[:most]}


def shares(weights: Sequence[int], *, ranked: bool) -> Iterator[int]:
    """How many bytes each snippet may take when the items weigh so much without it."""
    left = ITEM_BYTES * len(weights) - sum(weights)
    for count in range(len(weights), 0, -1):
        share = left * 2 // (count + 1) if ranked else left // count
        chars = min(CHARS, max(LEAST, share))
        left -= chars
        yield chars


def _brief(value: Any) -> Any:
    if isinstance(value, list):
        return [_brief(item) for item in value[:_ITEMS]]
    return _short(value) if isinstance(value, str) else value


def _short(text: str) -> str:
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + "…"
