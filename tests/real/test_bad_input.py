"""Whatever comes in, what goes out is a coded error or a sane answer, and the server lives on."""

import asyncio
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from server.errors import CODES
from server.service.room import MESSAGE
from tests.doors.connect import running
from tests.doors.vaults import stdio_command
from tests.doors.wire import INITIALIZE, call, message
from tests.drive.processes import wait_for
from tests.real.agents import Agent
from tests.real.servers import Server

BODY_CAP = 2 * (10 << 20) + (1 << 20)
EMOJI, CJK = "🗒", "語"
HEAVY = {
    "emoji": EMOJI * 150_000,
    "quotes": '"' * 150_000,
    "control": "\x01" * 150_000,
    "backslash": "\\" * 150_000,
    "lines": "\n" * 150_000,
}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "vault"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nneedle\n")
    (folder / "binary.md").write_bytes(os.urandom(4096) + b"\0needle\0")
    (folder / "latin.md").write_bytes(b"caf\xe9 needle\n")
    (folder / "yaml.md").write_text("---\ntags: [a\n: {\n---\n# Kept\n\nneedle in broken yaml\n")
    (folder / "giant.md").write_text("needle in the giant\n" * (50 * 1024 * 1024 // 20))
    (folder / "slow.md").write_text("a" * 50_000 + "!\n")
    (folder / "folder.md").mkdir()
    for name, text in HEAVY.items():
        (folder / f"heavy-{name}.md").write_text(text)
    return folder


@pytest.fixture(scope="module")
def server(vault: Path) -> Iterator[Server]:
    with Server(vault, vault.with_name("state"), SCAN_INTERVAL="2") as server:
        yield server
        assert server.call("health_check")["status"] == "ok"
        said = server.log.read_text()
        assert "Traceback" not in said
        assert "unexpected error" not in said


@pytest.fixture(scope="module", params=["session", "modern"])
def agent(request: pytest.FixtureRequest, server: Server, vault: Path) -> Iterator[Agent]:
    agent = Agent(f"http://127.0.0.1:{server.port}/mcp", request.param)
    yield agent
    agent.http.close()
    assert agent.heard
    for said in agent.heard:
        assert str(vault.parent) not in said
        assert "Traceback" not in said
        assert "pydantic" not in said


def refused(said: dict[str, Any], *codes: str) -> None:
    assert said.get("code") in codes, said
    assert said["code"] in CODES
    assert said["message"]


PATHS = {
    "../../etc/passwd": "invalid_path",
    "../x": "invalid_path",
    "a/../b": "invalid_path",
    "/etc/passwd": "invalid_path",
    "//server/share": "invalid_path",
    "\\\\server\\share": "invalid_path",
    "a\\..\\b": "invalid_path",
    "nul\0byte": "invalid_path",
    "line\nbreak": "invalid_path",
    "bell\x07": "invalid_path",
    "\u0085": "invalid_path",
    ".obsidian/app": "path_not_allowed",
    "a/.git/config": "path_not_allowed",
    ".trash/x": "path_not_allowed",
    ".vault-mcp": "path_not_allowed",
    "...": "path_not_allowed",
    "x" * 10_000: "invalid_path",
    "d/" * 600: "invalid_path",
    CJK * 100: "invalid_path",
    "": "invalid_path",
}


@pytest.mark.requirement("input.paths")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path[:16]))
def test_a_bad_path(agent: Agent, path: str) -> None:
    name = path + ".md" if path else ""
    for tool in ("note_read", "note_info", "note_outline"):
        refused(agent.ask(tool, {"path": name}), PATHS[path])
    refused(agent.ask("note_upsert", {"path": name, "content": "x"}), PATHS[path])
    refused(agent.ask("note_read_many", {"paths": ["good.md", name]}), PATHS[path])
    if path:
        refused(agent.ask("vault_list", {"path": path}), PATHS[path])


@pytest.mark.requirement("input.deep_folders")
def test_deep_folders(agent: Agent) -> None:
    path = "d/" * 200 + f"{agent.era}.md"
    said = agent.ask("note_upsert", {"path": path, "content": f"deep {agent.era}"})
    assert said["created"] is True
    assert agent.ask("note_read", {"path": path})["content"] == f"deep {agent.era}"
    (hit,) = agent.ask("vault_search", {"query": f"deep {agent.era}"})["results"]
    assert hit["path"] == path
    listed = agent.ask("vault_list", {"path": "d/" * 199 + "d", "kind": "note"})
    assert path in [entry["path"] for entry in listed["entries"]]


