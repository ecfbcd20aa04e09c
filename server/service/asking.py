"""What the arguments of a search ask for, as one tree of conditions. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from server.errors import InvalidRequest
from server.query.language import parse_query
from server.query.tree import Node, Op, PropertyTest, Scalar, TagIs, both, either

Mode = Literal["tags", "properties", "full_text", "hybrid"]

MOST = 100
"""Tags, properties or values of a property in one search."""
_NEEDS: dict[Mode, str] = {"tags": "tags", "properties": "properties", "full_text": "query"}
_OPS: tuple[Op, ...] = get_args(Op)
_BITS = 256


def condition(
    mode: Mode,
    query: str | None,
    tags: Sequence[str],
    tags_match: Literal["all", "any"],
    properties: Mapping[str, Any],
) -> Node | None:
    """All that is asked for; None for every note. Raises `InvalidRequest`."""
    given = {"query": bool(query and query.strip()), "tags": bool(tags)}
    _check_mode(mode, {**given, "properties": bool(properties)})
    if len(tags) > MOST or len(properties) > MOST:
        raise InvalidRequest(f"More than {MOST} tags or properties.", "Ask for fewer at once.")
    node = parse_query(query) if query else None
    nodes: list[Node] = [node] if node is not None else []
    if tags:
        named: list[Node] = [TagIs(_tag(tag)) for tag in tags]
        nodes.append(either(named) if tags_match == "any" else both(named))
    for key, value in properties.items():
        nodes.extend(_tests(_text(key.strip()), value))
    return both(nodes) if nodes else None


def _check_mode(mode: Mode, given: Mapping[str, bool]) -> None:
    needed = _NEEDS.get(mode)
    if needed is None:
        return
    if not given[needed]:
        raise InvalidRequest(
            f"Mode {mode!r} needs {needed!r}.", f"Give {needed}, or use mode 'hybrid'."
        )
    others = [name for name, there in given.items() if there and name != needed]
    if others:
        raise InvalidRequest(
            f"Mode {mode!r} takes no {others[0]!r}.", "Use mode 'hybrid' to combine them."
        )


def _tag(raw: str) -> str:
    tag = _text(raw.strip().removeprefix("#").strip("/"))
    if not tag:
        raise InvalidRequest("A tag is empty.", "Give tags like 'project/alpha'.")
    return tag


def _tests(key: str, value: Any) -> list[Node]:
    if not key:
        raise InvalidRequest("The name of a property is empty.", "Ask list_properties for names.")
    if isinstance(value, list):
        return [_test(key, "in", value)]
    if not isinstance(value, dict):
        return [_test(key, "eq", value)]
    if not value:
        raise InvalidRequest(f"Nothing is asked of {key!r}.", f"Use one of {', '.join(_OPS)}.")
    return [_test(key, op, inner) for op, inner in value.items()]


def _test(key: str, op: str, value: Any) -> PropertyTest:
    known = next((known for known in _OPS if known == op), None)
    if known is None:
        raise InvalidRequest(
            f"{key!r}: there is no operator {op[:40]!r}.", f"Use one of {', '.join(_OPS)}."
        )
    if known == "exists":
        if not isinstance(value, bool):
            raise InvalidRequest(f"{key!r}: exists takes true or false.", "Use {'exists': true}.")
        return PropertyTest(key, known, value)
    if known == "in":
        if not isinstance(value, list) or not value or len(value) > MOST:
            raise InvalidRequest(f"{key!r}: in takes a list of 1 to {MOST} values.", "Use eq.")
        return PropertyTest(key, known, tuple(_scalar(key, item) for item in value))
    if value is None and known not in ("eq", "ne"):
        raise InvalidRequest(f"{key!r}: {op} takes a value, not null.", "Use eq for an empty one.")
    return PropertyTest(key, known, _scalar(key, value))


def _scalar(key: str, value: Any) -> Scalar:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise InvalidRequest(f"{key!r}: the number is too large.", "Send it as text.")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidRequest(
        f"{key!r}: a value is text, a number, true, false or null.",
        "Use in for several values: {'in': ['a', 'b']}.",
    )


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("A text is not valid Unicode.", "Send plain UTF-8.") from None
    return text
