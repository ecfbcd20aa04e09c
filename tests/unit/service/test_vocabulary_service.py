"""list_tags, list_properties and recent_changes, as an agent calls them."""

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from server.catalog import vocabulary as operations
from server.catalog.dispatch import Dispatcher
from server.errors import InvalidRequest, PermissionDenied, VaultError
from server.service.freshness import Clock
from server.service.vocabulary import Vocabulary, moment
from server.vault.obsidian import ObsidianLinks
from server.workers import Workers

from .house import CALLER, House, hiding


class Desk:
    """The operations over a house."""

    def __init__(self, house: House, local: Workers) -> None:
        app = house.app
        clock = Clock(app.guard, app.scanner)
        access = hiding("secret")
        vocabulary = Vocabulary(app.index, access, clock, lambda: ObsidianLinks("V"), local)
        table = (operations.LIST_TAGS, operations.LIST_PROPERTIES, operations.RECENT_CHANGES)
        service = SimpleNamespace(vocabulary=vocabulary)
        self._dispatcher = Dispatcher(table, service, app.telemetry)
        self.house = house

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        output = asyncio.run(self._dispatcher.call(tool, arguments, CALLER))
        return output.model_dump(mode="json", exclude_none=True)


@pytest.fixture
def desk(house: House) -> Iterator[Desk]:
    local = Workers("test", size=2)
    yield Desk(house, local)
    local.close()


def test_tags_are_counted_where_the_caller_may_look(desk: Desk) -> None:
    desk.house.fill(**{"a": "#x/y", "in/b": "#X #z", "secret/c": "#x #mine"})
    assert desk.call("list_tags", limit=2) == {
        "tags": [{"tag": "x", "count": 2, "direct": 1}, {"tag": "x/y", "count": 1, "direct": 1}],
        "total": 3, "truncated": True,
    }  # fmt: skip
    assert desk.call("list_tags", prefix="#X/", sort="name")["total"] == 1
    assert [t["tag"] for t in desk.call("list_tags", path_scope=["in"])["tags"]] == ["x", "z"]
    with pytest.raises(PermissionDenied):
        desk.call("list_tags", path_scope=["secret"])


def test_a_new_note_counts_at_once(desk: Desk) -> None:
    desk.house.call("note_upsert", path="a.md", content="#one", frontmatter={"state": "open"})
    assert desk.call("list_tags")["tags"] == [{"tag": "one", "count": 1, "direct": 1}]
    desk.house.call("note_upsert", path="a.md", content="#two")
    assert desk.call("list_tags")["total"] == 2
    assert desk.call("list_properties")["properties"] == [
        {"key": "state", "count": 1, "types": {"text": 1}, "values": {"open": 1}}
    ]


def test_properties_are_told_in_the_words_of_obsidian(desk: Desk) -> None:
    desk.house.fill(
        a="---\nn: 5\nok: true\nl: [x]\nd: 2026-01-02\ne:\no: {a: 1}\nt: " + "x" * 60 + "\n---\n",
        **{"secret/b": "---\nn: 6\nhidden: 1\n---\n"},
    )
    answer = desk.call("list_properties", sort="name")
    assert {p["key"]: p["types"] for p in answer["properties"]} == {
        "d": {"date": 1}, "e": {"empty": 1}, "l": {"list": 1}, "n": {"number": 1},
        "o": {"object": 1}, "ok": {"checkbox": 1}, "t": {"text": 1},
    }  # fmt: skip
    values = {p["key"]: p["values"] for p in answer["properties"]}
    assert (values["n"], values["ok"]) == ({"5": 1}, {"true": 1})
    assert values["t"] == {"x" * 39 + "…": 1}
    assert answer["total"] == 7


def test_changes_tell_what_became_of_notes(desk: Desk) -> None:
    desk.house.fill(**{"a": "# A\n", "b": "", "secret/s": "", "in/c": ""})
    desk.house.write("a.md", "# A2\n", age=50)
    (desk.house.folder / "b.md").unlink()
    desk.house.scan()
    answer = desk.call("recent_changes", since="1h")
    told = {(c["path"], c["change"], c.get("title")) for c in answer["changes"]}
    assert told == {("a.md", "created", "A2"), ("in/c.md", "created", "c")}
    assert answer["changes"][0]["obsidian_url"] == "obsidian://open?vault=V&file=a.md"
    assert (answer["total"], answer["truncated"]) == (2, False)
    assert answer["log_since"] > answer["since"]
    assert desk.call("recent_changes", path_scope=["in"])["total"] == 1
    assert desk.call("recent_changes", limit=1)["truncated"] is True
    later = desk.call("recent_changes", since="2999-01-01")
    assert (later["changes"], "log_since" in later) == ([], False)


def test_a_move_tells_where_the_note_was(desk: Desk) -> None:
    desk.house.fill(**{"old": "some words that stay\n", "x": "1"})
    first = desk.house.app.index.changes(0)[1]
    assert first is not None
    os.rename(desk.house.folder / "old.md", desk.house.folder / "new.md")
    desk.house.scan()
    changes = desk.call("recent_changes", since="1h")["changes"]
    # It was made within the hour, so it is simply a new note.
    assert {(c["path"], c["change"]) for c in changes} == {
        ("new.md", "created"),
        ("x.md", "created"),
    }


def test_a_moment_can_be_told_in_many_ways() -> None:
    now = 1_800_000_000_000_000_000
    minute = 60_000_000_000
    assert moment("30m", now) == now - 30 * minute
    assert moment(" 2H ", now) == now - 120 * minute
    assert moment("1w", now) == now - 7 * 24 * 60 * minute
    assert moment("999999w", now) == 0
    assert moment("1970-01-02", now) == 24 * 60 * minute
    assert moment("1970-01-01T01:00", now) == moment("1970-01-01T02:00+01:00", now) == 60 * minute
    assert moment("0001-01-01", now) == 0
    for bad in ("", "soon", "-1d", "1y", "2026-13-01", "9" * 400):
        with pytest.raises(InvalidRequest):
            moment(bad, now)


@pytest.mark.parametrize("tool", ["list_tags", "list_properties", "recent_changes"])
def test_a_scope_must_be_a_folder_of_the_vault(desk: Desk, tool: str) -> None:
    with pytest.raises(VaultError) as caught:
        desk.call(tool, path_scope=["../x"])
    assert caught.value.code == "invalid_path"
