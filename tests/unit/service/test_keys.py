"""Idempotency keys: a call that is sent again is answered again and made once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from server.errors import VaultError
from server.models import Caller, etag_of

from .edits import by, kept, write
from .house import CALLER, House, opened

TOOLS: dict[str, dict[str, Any]] = {
    "note_write": {"path": "a.md", "content": "line\n", "mode": "append"},
    "note_upsert": {"path": "a.md", "content": "line"},
}
EACH = pytest.mark.parametrize("tool", TOOLS)


@pytest.mark.requirement("edit.once")
@EACH
def test_a_call_that_is_sent_again_is_made_once(house: House, tool: str) -> None:
    house.fill(a="start\n")
    first = house.call(tool, **TOOLS[tool], idempotency_key="k")
    data = house.bytes("a.md")
    write(house, "a.md", "somebody else\n", "append")
    again = house.call(tool, **TOOLS[tool], idempotency_key="k")
    assert again == {**first, "replayed": True}
    assert "replayed" not in first
    assert first["etag"] == etag_of(data)
    assert house.bytes("a.md").count(b"line") == 1
    assert kept(house) == 2


@pytest.mark.requirement("edit.once")
@pytest.mark.parametrize(
    "other",
    [
        {"content": "another\n"},
        {"path": "b.md"},
        {"mode": "prepend"},
        {"frontmatter": {"n": 1}},
        {"if_match": etag_of(b"start\n")},
    ],
)
def test_a_key_belongs_to_one_request(house: House, other: dict[str, Any]) -> None:
    house.fill(a="start\n")
    house.call("note_write", **TOOLS["note_write"], idempotency_key="k")
    error = house.refused("note_write", **TOOLS["note_write"] | other, idempotency_key="k")
    assert (error.code, "new key" in error.hint) == ("conflict", True)
    assert house.bytes("a.md") == b"start\nline\n"
    assert not (house.folder / "b.md").exists()


@pytest.mark.requirement("edit.once")
def test_a_key_of_another_tool_is_another_request(house: House) -> None:
    house.call("note_upsert", path="a.md", content="x", idempotency_key="k")
    assert house.refused(
        "note_write", path="a.md", content="x", mode="append", idempotency_key="k"
    ).code == "conflict"  # fmt: skip
    assert house.bytes("a.md") == b"x"


@pytest.mark.requirement("edit.once")
@EACH
def test_callers_have_keys_of_their_own(house: House, tool: str) -> None:
    for name in ("one", "two", "one"):
        by(house, name, tool, **TOOLS[tool], idempotency_key="k")
    assert house.bytes("a.md").count(b"line") == 2


@pytest.mark.requirement("edit.once")
def test_a_call_that_failed_left_its_key_free(house: House) -> None:
    house.fill(a="x" * 50_000)
    request = {"path": "a.md", "content": "y" * 5_000, "mode": "append", "idempotency_key": "k"}
    assert house.refused("note_write", **request).code == "too_large"
    house.write("a.md", "short\n")
    answer = house.call("note_write", **request)
    assert (answer["written"], "replayed" in answer) == (True, False)
    assert house.bytes("a.md") == b"short\n" + b"y" * 5_000


async def _at_once(house: House, tool: str, count: int) -> Sequence[Any]:
    arguments = {**TOOLS[tool], "idempotency_key": "k"}
    calls = (house.app.dispatcher.call(tool, arguments, CALLER) for _ in range(count))
    return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.requirement("edit.once")
@EACH
def test_of_many_calls_with_one_key_at_once_one_is_made(house: House, tool: str) -> None:
    house.fill(a="start\n")
    outcomes = asyncio.run(_at_once(house, tool, 8))
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors:
        assert isinstance(error, VaultError)
        assert (error.code, error.hint) == ("unavailable", "Send it again in a moment.")
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert sum(answer.replayed is None for answer in answers) == 1
    assert len({answer.etag for answer in answers}) == 1
    assert house.bytes("a.md").count(b"line") == 1
    assert house.call(tool, **TOOLS[tool], idempotency_key="k")["replayed"] is True
    assert kept(house) == 1


@pytest.mark.requirement("edit.once")
@EACH
def test_a_key_outlives_the_server(tmp_path: Path, tool: str) -> None:
    for round_ in range(3):
        with opened(tmp_path / "vault", tmp_path / "state") as house:
            answer = house.call(tool, **TOOLS[tool], idempotency_key="k")
            assert answer.get("replayed", False) is (round_ > 0)
            assert house.bytes("a.md").count(b"line") == 1


def _crash(*_: object) -> None:
    raise SystemExit


@pytest.mark.requirement("edit.once")
@pytest.mark.parametrize("last", ["finish", "fulfil"])
@pytest.mark.parametrize("then", [b"", b"theirs\n"])
def test_a_write_whose_answer_was_lost_is_found(
    house: House, monkeypatch: pytest.MonkeyPatch, last: str, then: bytes
) -> None:
    """The server dies right after the write: its entry is open, or only its key."""
    house.fill(a="start\n")
    arguments = {**TOOLS["note_write"], "idempotency_key": "k"}
    with monkeypatch.context() as dying:
        dying.setattr(house.app.history, "fulfil", _crash)
        if last == "finish":
            dying.setattr(house.app.history, "finish", lambda _: None)
        with pytest.raises(SystemExit):
            house.call("note_write", **arguments)
    if then:
        by(house, "other", "note_write", path="a.md", content=then.decode(), mode="append")
    answer = house.call("note_write", **arguments)
    assert (answer["replayed"], answer["etag"]) == (True, etag_of(b"start\nline\n"))
    assert house.bytes("a.md") == b"start\nline\n" + then


@pytest.mark.requirement("edit.once")
@pytest.mark.parametrize("former", ["other\n", "line\n"])
def test_a_write_that_was_only_announced_is_made_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    """The server dies between the word that it will write and the write."""
    arguments = {"path": "a.md", "content": "line\n", "mode": "overwrite", "idempotency_key": "k"}
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        write(house, "a.md", former, "overwrite")
        write(house, "a.md", "now\n", "overwrite")
        history = house.app.history
        announce = history.expect

        def last_word(*about: Any) -> None:
            announce(*about)
            _crash()

        with monkeypatch.context() as dying:
            dying.setattr(history, "expect", last_word)
            dying.setattr(history, "release", lambda *_: None)
            dying.setattr(history, "drop", lambda _: None)
            with pytest.raises(SystemExit):
                house.call("note_write", **arguments)
        assert house.bytes("a.md") == b"now\n"
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        answer = house.call("note_write", **arguments)
        assert house.bytes("a.md") == b"line\n"
        assert (answer["written"], "replayed" in answer) == (True, False)


@pytest.mark.requirement("edit.once")
def test_a_dry_run_does_not_use_its_key_up(tmp_path: Path) -> None:
    arguments = {**TOOLS["note_write"], "idempotency_key": "k"}
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="dry-run") as house:
        for _ in range(2):
            answer = house.call("note_write", **arguments)
            assert (answer["dry_run"], "replayed" in answer) == (True, False)
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        answer = house.call("note_write", **arguments)
        assert (answer["written"], "replayed" in answer) == (True, False)
        assert house.bytes("a.md") == b"line\n"


def test_a_caller_is_told_apart_by_name_alone(house: House) -> None:
    """A client that connects again gets a new session and is still itself."""
    for session in ("s1", "s2"):
        caller = Caller("agent", session)
        arguments = {**TOOLS["note_write"], "idempotency_key": "k"}
        asyncio.run(house.app.dispatcher.call("note_write", arguments, caller))
    assert house.bytes("a.md") == b"line\n"
