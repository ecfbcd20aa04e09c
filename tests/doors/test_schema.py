"""Schemas say what a caller needs and no more, and still describe what the models accept."""

from __future__ import annotations

import json
from typing import Any, Literal

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import Field, RootModel

from server.catalog.operation import Input, Output
from server.doors.errors import payload
from server.doors.schema import input_schema, output_schema
from server.errors import Conflict


class Filter(Input):
    """Narrows."""

    title: str = Field(description="Its title.")
    description: str | None = None


class Ask(Input):
    """Asks."""

    query: str = Field(description="What to find.", min_length=1)
    limit: int = Field(default=20, ge=1)
    mode: Literal["tags", "text"] = "text"
    scope: list[str] | None = Field(default=None, description="Where.")
    either: int | str | None = None
    filter: Filter | None = None
    values: dict[str, Any] = Field(default_factory=dict)


class Leaf(Output):
    """A leaf."""

    name: str
    size: int | None
    maybe: list[int | None]


class Tree(Output):
    leaf: Leaf
    children: tuple[Tree, ...] = ()


class Answer(Output):
    """Answers."""

    title: str = Field(description="Prose.", examples=["x"])
    first: Leaf
    second: Leaf | None = None
    tree: Tree | None = None
    total: int = 0


class Clash(Output):
    details: list[str]


class Listing(RootModel[list[int]]):
    pass


def test_an_input_schema_is_small_and_exact() -> None:
    schema = input_schema(Ask)
    assert schema == {
        "type": "object",
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "description": "What to find."},
            "limit": {"type": "integer", "default": 20},
            "mode": {"type": "string", "default": "text", "enum": ["tags", "text"]},
            "scope": {"type": "array", "items": {"type": "string"}, "description": "Where."},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "filter": {
                "type": "object",
                "description": "Narrows.",
                "required": ["title"],
                "properties": {
                    "title": {"type": "string", "description": "Its title."},
                    "description": {"type": "string"},
                },
            },
            "values": {"type": "object"},
        },
    }


def test_an_output_schema_has_no_prose_and_fits_results_and_errors() -> None:
    schema = output_schema(Answer)
    text = json.dumps(schema)
    assert "Prose" not in text
    assert "A leaf" not in text
    assert set(schema["properties"]) == {"title", "first", "second", "tree", "total"}
    assert schema["$defs"]["Leaf"]["required"] == ["name", "maybe"]
    assert "required" not in schema
    leaf = Leaf(name="a", size=None, maybe=[None, 1])
    answer = Answer(title="t", first=leaf, tree=Tree(leaf=leaf, children=(Tree(leaf=leaf),)))
    jsonschema.validate(answer.model_dump(mode="json", exclude_none=True), schema)
    jsonschema.validate(payload(Conflict("Changed.", "Read.", etag="a")), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"title": 1}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tree": {"leaf": {"name": 1, "maybe": []}}}, schema)


def test_a_result_may_not_look_like_a_broken_error() -> None:
    with pytest.raises(TypeError, match=r"Clash\.details"):
        output_schema(Clash)


def test_a_schema_that_is_no_object_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match="Listing"):
        output_schema(Listing)