@pytest.mark.requirement("input.huge_body")
def test_a_body_that_is_too_large(agent: Agent) -> None:
    body = call("note_upsert", path="huge.md", content="x" * BODY_CAP)
    answer = agent.post(agent.text(body).encode(), body)
    assert answer.status_code == 413
    assert answer.json()["error"]["data"]["code"] == "too_large"

    def pieces() -> Iterator[bytes]:
        for _ in range(BODY_CAP // (1 << 20) + 2):
            yield b" " * (1 << 20)

    answer = agent.post(pieces(), body)
    assert answer.status_code == 413
    assert agent.ask("note_read", {"path": "huge.md"})["exists"] is False


@pytest.mark.requirement("input.huge_body")
def test_a_content_that_is_too_large(agent: Agent) -> None:
    content = "x" * ((10 << 20) + 1)
    refused(agent.ask("note_upsert", {"path": "huge.md", "content": content}), "too_large")
    refused(
        agent.ask("note_upsert", {"path": "f.md", "content": "", "frontmatter": {"a": content}}),
        "too_large",
    )
    assert agent.ask("note_read", {"path": "f.md"})["exists"] is False


@pytest.mark.requirement("input.invalid_utf8")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"good", b"g\xff\xfed"),
        lambda text: text.replace(b"good", b"g\\ud800d"),
        lambda text: text[:-2],
        lambda text: b"\xef\xbb\xbf" + text.replace(b"good", b"g\xed\xa0\x80"),
        lambda text: b"[" * 100_000,
        lambda text: b"",
        lambda text: b"null",
        lambda text: b'{"a":' * 50_000,
    ],
    ids=["utf-8", "surrogate", "cut", "bom", "nested", "empty", "null", "objects"],
)
def test_a_body_that_is_no_text(agent: Agent, change: Callable[[bytes], bytes]) -> None:
    body = call("note_read", path="good.md")
    answer = agent.post(change(agent.text(body).encode()), body)
    assert answer.status_code in (200, 400)
    assert '"error"' in answer.text or '"isError":true' in answer.text


@pytest.mark.requirement("input.invalid_utf8")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("note_read", {"path": "a\ud800.md"}),
        ("note_upsert", {"path": "s.md", "content": "a\udc00"}),
        ("note_upsert", {"path": "s.md", "content": "", "frontmatter": {"\ud800": "\udfff"}}),
        ("vault_search", {"query": "\ud800"}),
        ("vault_search", {"query": "a", "path_filter": "\ud800"}),
        ("note_read", {"path": "good.md", "\ud800": 1}),
    ],
)
def test_half_a_surrogate_pair(agent: Agent, tool: str, arguments: Any) -> None:
    body = call(tool, **arguments)
    answer = agent.post(agent.text(body).encode(), body)
    assert answer.status_code in (200, 400)
    assert '"error"' in answer.text or '"isError":true' in answer.text
    assert agent.ask("note_read", {"path": "s.md"})["exists"] is False


@pytest.mark.requirement("input.binary")
def test_binary_and_foreign_bytes_in_a_note(agent: Agent) -> None:
    for tool in ("note_read", "note_outline", "note_info"):
        refused(agent.ask(tool, {"path": "binary.md"}), "invalid_request")
    assert agent.ask("note_read", {"path": "latin.md"})["content"] == "caf\ufffd needle\n"
    many = agent.ask("note_read_many", {"paths": ["latin.md", "absent.md"]})
    assert (len(many["notes"]), many["missing"]) == (1, ["absent.md"])
    (hit,) = agent.ask("vault_search", {"query": "needle", "path_filter": "latin.md"})["results"]
    assert (hit["line"], hit["text"]) == (1, "caf\ufffd needle")
    for tool in ("note_read", "note_info", "note_outline"):
        said = agent.ask(tool, {"path": "folder.md"})
        assert said.get("exists") is False or said.get("code") in ("not_found", "invalid_path"), (
            said
        )
    refused(
        agent.ask("note_upsert", {"path": "folder.md", "content": "x"}), "conflict", "invalid_path"
    )
    inside = {"path": "good.md/a.md", "content": "x"}
    refused(agent.ask("note_upsert", inside), "conflict", "invalid_path")


@pytest.mark.requirement("input.giant_note")
def test_a_note_of_50_megabytes(agent: Agent, server: Server) -> None:
    for tool in ("note_read", "note_outline", "note_info"):
        refused(agent.ask(tool, {"path": "giant.md"}), "too_large")
    refused(agent.ask("note_upsert", {"path": "giant.md", "content": "x"}), "too_large")
    entries = agent.ask("vault_list", {"glob": "giant.md"})["entries"]
    assert [(entry["path"], entry["size"]) for entry in entries] == [("giant.md", 52_428_800)]
    found = agent.ask("vault_search", {"query": "needle"})
    assert {"good.md", "yaml.md", "latin.md"} <= {hit["path"] for hit in found["results"]}
    assert server.get("/readyz")[0] == 200


