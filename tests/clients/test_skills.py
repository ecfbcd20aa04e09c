"""Every skill names tools and arguments that there are, and its calls can be made as they stand."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from server.catalog.table import OPERATIONS
from server.doors.errors import OUTWARD
from tests.clients.skills import PREFIX, SKILLS, Skill, calls_in
from tests.clients.snippets import FOLDER
from tests.unit.service.house import opened

TABLE = {operation.name: operation for operation in OPERATIONS}
SAMPLE = Path(__file__).parents[2] / "server/sample"
FIELDS = {"name", "description", "argument-hint", "allowed-tools"}
FRAGMENT = (FOLDER / "AGENTS.fragment.md").read_text(encoding="utf-8")


def words_of(model: type[BaseModel]) -> Iterator[str]:
    """The names that a schema has: its fields, those below them, and the words of its choices."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        yield from _words(field.annotation)


def _words(annotation: Any) -> Iterator[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from words_of(annotation)
    for part in get_args(annotation):
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)


def unknown_words(text: str) -> set[str]:
    """The words in backticks that neither a tool of the text nor its arguments or answers have."""
    said = set(re.findall(r"`([a-z][a-z_]+)`", text))
    tools = {TABLE[word] for word in said | {tool for tool, _ in calls_in(text)} if word in TABLE}
    known = {operation.name for operation in tools} | set(OUTWARD)
    for operation in tools:
        known |= set(words_of(operation.input)) | set(words_of(operation.output))
    return said - known


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_what_a_skill_says_of_itself(skill: Skill) -> None:
    assert set(skill.head) == FIELDS
    assert skill.head["name"] == skill.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", skill.name)
    assert 80 < len(skill.head["description"]) <= 1024
    assert "$ARGUMENTS" in skill.body
    assert all(tool.startswith(PREFIX) for tool in skill.head["allowed-tools"])
    assert set(skill.tools) <= set(TABLE)
    # What throws away or replaces is asked about first.
    assert not any(TABLE[tool].destructive for tool in skill.tools)


def test_the_skills_are_those_of_the_prompts() -> None:
    assert [skill.name for skill in SKILLS] == ["adr", "catchup", "devlog"]


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_a_skill_names_what_there_is(skill: Skill) -> None:
    assert unknown_words(skill.body) == set()
    used = {tool for tool, _ in skill.calls}
    assert set(skill.tools) <= used
    assert {tool for tool in used - set(skill.tools) if not TABLE[tool].destructive} == set()


def test_the_fragment_names_what_there_is() -> None:
    assert unknown_words(FRAGMENT) - {"proposed", "accepted"} == set()
    assert {"context_pack", "devlog_append", "adr_create", "note_patch"} <= set(
        re.findall(r"`([a-z_]+)`", FRAGMENT)
    )


def test_a_wrong_word_would_be_found() -> None:
    assert unknown_words("`adr_create` with `titel` and `adr_make`") == {"titel", "adr_make"}


def test_the_calls_can_be_made(tmp_path: Path) -> None:
    """On the sample vault, one after another."""
    shutil.copytree(SAMPLE, tmp_path / "vault")
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        house.call("devlog_append", topic="backup", entries=[{"type": "impl", "text": "begun"}])
        for skill in SKILLS:
            for tool, arguments in skill.calls:
                assert house.call(tool, **arguments), (skill.name, tool)
