"""The official clients against the server as a user starts it, over HTTP and stdio, in both eras."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from server.catalog.table import LISTED, OPERATIONS, in_toolsets
from tests.doors.connect import Door, Running, Target, connected, running
from tests.doors.test_typescript import CLIENTS, clients, talk  # noqa: F401 - a fixture
from tests.doors.vaults import stdio_command
from tests.doors.wire import INITIALIZE, JSON, META, call, next_answer, request
from tests.drive.processes import wait_for
from tests.real.servers import Server

CALLS: dict[str, dict[str, Any]] = {
    "note_read": {"path": "notes/Welcome.md", "include_metadata": True},
    "note_upsert": {"path": "notes/Scratchpad.md", "content": "a line of a client"},
    "vault_search": {"query": "append-only|scanner", "context": 1},
    "vault_list": {"depth": 2},
    "note_info": {"path": "notes/Welcome.md"},
    "note_read_many": {"glob": "adr/*.md"},
    "note_outline": {"path": "adr/ADR-001-polling-scanner.md"},
    "search_notes": {"mode": "hybrid", "query": "rclone OR scanner"},
    "context_pack": {"question": "Why is the vault polled?"},
    "list_tags": {},
    "list_properties": {},
    "recent_changes": {"since": "1d"},
    "backlinks_search": {"path": "notes/Welcome.md"},
    "graph_neighbors": {"path": "notes/Welcome.md", "depth": 2},
    "link_add": {"from": "notes/Scratchpad.md", "to": "notes/Welcome.md"},
    "note_write": {"path": "notes/Written.md", "content": "# Written\n", "mode": "overwrite"},
    "note_patch": {
        "path": "notes/Written.md",
        "target": "heading",
        "selector": "Written",
        "operation": "append",
        "content": "by a client",
    },
    "notes_edit": {"edits": [{"path": "notes/Written.md", "content": "more", "mode": "append"}]},
    "note_move": {"from": "notes/Written.md", "to": "notes/Moved.md"},
    "heading_rename": {"path": "notes/Moved.md", "heading": "Written", "to": "Moved"},
    "note_delete": {"path": "notes/Moved.md"},
    "note_history": {"path": "notes/Scratchpad.md"},
    "note_restore": {"path": "notes/Written.md"},
    "undo": {"since": "1h"},
    "attachment_write": {"path": "notes/data.bin", "data": "AAAA", "overwrite": True},
    "attachment_read": {"path": "notes/data.bin"},
    "devlog_append": {"topic": "Clients", "entries": [{"type": "impl", "text": "a line"}]},
    "devlog_tail": {"topic": "clients"},
    "adr_create": {"title": "Try it", "context": "c", "decision": "d", "consequences": "e"},
    "adr_list": {},
    "adr_read": {"adr": 1},
    "adr_set_status": {"adr": 1, "status": "deprecated"},
    "health_check": {},
    "vault_sync": {},
}
LISTING = [operation.name for operation in in_toolsets(LISTED)]
TOKEN = "a-token-that-is-long-enough"
ERAS = ["session", "modern"]
STOPS: list[Callable[[Running], object]] = [
    lambda server: server.process.send_signal(signal.SIGTERM),
    lambda server: server.process.send_signal(signal.SIGINT),
    lambda server: server.process.stdin.close() if server.process.stdin else None,
]


def bare(**environ: str) -> dict[str, str]:
    """The environment of somebody who has set nothing up."""
    names = ("PATH", "HOME", "LANG", "PYTHONPATH")
    return {**{name: os.environ[name] for name in names if name in os.environ}, **environ}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`vault-mcp serve --sample` with nothing else set; yields what it prints."""
    folder = tmp_path_factory.mktemp("user")
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--sample", "sample-vault"],
        cwd=folder,
        env=bare(PORT="0", XDG_STATE_HOME=str(folder / "state"), PYTHONPATH=root),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while "claude mcp add" not in said:
            line = process.stdout.readline()
            assert line, "the server ended"
            said += line
        yield said
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()
    finally:
        process.kill()
        process.wait(20)


@pytest.fixture(scope="module")
def url(sample: str) -> str:
    found = re.search(r"http://\S+/mcp", sample)
    assert found is not None
    return found[0]


async def use_every_tool(client: Client, listing: Sequence[str] = LISTING) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == listing
    for tool, arguments in CALLS.items():
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.structured_content
        assert result.structured_content


def test_the_calls_are_of_all_tools() -> None:
    # To publish needs a repository: tests/unit/service/test_publishing.py has one.
    tools = [operation.name for operation in OPERATIONS if operation.name != "adr_publish"]
    assert list(CALLS) == tools


@pytest.mark.requirement("run.sample")
def test_the_server_says_how_to_connect(sample: str, url: str) -> None:
    assert f"claude mcp add --transport http obsidian-vault {url}\n" in sample
    assert "sample-vault" in sample.splitlines()[0]
    health = httpx2.get(url.replace("/mcp", "/healthz"))
    assert (health.status_code, health.json()["status"]) == (200, "ok")