@pytest.mark.requirement("input.regex")
@pytest.mark.parametrize(
    "query",
    [
        "a" * (1 << 20), "(" * 5_000, "(a{1000}){1000}", "((a{100}){100}){100}", "[z-a]", "(?<=a)b",
        r"(a)\1", "a\nb", "a\0b", r"\p{Nope}", "(?P<n>", "x{99999999999}",
    ],
    ids=lambda query: query[:12],
)  # fmt: skip
def test_a_regex_that_is_refused(agent: Agent, query: str) -> None:
    refused(agent.ask("vault_search", {"query": query}), "invalid_request")


@pytest.mark.requirement("input.regex")
@pytest.mark.parametrize(
    "query", ["(a+)+$", "(a|aa)+$", "(.*)*x", "^(a?){50}a{50}b", "", "^", ".*"]
)
def test_a_regex_that_only_looks_bad(agent: Agent, query: str) -> None:
    said = agent.ask("vault_search", {"query": query})
    if query:
        assert isinstance(said["results"], list)
    else:
        refused(said, "invalid_request")


@pytest.mark.requirement("markdown.malformed")
@pytest.mark.requirement("input.malformed_yaml")
def test_malformed_yaml_costs_nothing_but_properties(agent: Agent) -> None:
    said = agent.ask("note_read", {"path": "yaml.md", "include_metadata": True})
    assert said["content"].endswith("needle in broken yaml\n")
    assert "frontmatter" in said["warnings"][0]
    assert said["metadata"]["title"] == "Kept"
    assert agent.ask("note_info", {"path": "yaml.md"})["warnings"] == said["warnings"]
    (hit,) = agent.ask("vault_search", {"query": "broken yaml"})["results"]
    assert hit["path"] == "yaml.md"


@pytest.mark.requirement("input.types")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("note_read", {"path": None}),
        ("note_read", {"path": 1}),
        ("note_read", {"path": ["good.md"]}),
        ("note_read", {"path": "good.md", "offset": -1}),
        ("note_read", {"path": "good.md", "offset": 1.5}),
        ("note_read", {"path": "good.md", "max_chars": 10**30}),
        ("note_read", {"path": "good.md", "max_chars": "many"}),
        ("note_read", {"path": "good.md", "include_metadata": "maybe"}),
        ("note_read", {"path": "good.md", "section": {"a": 1}}),
        ("note_upsert", {"path": "t.md", "content": None}),
        ("note_upsert", {"path": "t.md", "content": {"a": 1}}),
        ("note_upsert", {"path": "t.md"}),
        ("note_upsert", {"path": "t.md", "content": "x", "frontmatter": ["a"]}),
        ("note_upsert", {"path": "t.md", "content": "x", "frontmatter": "a: 1"}),
        ("vault_search", {"query": None}),
        ("vault_search", {"query": "a", "limit": 10**30}),
        ("vault_search", {"query": "a", "case": "loud"}),
        ("vault_search", {"query": "a", "context": 10**12}),
        ("vault_search", {"query": "a", "path_filter": 3}),
        ("vault_list", {"depth": 0}),
        ("vault_list", {"kind": "door"}),
        ("vault_list", {"limit": -5}),
        ("note_read_many", {"paths": ["good.md"] * 1000}),
        ("note_read_many", {"paths": "good.md"}),
        ("note_read_many", {"paths": [None]}),
        ("note_read_many", {"paths": ["good.md"], "glob": "*.md"}),
        ("note_read_many", {"glob": "x" * 1000}),
        ("health_check", {"a": {"b": ["c"]}}),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_type(agent: Agent, tool: str, arguments: dict[str, Any]) -> None:
    refused(agent.ask(tool, arguments), "invalid_request")
    assert agent.ask("note_read", {"path": "t.md"})["exists"] is False


@pytest.mark.requirement("input.types")
@pytest.mark.parametrize("arguments", [None, [], "text", 5, True, [["path", "good.md"]]])
def test_arguments_that_are_no_object(agent: Agent, arguments: Any) -> None:
    said = agent.ask("note_read", arguments)
    assert said["code"] in ("invalid_request", -32602, -32600)


