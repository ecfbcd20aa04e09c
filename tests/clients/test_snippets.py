"""Every configuration has the shape that its client documents, and leads to the server."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from server.catalog.table import LISTED, in_toolsets
from tests.clients.snippets import (
    COMMAND,
    FOLDER,
    HTTP,
    SNIPPETS,
    STDIO,
    TOKEN,
    URL,
    VAULT,
    Snippet,
)
from tests.drive.processes import which
from tests.npm import install
from tests.real.servers import Server

SECRET = "a-token-that-is-long-enough"
TOOLS = [operation.name for operation in in_toolsets(LISTED)]
FILES = {
    "claude-code": ".mcp.json",
    "claude-desktop": "claude_desktop_config.json",
    "cursor": "mcp.json",
    "vscode": "mcp.json",
}
STDIO_FIELDS = {"type", "command", "args", "env"}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/a.md").write_text("# A\n")
    return tmp_path / "vault"


def test_every_client_has_both_ways() -> None:
    assert {(one.client, one.transport) for one in SNIPPETS} == {
        (client, transport) for client in FILES for transport in ("http", "stdio")
    }
    assert all(one.path.name == FILES[one.client] for one in SNIPPETS)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_its_shape_is_the_documented_one(snippet: Snippet) -> None:
    whole, entry = json.loads(snippet.text), snippet.entry()
    assert set(whole) <= {"servers", "inputs"} if snippet.client == "vscode" else {"mcpServers"}
    if "url" in entry:
        assert set(entry) - {"type"} == {"url", "headers"}
        assert entry.get("type", "http") == "http"
        assert list(entry["headers"]) == ["Authorization"]
        # Only Cursor guesses it from the url.
        assert "type" in entry or snippet.client == "cursor"
    else:
        assert set(entry) <= STDIO_FIELDS
        assert entry.get("type", "stdio") == "stdio"
        assert isinstance(entry["command"], str)
        assert all(isinstance(word, str) for word in [*entry["args"], *entry["env"].values()])
    for asked in whole.get("inputs", ()):
        assert set(asked) == {"type", "id", "description", "password"}
        assert (asked["type"], asked["password"]) == ("promptString", True)
        assert f"${{input:{asked['id']}}}" in snippet.text


async def _asked(client: Client) -> None:
    assert client.server_info is not None
    assert client.server_info.name == "obsidian-vault"
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == TOOLS
    assert not (await client.call_tool("note_read", {"path": "a.md"})).is_error


@pytest.mark.requirement("clients.files")
@pytest.mark.parametrize("snippet", STDIO, ids=str)
def test_its_command_starts_the_server(snippet: Snippet, vault: Path, tmp_path: Path) -> None:
    command = which("vault-mcp")
    assert command is not None
    entry = json.loads(json.dumps(snippet.filled({})).replace(COMMAND, command))
    assert (entry["command"], entry["env"]) == (command, {"VAULT_PATH": VAULT})
    # What a desktop has: no settings, no folder of ours.
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), "VAULT_PATH": str(vault)}
    parameters = StdioServerParameters(
        command=entry["command"], args=entry["args"], env=environ, cwd=str(tmp_path)
    )

    async def use() -> None:
        async with Client(parameters, mode="legacy") as client:
            await _asked(client)

    asyncio.run(use())


@pytest.mark.requirement("clients.files")
@pytest.mark.parametrize("snippet", HTTP, ids=str)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_its_url_and_headers_open_the_server(snippet: Snippet, mode: str, vault: Path) -> None:
    given = {"VAULT_MCP_TOKEN": SECRET, "vault-mcp-token": SECRET}

    async def use(entry: dict[str, Any]) -> None:
        async with (
            httpx2.AsyncClient(headers=entry["headers"], timeout=30) as http,
            Client(streamable_http_client(entry["url"], http_client=http), mode=mode) as client,
        ):
            await _asked(client)

    with Server(vault, vault.with_name("state"), AUTH_TOKEN=SECRET) as server:
        entry = snippet.filled(given)
        assert entry["url"] == f"{URL}/mcp"
        entry["url"] = f"http://127.0.0.1:{server.port}/mcp"
        asyncio.run(use(entry))


@pytest.mark.timeout(420)
def test_the_bridge_of_claude_desktop(
    vault: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`npx mcp-remote` as it is written there; it is installed, so that nothing is fetched."""
    packages = install(request.config, Path(__file__).parent / "packages")
    snippet = next(one for one in SNIPPETS if str(one) == "claude-desktop-http")
    text = snippet.text.replace(TOKEN, f"Bearer {SECRET}")

    async def use(entry: dict[str, Any]) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **entry["env"]}
        parameters = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=environ, cwd=str(packages)
        )
        async with Client(parameters, mode="legacy") as client:
            await _asked(client)

    with Server(vault, vault.with_name("state"), AUTH_TOKEN=SECRET) as server:
        asyncio.run(use(snippet.entry(text.replace(URL, f"http://127.0.0.1:{server.port}"))))


@pytest.mark.timeout(420)
@pytest.mark.parametrize("client", ["claude-desktop", "cursor"])
def test_the_inspector_reads_the_file(
    client: str, vault: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A client by other people, given the file itself."""
    packages = install(request.config, Path(__file__).parent / "packages")
    snippet = next(one for one in SNIPPETS if str(one) == f"{client}-stdio")
    command = which("vault-mcp")
    assert command is not None
    file = tmp_path / snippet.path.name
    file.write_text(snippet.text.replace(COMMAND, command).replace(VAULT, str(vault)))
    inspector = str(packages / "node_modules/.bin/mcp-inspector")
    asked = ("--cli", "--config", str(file), "--server", "obsidian-vault", "--method", "tools/list")
    done = subprocess.run(
        [inspector, *asked],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == TOOLS


def test_no_file_holds_a_secret() -> None:
    for path in FOLDER.rglob("*"):
        if path.is_file():
            assert "vmt_" not in path.read_text(encoding="utf-8")
