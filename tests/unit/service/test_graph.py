"""backlinks_search, graph_neighbors and link_add, as an agent calls them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.catalog import graph as operations
from server.catalog.dispatch import Dispatcher
from server.errors import VaultError
from server.models import Caller, etag_of
from server.service.freshness import Clock
from server.service.graph import Graph
from server.vault.obsidian import ObsidianLinks
from server.workers import Workers

from .house import CALLER, House, hiding, opened

OWNER = Caller("owner")


class Desk:
    """The operations over a house."""

    def __init__(self, house: House, local: Workers, vault: str | None = None) -> None:
        app, access = house.app, hiding("secret")
        notes = app.service.notes
        notes._access = access
        clock = Clock(app.guard, app.scanner)
        graph = Graph(
            app.index,
            notes,
            app.service.writing._editing,
            access,
            clock,
            lambda: ObsidianLinks(vault),
            local,
        )
        service = SimpleNamespace(graph=graph, notes=notes)
        table = (operations.BACKLINKS_SEARCH, operations.GRAPH_NEIGHBORS, operations.LINK_ADD)
        self._dispatcher = Dispatcher(table, service, app.telemetry)
        self.house = house

    def call(self, tool: str, caller: Caller = CALLER, **arguments: Any) -> dict[str, Any]:
        output = asyncio.run(self._dispatcher.call(tool, arguments, caller))
        return output.model_dump(mode="json", exclude_none=True)

    def refused(self, tool: str, **arguments: Any) -> VaultError:
        with pytest.raises(VaultError) as caught:
            self.call(tool, **arguments)
        return caught.value

    def link(self, source: str, to: str, **more: Any) -> dict[str, Any]:
        return self.call("link_add", OWNER, **{"from": source, "to": to, **more})


@pytest.fixture
def local() -> Iterator[Workers]:
    workers = Workers("test", size=2)
    yield workers
    workers.close()


@pytest.fixture
def desk(house: House, local: Workers) -> Desk:
    return Desk(house, local)


def test_backlinks_come_with_lines_and_pages(desk: Desk) -> None:
    desk.house.fill(note="# T\n", a="one [[note|shown]]\n", b="![[note#T]]\n", c="the note\n")
    answer = desk.call("backlinks_search", path="note.md")
    assert answer == {
        "path": "note.md", "total": 2, "truncated": False,
        "items": [
            {"path": "a.md", "line": 1, "text": "one [[note|shown]]", "kind": "wiki",
             "resolved": True, "alias": "shown"},
            {"path": "b.md", "line": 1, "text": "![[note#T]]", "kind": "embed",
             "resolved": True, "section": "T"},
        ],
    }  # fmt: skip
    pages = [
        desk.call("backlinks_search", path="note", include_mentions=True, limit=1, offset=n)
        for n in range(4)
    ]
    assert [[item["kind"] for item in page["items"]] for page in pages] == [
        ["wiki"], ["embed"], ["mention"], [],
    ]  # fmt: skip
    assert [page["truncated"] for page in pages] == [True, True, False, False]
    assert {page["total"] for page in pages} == {3}
    assert pages[2]["items"][0]["resolved"] is False


def test_a_backlink_by_name_only_says_so(desk: Desk) -> None:
    desk.house.fill(**{"x": "", "deep/x": "", "a": "[[x]]"})
    (item,) = desk.call("backlinks_search", path="deep/x.md")["items"]
    assert item["resolved"] == "by name only"


def test_a_url_comes_once_for_each_note(house: House, local: Workers) -> None:
    desk = Desk(house, local, "My Vault")
    desk.house.fill(note="", a="[[note]]\n[[note]]\n", b="[[note]]")
    items = desk.call("backlinks_search", path="note.md")["items"]
    assert [item.get("obsidian_url") for item in items] == [
        "obsidian://open?vault=My%20Vault&file=a.md", None,
        "obsidian://open?vault=My%20Vault&file=b.md",
    ]  # fmt: skip


@pytest.mark.parametrize("tool", ["backlinks_search", "graph_neighbors"])
def test_a_note_that_is_not_there_is_named_with_what_was_meant(desk: Desk, tool: str) -> None:
    desk.house.fill(**{"Projects": "", "secret/Project": ""})
    error = desk.refused(tool, path="Project.md")
    assert error.code == "not_found"
    assert error.details["did_you_mean"] == ["Projects.md"]
    assert desk.call(tool, path="PROJECTS.md")
    assert desk.refused(tool, path="secret/Project.md").code == "permission_denied"
    assert desk.refused(tool, path="../x.md").code == "invalid_path"


def test_neighbours_have_nodes_and_edges(desk: Desk) -> None:
    desk.house.fill(a="# A\n[[b]] [[b]] #t", b="[[c]]", c="", d="[[Missing]]")
    answer = desk.call("graph_neighbors", path="a.md", include=["tags", "unresolved"])
    assert answer == {
        "nodes": [
            {"path": "a.md", "title": "A", "distance": 0},
            {"path": "b.md", "title": "b", "distance": 1}, {"path": "#t", "distance": 1},
        ],
        "edges": [
            {"from": "a.md", "to": "b.md", "count": 2}, {"from": "a.md", "to": "#t", "count": 1},
        ],
        "unresolved": [], "unresolved_total": 0, "truncated": False,
    }  # fmt: skip
    assert desk.call("graph_neighbors", path="a.md", depth=2, limit=1)["truncated"] is True
    assert len(desk.call("graph_neighbors", path="c.md", depth=2, direction="in")["nodes"]) == 3


def test_the_whole_vault_is_asked_without_a_path(desk: Desk) -> None:
    desk.house.fill(**{"a": "[[Missing]]", "b": "", "c": "", "secret/s": "[[Hidden]] [[b]]"})
    answer = desk.call("graph_neighbors", include=["orphans", "unresolved"], limit=1)
    assert answer == {
        "orphans": [{"path": "b.md", "title": "b"}], "orphans_total": 2,
        "unresolved": [{"name": "Missing", "count": 1, "examples": ["a.md"]}],
        "unresolved_total": 1, "truncated": True,
    }  # fmt: skip
    owner = desk.call("graph_neighbors", Caller("owner"), include=["orphans", "unresolved"])
    assert (owner["orphans_total"], owner["unresolved_total"]) == (1, 2)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"include": ["tags"]}, {"include": ["tags", "orphans"]},
     {"path": "a.md", "include": ["orphans"]}, {"path": "a.md", "depth": 4}],
)  # fmt: skip
def test_questions_that_make_no_sense_are_refused(desk: Desk, arguments: dict[str, Any]) -> None:
    desk.house.fill(a="")
    assert desk.refused("graph_neighbors", **arguments).code == "invalid_request"


def test_answers_are_small_by_default(house: House, local: Workers) -> None:
    desk = Desk(house, local, "Vault")
    hub = {
        f"projects/alpha/A name of usual length {n:02d}": "[[hub]] " + "w " * 200 for n in range(60)
    }
    desk.house.fill(hub="".join(f"[[{name.rpartition('/')[2]}]]\n" for name in hub), **hub)
    for tool in ("backlinks_search", "graph_neighbors"):
        answer = desk.call(tool, path="hub.md")
        assert answer["truncated"] is True
        assert len(json.dumps(answer)) < 9_000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"- [[b]]"),
        (b"text", b"text\n\n- [[b]]"),
        (b"text\n", b"text\n\n- [[b]]\n"),
        (b"text  \n\n\n", b"text  \n\n- [[b]]\n\n\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r\n\r\n- [[b]]\r\n"),
        (b"- x\n", b"- x\n- [[b]]\n"),
        (b"* x\r\n* y", b"* x\r\n* y\r\n* [[b]]"),
        (b"\xef\xbb\xbf---\na: 1\n---\n", b"\xef\xbb\xbf---\na: 1\n---\n\n- [[b]]\n"),
        (b"# T\n\n## Related\n\n## End\nx\n", b"# T\n\n## Related\n\n- [[b]]\n\n## End\nx\n"),
        (b"## see also\n- [[c]]\n\n## End\n", b"## see also\n- [[c]]\n- [[b]]\n\n## End\n"),
        (b"## Links:\nEnd\n===\n", b"## Links:\n\n- [[b]]\n\nEnd\n===\n"),
        (b"# Related\n## Sub\nx\n", b"# Related\n\n- [[b]]\n\n## Sub\nx\n"),
        (b"```\n## Related\n```\nx", b"```\n## Related\n```\nx\n\n- [[b]]"),
        (b"\xff\xfe text\n", b"\xff\xfe text\n\n- [[b]]\n"),
    ],
)
def test_a_link_adds_one_line_and_changes_no_other(desk: Desk, before: bytes, after: bytes) -> None:
    desk.house.fill(a=before, b="", c="")
    answer = desk.link("a.md", "b.md")
    assert desk.house.bytes("a.md") == after
    assert answer == {
        "path": "a.md", "changed": True, "link": "[[b]]", "etag": etag_of(after), "uploaded": True,
    }  # fmt: skip
    assert desk.link("a.md", "b.md") == {
        "path": "a.md", "changed": False, "link": "[[b]]", "etag": etag_of(after),
    }  # fmt: skip
    assert desk.house.bytes("a.md") == after
    assert desk.call("backlinks_search", path="b.md")["total"] == 1


@pytest.mark.parametrize(
    ("there", "changed"),
    [
        ("[[b]]", False), ("![[b|alias]]", False), ("[x](b.md)", False), ("[[./B.md]]", False),
        ('---\nup: "[[b]]"\n---\n', False), ("[[b#Part]]", True), ("`[[b]]`", True),
        ("[[c]]", True),
    ],
)  # fmt: skip
def test_what_is_linked_already_is_left_alone(desk: Desk, there: str, changed: bool) -> None:
    desk.house.fill(a=there, b="# Part\n", c="")
    assert desk.link("a.md", "b.md")["changed"] is changed


def test_who_does_not_see_everything_gets_the_whole_path(desk: Desk) -> None:
    desk.house.fill(**{"a": "", "x/one": "", "secret/one": ""})
    added = desk.call("link_add", CALLER, **{"from": "a.md", "to": "x/one.md"})
    assert added["link"] == "[[x/one]]"


def test_the_shortest_form_that_leads_there_is_written(desk: Desk) -> None:
    desk.house.fill(**{"a": "", "x/a2": "", "x/one": "", "x/two": "", "y/two": "", "two": ""})
    desk.house.write("img/pic.png", b"\x89PNG")
    desk.house.scan()
    assert desk.link("a.md", "x/one.md")["link"] == "[[one]]"
    assert desk.link("x/a2.md", "y/two.md")["link"] == "[[y/two]]"
    assert desk.link("x/a2.md", "two.md")["link"] == "[[two]]"
    assert desk.link("a.md", "img/pic.png", alias="a picture")["link"] == "[[pic.png|a picture]]"
    assert desk.house.app.index.outbound("x/a2.md")[1].dst == "two.md"


def test_a_section_must_be_there(desk: Desk) -> None:
    desk.house.fill(a="", b="# One: the first\n## Sub\ntext ^blk\n# Two\n## Sub\n")
    assert desk.link("a.md", "b.md", section="one: the FIRST")["link"] == "[[b#One the first]]"
    assert desk.link("a.md", "b.md", section="#One the first")["changed"] is False
    assert desk.link("a.md", "b.md", section="Two#Sub")["link"] == "[[b#Two#Sub]]"
    assert desk.link("a.md", "b.md", section="^blk", alias="it")["link"] == "[[b#^blk|it]]"
    error = desk.refused("link_add", **{"from": "a.md", "to": "b.md", "section": "Tow"})
    assert (error.code, "Two" in error.hint) == ("not_found", True)
    error = desk.refused("link_add", **{"from": "a.md", "to": "b.md", "section": "^no"})
    assert (error.code, "^blk" in error.hint) == ("not_found", True)
    error = desk.refused("link_add", **{"from": "a.md", "to": "b.md", "section": "Sub"})
    assert error.code == "ambiguous"


@pytest.mark.parametrize(
    ("source", "to", "alias", "code"),
    [
        ("gone.md", "b.md", None, "not_found"), ("a.md", "gone.md", None, "not_found"),
        ("a.md", "gone.png", None, "not_found"), ("a", "b.md", None, "invalid_path"),
        ("a.md", "folder", None, "invalid_request"), ("a.md", "b.md", "x]]y", "invalid_request"),
        ("a.md", "b.md", "x\ny", "invalid_request"), ("a.md", "odd [1].md", None, "invalid_request"),
        ("open.md", "b.md", None, "conflict"), ("bin.md", "b.md", None, "invalid_request"),
        ("a.md", "secret/s.md", None, "permission_denied"),
        ("secret/s.md", "b.md", None, "permission_denied"),
    ],
)  # fmt: skip
def test_what_can_not_be_linked_changes_nothing(
    desk: Desk, source: str, to: str, alias: str | None, code: str
) -> None:
    files = {"a.md": b"x", "b.md": b"", "folder/c.md": b"", "odd [1].md": b"", "open.md": b"```\n",
             "bin.md": b"\0", "secret/s.md": b""}  # fmt: skip
    for path, data in files.items():
        desk.house.write(path, data)
    desk.house.scan()
    error = desk.refused("link_add", **{"from": source, "to": to, "alias": alias})
    assert error.code == code
    assert {path: desk.house.bytes(path) for path in files} == files
    assert not (desk.house.folder / "gone.md").exists()


def test_a_note_that_nobody_has_seen_yet_can_be_linked(desk: Desk) -> None:
    desk.house.fill(a="")
    desk.house.write("new.md", "")
    assert desk.link("a.md", "new.md")["link"] == "[[new]]"


def test_links_added_at_once_are_all_there(tmp_path: Path, local: Workers) -> None:
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        desk = Desk(house, local)
        desk.house.fill(a="x\n", **{f"n{n}": "" for n in range(6)})

        async def add() -> None:
            calls = [
                desk._dispatcher.call("link_add", {"from": "a.md", "to": f"n{n % 6}.md"}, CALLER)
                for n in range(12)
            ]
            await asyncio.gather(*calls)

        asyncio.run(add())
        lines = desk.house.bytes("a.md").decode().splitlines()
        assert sorted(lines[2:]) == [f"- [[n{n}]]" for n in range(6)]
