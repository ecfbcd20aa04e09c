"""The real tools over a real vault: the same through every door and in both eras."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client
from mcp.types import CallToolResult, ImageContent, TextContent

from server.catalog.operation import Operation
from server.catalog.table import LISTED, OPERATIONS, in_toolsets
from server.errors import CODES
from tests.real.servers import Server

from .connect import DOORS, Door, Target, connected
from .vaults import API, answer, fill, served, until_ready
from .wire import message, request, wired

pytestmark = pytest.mark.anyio

TOOLS = [operation.name for operation in OPERATIONS]
ABROAD = ("adr_publish",)
"""What succeeds only with a repository: tests/unit/service/test_publishing.py has one."""
ADR = """---
tags: [adr, accepted]
adr: 1
status: accepted
project: sample
---
# ADR-001: First
"""
PATHS = ("path", "paths", "from", "to")
GOOD: dict[str, dict[str, Any]] = {
    "note_read": {"path": "devlog/api.md", "include_metadata": True},
    "note_upsert": {"path": "made/by-{door}.md", "content": "text", "frontmatter": {"a": 1}},
    "vault_search": {"query": "needle", "context": 1},
    "vault_list": {"depth": 3},
    "note_info": {"path": "devlog/api.md"},
    "note_read_many": {"paths": ["devlog/api.md", "absent.md"], "include_metadata": True},
    "note_outline": {"path": "devlog/api.md"},
    "search_notes": {
        "mode": "hybrid",
        "query": "needle OR words",
        "path_scope": ["notes", "devlog"],
    },
    "context_pack": {"question": "Where is the second needle?"},
    "list_tags": {},
    "list_properties": {},
    "recent_changes": {"since": "1d"},
    "backlinks_search": {"path": "notes/Welcome.md"},
    "graph_neighbors": {"path": "notes/Welcome.md", "depth": 2},
    "link_add": {"from": "devlog/api.md", "to": "notes/Welcome.md"},
    "note_write": {"path": "made/written-{door}.md", "content": "text", "mode": "overwrite"},
    "note_patch": {
        "path": "notes/Welcome.md",
        "target": "text",
        "selector": "second needle",
        "operation": "replace",
        "content": "second needle",
    },
    "notes_edit": {
        "edits": [{"path": "made/edited-{door}.md", "content": "text", "mode": "append"}]
    },
    "note_move": {"from": "notes/Welcome.md", "to": "notes/Welcome.md"},
    "heading_rename": {"path": "notes/Welcome.md", "heading": "Welcome", "to": "Welcome"},
    "note_delete": {"path": "trash/{door}.md"},
    "note_history": {"path": "notes/Welcome.md"},
    "note_restore": {"path": "trash/{door}.md"},
    "undo": {"since": "1h"},
    "attachment_read": {"path": "picture.png"},
    "attachment_write": {"path": "made/{door}.bin", "data": "AAAA"},
    "devlog_append": {"topic": "By {door}", "entries": [{"type": "impl", "text": "a line"}]},
    "devlog_tail": {"topic": "tail"},
    "adr_create": {"title": "By {door}", "context": "c", "decision": "d", "consequences": "e"},
    "adr_list": {"project": "sample"},
    "adr_read": {"adr": 1},
    "adr_set_status": {"adr": 1, "status": "accepted"},
    "adr_publish": {"adr": 1},
    "health_check": {},
    "vault_sync": {"wait": 0},
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("note_read", {"path": "devlog/api.md", "section": "Nowhere"}, "not_found"),
    ("note_read", {"path": "binary.md"}, "invalid_request"),
    ("note_read", {}, "invalid_request"),
    ("note_upsert", {"path": "a.txt", "content": "x"}, "invalid_path"),
    ("note_upsert", {"path": "what?.md", "content": "x"}, "invalid_path"),
    ("note_upsert", {"path": "nul.md", "content": "a\0b"}, "invalid_request"),
    ("vault_search", {"query": "a("}, "invalid_request"),
    ("vault_search", {"query": "a", "limit": 0}, "invalid_request"),
    ("vault_list", {"path": "devlog/nothing"}, "not_found"),
    ("vault_list", {"path": ".obsidian"}, "path_not_allowed"),
    ("note_info", {"path": "devlog/apo.md"}, "not_found"),
    ("note_read_many", {}, "invalid_request"),
    ("note_outline", {"path": "notes/welcom.md"}, "not_found"),
    ("search_notes", {"mode": "full_text", "query": "(a"}, "invalid_request"),
    ("search_notes", {"mode": "tags"}, "invalid_request"),
    ("context_pack", {"question": "?!"}, "invalid_request"),
    ("recent_changes", {"since": "yesterday-ish"}, "invalid_request"),
    ("backlinks_search", {"path": "notes/Welcom.md"}, "not_found"),
    ("graph_neighbors", {"path": "notes/Welcome.md", "depth": 9}, "invalid_request"),
    ("link_add", {"from": "devlog/api.md", "to": "notes/nowhere.md"}, "not_found"),
    ("note_write", {"path": "devlog/api.md", "content": "x", "mode": "create"}, "conflict"),
    (
        "note_write",
        {"path": "devlog/api.md", "content": "x", "mode": "overwrite", "if_match": "0" * 32},
        "conflict",
    ),
    ("note_write", {"path": "what?.md", "content": "x", "mode": "create"}, "invalid_path"),
    (
        "note_patch",
        {
            "path": "devlog/api.md",
            "target": "heading",
            "selector": "Limit",
            "operation": "append",
            "content": "x",
        },
        "not_found",
    ),
    (
        "notes_edit",
        {
            "edits": [
                {"path": "made/never.md", "content": "x", "mode": "create"},
                {"path": "devlog/api.md", "content": "x", "mode": "create"},
            ]
        },
        "conflict",
    ),
    ("notes_edit", {"edits": [{"path": "devlog/api.md"}]}, "invalid_request"),
    ("note_move", {"from": "devlog/api.md", "to": "notes/Welcome.md"}, "conflict"),
    ("note_move", {"from": "devlog/api.md", "to": "devlog/api"}, "invalid_path"),
    ("note_move", {"from": "devlog/apo.md", "to": "a.md"}, "not_found"),
    ("heading_rename", {"path": "devlog/api.md", "heading": "Nope", "to": "x"}, "not_found"),
    ("note_delete", {"path": "devlog"}, "invalid_request"),
    ("note_history", {"path": "notes/never.md"}, "not_found"),
    ("note_restore", {"path": "devlog/api.md", "version": 999_999}, "not_found"),
    ("undo", {"since": "yesterday-ish"}, "invalid_request"),
    ("attachment_read", {"path": "devlog/api.md"}, "invalid_request"),
    ("attachment_read", {"path": "pictures.png"}, "not_found"),
    ("attachment_write", {"path": "a.bin", "data": "no base64!"}, "invalid_request"),
    ("attachment_write", {"path": "a.md", "data": "AAAA"}, "invalid_request"),
    ("note_delete", {"path": "devlog/apo.md"}, "not_found"),
    ("devlog_append", {"topic": "x", "entries": []}, "invalid_request"),
    (
        "devlog_append",
        {"topic": " ", "entries": [{"type": "impl", "text": "x"}]},
        "invalid_request",
    ),
    ("devlog_tail", {"topic": "nowhere"}, "not_found"),
    (
        "adr_create",
        {"title": " ", "context": "", "decision": "", "consequences": ""},
        "invalid_request",
    ),
    ("adr_list", {"status": "fine"}, "invalid_request"),
    ("adr_read", {"adr": 999}, "not_found"),
    ("adr_set_status", {"adr": 1, "status": "superseded"}, "invalid_request"),
    ("adr_publish", {"adr": 1, "repository": "you/secret"}, "permission_denied"),
    ("health_check", {"verbose": True}, "invalid_request"),
]
OWN = (
    "health_check", "vault_sync", "note_upsert", "vault_list", "recent_changes", "link_add", "note_write",
    "notes_edit", "note_delete", "attachment_write", "note_history", "note_restore", "undo",
    "devlog_append", "adr_create",
)  # fmt: skip
"""What depends on the process that is asked, or on who asked before."""
MALFORMED = [
    "../outside.md", "notes/../../outside.md", "/etc/passwd.md", "~/x.md", "C:\\x.md", "a\\b.md",
    "a\0b.md", "a\nb.md", "a\x7fb.md", ".obsidian/app.md", "notes/.git/x.md", "a//b.md", "./a.md",
    "x" * 241 + ".md", "x/" * 600 + "a.md", "a\u2028b.md",
]  # fmt: skip


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalog") / "vault"
    fill(folder)
    (folder / "adr").mkdir()
    (folder / "adr/ADR-001-first.md").write_text(ADR)
    (folder / "_index.md").write_text("| ADR | Status |\n|---|---|\n| ADR-001 | accepted |\n")
    (folder / "devlog/tail.md").write_text("[impl] 2026-02-20 a line\n")
    return folder


@pytest.fixture(scope="module")
def target(vault: Path) -> Iterator[Target]:
    with served(vault, vault.with_name("state")) as target:
        yield target


@pytest.fixture(scope="module")
async def client(anyio_backend: str, door: Door, target: Target) -> AsyncIterator[Client]:
    async with connected(door, target) as client:
        await until_ready(client)
        yield client


def path_arguments(operation: Operation) -> list[str]:
    found = [name for name in arguments(operation) if name in PATHS]
    # The new name of a heading is no path; the edits of a batch have theirs inside.
    return {"heading_rename": ["path"], "notes_edit": ["edits"]}.get(operation.name, found)


def arguments(operation: Operation) -> list[str]:
    """The names that a caller uses."""
    fields = operation.input.model_fields.items()
    return [field.alias or name for name, field in fields]


def with_path(operation: Operation, argument: str, path: str) -> dict[str, Any]:
    """Arguments that are good but for one path."""
    good = {key: value for key, value in GOOD[operation.name].items() if key != argument}
    if argument == "edits":
        return {"edits": [{**GOOD["notes_edit"]["edits"][0], "path": path}]}
    return {**good, argument: [path] if argument == "paths" else path}


def payload(result: CallToolResult) -> dict[str, Any]:
    """What a result says, having checked that it says it twice and gives nothing away."""
    block, *media = result.content
    assert isinstance(block, TextContent)
    assert all(isinstance(one, ImageContent) for one in media)
    data: dict[str, Any] | None = result.structured_content
    assert data is not None
    assert json.loads(block.text) == data
    return data


def check_quiet(result: CallToolResult, vault: Path) -> None:
    said = result.model_dump_json()
    assert str(vault.parent) not in said
    assert "Traceback" not in said


def check_error(result: CallToolResult, vault: Path) -> str:
    data = payload(result)
    assert result.is_error
    assert set(data) <= {"code", "message", "hint", "details"}
    assert data["code"] in CODES
    assert data["code"] != "internal_error"
    assert data["message"]
    assert data["hint"]
    check_quiet(result, vault)
    code: str = data["code"]
    return code


@pytest.mark.requirement("door.same")
@pytest.mark.requirement("catalog.tools")
async def test_every_tool_is_listed_with_all_that_a_model_needs(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS
    for tool, operation in zip(tools, OPERATIONS, strict=True):
        assert tool.title
        assert len(tool.description or "") > 40
        notes = tool.annotations
        assert notes is not None
        assert notes.read_only_hint is (operation.access == "read")
        assert notes.destructive_hint is operation.destructive
        assert notes.idempotent_hint is operation.idempotent
        assert notes.open_world_hint is False
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert set(tool.input_schema.get("properties", {})) == set(arguments(operation))
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert set(tool.output_schema["properties"]) == set(operation.output.model_fields)


@pytest.mark.requirement("catalog.schemas")
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool not in ABROAD])
async def test_a_success_is_what_its_schema_says(
    client: Client, door: Door, vault: Path, tool: str
) -> None:
    schemas = {item.name: item.output_schema for item in (await client.list_tools()).tools}
    arguments = json.loads(json.dumps(GOOD[tool]).replace("{door}", str(door)))
    result = await client.call_tool(tool, arguments)
    data = payload(result)
    assert not result.is_error, data
    schema = schemas[tool]
    assert schema is not None
    jsonschema.validate(data, schema)
    assert set(data) <= set(schema["properties"])
    check_quiet(result, vault)


@pytest.mark.requirement("door.same")
@pytest.mark.requirement("errors.shape")
async def test_every_door_gives_the_same_answers(vault: Path, target: Target) -> None:
    """Successes but for what a process says of itself, and errors to the last word."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(door, target)) for door in DOORS]
        for client in clients:
            await until_ready(client)
        for tool in TOOLS:
            if tool not in (*OWN, *ABROAD):
                said = [payload(await client.call_tool(tool, GOOD[tool])) for client in clients]
                assert all(one == said[0] for one in said), tool
        for tool, arguments, code in BAD:
            results = [await client.call_tool(tool, arguments) for client in clients]
            assert {check_error(result, vault) for result in results} == {code}, (tool, arguments)
            said = [payload(result) for result in results]
            assert all(one == said[0] for one in said), tool


