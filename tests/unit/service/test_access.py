"""What callers get who may read or write only some folders, whatever way they take."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.access import policy as policies
from server.errors import VaultError
from server.models import Caller, Grant
from tests.drive.processes import wait_for

from .house import House, opened

EVE = Caller("eve")
RULES: dict[str, Any] = {
    "callers": {
        "owner": {"rules": [{"path": "/", "read_allow": True, "write_allow": True}], "admin": True},
        "eve": {
            "rules": [
                {"path": "pub", "read_allow": True, "write_allow": True},
                {"path": "pub/own.md", "read_deny": True, "write_deny": True},
                {"path": "seen", "read_allow": True},
                {"path": "inbox", "write_allow": True},
                {"path": "secret/open.md", "read_allow": True},
            ]
        },
        "small": {"rules": [{"path": "/", "read_allow": True}], "toolsets": ["core"]},
    }
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(policies, "_LOOK_SECONDS", -1.0)
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(RULES))
    with opened(tmp_path / "vault", tmp_path / "state", POLICY_FILE=str(file)) as made:
        yield made


def ask(house: House, tool: str, caller: Caller = EVE, /, **arguments: Any) -> dict[str, Any]:
    output = asyncio.run(house.app.dispatcher.call(tool, arguments, caller))
    return output.model_dump(mode="json", exclude_none=True)


def refusal(house: House, tool: str, caller: Caller = EVE, /, **arguments: Any) -> VaultError:
    with pytest.raises(VaultError) as caught:
        ask(house, tool, caller, **arguments)
    return caught.value


def listed(house: House, caller: Caller = EVE, **arguments: Any) -> list[str]:
    answer = ask(house, "vault_list", caller, depth=9, **arguments)
    assert answer["total"] == len(answer["entries"])
    return [entry["path"] for entry in answer["entries"]]


def test_folders_are_listed_that_are_open_or_hold_something_open(house: House) -> None:
    house.fill(**{"pub/a": "", "pub/own": "", "secret/open": "", "secret/in/x": "", "other/y": ""})
    assert listed(house) == ["pub", "pub/a.md", "secret", "secret/open.md"]
    assert listed(house, path="secret") == ["secret/open.md"]
    assert refusal(house, "vault_list", path="other").code == "permission_denied"
    assert refusal(house, "vault_list", path="secret/in").code == "permission_denied"
    (house.folder / "secret/open.md").unlink()
    house.scan()
    assert listed(house) == ["pub", "pub/a.md"]
    assert refusal(house, "vault_list", path="secret").code == "not_found"


def test_a_token_for_one_folder_sees_that_folder_alone(house: House) -> None:
    house.fill(**{"pub/a": "zebra", "pub/in/b": "zebra #t", "seen/c": "zebra"})
    narrow = Caller("eve", grant=Grant(read=("pub/in",), write=()))
    assert listed(house, narrow) == ["pub", "pub/in", "pub/in/b.md"]
    assert ask(house, "search_notes", narrow, query="zebra")["total"] == 1
    assert ask(house, "vault_search", narrow, query="zebra")["total"] == 1
    assert ask(house, "context_pack", narrow, question="zebra")["matched"] == 1
    assert refusal(house, "note_read", narrow, path="pub/a.md").code == "permission_denied"
    assert refusal(house, "note_upsert", narrow, path="pub/in/b.md", content="x").code == (
        "permission_denied"
    )


def test_who_may_write_but_not_read_learns_nothing_of_what_is_there(house: House) -> None:
    house.fill(**{"inbox/Old": "before"})
    answers = [
        ask(house, "note_upsert", path=path, content="mine", idempotency_key=f"k{path}")
        for path in ("inbox/new.md", "inbox/old.md")
    ]
    assert answers == [{"path": "inbox/new.md"}, {"path": "inbox/old.md"}]
    assert house.bytes("inbox/new.md") == b"mine"
    assert house.bytes("inbox/Old.md") == b"before\nmine"
    again = ask(
        house, "note_upsert", path="inbox/old.md", content="mine", idempotency_key="kinbox/old.md"
    )
    assert again == {"path": "inbox/old.md", "replayed": True}
    path = "inbox/Old.md"
    tried: dict[str, dict[str, Any]] = {
        "note_read": {"path": path},
        "note_write": {"path": path, "content": "x", "mode": "append"},
        "note_patch": {
            "path": path, "target": "text", "selector": "before", "operation": "delete",
        },
        "notes_edit": {"edits": [{"path": path, "content": "x", "mode": "append"}]},
        "note_move": {"from": path, "to": "pub/x.md"},
        "note_delete": {"path": path},
        "note_history": {"path": path},
        "note_restore": {"path": path},
        "heading_rename": {"path": path, "heading": "a", "to": "b"},
        "link_add": {"from": path, "to": "pub/a.md"},
        "attachment_write": {"path": "inbox/x.png", "data": "iVBORw0KGgo="},
    }  # fmt: skip
    for tool, arguments in tried.items():
        error = refusal(house, tool, EVE, **arguments)
        assert (error.code, "read" in error.message) == ("permission_denied", True), tool
    assert house.bytes("inbox/Old.md") == b"before\nmine"


def test_links_in_notes_that_may_not_be_written_stay_and_are_named(house: House) -> None:
    house.fill(**{
        "pub/a": "# Part\n", "pub/b": "[[a#Part]]", "seen/c": "[[a#Part]]", "secret/d": "[[a#Part]]",
    })  # fmt: skip
    renamed = ask(house, "heading_rename", path="pub/a.md", heading="Part", to="Piece")
    assert (renamed["links_updated"], renamed["notes_changed"]) == (1, ["pub/b.md"])
    assert renamed["notes_left"] == ["seen/c.md"]
    moved = ask(house, "note_move", **{"from": "pub/a.md", "to": "pub/z.md"})
    assert (moved["links_updated"], moved["notes_left"]) == (1, ["seen/c.md"])
    assert "secret" not in json.dumps([renamed, moved])
    assert house.bytes("pub/b.md") == b"[[z#Piece]]"
    assert house.bytes("seen/c.md") == house.bytes("secret/d.md") == b"[[a#Part]]"


def test_a_folder_with_something_closed_in_it_is_not_moved(house: House) -> None:
    house.fill(**{"pub/a": "", "pub/in/b": ""})
    error = refusal(house, "note_move", **{"from": "pub", "to": "pub/else"})
    assert error.code == "permission_denied", "pub/own.md is closed, whether it is there or not"
    ask(house, "note_move", **{"from": "pub/in", "to": "pub/out"})
    assert (house.folder / "pub/out/b.md").exists()


def test_an_etag_of_a_hidden_note_brings_nothing_of_it(house: House) -> None:
    owner = Caller("owner")
    house.fill(**{"pub/a": "one\ntwo\nthree\n"})
    for text in ("one\nhidden\n", "later\n"):
        ask(house, "note_write", owner, path="secret/s.md", content=text, mode="overwrite")
    etag = ask(house, "note_history", owner, path="secret/s.md")["versions"][0]["etag"]
    error = refusal(
        house, "note_write", path="pub/a.md", content="x", mode="overwrite", if_match=etag
    )
    assert error.code == "conflict"
    assert not error.details.get("diff")


@pytest.fixture
def linked(house: House) -> House:
    house.fill(**{"pub/a": "zebra", "secret/s": "zebra #hidden", "secret/open": "zebra"})
    os.symlink("../secret/s.md", house.folder / "pub/file.md")
    os.symlink("../secret", house.folder / "pub/folder")
    os.symlink("../secret/open.md", house.folder / "pub/fine.md")
    house.scan()
    return house


def test_a_link_opens_nothing_that_is_closed(linked: House) -> None:
    for path in ("pub/file.md", "pub/folder/s.md", "pub/folder/none.md", "pub/folder/x/none.md"):
        for tool in ("note_read", "note_info", "note_outline", "note_history"):
            if tool == "note_history" and "folder" in path:
                continue
            error = refusal(linked, tool, path=path)
            assert (error.code, error.message) == (
                "permission_denied", f"You may not read {path!r}.",
            )  # fmt: skip
    assert ask(linked, "note_read", path="pub/fine.md")["content"] == "zebra"


def test_nothing_shows_a_closed_note_under_the_name_of_a_link(linked: House) -> None:
    assert listed(linked, path="pub") == ["pub/a.md", "pub/fine.md"]
    assert ask(linked, "search_notes", query="zebra")["total"] == 3
    assert ask(linked, "vault_search", query="zebra")["total"] == 3
    assert ask(linked, "list_tags")["tags"] == []
    assert ask(linked, "note_read_many", glob="pub/*")["total"] == 2
    assert ask(linked, "list_tags", Caller("owner"))["tags"][0]["count"] == 2


def test_a_link_is_closed_while_the_vault_is_away_too(linked: House) -> None:
    linked.folder.rename(linked.folder.with_name("away"))
    linked.app.guard.wake()
    wait_for(lambda: not linked.app.guard.health.ok)
    assert ask(linked, "note_read", path="pub/a.md")["stale"] is True
    assert refusal(linked, "note_read", path="pub/file.md").code == "permission_denied"
    assert json.loads((next(linked.folder.parent.rglob("aliases.json"))).read_text()) == {
        "pub/file.md": "secret/s.md", "pub/fine.md": "secret/open.md",
    }  # fmt: skip


def test_nothing_is_written_through_a_link_into_a_closed_folder(linked: House) -> None:
    before = sorted(file.name for file in (linked.folder / "secret").rglob("*"))
    for tool, arguments in (
        ("note_upsert", {"path": "pub/folder/new.md", "content": "x"}),
        ("note_upsert", {"path": "pub/folder/deep/new.md", "content": "x"}),
        ("note_upsert", {"path": "pub/file.md", "content": "x"}),
        ("note_write", {"path": "pub/folder/s.md", "content": "x", "mode": "overwrite"}),
        ("note_move", {"from": "pub/a.md", "to": "pub/folder/a.md"}),
        ("note_move", {"from": "pub/a.md", "to": "pub/folder"}),
        ("note_move", {"from": "pub/folder/s.md", "to": "pub/mine.md"}),
        ("note_delete", {"path": "pub/folder/s.md"}),
        ("attachment_write", {"path": "pub/folder/x.png", "data": "iVBORw0KGgo="}),
    ):
        assert refusal(linked, tool, **arguments).code == "permission_denied", (tool, arguments)
    assert sorted(file.name for file in (linked.folder / "secret").rglob("*")) == before
    assert linked.bytes("secret/s.md") == b"zebra #hidden"


def test_counts_of_the_whole_vault_are_for_who_may_know_them(house: House) -> None:
    house.fill(**{"pub/a": ""})
    told = ask(house, "health_check")
    assert told["index"].keys() == {"last_scan"}
    assert not {"history", "queue"} & told.keys()
    assert ask(house, "health_check", Caller("owner"))["index"]["notes"] == 1


def test_a_broken_policy_shows_and_the_old_rules_stay(house: House, tmp_path: Path) -> None:
    house.fill(**{"pub/a": "", "secret/s": ""})
    assert house.metric("vault_policy_ok") == 1
    file = tmp_path / "policy.yaml"
    file.write_text("rules: [{path: /, read_allow: maybe}]")
    assert ask(house, "note_read", path="pub/a.md")["exists"]
    assert refusal(house, "note_read", path="secret/s.md").code == "permission_denied"
    told = ask(house, "health_check", Caller("owner"))
    assert (told["status"], told["policy"]["ok"]) == ("degraded", False)
    assert "rules[0].read_allow" in told["policy"]["problem"]
    assert "problem" not in ask(house, "health_check")["policy"]
    assert house.metric("vault_policy_ok") == 0
    file.write_text("rules: [{path: /, read_allow: true}]")
    assert ask(house, "note_read", path="secret/s.md")["exists"]
    assert house.metric("vault_policy_ok") == 1


def test_a_caller_has_the_tools_that_the_policy_gives_it(house: House) -> None:
    house.fill(a="")
    small, dispatcher = Caller("small"), house.app.dispatcher
    assert {op.toolset for op in dispatcher.listed_for(small)} == {"core"}
    assert dispatcher.listed_for(EVE) == dispatcher.listed
    assert ask(house, "note_read", small, path="a.md")["exists"]
    unknown = refusal(house, "no_such_tool", small)
    error = refusal(house, "search_notes", small, query="x")
    assert (error.code, error.hint) == (unknown.code, unknown.hint)
    assert error.message == "There is no tool named 'search_notes'."
