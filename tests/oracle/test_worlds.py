"""A caller can't tell a vault from the same vault without what it may not read.

Every operation of the catalog is asked the same questions in both worlds; the answers and the
errors must be the same. ACCESS_WORLDS sets how many pairs of worlds are made.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.catalog.table import OPERATIONS
from server.errors import VaultError
from server.models import Caller
from tests.unit.service.house import House, opened

from .worlds import NAMES, TAGS, WORDS, World, make_world

WORLDS = int(os.environ.get("ACCESS_WORLDS", "3"))
EVE, OWNER = Caller("eve"), Caller("owner")
Arguments = dict[str, Any]

_PASSING = frozenset(
    {"score", "at", "as_of", "since", "log_since", "last_scan", "version", "detail", "uploaded"}
)
"""What differs between two servers by its nature: moments, ids, and weights of words."""


@dataclass(frozen=True)
class Pair:
    world: World
    whole: House
    pruned: House

    def same(self, tool: str, arguments: Arguments) -> Any:
        """The answer, which must be the same in both worlds."""
        first, second = (_asked(house, tool, arguments) for house in (self.whole, self.pruned))
        assert first == second, (tool, arguments)
        return first

    @property
    def paths(self) -> list[str]:
        """What is there, what is hidden, and what isn't there."""
        hidden = self.world.hidden
        beside = [path.rpartition("/")[0] + "/nothing.md" for path in hidden[:3]]
        return [
            *self.world.files,
            *(path.lstrip("/") for path in beside),
            "Plans/Plam.md",
            "plan.md",
        ]


