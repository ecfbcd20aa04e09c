"""JSON schemas as small as they can be: agents pay for every byte of `tools/list`.

Pydantic repeats each field's name as a title, spells an optional as a union with null and moves
every nested model into `$defs`. None of it tells a reader anything.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_SMALL = 90
"""A definition used more than once is still written in place when it is no longer than this."""
_BY_NAME = ("properties", "$defs", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_REF = "#/$defs/"
_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")
_TELLING = ("description", "default", "examples", "enum", "const")
"""What says more of a result than its shape: a reader sees the values themselves."""
_ERROR_FIELDS = {"code": "string", "message": "string", "hint": "string", "details": "object"}


def input_schema(model: type[BaseModel]) -> Schema:
    """What a caller may send. The model's own docstring is left out: the tool describes itself."""
    schema = _inlined(_walk(model.model_json_schema(mode="validation"), _tidy_input))
    schema.pop("description", None)
    return _object(model, schema)


def output_schema(model: type[BaseModel]) -> Schema:
    """What comes back: shape alone, no prose.

    Nothing is required at the top, because an error's payload travels in the same place and some
    clients check it against this schema too.
    """
    schema = _inlined(_walk(model.model_json_schema(mode="serialization"), _tidy_output))
    schema.pop("required", None)
    for name, kind in _ERROR_FIELDS.items():
        if schema.get("properties", {}).get(name, {}).get("type", kind) != kind:
            raise TypeError(f"{model.__name__}.{name} is not what an error has under that name")
    return _object(model, schema)


def _object(model: type[BaseModel], schema: Schema) -> Schema:
    if schema.get("type") != "object":
        raise TypeError(f"{model.__name__} is not a plain object: clients refuse such a schema")
    return schema


def _tidy_input(schema: Schema) -> Schema:
    """Without limits and empty defaults: who oversteps one is told so, and few ever do."""
    return {
        key: value
        for key, value in schema.items()
        if key not in _LIMITS
        and not (key == "default" and not value)
        and not (key == "additionalProperties" and value is False)
    }


def _tidy_output(schema: Schema) -> Schema:
    schema = {k: v for k, v in schema.items() if k not in _TELLING}
    if required := [name for name in schema.get("required", ()) if name not in _nullable(schema)]:
        schema["required"] = required
    else:
        schema.pop("required", None)
    return schema


def _walk(schema: Schema, tidy: Callable[[Schema], Schema]) -> Schema:
    """Apply `tidy` to every schema inside; keywords only, as a property may be named `title`."""
    schema = tidy(schema)
    schema.pop("title", None)
    if schema.get("additionalProperties") is True:
        del schema["additionalProperties"]
    optional = _nullable(schema)
    for key, value in schema.items():
        if key in _BY_NAME:
            schema[key] = {name: _walk(inner, tidy) for name, inner in value.items()}
        elif key in _LISTS:
            schema[key] = [_walk(inner, tidy) for inner in value]
        elif key in ("items", "additionalProperties", "contains") and isinstance(value, dict):
            schema[key] = _walk(value, tidy)
    for name in optional:
        schema["properties"][name] = _without_null(schema["properties"][name])
    return schema


def _nullable(schema: Schema) -> set[str]:
    """The properties that may be null: callers leave those out, and so do we."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    return {
        name for name, inner in properties.items() if {"type": "null"} in inner.get("anyOf", ())
    }


def _without_null(schema: Schema) -> Schema:
    options = [option for option in schema["anyOf"] if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {"anyOf": options, **rest}


def _inlined(schema: Schema) -> Schema:
    """Write a definition where it is used, unless it is long and shared or refers to itself."""
    definitions: dict[str, Schema] = schema.pop("$defs", {})
    text = json.dumps([schema, definitions])
    kept = {
        name
        for name, definition in definitions.items()
        if _reaches(name, definition, definitions, set())
        or (text.count(f'"{_REF}{name}"') > 1 and len(json.dumps(definition)) > _SMALL)
    }

    def expand(part: Any) -> Any:
        if isinstance(part, list):
            return [expand(item) for item in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).removeprefix(_REF)
        if name in definitions and name not in kept:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return expand({**definitions[name], **rest})
        return {key: expand(value) for key, value in part.items()}

    expanded: Schema = expand(schema)
    if kept:
        expanded["$defs"] = {name: expand(definitions[name]) for name in sorted(kept)}
    return expanded


def _reaches(name: str, part: Any, definitions: Mapping[str, Schema], seen: set[str]) -> bool:
    if isinstance(part, list):
        return any(_reaches(name, item, definitions, seen) for item in part)
    if not isinstance(part, dict):
        return False
    target = str(part.get("$ref", "")).removeprefix(_REF)
    if target == name:
        return True
    if target in definitions and target not in seen:
        seen.add(target)
        if _reaches(name, definitions[target], definitions, seen):
            return True
    return any(_reaches(name, value, definitions, seen) for value in part.values())
