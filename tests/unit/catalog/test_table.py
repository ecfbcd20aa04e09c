"""The catalog as a whole: what every declaration must keep to."""

import contextlib

import pytest
from pydantic import ValidationError

from server.catalog.operation import Operation
from server.catalog.table import INSTRUCTIONS, OPERATIONS, in_toolsets
from server.settings import TOOLSETS

OPERATION = pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)


def test_names_are_unique() -> None:
    assert len({op.name for op in OPERATIONS}) == len(OPERATIONS)


@OPERATION
def test_a_declaration_is_whole(op: Operation) -> None:
    assert op.name.replace("_", "").isalnum()
    assert op.name == op.name.lower()
    assert op.title
    assert op.title[0].isupper()
    assert op.description.endswith(".")
    assert op.toolset in TOOLSETS
    assert op.input.model_config.get("extra") == "forbid"
    assert op.subject is None or op.subject in op.input.model_fields
    assert op.idempotent or op.access != "read", "reads may be repeated"
    assert op.name != "note_upsert" or not op.idempotent, "an append may not"


@OPERATION
def test_lists_are_bounded(op: Operation) -> None:
    for name in ("limit", "depth", "context", "max_chars", "max_chars_each"):
        field = op.input.model_fields.get(name)
        # The context of a decision is a text.
        if field is not None and field.annotation is int:
            bounds = {type(rule).__name__ for rule in field.metadata}
            assert {"Ge", "Le"} <= bounds, name


@OPERATION
@pytest.mark.parametrize("number", [10**30, -(10**30), float("nan"), float("inf")])
def test_no_number_is_larger_than_what_can_be_counted(op: Operation, number: float) -> None:
    for name, field in op.input.model_fields.items():
        if field.annotation in (int, float, int | None):
            with contextlib.suppress(ValidationError):
                checked = op.input.__pydantic_validator__.validate_assignment(
                    op.input.model_construct(), name, number
                )
                assert -(2**63) < getattr(checked, name) < 2**63, name


def test_toolsets_choose() -> None:
    assert in_toolsets(TOOLSETS) == OPERATIONS
    assert in_toolsets([]) == ()
    assert all(op.toolset == "core" for op in in_toolsets(["core"]))
    assert {"note_read", "note_upsert", "vault_search"} <= {op.name for op in in_toolsets(["core"])}


def test_the_instructions_speak_of_tools_that_exist() -> None:
    import re

    named = set(re.findall(r"\b(?:note|vault)_\w+", INSTRUCTIONS))
    assert named
    assert named <= {op.name for op in OPERATIONS}
