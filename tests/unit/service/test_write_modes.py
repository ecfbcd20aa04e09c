"""WRITE_MODE: `off` refuses every writing operation there is, `dry-run` shows it and writes nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.catalog.table import OPERATIONS

from .edits import kept, tree
from .house import House, opened

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "note_upsert": {"path": "note.md", "content": "more"},
    "link_add": {"from": "note.md", "to": "other.md"},
    "note_write": {"path": "note.md", "content": "more", "mode": "append", "idempotency_key": "k"},
    "note_patch": {"path": "note.md", "target": "text", "selector": "text", "operation": "delete"},
    "notes_edit": {"edits": [{"path": "new.md", "mode": "create", "content": "x"}]},
    "note_move": {"from": "note.md", "to": "sub/moved.md"},
    "heading_rename": {"path": "note.md", "heading": "Head", "to": "Title"},
    "note_delete": {"path": "note.md"},
    "note_restore": {"path": "note.md"},
    "undo": {"since": "1h", "apply": True},
    "attachment_write": {"path": "new.png", "data": "iVBORw0KGgo="},
    "devlog_append": {"topic": "log", "entries": [{"type": "impl", "text": "x"}]},
    "adr_create": {"title": "x", "context": "x", "decision": "x", "consequences": "x"},
    "adr_set_status": {"adr": 1, "status": "rejected"},
}
# What publishes has tests of its own, with a repository.
WRITING = [op.name for op in OPERATIONS if op.access == "write" and op.name != "adr_publish"]
WITHOUT_DIFF = ("note_move", "note_delete", "attachment_write")
"""These tell what they would do in other words."""


def house_in(tmp_path: Path, mode: str) -> Iterator[House]:
    """A vault with a past, made while writing was on."""
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        house.fill(other="[[note#Head]]\n", **{"adr/ADR-001-x": "---\nstatus: accepted\n---\n"})
        house.call("note_upsert", path="note.md", content="# Head\ntext\n")
        house.call("note_write", path="note.md", content="more\n", mode="append")
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE=mode) as house:
        yield house


@pytest.fixture
def off(tmp_path: Path) -> Iterator[House]:
    yield from house_in(tmp_path, "off")


@pytest.fixture
def dry(tmp_path: Path) -> Iterator[House]:
    yield from house_in(tmp_path, "dry-run")


def test_every_writing_operation_is_tried() -> None:
    assert set(WRITING) == set(ARGUMENTS)


@pytest.mark.requirement("edit.modes")
@pytest.mark.parametrize("tool", WRITING)
def test_every_writing_operation_is_refused_when_writing_is_off(off: House, tool: str) -> None:
    before, entries = tree(off), kept(off)
    error = off.refused(tool, **ARGUMENTS[tool])
    assert (error.code, "WRITE_MODE" in error.hint) == ("permission_denied", True)
    assert tree(off) == before
    assert kept(off) == entries
    assert len(off.app.journal) == len(off.app.plans) == 0


@pytest.mark.requirement("edit.modes")
@pytest.mark.parametrize("tool", WRITING)
def test_every_writing_operation_only_shows_itself_in_a_dry_run(dry: House, tool: str) -> None:
    before, entries = tree(dry), kept(dry)
    answer = dry.call(tool, **ARGUMENTS[tool])
    assert answer["dry_run"] is True
    if tool not in WITHOUT_DIFF:
        assert "--- " in answer["diff"]
    assert answer.get("written", False) is False
    assert "replayed" not in answer
    assert tree(dry) == before
    assert kept(dry) == entries
    assert len(dry.app.journal) == len(dry.app.plans) == 0
    assert dry.call("note_read", path="note.md")["content"] == "# Head\ntext\nmore\n"
    assert dry.call("vault_search", query="text")["total"] == 1


@pytest.mark.requirement("edit.modes")
def test_a_dry_run_refuses_what_a_run_would_refuse(dry: House) -> None:
    for tool, arguments, code in (
        ("note_write", {"path": "note.md", "content": "x", "mode": "create"}, "conflict"),
        ("note_patch", {"path": "note.md", "target": "text", "selector": "absent",
                        "operation": "delete"}, "not_found"),
        ("note_delete", {"path": "none.md"}, "not_found"),
        ("note_move", {"from": "note.md", "to": "other.md"}, "conflict"),
        ("heading_rename", {"path": "note.md", "heading": "None", "to": "x"}, "not_found"),
    ):  # fmt: skip
        assert dry.refused(tool, **arguments).code == code