@pytest.mark.requirement("input.unknown_arguments")
@pytest.mark.parametrize("tool", TOOLS)
async def test_an_unknown_argument_is_refused(client: Client, vault: Path, tool: str) -> None:
    result = await client.call_tool(tool, {**GOOD[tool], "no_such_argument": 1})
    assert check_error(result, vault) == "invalid_request"
    assert "no_such_argument" in payload(result)["message"]


@pytest.mark.requirement("vault.paths")
@pytest.mark.requirement("input.paths")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_malformed_path_is_refused(
    client: Client, door: Door, vault: Path, operation: Operation
) -> None:
    before = sorted(vault.rglob("*"))
    # The doors share the paths out among them: every one is tried on every operation.
    share = MALFORMED[DOORS.index(door) :: len(DOORS)]
    for argument in path_arguments(operation):
        for path in share:
            result = await client.call_tool(operation.name, with_path(operation, argument, path))
            assert check_error(result, vault) in ("invalid_path", "path_not_allowed"), path
    assert sorted(vault.rglob("*")) == before
    assert not (vault.parent / "outside.md").exists()


@pytest.mark.requirement("catalog.small")
async def test_the_listing_is_small(vault: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(vault, vault.with_name("default-state")) as server:
        async with wired(f"http://127.0.0.1:{server.port}/mcp") as wire:
            response = await wire.modern(request("tools/list"))
    tools = message(response)["result"]["tools"]
    visible = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    seen = len(json.dumps(visible, ensure_ascii=False, separators=(",", ":")).encode())
    with capsys.disabled():
        print(f"\ntools/list: {seen} bytes for the model, {len(response.content)} in all")
    assert [tool["name"] for tool in tools] == [operation.name for operation in in_toolsets(LISTED)]
    assert seen < 12_000
    assert len(response.content) < 30_000


@pytest.mark.requirement("tool.note_read")
async def test_an_absent_note_reads_as_empty(client: Client) -> None:
    result = await client.call_tool("note_read", {"path": "devlog/never.md"})
    assert not result.is_error
    data = payload(result)
    assert (data["exists"], data["content"]) == (False, "")
    assert "etag" not in data


@pytest.mark.requirement("tool.note_read")
@pytest.mark.requirement("catalog.obsidian_url")
async def test_a_note_is_read_whole_in_part_and_in_pages(client: Client) -> None:
    whole = await answer(client, "note_read", path="devlog/api.md")
    assert (whole["exists"], whole["content"]) == (True, API)
    assert whole["obsidian_url"] == "obsidian://open?vault=vault&file=devlog%2Fapi.md"
    section = await answer(client, "note_read", path="devlog/api.md", section="Limits")
    assert section["content"] == API[API.index("## Limits") :]
    block = await answer(client, "note_read", path="devlog/api.md", section="^intro")
    assert block["content"].startswith("First words.")
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await answer(client, "note_read", path="devlog/api.md", offset=offset, max_chars=50)
        assert page["etag"] == whole["etag"]
        pages.append(page["content"])
        offset = page.get("next_offset")
    assert "".join(pages) == API
    assert len(pages) == -(-len(API) // 50)


@pytest.mark.requirement("vault.unicode")
async def test_a_name_stored_in_nfd_is_known_by_its_nfc_path(
    client: Client, door: Door, vault: Path
) -> None:
    assert (await answer(client, "note_read", path="notes/Ängste.md"))["content"].startswith(
        "decomposed"
    )
    await answer(client, "note_upsert", path="notes/ängste.md", content=str(door))
    (hit,) = (await answer(client, "vault_search", query=f"^{door}$"))["results"]
    assert hit["path"] == "notes/Ängste.md"
    assert (
        len([name for name in (vault / "notes").iterdir() if name.name.endswith("ngste.md")]) == 1
    )


@pytest.mark.requirement("tool.note_upsert.create")
@pytest.mark.requirement("tool.note_upsert.append")
async def test_upsert_creates_then_appends(client: Client, door: Door, vault: Path) -> None:
    path = f"new/folder/{door}.md"
    properties = {"tags": ["devlog", "ü"], "topic": "api: limits", "created": "2026-02-20", "n": 3}
    made = await answer(
        client, "note_upsert", path=path, content="# Häuser\n", frontmatter=properties
    )
    head = "---\ntags:\n  - devlog\n  - ü\ntopic: 'api: limits'\ncreated: '2026-02-20'\nn: 3\n---\n"
    on_disk = (vault / path).read_bytes()
    assert made["created"] is True
    assert on_disk.decode() == head + "\n# Häuser\n"
    assert made["bytes"] == len(on_disk)
    assert (await answer(client, "note_read", path=path))["etag"] == made["etag"]

    more = "line two\r\n  [x] - no change to it  "
    added = await answer(
        client, "note_upsert", path=path, content=more, frontmatter={"tags": ["lost"]}
    )
    assert added["created"] is False
    assert (vault / path).read_bytes() == on_disk + b"\n" + more.encode()
    assert added["etag"] != made["etag"]
    empty = await answer(client, "note_upsert", path=path, content="")
    assert (vault / path).read_bytes() == on_disk + b"\n" + more.encode() + b"\n"
    assert empty["created"] is False


@pytest.mark.requirement("tool.note_upsert.create")
async def test_upsert_without_frontmatter_writes_the_content_alone(
    client: Client, door: Door, vault: Path
) -> None:
    extras: list[dict[str, Any]] = [{}, {"frontmatter": {}}, {"frontmatter": None}]
    for number, extra in enumerate(extras):
        path = f"plain/{door}-{number}.md"
        assert (await answer(client, "note_upsert", path=path, content="just this", **extra))[
            "created"
        ]
        assert (vault / path).read_bytes() == b"just this"


@pytest.mark.requirement("tool.vault_search")
@pytest.mark.requirement("index.own_writes")
async def test_search_gives_path_line_and_text(client: Client, door: Door) -> None:
    data = await answer(client, "vault_search", query="needle", path_filter="notes/**")
    assert [(hit["path"], hit["line"], hit["text"]) for hit in data["results"]] == [
        ("notes/Welcome.md", 3, "needle one"),
        ("notes/Welcome.md", 4, "second needle"),
        ("notes/broken.md", 4, "needle in a broken note"),
        ("notes/deep/Grüße.md", 1, "needle drei"),
    ]
    assert (data["total"], data["truncated"]) == (4, False)
    word = f"fresh{door}".replace("-", "")
    assert (await answer(client, "vault_search", query=word))["results"] == []
    await answer(client, "note_upsert", path=f"fresh/{door}.md", content=f"a\nb {word}")
    (hit,) = (await answer(client, "vault_search", query=word))["results"]
    assert (hit["path"], hit["line"], hit["text"]) == (f"fresh/{door}.md", 2, f"b {word}")


@pytest.mark.requirement("tool.vault_search")
async def test_no_match_is_an_empty_list(client: Client) -> None:
    result = await client.call_tool("vault_search", {"query": "nothing has this"})
    assert not result.is_error
    data = payload(result)
    assert (data["results"], data["total"], data["truncated"]) == ([], 0, False)


@pytest.mark.requirement("tool.vault_search.bad_regex")
@pytest.mark.parametrize(
    ("query", "words"), [("a(b", "unclosed group"), ("[z-a]", "invalid"), ("*", "repetition")]
)
async def test_a_bad_regex_is_explained(
    client: Client, vault: Path, query: str, words: str
) -> None:
    result = await client.call_tool("vault_search", {"query": query})
    assert check_error(result, vault) == "invalid_request"
    assert words in payload(result)["message"]


OPTIONS = [
    "-f/etc/passwd", "--pre=/bin/sh", "--", "-e", "--files", "-V", "--help", "-", "-uuu",
    "--hostname-bin=/bin/sh",
]  # fmt: skip


@pytest.mark.requirement("tool.vault_search.no_options")
async def test_a_query_never_becomes_an_option(client: Client, vault: Path) -> None:
    """Each is searched for as the text that it is."""
    note = vault / "options.md"
    if not note.exists():
        await answer(client, "note_upsert", path="options.md", content="\n".join(OPTIONS))
    for query in OPTIONS:
        data = await answer(client, "vault_search", query=query, path_filter="options.md")
        expected = [line for line in OPTIONS if re.search(query, line, re.IGNORECASE)]
        assert [hit["text"] for hit in data["results"]] == expected
        everywhere = await answer(client, "vault_search", query=query, limit=500)
        assert {hit["path"] for hit in everywhere["results"]} >= {"options.md"}
        assert "root:" not in json.dumps(everywhere)


@pytest.mark.requirement("tool.vault_search.no_options")
async def test_a_path_filter_never_becomes_an_option(client: Client) -> None:
    for pattern in OPTIONS:
        data = await answer(client, "vault_search", query="needle", path_filter=pattern)
        assert data["results"] == [], pattern