@pytest.mark.requirement("input.types")
@pytest.mark.parametrize(
    "digits", ["1000000", str(2**63 - 1), str(2**63), "9" * 30, "9" * 5000], ids=len
)
def test_giant_offsets(agent: Agent, digits: str) -> None:
    """Beyond the end there is nothing; what is no number to a machine is refused."""
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("note_read", {"path": "good.md"}, "content"),
        ("vault_search", {"query": "needle"}, "results"),
        ("vault_list", {}, "entries"),
    ]
    for tool, arguments, items in asked:
        body = call(tool, **arguments, offset="DIGITS")
        answer = agent.post(agent.text(body).replace('"DIGITS"', digits).encode(), body)
        assert answer.status_code in (200, 400)
        said = message(answer)
        data = said["result"]["structuredContent"] if "result" in said else said["error"]
        assert "code" in data or not data[items], data


@pytest.mark.requirement("tool.note_upsert.create")
def test_strange_properties_come_back_as_they_went(agent: Agent) -> None:
    nested: Any = "leaf"
    for _ in range(20):
        nested = {"in": [nested]}
    properties = {
        "block": "a\n---\nb\n",
        "end": "---",
        "colon": "a: b # c",
        "yes": "yes",
        "no": False,
        "null": None,
        "number": "12",
        "date": "2026-02-20",
        "emoji 🗒": "語",
        "tab": "a\tb",
        "big": 2**53 - 1,
        "float": 1.5,
        "nested": nested,
        "list": [],
        "object": {},
        "": "empty",
        "link": "[[good]]",
        "&anchor": "*alias",
        "!tag": "!!python/object:os.system",
        "long": "word " * 500,
    }
    path = f"properties-{agent.era}.md"
    arguments = {"path": path, "content": "body", "frontmatter": properties}
    assert agent.ask("note_upsert", arguments)["created"] is True
    said = agent.ask("note_read", {"path": path, "include_metadata": True})
    assert "warnings" not in said
    assert said["metadata"]["properties"] == properties
    assert said["content"].endswith("\n---\n\nbody")


@pytest.mark.requirement("input.types")
@pytest.mark.parametrize("depth", [60, 150, 500, 900, 980, 5_000])
def test_properties_nested_without_end(agent: Agent, depth: int) -> None:
    path = f"e-{agent.era}.md"
    body = call("note_upsert", path=path, content="x", frontmatter={"a": "DEEP"})
    text = agent.text(body).replace('"DEEP"', '{"a":' * depth + "1" + "}" * depth)
    answer = agent.post(text.encode(), body)
    assert answer.status_code in (200, 400)
    assert '"error"' in answer.text or '"code":"invalid_request"' in answer.text, answer.text[:300]
    assert agent.ask("note_read", {"path": path})["exists"] is False


@pytest.mark.requirement("input.types")
def test_more_properties_than_a_note_can_have(agent: Agent) -> None:
    for properties in (
        {f"key{number}": number for number in range(25_000)},
        {"long": "x" * 300_000},
    ):
        arguments = {"path": f"m-{agent.era}.md", "content": "x", "frontmatter": properties}
        refused(agent.ask("note_upsert", arguments), "invalid_request", "too_large")
    assert agent.ask("note_read", {"path": f"m-{agent.era}.md"})["exists"] is False


@pytest.mark.timeout(600)
@pytest.mark.requirement("catalog.paging")
def test_nine_megabytes_are_written_and_read_in_pages(server: Server, vault: Path) -> None:
    agent = Agent(f"http://127.0.0.1:{server.port}/mcp", "session")
    chance = random.Random(3)
    words = ["wort", EMOJI, CJK, '"quoted"', "\\", "\n", " ", "é"]
    content = "".join(chance.choices(words, k=3_000_000))
    assert 8_000_000 < len(content.encode()) < 10_000_000
    path = "long.md"
    said = agent.ask("note_upsert", {"path": path, "content": content})
    assert said["bytes"] == len(content.encode()) == (vault / path).stat().st_size
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = agent.ask("note_read", {"path": path, "offset": offset, "max_chars": 100_000})
        assert len(agent.heard[-1].encode()) < MESSAGE
        agent.heard.pop()
        pages.append(page["content"])
        offset = page.get("next_offset")
    agent.http.close()
    assert "".join(pages) == content


