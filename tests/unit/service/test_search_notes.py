"""`search_notes` from its arguments to its answer."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.access.decision import Access
from server.catalog.dispatch import Dispatcher
from server.catalog.searching import SEARCH_NOTES
from server.errors import VaultError
from server.models import Caller
from server.service.freshness import Clock
from server.service.searching import Searching
from server.vault.obsidian import ObsidianLinks
from server.workers import Workers
from tests.drive.processes import wait_for

from .house import House, hiding, opened


class Desk:
    """The operation over a small vault, with links into a vault named V."""

    def __init__(self, house: House, access: Access | None = None) -> None:
        self.house = house
        app = house.app
        self.workers = Workers("search", size=1)
        searching = Searching(
            app.index,
            access or Access(),
            Clock(app.guard, app.scanner),
            lambda: ObsidianLinks("V"),
            self.workers,
        )
        self._dispatcher = Dispatcher(
            [SEARCH_NOTES], SimpleNamespace(searching=searching), app.telemetry
        )

    def search(self, **arguments: Any) -> dict[str, Any]:
        output = asyncio.run(self._dispatcher.call("search_notes", arguments, Caller("tester")))
        return output.model_dump(exclude_none=True)

    def paths(self, **arguments: Any) -> list[str]:
        return [item["path"] for item in self.search(**arguments)["items"]]

    def refused(self, **arguments: Any) -> VaultError:
        with pytest.raises(VaultError) as caught:
            self.search(**arguments)
        return caught.value


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        desk = Desk(house)
        yield desk
        desk.workers.close()


@pytest.fixture
def filled(desk: Desk) -> Desk:
    house = desk.house
    house.write(
        "projects/Alpha.md",
        "---\nstatus: Open\nrating: 5\ntags: [project/alpha]\n---\n# Alpha\nthe plan\n",
    )
    house.write(
        "projects/Beta.md",
        "---\nstatus: done\nrating: 3\ntags: [project]\n---\nthe beta plan #later\n",
    )
    house.write("notes/plan.md", "plain words about a café\n")
    house.scan()
    return desk


def test_an_item_has_all_that_the_contract_names(filled: Desk) -> None:
    answer = filled.search(mode="full_text", query="beta")
    assert (answer["total"], answer["truncated"]) == (1, False)
    (item,) = answer["items"]
    assert item.pop("modified_time").endswith("Z")
    assert 0 < item.pop("score") <= 1
    assert item == {
        "path": "projects/Beta.md",
        "title": "Beta",
        "snippet": "the **beta** plan #later",
        "tags": ["later", "project"],
        "properties": {"status": "done", "rating": 3},
        "obsidian_url": "obsidian://open?vault=V&file=projects%2FBeta.md",
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"mode": "tags", "tags": ["project"]}, ["projects/Alpha.md", "projects/Beta.md"]),
        ({"mode": "tags", "tags": ["#Project", "later"]}, ["projects/Beta.md"]),
        ({"mode": "tags", "tags": ["project/alpha", "later"], "tags_match": "any"},
         ["projects/Alpha.md", "projects/Beta.md"]),
        ({"mode": "properties", "properties": {"status": "open"}}, ["projects/Alpha.md"]),
        ({"mode": "properties", "properties": {"rating": {"gte": 3, "lt": 5}}}, ["projects/Beta.md"]),
        ({"mode": "properties", "properties": {"rating": [3, "5"]}}, ["projects/Alpha.md", "projects/Beta.md"]),
        ({"mode": "properties", "properties": {"status": {"exists": False}}}, ["notes/plan.md"]),
        ({"mode": "full_text", "query": "cafe"}, ["notes/plan.md"]),
        ({"query": "plan", "tags": ["project"], "properties": {"status": {"ne": "done"}}}, ["projects/Alpha.md"]),
        ({"query": "plan", "path_scope": ["Projects/"]}, ["projects/Alpha.md", "projects/Beta.md"]),
        ({"query": "plan", "path_scope": ["notes", "*/Beta.md"]}, ["notes/plan.md", "projects/Beta.md"]),
        ({"path_scope": ["notes"]}, ["notes/plan.md"]),
        ({"query": " ", "mode": "tags", "tags": ["later"]}, ["projects/Beta.md"]),
        ({"query": "nothing"}, []),
    ],
)  # fmt: skip
def test_every_mode(filled: Desk, arguments: dict[str, Any], found: list[str]) -> None:
    assert filled.paths(sort="path_asc", **arguments) == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Nothing to search for"),
        ({"mode": "tags"}, "needs 'tags'"),
        ({"mode": "properties"}, "needs 'properties'"),
        ({"mode": "full_text"}, "needs 'query'"),
        ({"mode": "full_text", "query": " "}, "needs 'query'"),
        ({"mode": "tags", "tags": ["a"], "query": "b"}, "takes no 'query'"),
        ({"mode": "full_text", "query": "b", "tags": ["a"]}, "takes no 'tags'"),
        ({"mode": "other"}, "mode"),
        ({"tags": ["#"]}, "A tag is empty"),
        ({"tags": ["x\ud800"]}, "valid Unicode"),
        ({"tags": ["x"] * 101}, "More than"),
        ({"properties": {"": 1}}, "name of a property is empty"),
        ({"properties": {"a": {}}}, "Nothing is asked of 'a'"),
        ({"properties": {"a": {"like": 1}}}, "no operator 'like'"),
        ({"properties": {"a": {"exists": 1}}}, "true or false"),
        ({"properties": {"a": {"in": 1}}}, "takes a list"),
        ({"properties": {"a": []}}, "takes a list"),
        ({"properties": {"a": {"gt": None}}}, "not null"),
        ({"properties": {"a": {"eq": [1]}}}, "a value is"),
        ({"properties": {"a": {"eq": {"b": 1}}}}, "a value is"),
        ({"properties": {"a": 10**200}}, "too large"),
        ({"query": "a OR"}, "character 5 of the query"),
        ({"query": "a", "path_scope": ["../x"]}, "'..'"),
        ({"query": "a", "path_scope": ["project"]}, "no folder or note 'project'"),
        ({"query": "a", "path_scope": ["x"] * 51}, "More than 50"),
        ({"query": "a", "limit": 0}, "limit"),
        ({"query": "a", "limit": 101}, "limit"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(
    filled: Desk, arguments: dict[str, Any], says: str
) -> None:
    error = filled.refused(**arguments)
    assert says in error.message
    assert error.hint


def test_a_scope_that_is_not_there_is_answered_with_near_ones(filled: Desk) -> None:
    assert "projects" in filled.refused(query="a", path_scope=["project"]).hint


def test_pages_are_whole_and_say_when_there_is_more(filled: Desk) -> None:
    first = filled.search(query="plan", limit=2)
    rest = filled.search(query="plan", limit=2, offset=2)
    assert (first["total"], first["truncated"], rest["truncated"]) == (3, True, False)
    assert len({item["path"] for item in first["items"] + rest["items"]}) == 3


def test_full_answers_carry_links_and_everything_else(desk: Desk) -> None:
    properties = "".join(f"key{n}: value {n}\n" for n in range(12))
    desk.house.fill(a=f"---\n{properties}tags: [a, b, c, d, e, f]\n---\nzebra", b="zebra")
    brief = desk.search(query="zebra", sort="path_asc")["items"]
    assert len(brief[0]["tags"]) < 6
    assert len(brief[0]["properties"]) < 12
    assert ["obsidian_url" in item for item in brief] == [True, False]
    full = desk.search(query="zebra", sort="path_asc", full=True)["items"]
    assert full[0]["tags"] == ["a", "b", "c", "d", "e", "f"]
    assert full[0]["properties"]["key11"] == "value 11"
    assert all("obsidian_url" in item for item in full)


def test_the_property_that_was_asked_for_is_shown(desk: Desk) -> None:
    properties = "".join(f"key{n}: value {n}\n" for n in range(12))
    desk.house.fill(a=f"---\n{properties}---\nzebra")
    (item,) = desk.search(query="[KEY9:value 9]", properties={"Key10": {"contains": "10"}})["items"]
    assert {"key9", "key10"} <= set(item["properties"])


def test_twenty_hits_cost_an_agent_little(desk: Desk) -> None:
    for number in range(30):
        desk.house.write(
            f"projects/area {number % 4}/Meeting notes {number:02}.md",
            f"---\ntitle: Weekly meeting {number}\ntags: [meeting, project/alpha, team]\nstatus: open\n"
            f"attendees: [Ann Lee, Bob, Chloé]\ncreated: 2026-02-{number % 28 + 1:02}\npriority: high\n---\n"
            f"# Weekly meeting {number}\n\n"
            + "We talked about the budget of the zebra project at length. "
            * 30,
        )
    desk.house.scan()
    for arguments in ({"query": "zebra budget"}, {"tags": ["meeting"], "sort": "modified_desc"}):
        answer = desk.search(**arguments)
        assert (len(answer["items"]), answer["total"]) == (20, 30)
        sent = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(sent) < 6_000
        assert all(len(item["snippet"]) <= 160 for item in answer["items"])
    best = desk.search(query="zebra budget")["items"][0]
    assert "**budget** of the **zebra**" in best["snippet"]


def test_what_a_caller_may_not_see_is_neither_shown_nor_counted(desk: Desk) -> None:
    for path in ("open/a.md", "closed/b.md", "closed/c.md"):
        desk.house.write(path, "zebra #t")
    desk.house.scan()
    half = Desk(desk.house, hiding("closed"))
    for arguments in ({"query": "zebra"}, {"tags": ["t"]}, {"query": "-lion"}):
        answer = half.search(**arguments)
        assert (answer["total"], [item["path"] for item in answer["items"]]) == (1, ["open/a.md"])
    half.workers.close()


def test_a_write_is_found_at_once_and_a_deleted_note_no_more(desk: Desk) -> None:
    desk.house.call("note_upsert", path="new.md", content="zebra")
    assert desk.paths(query="zebra") == ["new.md"]
    desk.house.call("note_upsert", path="new.md", content="lion")
    assert desk.paths(query="zebra lion") == ["new.md"]
    (desk.house.folder / "new.md").unlink()
    desk.house.scan()
    assert desk.paths(query="zebra") == []


def test_while_the_vault_is_away_answers_are_stale(desk: Desk) -> None:
    desk.house.fill(a="zebra")
    desk.house.folder.rename(desk.house.folder.with_name("away"))
    desk.house.app.guard.wake()
    wait_for(lambda: not desk.house.app.guard.health.ok)
    answer = desk.search(query="zebra")
    assert answer["stale"] is True
    assert answer["items"][0]["snippet"] == "**zebra**"
