"""What a caller finds is what everyone finds, without what a slow reading of the rules keeps from it.

ORACLE_QUERIES sets how many searches are made for each policy.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from server.access import policy as policies
from server.errors import NotFound, PermissionDenied
from server.models import Caller
from tests.unit.service.house import House, opened

from .notes import RawNote, read_vault, same
from .queries import question
from .vaults import FOLDERS, made_by_chance
from .worlds import World, make_rules

QUERIES = int(os.environ.get("ORACLE_QUERIES", "300"))
POLICIES = 3
OWNER, EVE = Caller("owner"), Caller("eve")


@dataclass(frozen=True)
class Bed:
    house: House
    notes: list[RawNote]
    world: World

    def ask(self, caller: Caller, tool: str, **arguments: Any) -> dict[str, Any]:
        output = asyncio.run(self.house.app.dispatcher.call(tool, arguments, caller))
        return output.model_dump(mode="json", exclude_none=True)

    def all(self, caller: Caller, tool: str, part: str, **arguments: Any) -> list[dict[str, Any]]:
        """Every page of a list, as long as its total says."""
        items: list[dict[str, Any]] = []
        while True:
            answer = self.ask(caller, tool, **arguments, offset=len(items))
            items += answer[part]
            if not answer["truncated"]:
                assert answer["total"] == len(items)
                return items

    def sees(self, path: str) -> bool:
        return self.world.may("read", path)

    @property
    def seen(self) -> list[RawNote]:
        return [note for note in self.notes if self.sees(note.path)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Path]]:
    folder, state = tmp_path_factory.mktemp("vault"), tmp_path_factory.mktemp("state")
    made_by_chance(folder)
    file = state / "policy.yaml"
    file.write_text("rules: []")
    patch = pytest.MonkeyPatch()
    patch.setattr(policies, "_LOOK_SECONDS", -1.0)
    with opened(folder, state, POLICY_FILE=str(file)) as house:
        yield Bed(house, read_vault(folder), World({}, [])), file
    patch.undo()


@pytest.fixture(scope="module", params=range(POLICIES), ids=lambda seed: f"policy{seed}")
def bed(request: pytest.FixtureRequest, whole: tuple[Bed, Path]) -> Bed:
    made, file = whole
    rng = random.Random(request.param)
    paths = [note.path for note in made.notes]
    world = World(dict.fromkeys(paths, b""), [*make_rules(rng, paths), *_own_rules(rng, paths)])
    file.write_text(world.policy())
    bed = replace(made, world=world)
    assert 0 < len(bed.seen) < len(bed.notes)
    return bed


def _own_rules(rng: random.Random, paths: list[str]) -> list[dict[str, Any]]:
    """Rules for this vault's own folders, and for many single notes."""
    rules: list[dict[str, Any]] = [
        {"path": folder, rng.choice(("read_allow", "read_deny")): True}
        for folder in rng.sample(FOLDERS[1:], 3)
    ]
    singles = rng.sample(paths, 40)
    return rules + [
        {"path": path, rng.choice(("read_allow", "read_deny")): True} for path in singles
    ]


def test_searches_find_and_count_what_may_be_read(bed: Bed) -> None:
    rng = random.Random(7)
    found_some = 0
    for _ in range(QUERIES // POLICIES):
        asked = question(rng)
        expected = sorted(note.path for note in bed.seen if asked.meaning(note))
        try:
            items = bed.all(EVE, "search_notes", "items", **asked.arguments, limit=50)
        except (PermissionDenied, NotFound):
            # Of a scope in which there is nothing for this caller.
            assert asked.arguments["path_scope"]
            assert not expected or len(asked.arguments["path_scope"]) > 1
            continue
        assert sorted(item["path"] for item in items) == expected, asked.arguments
        found_some += bool(expected)
    assert found_some > QUERIES // POLICIES // 8


def test_tags_are_counted_in_what_may_be_read(bed: Bed) -> None:
    wanted: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for note in bed.seen:
        split = [tag.split("/") for tag in set(note.tags)]
        wanted.update({"/".join(parts[: n + 1]) for parts in split for n in range(len(parts))})
        own.update(set(note.tags))
    found = bed.all(EVE, "list_tags", "tags", limit=500)
    assert {same(one["tag"]): (one["count"], one["direct"]) for one in found} == {
        tag: (count, own[tag]) for tag, count in wanted.items()
    }


def test_properties_are_counted_in_what_may_be_read(bed: Bed) -> None:
    wanted = Counter(key for note in bed.seen for key, _ in note.properties)
    found = bed.all(EVE, "list_properties", "properties", limit=200)
    assert {same(one["key"]): one["count"] for one in found} == wanted


@pytest.mark.parametrize(
    ("tool", "part", "arguments"),
    [
        ("vault_list", "entries", {"depth": 20, "kind": "note", "limit": 1000}),
        ("vault_list", "entries", {"depth": 20, "kind": "attachment"}),
        ("vault_list", "entries", {"path": "Projects", "depth": 2, "kind": "note", "limit": 7}),
        ("vault_search", "results", {"query": "alpha|beta", "limit": 500}),
        ("vault_search", "results", {"query": "river", "path_filter": "Projects/**", "limit": 500}),
        ("recent_changes", "changes", {"since": "2000-01-01", "limit": 200}),
    ],
)
def test_lists_are_those_of_everyone_without_the_rest(
    bed: Bed, tool: str, part: str, arguments: dict[str, Any]
) -> None:
    everyone = [one for one in bed.all(OWNER, tool, part, **arguments) if bed.sees(one["path"])]
    try:
        found = bed.all(EVE, tool, part, **arguments)
    except PermissionDenied:
        assert not everyone
        return
    assert _plain(found) == _plain(everyone)


def _plain(items: list[dict[str, Any]]) -> list[str]:
    # Only the first match of a note has its link, and that may be on another page.
    kept = [{key: one[key] for key in one if key != "obsidian_url"} for one in items]
    return sorted(json.dumps(one, sort_keys=True) for one in kept)


def test_backlinks_and_neighbours_are_those_of_everyone_without_the_rest(bed: Bed) -> None:
    for note in bed.seen[:60]:
        everyone = bed.all(OWNER, "backlinks_search", "items", path=note.path, limit=200)
        found = bed.all(EVE, "backlinks_search", "items", path=note.path, limit=200)
        assert {one["path"] for one in found} == {
            one["path"] for one in everyone if bed.sees(one["path"])
        }
        near = bed.ask(EVE, "graph_neighbors", path=note.path, depth=2, limit=100)
        assert all(bed.sees(node["path"]) for node in near["nodes"])