def answers_of(url: str, calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """By the official client of the session era, which drops a message beyond 1 MiB."""

    async def use() -> list[dict[str, Any]]:
        said = []
        async with Client(url, mode="legacy") as client:
            for tool, arguments in calls:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, (tool, str(result.structured_content)[:300])
                assert result.structured_content is not None
                said.append(dict(result.structured_content))
        return said

    return asyncio.run(use())


@pytest.mark.requirement("catalog.bounded")
@pytest.mark.parametrize("kind", HEAVY)
def test_the_longest_page_of_a_note_reaches_a_client(server: Server, kind: str) -> None:
    url, path = f"http://127.0.0.1:{server.port}/mcp", f"heavy-{kind}.md"
    (first,) = answers_of(url, [("note_read", {"path": path, "max_chars": 100_000})])
    assert first["content"] == HEAVY[kind][: first["next_offset"]]
    assert first["next_offset"] > 60_000


@pytest.mark.requirement("catalog.bounded")
def test_the_longest_answers_reach_a_client(server: Server, vault: Path) -> None:
    url = f"http://127.0.0.1:{server.port}/mcp"
    for number in range(50):
        body = f"# {EMOJI * 600}\n" + f"match {CJK * 300}\n" * 100 + f'"{number}"' * 8_000
        server.call("note_upsert", path=f"many/{number:02}.md", content=body)
    rows = [
        f"# {'h' * 100} {n}\n- [ ] {CJK * 100} #tag{n} [[{'l' * 100}{n}]] ^b{n}\n"
        for n in range(9_000)
    ]
    server.call(
        "note_upsert",
        path="structure.md",
        content="\n".join(rows),
        frontmatter={"title": '"' * 20_000, "tags": ["t" * 300] * 9, "k": {"v": ["\\" * 99] * 500}},
    )
    paths = [f"many/{number:02}.md" for number in range(50)]
    many, found, outline, read, info = answers_of(
        url,
        [
            (
                "note_read_many",
                {"paths": paths, "max_chars_each": 50_000, "include_metadata": True},
            ),
            ("vault_search", {"query": "^match", "context": 10, "limit": 500}),
            ("note_outline", {"path": "structure.md"}),
            ("note_read", {"path": "structure.md", "max_chars": 100_000, "include_metadata": True}),
            ("note_info", {"path": "structure.md"}),
        ],
    )
    assert many["truncated"] is True
    assert [note["path"] for note in many["notes"]] + many["left_out"] == paths
    assert len(many["notes"]) > 2
    assert found["truncated"] is True
    assert 10 < len(found["results"]) < 500
    assert outline["cut"] == ["headings", "blocks", "tasks"]
    assert set(read["metadata"]["cut"]) >= {"headings", "links", "tasks"}
    assert read["next_offset"]
    assert info["headings"] == 9_000


@pytest.mark.requirement("catalog.bounded")
def test_an_error_reaches_a_client_whatever_it_could_add(server: Server) -> None:
    server.call("note_upsert", path="same.md", content="# same\n" * 30_000)

    async def use() -> dict[str, Any]:
        async with Client(f"http://127.0.0.1:{server.port}/mcp", mode="legacy") as client:
            result = await client.call_tool("note_read", {"path": "same.md", "section": "same"})
        assert result.structured_content is not None
        return dict(result.structured_content)

    refused(asyncio.run(use()), "ambiguous")


@pytest.mark.requirement("catalog.bounded")
@pytest.mark.requirement("catalog.paging")
def test_pages_of_long_names_leave_nothing_out(server: Server, vault: Path) -> None:
    folder = "/".join([CJK * 79] * 3)
    (vault / folder).mkdir(parents=True)
    names = [f"{folder}/{CJK * 70}{number:04}.md" for number in range(1000)]
    for name in names:
        (vault / name).write_text("long name\n")
    url = f"http://127.0.0.1:{server.port}/mcp"

    wait_for(lambda: server.call("vault_search", query="long name", limit=1)["total"] == 1000, 60)
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("vault_list", {"path": folder, "limit": 1000}, "entries"),
        ("vault_search", {"query": "long name", "limit": 500}, "results"),
    ]
    for tool, arguments, items in asked:
        seen: list[str] = []
        more = True
        while more:
            (page,) = answers_of(url, [(tool, {**arguments, "offset": len(seen)})])
            assert page[items] or not page["truncated"]
            seen += [item["path"] for item in page[items]]
            more = page["truncated"]
        assert seen == names


@pytest.mark.timeout(600)
@pytest.mark.requirement("input.huge_body")
def test_nine_megabytes_over_stdio(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running(command=stdio_command(vault, tmp_path / "state"), **pipes) as server:
        stdin, stdout = server.process.stdin, server.process.stdout
        assert stdin is not None
        assert stdout is not None
        for body in (INITIALIZE, call("note_upsert", 1, path="a.md", content='"' * 9_000_000)):
            stdin.write(json.dumps(body) + "\n")
            stdin.flush()
            said = json.loads(stdout.readline())
        assert said["result"]["structuredContent"]["bytes"] == 9_000_000
