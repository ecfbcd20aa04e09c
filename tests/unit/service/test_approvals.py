"""WRITE_MODE=confirm: a write waits, is made as it was shown or not at all, and only once."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.access.tokens import TokenStore
from server.errors import Conflict, NotFound, PermissionDenied, RateLimited, VaultError
from server.models import Caller
from server.vault.paths import parse_folder
from tests.doors.connect import ENVIRONMENT
from tests.drive.processes import wait_for

from .edits import kept, tree
from .house import CALLER, House, opened
from .test_write_modes import ARGUMENTS, WITHOUT_DIFF, WRITING

OWNER = Caller("owner", door="cli", admin=True)
PAST = "# Head\ntext\n"


def prepared(folder: Path, state: Path) -> None:
    """A vault with a past, made while writing was on."""
    with opened(folder, state) as house:
        house.fill(other="[[note#Head]]\n", **{"adr/ADR-001-x": "---\nstatus: accepted\n---\n"})
        house.call("note_upsert", path="note.md", content=PAST)
        house.call("note_write", path="note.md", content="more\n", mode="append")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    prepared(tmp_path / "vault", tmp_path / "state")
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="confirm") as made:
        yield made


def contents(house: House) -> dict[str, bytes | None]:
    return {path: None if what is None else what[0] for path, what in tree(house).items()}


def approve(house: House, answer: dict[str, Any], by: Caller = OWNER) -> dict[str, Any]:
    return asyncio.run(house.app.service.approving.approve(by, answer["pending"]["approval"]))


def deny(house: House, answer: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    approving = house.app.service.approving
    return asyncio.run(approving.deny(OWNER, answer["pending"]["approval"], reason))


def refusal(house: House, answer: dict[str, Any]) -> VaultError:
    with pytest.raises(VaultError) as caught:
        approve(house, answer)
    return caught.value


def state(house: House, answer: dict[str, Any]) -> str:
    approving = house.app.service.approving
    shown = asyncio.run(approving.show(OWNER, answer["pending"]["approval"]))
    return str(shown["state"])


def append(house: House, text: str, path: str = "note.md", **more: Any) -> dict[str, Any]:
    return house.call("note_write", path=path, content=text, mode="append", **more)


# -- every operation ------------------------------------------------------------------------------


@pytest.mark.requirement("confirm.waits")
@pytest.mark.parametrize("tool", WRITING)
def test_every_writing_operation_waits(house: House, tool: str) -> None:
    before, entries = tree(house), kept(house)
    answer = house.call(tool, **ARGUMENTS[tool])
    pending = answer["pending"]
    assert answer["dry_run"] is True
    assert answer.get("written", False) is answer.get("applied", False) is False
    assert "Nothing is written yet" in pending["hint"]
    assert "vault-mcp approvals" in pending["hint"]
    assert pending["expires"].endswith("Z")
    if tool not in WITHOUT_DIFF:
        assert "--- " in answer["diff"]
    assert tree(house) == before
    assert kept(house) == entries
    assert len(house.app.journal) == len(house.app.plans) == 0
    assert house.call(tool, **ARGUMENTS[tool])["pending"] == pending, "it waits once"
    (row,) = asyncio.run(house.app.service.approving.listed(OWNER))
    assert (row["tool"], row["caller"], row["state"]) == (tool, CALLER.name, "waiting")


@pytest.mark.requirement("confirm.applied")
@pytest.mark.parametrize("tool", WRITING)
@pytest.mark.parametrize("way", ["queue", "client"])
def test_what_was_approved_is_what_would_have_been_written(
    house: House, tmp_path: Path, tool: str, way: str
) -> None:
    prepared(tmp_path / "twin", tmp_path / "twin-state")
    with opened(tmp_path / "twin", tmp_path / "twin-state") as twin:
        direct = twin.call(tool, **ARGUMENTS[tool])
        expected = contents(twin)
    answer = house.call(tool, **ARGUMENTS[tool])
    entries = kept(house)
    if way == "queue":
        told = approve(house, answer)
        assert (told["state"], told["by"]) == ("applied", "owner")
    else:
        brought = replace(CALLER, approval=answer["pending"]["approval"])
        output = asyncio.run(house.app.dispatcher.call(tool, ARGUMENTS[tool], brought))
        said = output.model_dump(exclude_none=True)
        assert said.keys() == direct.keys(), "the answer is that of a write"
        assert state(house, answer) == "applied"
    marker = {".vault-mcp": b""}
    assert {**contents(house), **marker} == {**expected, **marker}
    assert kept(house) > entries
    assert len(house.app.journal) == len(house.app.plans) == 0
    with pytest.raises(Conflict, match="applied already"):
        approve(house, answer)


@pytest.mark.requirement("confirm.applied")
@pytest.mark.parametrize("tool", WRITING)
def test_what_was_denied_is_never_written(house: House, tool: str) -> None:
    before = tree(house)
    answer = house.call(tool, **ARGUMENTS[tool])
    told = deny(house, answer, "no")
    assert (told["state"], told["by"], told["reason"]) == ("denied", "owner", "no")
    assert isinstance(refusal(house, answer), Conflict)
    assert tree(house) == before


def test_a_write_that_changes_nothing_waits_for_nothing(house: House) -> None:
    answer = house.call("note_write", path="note.md", content=PAST + "more\n", mode="overwrite")
    assert "pending" not in answer
    assert "dry_run" not in answer
    assert house.app.service.approving.waiting() == 0


def test_what_could_not_be_written_does_not_wait(house: House) -> None:
    assert (
        house.refused("note_write", path="note.md", content="x", mode="create").code == "conflict"
    )
    assert house.refused("note_delete", path="none.md").code == "not_found"
    assert house.app.service.approving.waiting() == 0


# -- what happens meanwhile -----------------------------------------------------------------------


@pytest.mark.requirement("confirm.outdated")
@pytest.mark.parametrize("way", ["queue", "client"])
def test_a_note_that_was_edited_underneath_is_left_alone(house: House, way: str) -> None:
    answer = append(house, "agent\n")
    house.write("note.md", PAST + "person\n")
    if way == "queue":
        error = refusal(house, answer)
    else:
        brought = replace(CALLER, approval=answer["pending"]["approval"])
        arguments = {"path": "note.md", "content": "agent\n", "mode": "append"}
        with pytest.raises(Conflict) as caught:
            asyncio.run(house.app.dispatcher.call("note_write", arguments, brought))
        error = caught.value
    assert error.code == "conflict"
    assert "note.md" in error.message
    assert house.bytes("note.md") == PAST.encode() + b"person\n"
    assert state(house, answer) == "outdated"
    assert len(house.app.journal) == len(house.app.plans) == 0


@pytest.mark.requirement("confirm.outdated")
def test_one_changed_note_of_several_stops_all(house: House) -> None:
    edits = [{"path": f"{name}.md", "mode": "append", "content": "x"} for name in ("note", "other")]
    answer = house.call("notes_edit", edits=edits)
    house.write("other.md", "changed")
    assert refusal(house, answer).code == "conflict"
    assert house.bytes("note.md") == PAST.encode() + b"more\n"


def test_a_new_note_whose_place_was_taken_is_not_made(house: House) -> None:
    answer = house.call("note_upsert", path="new.md", content="agent")
    house.write("new.md", "person")
    assert refusal(house, answer).code == "conflict"
    assert house.bytes("new.md") == b"person"


@pytest.mark.parametrize("change", ["note", "new", "attachment"])
def test_a_folder_that_is_not_what_it_was_is_not_moved(house: House, change: str) -> None:
    house.write("in/a.md", "[[b]]")
    house.write("in/b.md", "b")
    house.write("in/c.png", b"\x89PNG")
    house.scan()
    answer = house.call("note_move", **{"from": "in", "to": "out"})
    path = {"note": "in/b.md", "new": "in/d.md", "attachment": "in/c.png"}[change]
    house.write(path, "another content")
    assert refusal(house, answer).code == "conflict"
    assert not (house.folder / "out").exists()


def test_a_folder_moves_with_its_links(house: House) -> None:
    house.write("in/a.md", "[[in/b]]")
    house.write("in/b.md", "b")
    house.write("up.md", "[[in/b]]")
    house.scan()
    answer = house.call("note_move", **{"from": "in", "to": "out"})
    assert approve(house, answer)["state"] == "applied"
    assert (house.bytes("up.md"), house.bytes("out/a.md")) == (b"[[out/b]]", b"[[out/b]]")
    versions = house.call("note_history", path="out/b.md")["versions"]
    assert versions[0]["moved_from"] == "in/b.md"


def test_two_of_the_same_name_go_to_the_trash(house: House) -> None:
    house.fill(**{"a/x": "a", "b/x": "b"})
    answers = [house.call("note_delete", path=path) for path in ("a/x.md", "b/x.md")]
    for answer in answers:
        assert approve(house, answer)["state"] == "applied"
    assert {file.read_text() for file in (house.folder / ".trash").iterdir()} == {"a", "b"}


def test_of_many_who_approve_at_once_one_writes(house: House) -> None:
    answers = [append(house, f"line {number}\n", f"new{number}.md") for number in range(4)]

    def decide(number: int) -> str:
        try:
            told = (approve if number % 3 else deny)(house, answers[number % 4])
        except Conflict:
            return "late"
        return str(told["state"])

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(decide, range(16)))
    assert len(said) - said.count("late") == 4
    applied = sum(state(house, answer) == "applied" for answer in answers)
    assert said.count("applied") == applied == len(list(house.folder.glob("new*.md")))


def test_what_waits_survives_a_restart(house: House, tmp_path: Path) -> None:
    answer = append(house, "agent\n")
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="confirm") as other:
        assert approve(other, answer)["state"] == "applied"
    assert house.bytes("note.md") == PAST.encode() + b"more\nagent\n"
    assert isinstance(refusal(house, answer), Conflict)


def test_a_queue_that_is_full_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.approvals.store.MOST_EACH", 1)
    append(house, "one\n")
    error = house.refused("note_write", path="note.md", content="two\n", mode="append")
    assert isinstance(error, RateLimited)


# -- dying in between -----------------------------------------------------------------------------

DYING = """
import asyncio, os, signal, sys
from server.app import open_app
from server.models import Caller
from server.settings import load
from server.vault.plans import Plans
made = Plans.carry_out
def carry_out(self, *args, **kwargs):
    if sys.argv[2] == "after":
        made(self, *args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
Plans.carry_out = carry_out
with open_app(load()) as app:
    app.guard.looked.wait(10)
    owner = Caller("owner", admin=True)
    asyncio.run(app.service.approving.approve(owner, sys.argv[1]))
"""


@pytest.mark.requirement("confirm.crash")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_9_between_the_claim_and_the_write_neither_loses_nor_doubles(
    tmp_path: Path, moment: str
) -> None:
    folder, state_dir = tmp_path / "vault", tmp_path / "state"
    prepared(folder, state_dir)
    with opened(folder, state_dir, WRITE_MODE="confirm") as house:
        answer = append(house, "agent\n")
    environ = {
        "VAULT_PATH": str(folder), "STATE_DIR": str(state_dir), "WRITE_MODE": "confirm",
        "SCAN_INTERVAL": "3600",
    }  # fmt: skip
    command = [sys.executable, "-c", DYING, answer["pending"]["approval"], moment]
    ended = subprocess.run(
        command, env={**ENVIRONMENT, **environ}, check=False, capture_output=True, timeout=60
    )
    assert ended.returncode == -9, ended.stderr
    with opened(folder, state_dir, WRITE_MODE="confirm") as house:
        wait_for(lambda: state(house, answer) == "applied")
        assert house.bytes("note.md") == PAST.encode() + b"more\nagent\n"
        wait_for(lambda: house.call("note_history", path="note.md")["total"] == 3)
        assert isinstance(refusal(house, answer), Conflict)


# -- rules ----------------------------------------------------------------------------------------

POLICY = """
rules:
  - {path: "", read_allow: true, write_allow: true}
  - {path: asked, write_mode: confirm}
  - {path: shown, write_mode: dry-run}
  - {path: shut, write_mode: "off"}
callers:
  blind:
    rules:
      - {path: asked, read_deny: true}
  free:
    rules:
      - {path: asked/free, write_mode: "on"}
  careful:
    write_mode: confirm
"""


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[House]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with opened(tmp_path / "vault", tmp_path / "state", POLICY_FILE=str(policy)) as house:
        house.fill(**{"asked/a": "a", "shown/a": "a", "shut/a": "a", "open/a": "a"})
        yield house


def call(house: House, caller: str, tool: str, **arguments: Any) -> dict[str, Any]:
    output = asyncio.run(house.app.dispatcher.call(tool, arguments, Caller(caller)))
    return output.model_dump(exclude_none=True)


@pytest.mark.requirement("confirm.rules")
def test_the_rule_of_the_path_decides(ruled: House) -> None:
    assert "pending" in append(ruled, "x", "asked/a.md")
    assert "pending" in append(ruled, "x", "ASKED/new.md")
    shown = append(ruled, "x", "shown/a.md")
    assert (shown["dry_run"], "pending" in shown) == (True, False)
    error = ruled.refused("note_write", path="shut/a.md", content="x", mode="append")
    assert error.code == "permission_denied"
    assert append(ruled, "x", "open/a.md")["written"] is True
    assert append(ruled, "x", "asked.md")["written"] is True
    assert [ruled.bytes(f"{name}/a.md") for name in ("asked", "shown", "shut")] == [b"a"] * 3


@pytest.mark.requirement("confirm.rules")
def test_a_caller_has_a_mode_of_its_own(ruled: House) -> None:
    write = {"path": "asked/free/a.md", "content": "x", "mode": "append"}
    assert call(ruled, "free", "note_write", **write)["written"] is True
    assert "pending" in call(ruled, "careful", "note_write", **{**write, "path": "open/a.md"})


@pytest.mark.requirement("confirm.rules")
@pytest.mark.parametrize(
    ("folders", "expected"),
    [(("open", "asked"), "pending"), (("asked", "shown"), "dry_run"), (("open",), "done"),
     (("shown", "shut"), "refused")],
)  # fmt: skip
def test_the_strictest_mode_counts_for_a_batch(
    ruled: House, folders: tuple[str, ...], expected: str
) -> None:
    before = contents(ruled)
    edits = [{"path": f"{name}/a.md", "mode": "append", "content": "x"} for name in folders]
    if expected == "refused":
        assert ruled.refused("notes_edit", edits=edits).code == "permission_denied"
    else:
        answer = ruled.call("notes_edit", edits=edits)
        assert ("pending" in answer) == (expected == "pending")
        assert ("dry_run" in answer) == (expected != "done")
    assert (contents(ruled) == before) == (expected != "done")


def test_a_move_out_of_a_guarded_folder_waits(ruled: House) -> None:
    answer = ruled.call("note_move", **{"from": "asked/a.md", "to": "open/b.md"})
    assert answer["pending"]
    assert approve(ruled, answer)["state"] == "applied"
    assert ruled.bytes("open/b.md") == b"a"


@pytest.mark.parametrize(("target", "expected"), [("asked", "pending"), ("shown", "dry_run")])
def test_a_link_is_no_way_around(ruled: House, target: str, expected: str) -> None:
    (ruled.folder / "open/link.md").symlink_to(f"../{target}/a.md")
    answer = append(ruled, "x", "open/link.md")
    assert expected in answer
    assert ruled.bytes(f"{target}/a.md") == b"a"
    (ruled.folder / "open/shut.md").symlink_to("../shut/a.md")
    error = ruled.refused("note_write", path="open/shut.md", content="x", mode="append")
    assert error.code == "permission_denied"


def test_a_batch_through_a_link_is_no_way_around(ruled: House) -> None:
    (ruled.folder / "open/link").symlink_to("../asked")
    error = ruled.refused("note_move", **{"from": "open/a.md", "to": "open/link/b.md"})
    assert error.code == "permission_denied"
    assert "asked" not in error.message
    assert (ruled.bytes("open/a.md"), (ruled.folder / "asked/b.md").exists()) == (b"a", False)
    assert len(ruled.app.journal) == len(ruled.app.plans) == 0


def test_who_may_not_read_sees_no_diff(ruled: House) -> None:
    ruled.write("asked/a.md", "the secret line\n")
    answer = call(ruled, "blind", "note_upsert", path="asked/A.md", content="mine")
    assert answer["pending"]
    assert "secret" not in str(answer)
    assert "diff" not in answer
    arguments = {"path": "asked/A.md", "content": "mine"}
    id = answer["pending"]["approval"]
    question = asyncio.run(
        ruled.app.service.approving.question(Caller("blind"), "note_upsert", arguments, id)
    )
    assert "asked/A.md" in question.message
    assert "asked/a.md" not in question.message, "how it is spelled is none of its business"
    assert "secret" not in question.message
    shown = asyncio.run(ruled.app.service.approving.show(OWNER, id))
    assert "the secret line" in shown["diff"]
    assert approve(ruled, answer)["state"] == "applied"
    assert ruled.bytes("asked/a.md") == b"the secret line\n\nmine"


def test_what_the_rules_forbid_by_now_is_not_written(ruled: House, tmp_path: Path) -> None:
    answer = append(ruled, "x", "asked/a.md")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        POLICY.replace("path: asked, write_mode: confirm", "path: asked, write_deny: true")
    )
    write = {"path": "asked/new.md", "content": "x", "mode": "create"}

    def is_read_again() -> bool:
        try:
            ruled.call("note_write", **write)
        except PermissionDenied:
            return True
        return False

    wait_for(is_read_again)
    assert isinstance(refusal(ruled, answer), PermissionDenied)
    assert ruled.bytes("asked/a.md") == b"a"
    assert state(ruled, answer) == "waiting"


# -- who --------------------------------------------------------------------------------------------


def test_only_administrators_decide_or_look(house: House) -> None:
    answer = append(house, "x")
    approving, id = house.app.service.approving, answer["pending"]["approval"]
    for ask in (
        approving.listed(CALLER),
        approving.show(CALLER, id),
        approving.approve(CALLER, id),
        approving.deny(CALLER, id),
    ):
        with pytest.raises(PermissionDenied):
            asyncio.run(ask)
    assert state(house, answer) == "waiting"


def test_the_history_names_who_asked_and_who_approved(house: House) -> None:
    approve(house, append(house, "x\n"))
    version = house.call("note_history", path="note.md")["versions"][0]
    assert (version["by"], version["tool"]) == ("tester", "note_write, approved by owner")


def test_somebody_elses_approval_opens_nothing(house: House) -> None:
    answer = append(house, "x\n")
    arguments = {"path": "note.md", "content": "x\n", "mode": "append"}
    stranger = Caller("stranger", approval=answer["pending"]["approval"])
    with pytest.raises(NotFound):
        asyncio.run(house.app.dispatcher.call("note_write", arguments, stranger))
    other = {**arguments, "content": "y\n"}
    brought = replace(CALLER, approval=answer["pending"]["approval"])
    with pytest.raises(Conflict):
        asyncio.run(house.app.dispatcher.call("note_write", other, brought))
    assert house.bytes("note.md") == PAST.encode() + b"more\n"


def test_a_caller_whose_token_was_revoked_writes_nothing_more(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "state", parse_folder)
    store.create("tester")
    environ = {"WRITE_MODE": "confirm", "AUTH": "token"}
    with opened(tmp_path / "vault", tmp_path / "state", **environ) as house:
        first, second = append(house, "x\n"), append(house, "y\n")
        store.revoke("tester")
        assert isinstance(refusal(house, first), PermissionDenied)
        assert not (house.folder / "note.md").exists()
        store.create("tester")
        assert approve(house, second)["state"] == "applied"


# -- beside it ------------------------------------------------------------------------------------


def test_a_key_is_not_used_up_by_a_write_that_waits(house: House) -> None:
    first = append(house, "x\n", idempotency_key="k")
    assert append(house, "x\n", idempotency_key="k")["pending"] == first["pending"]
    brought = replace(CALLER, approval=first["pending"]["approval"])
    arguments = {"path": "note.md", "content": "x\n", "mode": "append", "idempotency_key": "k"}
    made = asyncio.run(house.app.dispatcher.call("note_write", arguments, brought))
    assert made.model_dump()["written"] is True
    assert append(house, "x\n", idempotency_key="k")["replayed"] is True
    assert house.bytes("note.md").count(b"x\n") == 1


def test_health_tells_administrators_how_many_wait(house: House) -> None:
    append(house, "x\n")
    assert "approvals" not in house.call("health_check")["queue"]
    health = asyncio.run(house.app.dispatcher.call("health_check", {}, OWNER))
    assert health.model_dump()["queue"]["approvals"] == 1


def test_the_metrics_tell_what_waits_and_what_became_of_it(house: House) -> None:
    answers = [append(house, "x\n", f"{name}.md") for name in "abc"]
    wait_for(lambda: house.metric("vault_approvals_waiting") == 3)
    approve(house, answers[0])
    deny(house, answers[1])
    wait_for(lambda: house.metric("vault_approvals_waiting") == 1)
    wait_for(lambda: house.metric("vault_approvals_total", outcome="applied") == 1)
    wait_for(lambda: house.metric("vault_approvals_total", outcome="denied") == 1)


class Noted:
    """A trail that remembers."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str | None, str | None, int]] = []

    def decided(self, action: str, path: str, allowed: bool, rule: str) -> None:
        pass

    def changed(self, path: str, before: str | None, after: str | None, size: int) -> None:
        self.changes.append((path, before, after, size))


def test_the_trail_tells_what_was_changed_and_nothing_of_what_waits(house: House) -> None:
    first, noted = append(house, "x\n"), Noted()
    etag = house.call("note_read", path="note.md")["etag"]
    approve(house, first, replace(OWNER, trail=noted))
    after = house.call("note_read", path="note.md")["etag"]
    assert noted.changes == [("note.md", etag, after, len(house.bytes("note.md")))]