def _asked(house: House, tool: str, arguments: Arguments) -> Any:
    try:
        output = asyncio.run(house.app.dispatcher.call(tool, arguments, EVE))
    except VaultError as error:
        return error.code, error.message, error.hint, _scrubbed(dict(error.details))
    return _scrubbed(output.model_dump(mode="json", exclude_none=True))


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _scrubbed(inner) for key, inner in value.items() if key not in _PASSING}
    return [_scrubbed(inner) for inner in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module", params=range(WORLDS), ids=lambda seed: f"world{seed}")
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    world = make_world(random.Random(request.param))
    assert world.hidden
    assert world.visible
    with ExitStack() as stack:
        yield _opened(world, stack, tmp_path_factory)


def _opened(world: World, stack: ExitStack, folders: pytest.TempPathFactory) -> Pair:
    houses = []
    for whole in (True, False):
        folder, state = folders.mktemp("vault"), folders.mktemp("state")
        world.lay_out(folder, whole=whole)
        file: Path = state / "policy.yaml"
        file.write_text(world.policy())
        houses.append(
            stack.enter_context(
                opened(folder, state, POLICY_FILE=str(file), OBSIDIAN_VAULT="V", OBSIDIAN_PREFIX="")
            )
        )
    return Pair(world, *houses)


def _each_path(pair: Pair, **more: Any) -> list[Arguments]:
    return [{"path": path, **more} for path in pair.paths]


def _scopes(pair: Pair) -> list[list[str]]:
    return [[], *([folder] for folder in pair.world.folders), ["Nowhere"], ["**/Plan*"]]


def _searches(pair: Pair) -> list[Arguments]:
    # In the order of relevance hidden notes weigh in, as rare words do: that is known.
    plain: list[Arguments] = [
        {"mode": "full_text", "query": word, "sort": "path_asc", "full": True} for word in WORDS
    ]
    plain += [{"mode": "tags", "tags": [tag], "sort": "modified_desc"} for tag in TAGS]
    plain += [
        {"mode": "properties", "properties": {key: {"exists": True}}, "sort": "title"}
        for key in ("status", "rating", "only")
    ]
    plain += [
        {"query": "-zebra tag:work", "sort": "created"},
        {"query": "path:plan OR [status:open]", "sort": "path_asc", "limit": 3, "offset": 2},
    ]
    scoped = [{"query": "alpha", "path_scope": s, "sort": "path_asc"} for s in _scopes(pair)]
    return plain + scoped


def _lists(pair: Pair) -> list[Arguments]:
    found: list[Arguments] = [{"path": folder} for folder in (*pair.world.folders, "nowhere")]
    found += [{"depth": 20}, {"depth": 20, "limit": 5, "offset": 3}, {"kind": "folder", "depth": 9}]
    return [*found, {"glob": "*.png", "depth": 20}, {"depth": 2, "kind": "note"}]


def _graphs(pair: Pair) -> list[Arguments]:
    found: list[Arguments] = [
        {
            "path": path,
            "depth": depth,
            "direction": way,
            "include": ["unresolved", "tags"],
            "limit": 100,
        }
        for path in pair.paths
        for depth, way in ((1, "both"), (3, "out"), (2, "in"))
    ]
    return [
        *found,
        {"include": ["orphans", "unresolved"], "limit": 100},
        {"include": ["orphans", "unresolved"], "limit": 2, "offset": 1},
    ]


ASKED: dict[str, Callable[[Pair], Sequence[Arguments]]] = {
    "note_read": lambda pair: _each_path(pair, include_metadata=True),
    "note_read_many": lambda pair: [
        {"glob": "**/*.md"}, {"glob": "Plans/**"}, {"paths": list(pair.world.visible)},
        {"paths": ["nothing.md"]}, {"paths": pair.world.hidden[:1]},
    ],
    "note_outline": _each_path,
    "note_info": _each_path,
    "note_history": _each_path,
    "attachment_read": lambda pair: [
        {"path": path} for path in (*pair.paths, "Plans/pix.png", "pic.png")
    ],
    "vault_search": lambda pair: [
        *({"query": word, "context": 1, "limit": 500} for word in WORDS),
        *({"query": r"\w+", "path_filter": glob} for glob in ("Plans/**", "secret/*", "*.md")),
    ],
    "vault_list": _lists,
    "search_notes": _searches,
    "context_pack": lambda pair: [
        {"question": f"{word} stone", "path_scope": scope} for word in WORDS[:3] for scope in _scopes(pair)
    ],
    "list_tags": lambda pair: [
        *({"path_scope": s} for s in _scopes(pair)[:-1]), {"prefix": "Wo", "sort": "name"},
        {"limit": 2, "offset": 1},
    ],
    "list_properties": lambda pair: [
        *({"path_scope": s} for s in _scopes(pair)[:-1]), {"prefix": "o"}, {"limit": 1, "offset": 1},
    ],
    "recent_changes": lambda pair: [
        {"since": "2000-01-01", "path_scope": s, "limit": 200} for s in _scopes(pair)[:-1]
    ],
    "backlinks_search": lambda pair: _each_path(pair, include_mentions=True, limit=200),
    "graph_neighbors": _graphs,
    "health_check": lambda _pair: [{}],
    "vault_sync": lambda _pair: [{"wait": 0}],
    "devlog_tail": lambda _pair: [
        {}, {"project": "x"}, *({"topic": topic} for topic in ("api", "deploy", "search", "serch")),
    ],
    "adr_list": lambda _pair: [{}, {"status": "accepted"}, {"limit": 1, "offset": 1}],
    "adr_read": lambda _pair: [{"adr": number} for number in (1, 2, 3, 4)],
}  # fmt: skip


def test_every_operation_that_reads_is_asked() -> None:
    assert set(ASKED) == {op.name for op in OPERATIONS if op.access == "read"}


@pytest.mark.parametrize("tool", sorted(ASKED))
def test_what_may_not_be_read_is_as_if_it_were_not_there(pair: Pair, tool: str) -> None:
    answers = []
    for arguments in ASKED[tool](pair):
        if tool == "context_pack":
            answers.append(_packed_alike(pair, arguments))
        elif tool == "recent_changes":
            answers.append(_changed_alike(pair, arguments))
        else:
            answers.append(pair.same(tool, arguments))
    # In some worlds the caller may read no picture, or no decision.
    needed = {"attachment_read": "png", "adr_read": "-one.md"}.get(tool, "")
    if any(path.endswith(needed) for path in pair.world.visible):
        assert any(isinstance(answer, dict) for answer in answers), "not all of them are errors"


def _packed_alike(pair: Pair, arguments: Arguments) -> Any:
    """The excerpts in any order: how well a note fits depends on how rare its words are."""
    found = [_asked(house, "context_pack", arguments) for house in (pair.whole, pair.pruned)]
    if isinstance(found[0], dict) and isinstance(found[1], dict):
        assert found[0]["matched"] == found[1]["matched"], arguments
        paths = [{one["path"] for one in answer["excerpts"]} for answer in found]
        assert all(shown <= set(pair.world.visible) for shown in paths), arguments
    else:
        assert found[0] == found[1], arguments
    return found[0]


def _changed_alike(pair: Pair, arguments: Arguments) -> Any:
    """The changes in any order: a scan of another vault takes them in at other moments."""
    found = [_asked(house, "recent_changes", arguments) for house in (pair.whole, pair.pruned)]
    for answer in found:
        if isinstance(answer, dict):
            answer["changes"].sort(key=lambda one: one["path"])
    assert found[0] == found[1], arguments
    return found[0]


def test_relevance_finds_the_same_notes(pair: Pair) -> None:
    for word in WORDS:
        found = [
            _asked(house, "search_notes", {"query": word, "limit": 100})
            for house in (pair.whole, pair.pruned)
        ]
        assert found[0]["total"] == found[1]["total"]
        paths = [sorted(item["path"] for item in answer["items"]) for answer in found]
        assert paths[0] == paths[1]


WRITES: dict[str, Callable[[random.Random, str, str], Arguments]] = {
    "note_upsert": lambda _rng, path, _other: {"path": path, "content": "more"},
    "note_write": lambda rng, path, _other: {
        "path": path, "content": "top", "mode": rng.choice(("create", "prepend", "append")),
        "if_match": rng.choice((None, "0" * 32)),
    },
    "note_patch": lambda _rng, path, _other: {
        "path": path, "target": "heading", "selector": "Part", "operation": "append", "content": "x",
    },
    "notes_edit": lambda _rng, path, other: {
        "edits": [{"path": p, "content": "y", "mode": "append"} for p in (path, other)],
    },
    "note_move": lambda rng, path, other: {
        "from": path, "to": rng.choice((other, f"Plans/{rng.choice(NAMES)}.md", "log", "x y/new.md")),
    },
    "heading_rename": lambda rng, path, _other: {
        "path": path, "heading": "Part", "to": rng.choice(("Piece", "Part")),
    },
    "note_delete": lambda rng, path, _other: {"path": path, "permanent": rng.random() < 0.3},
    "note_restore": lambda _rng, path, _other: {"path": path},
    "link_add": lambda _rng, path, other: {"from": path, "to": other},
    "attachment_write": lambda rng, path, _other: {
        "path": rng.choice((path, "log/pic.png", "secret/pic.png")), "data": "iVBORw0KGgo=",
        "overwrite": rng.random() < 0.5,
    },
    "devlog_append": lambda rng, _path, _other: {
        "topic": rng.choice(("api", "deploy", "search")), "entries": [{"type": "impl", "text": "done"}],
    },
    "undo": lambda rng, _path, _other: {"since": "1h", "apply": rng.random() < 0.5},
}  # fmt: skip


NOT_ALIKE = frozenset({"adr_create", "adr_set_status", "adr_publish"})
"""A number is taken once in the whole vault, whoever may read the decision that has it."""


def test_every_operation_that_writes_is_tried() -> None:
    assert {*WRITES, *NOT_ALIKE} == {op.name for op in OPERATIONS if op.access == "write"}


@pytest.mark.parametrize("seed", range(WORLDS))
def test_writes_answer_alike_and_leave_the_same_notes(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(1_000 + seed)
    world = make_world(rng)
    with ExitStack() as stack:
        pair = _opened(world, stack, tmp_path_factory)
        before = {path: pair.whole.bytes(path) for path in world.hidden}
        done = 0
        for _ in range(80):
            tool = rng.choice([*sorted(WRITES), *["note_move", "heading_rename"] * 3])
            path, other = rng.choices([*pair.paths, *list(world.visible) * 3], k=2)
            answer = pair.same(tool, WRITES[tool](rng, path, other))
            done += isinstance(answer, dict)
        assert done > 2
        for house in (pair.whole, pair.pruned):
            house.scan()
        assert {path: pair.whole.bytes(path) for path in before} == before
        left = [_visible_files(house, world) for house in (pair.whole, pair.pruned)]
        assert left[0] == left[1]
        listed = [
            _asked(house, "vault_list", {"depth": 20, "limit": 1000})["entries"]
            for house in (pair.whole, pair.pruned)
        ]
        told = [[(one["path"], one["kind"], one.get("size")) for one in seen] for seen in listed]
        assert told[0] == told[1]


def _visible_files(house: House, world: World) -> dict[str, bytes]:
    files = [file for file in house.folder.rglob("*") if file.is_file()]
    found = {file.relative_to(house.folder).as_posix(): file.read_bytes() for file in files}
    return {
        path: data for path, data in found.items() if path[0] != "." and world.may("read", path)
    }