@pytest.mark.requirement("clients.python")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_python_client_uses_every_tool(url: str, mode: str) -> None:
    async def use() -> None:
        async with Client(url, mode=mode) as client:
            assert (client.protocol_version == "2026-07-28") is (mode == "auto")
            await use_every_tool(client)

    asyncio.run(use())


@pytest.mark.requirement("clients.typescript")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("sdk", "era"), CLIENTS)
def test_the_typescript_clients_use_every_tool(
    request: pytest.FixtureRequest, url: str, sdk: str, era: str
) -> None:
    folder: Path = request.getfixturevalue("clients")
    calls = [{"name": name, "arguments": arguments} for name, arguments in CALLS.items()]
    said = talk(folder, url=url, sdk=sdk, era=era, calls=calls)
    assert said["version"] == ("2026-07-28" if era == "modern" else "2025-11-25")
    assert [tool["name"] for tool in said["tools"]] == LISTING
    for one in said["results"]:
        assert not one["result"].get("isError"), one
        assert one["result"]["structuredContent"]
        assert json.loads(one["result"]["content"][0]["text"]) == one["result"]["structuredContent"]


@pytest.mark.requirement("clients.typescript")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("sdk", "era"), CLIENTS)
def test_the_typescript_clients_read_resources_and_prompts(
    request: pytest.FixtureRequest, url: str, sdk: str, era: str
) -> None:
    folder: Path = request.getfixturevalue("clients")
    uri, prompt = "vault://note/notes/Welcome.md", {"name": "catchup", "arguments": {"since": "1d"}}
    said = talk(folder, url=url, sdk=sdk, era=era, resource=uri, prompt=prompt)
    assert uri in {resource["uri"] for resource in said["resources"]}
    assert [template["name"] for template in said["templates"]] == ["note", "folder"]
    assert said["read"]["contents"][0]["uri"] == uri
    assert said["read"]["contents"][0]["text"].strip()
    # Version 2 shows the number of the modern era for both.
    assert said["missing"]["code"] == (-32002 if sdk == "v1" else -32602)
    assert said["missing"]["data"] == {"uri": f"{uri}.missing"}
    assert "notes/Welcome.md" in said["completed"]["completion"]["values"]
    assert "weekly-review" in {one["name"] for one in said["prompts"]}
    kinds = [message["content"]["type"] for message in said["prompt"]["messages"]]
    assert kinds[:2] == ["text", "resource"]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    for name in ("notes/Welcome.md", "notes/Scratchpad.md", "adr/ADR-001-polling-scanner.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# Title\n\nscanner\n")
    return folder


@pytest.mark.requirement("stdio.clients")
@pytest.mark.parametrize("era", ERAS)
def test_the_python_client_uses_every_tool_over_stdio(vault: Path, era: Any) -> None:
    command = stdio_command(vault, vault.with_name("state"))

    async def use() -> None:
        target = Target("", command, None)  # type: ignore[arg-type]
        async with connected(Door("stdio", era), target) as client:
            assert (client.protocol_version == "2026-07-28") is (era == "modern")
            await use_every_tool(client, [operation.name for operation in OPERATIONS])

    asyncio.run(use())
    assert "\na line of a client\n" in (vault / "notes/Scratchpad.md").read_text()


class Pipe:
    """A client that writes lines and reads lines, and takes the time."""

    def __init__(self, server: Running) -> None:
        self.stdin, self.stdout = server.process.stdin, server.process.stdout

    def ask(self, body: dict[str, Any]) -> tuple[dict[str, Any], float]:
        assert self.stdin is not None
        assert self.stdout is not None
        start = time.perf_counter()
        self.stdin.write(json.dumps(body) + "\n")
        self.stdin.flush()
        _, answer = next_answer(self.stdout)
        return answer, 1000 * (time.perf_counter() - start)


def piped(vault: Path) -> Any:
    command = stdio_command(vault, vault.with_name("state"))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 1}
    return running(command=command, **pipes)


@pytest.mark.requirement("stdio.protocol_only")
@pytest.mark.requirement("stdio.ends")
@pytest.mark.parametrize("stop", STOPS, ids=["SIGTERM", "SIGINT", "EOF"])
@pytest.mark.parametrize("era", ERAS)
def test_stdio_carries_the_protocol_and_ends_cleanly(
    vault: Path, era: str, stop: Callable[[Running], object]
) -> None:
    """While scanner, guard and caretaker run; a call in flight is answered first."""
    with piped(vault) as server:
        pipe = Pipe(server)
        extra = {"_meta": META} if era == "modern" else {}
        if era == "session":
            assert pipe.ask(INITIALIZE)[0]["result"]["serverInfo"]["name"] == "obsidian-vault"
            assert pipe.stdin is not None
            pipe.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        body = call("note_upsert", 1, path="a.md", content="text")
        body["params"].update(extra)
        assert pipe.ask(body)[0]["result"]["structuredContent"]["created"] is True
        last = call("vault_search", 2, query="text")
        last["params"].update(extra)
        assert pipe.stdin is not None
        assert pipe.stdout is not None
        pipe.stdin.write(json.dumps(last) + "\n")
        pipe.stdin.flush()
        stop(server)
        rest = [line for text in pipe.stdout if "id" in (line := json.loads(text))]
        code, said = server.end(30)
    assert code == 0
    # A signal may overtake the request in the pipe; the end of the input can't.
    assert [line["id"] for line in rest] in ([2], [] if stop is not STOPS[2] else [2])
    assert "Traceback" not in said
    assert "note_upsert" in said


