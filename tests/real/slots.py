"""Every argument of every operation that takes a text, found in the catalog itself."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from server.catalog.operation import Operation
from server.catalog.table import OPERATIONS

NO_PATHS = frozenset(
    {
        "content", "section", "query", "question", "tags", "properties", "prefix", "heading",
        "selector", "frontmatter", "if_match", "idempotency_key", "alias", "since", "caller",
        "session", "data", "topic", "project", "text", "resolution", "title", "context", "decision",
        "consequences", "options", "related", "repository",
    }
)  # fmt: skip
"""Arguments that are texts of another kind. Whatever isn't named here counts as a path."""

_FILLED: Mapping[str, Any] = {
    "path": "notes/Alpha.md", "from": "notes/Beta.md", "to": "notes/Alpha.md", "content": "words\n",
    "selector": "Part", "target": "heading", "operation": "append", "mode": "append",
    "query": "words", "question": "which words", "heading": "Part", "data": "d29yZHM=",
    "since": "1h", "adr": 1,
}  # fmt: skip
_DRAWN: Mapping[str, Any] = {
    "from": ("notes/Beta.md", "files/data.txt", "notes/Straße.md", "folder.md"),
    "to": ("notes/Alpha.md", "moved/a.md", "moved/b.md", "moved/c.txt", "moved/folder", "notes"),
}
_MODES = ("create", "overwrite", "append", "prepend")
_CHOICES = frozenset({"mode", "target", "operation", "status"})
"""One of a few words, even where the schema leaves it to another tool to list them."""
_LESS_OFTEN = {"permanent": 0.3, "apply": 0.1}


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a text in the arguments of an operation."""

    operation: Operation
    trail: tuple[str | int, ...]

    def __str__(self) -> str:
        return ".".join((self.operation.name, *map(str, self.trail)))

    @property
    def is_path(self) -> bool:
        return not any(name in NO_PATHS for name in self.trail)

    def arguments(self, text: str, draw: random.Random | None = None) -> dict[str, Any]:
        """What makes a complete call with the text in this place; with `draw`, not always the same."""
        schema = _schema(self.operation)
        filled = _object(schema, schema, draw)
        at: Any = filled
        inner = schema
        for step, after in zip(self.trail, (*self.trail[1:], None), strict=True):
            if after is None:
                at[step] = text
            elif isinstance(step, str):
                inner = _resolved(inner["properties"][step], schema)
                item = _resolved(inner.get("items", {}), schema)
                at[step] = [_object(item, schema, draw) if "properties" in item else text]
                at = at[step]
            else:
                inner = _resolved(inner["items"], schema)
                at = at[step]
        return filled


def slots() -> list[Slot]:
    """All of them, in the table's order."""
    return [
        Slot(operation, trail)
        for operation in OPERATIONS
        for trail in _trails(_schema(operation), _schema(operation))
    ]


def _schema(operation: Operation) -> dict[str, Any]:
    return operation.input.model_json_schema()


def _trails(part: dict[str, Any], whole: dict[str, Any]) -> Iterator[tuple[str | int, ...]]:
    for name, field in part.get("properties", {}).items():
        if name in _CHOICES:
            continue
        for kind in (_resolved(one, whole) for one in field.get("anyOf", [field])):
            if _is_text(kind):
                yield (name,)
            elif kind.get("type") == "array":
                item = _resolved(kind.get("items", {}), whole)
                if _is_text(item):
                    yield (name, 0)
                yield from ((name, 0, *trail) for trail in _trails(item, whole))
            elif kind.get("type") == "object":
                yield from ((name, *trail) for trail in _trails(kind, whole))


def _is_text(kind: dict[str, Any]) -> bool:
    return kind.get("type") == "string" and "enum" not in kind and "const" not in kind


def _resolved(part: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        found: dict[str, Any] = whole["$defs"][part["$ref"].rpartition("/")[2]]
        return found
    return part


def _object(
    part: dict[str, Any], whole: dict[str, Any], draw: random.Random | None
) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for name, raw in part.get("properties", {}).items():
        field = _resolved(raw, whole)
        if name in part.get("required", ()):
            filled[name] = _filled(name, field, whole, draw)
        elif draw is not None and field.get("type") == "boolean":
            filled[name] = draw.random() < _LESS_OFTEN.get(name, 0.5)
    if "mode" in part.get("properties", {}) and "operation" in part["properties"]:
        filled["mode"] = draw.choice(_MODES) if draw else "append"
    return filled


def _filled(
    name: str, field: dict[str, Any], whole: dict[str, Any], draw: random.Random | None
) -> Any:
    if "enum" in field and draw is not None and name != "target":
        return draw.choice(field["enum"])
    if name in _DRAWN and draw is not None:
        return draw.choice(_DRAWN[name])
    if name in _FILLED:
        return _FILLED[name]
    if field.get("type") == "array":
        return [_object(_resolved(field["items"], whole), whole, draw)]
    return field["enum"][0] if "enum" in field else "x"
