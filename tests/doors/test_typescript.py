"""The TypeScript SDK's clients, old and new, understand this server.

Version 1 is what most agents run; it speaks the session era alone and checks even an error's data
against a tool's output schema. Version 2 speaks both eras.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.npm import install

SOURCES = Path(__file__).with_name("typescript")
CLIENTS = [("v1", "session"), ("v2", "session"), ("v2", "modern")]


@pytest.fixture(scope="session")
def clients(pytestconfig: pytest.Config) -> Path:
    """A folder with the clients installed."""
    folder = install(pytestconfig, SOURCES)
    # Renamed into its place: another worker may be running it.
    fresh = folder / f"client-{os.getpid()}.mjs"
    shutil.copy(SOURCES / "client.mjs", fresh)
    fresh.rename(folder / "client.mjs")
    return folder


def talk(clients: Path, **job: Any) -> dict[str, Any]:
    command = ["node", "client.mjs", json.dumps(job)]
    done = subprocess.run(
        command, cwd=clients, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("sdk", "era"), CLIENTS)
def test_a_typescript_client_lists_and_calls(clients: Path, url: str, sdk: str, era: str) -> None:
    calls = [
        {"name": "echo", "arguments": {"text": "grüß 🗒️"}},
        {"name": "fail", "arguments": {}},
        {"name": "echo", "arguments": {"txet": "x"}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "big", "arguments": {"size": 2000}},
    ]
    said = talk(clients, url=url, sdk=sdk, era=era, token="alice-token", calls=calls)
    assert said["version"] == ("2026-07-28" if era == "modern" else "2025-11-25")
    assert said["server"]["name"] == "sample"
    assert said["instructions"] == "Say something."
    assert {"echo", "fail", "big"} <= {tool["name"] for tool in said["tools"]}
    echoed, failed, refused, unknown, big = said["results"]
    assert echoed["result"]["structuredContent"]["text"] == "grüß 🗒️"
    assert echoed["result"]["structuredContent"]["caller"] == "alice"
    assert failed["result"]["isError"] is True
    assert failed["result"]["structuredContent"]["code"] == "conflict"
    assert refused["result"]["structuredContent"]["code"] == "invalid_request"
    assert unknown["error"]["code"] == -32602
    assert len(big["result"]["structuredContent"]["items"]) == 2000