@pytest.mark.requirement("stdio.quick")
def test_how_long_the_first_answers_take(vault: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    with piped(vault) as server:
        pipe = Pipe(server)
        assert "result" in pipe.ask(request("ping", 0))[0]
        up = 1000 * (time.perf_counter() - start)
        opened, opening = pipe.ask(INITIALIZE)
        assert pipe.stdin is not None
        pipe.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        listed, listing = pipe.ask(request("tools/list", 1))
        assert opened["result"]["capabilities"]["tools"] is not None
        assert len(listed["result"]["tools"]) == len(OPERATIONS)
    with capsys.disabled():
        print(
            f"\nstdio: up in {up:.0f} ms, initialize {opening:.1f} ms, tools/list {listing:.1f} ms"
        )


@pytest.mark.requirement("stop.streams")
def test_sigterm_ends_the_server_although_a_stream_is_open(vault: Path) -> None:
    server = Server(vault, vault.with_name("state"))
    server.start()
    assert server.process is not None
    url = f"http://127.0.0.1:{server.port}/mcp"
    try:
        with httpx2.Client(timeout=20) as client:
            opened = client.post(url, json=INITIALIZE, headers=JSON)
            headers = {
                "Mcp-Session-Id": opened.headers["mcp-session-id"],
                "Accept": "text/event-stream",
            }
            with client.stream("GET", url, headers=headers) as stream:
                assert stream.status_code == 200
                server.process.send_signal(signal.SIGTERM)
                # The stream itself would go on for ever.
                assert server.process.wait(30) == 0
                assert list(stream.iter_lines()) == []
    finally:
        server.process.kill()
        server.process.wait(20)
    assert "Traceback" not in server.log.read_text()


METRICS = [
    "vault_calls_total", "vault_call_seconds_count", "vault_scan_seconds_count", "vault_scans_total",
    "vault_notes", "vault_index_bytes", "vault_mount_up", "vault_mount_state", "vault_mcp_sessions",
    "vault_rg_runs_total", "vault_rg_seconds_count", "vault_writes_total",
    "vault_write_conflicts_total", "vault_journal_entries",
]  # fmt: skip


@pytest.mark.requirement("ops.metrics")
@pytest.mark.requirement("ops.log")
def test_an_operator_sees_what_happens(vault: Path) -> None:
    with Server(vault, vault.with_name("state"), LOG_FORMAT="json") as server:
        server.call("note_upsert", path="a.md", content="x")
        assert server.call("vault_search", query="a(")["code"] == "invalid_request"
        said = server.get("/metrics")[1].decode()
        assert [name for name in METRICS if f"\n{name}" not in said] == []
        wait_for(lambda: server.metric("vault_notes") == 4, 20, "the next scan")
        done = 'vault_calls_total{door="mcp",outcome="ok",tool="note_upsert"}'
        assert server.metric(done) == 1
        ready = json.loads(server.get("/readyz")[1])
        assert (ready["ready"], ready["mount"]) == (True, "ok")
    calls = [json.loads(line) for line in server.log.read_text().splitlines() if '"tool"' in line]
    assert [(call["tool"], call["subject"], call["outcome"]) for call in calls] == [
        ("note_upsert", "a.md", "ok"),
        ("vault_search", "a(", "invalid_request"),
    ]
    for line in calls:
        assert line["caller"] == "anyone"
        assert line["decision"] == "allow"
        assert line["ms"] > 0


@pytest.mark.requirement("auth.token")
def test_a_token_opens_the_door_and_nothing_else_does(vault: Path) -> None:
    async def use(url: str, mode: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            await use_every_tool(client)

    with Server(vault, vault.with_name("state"), AUTH_TOKEN=TOKEN) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        for mode in ("legacy", "auto"):
            asyncio.run(use(url, mode, TOKEN))
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            answer = httpx2.post(url, json=INITIALIZE, headers={**JSON, **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert answer.json()["error"]["data"]["code"] == "unauthorized"
        assert server.get("/healthz")[0] == 200
        with pytest.raises((MCPError, ExceptionGroup)):
            asyncio.run(use(url, "auto", "wrong"))
    assert TOKEN not in server.log.read_text()
