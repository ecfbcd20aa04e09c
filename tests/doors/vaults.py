"""The real catalog over a small vault, behind every door."""

import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from server.app import open_app, stdio_door
from server.settings import TOOLSETS, load
from tests.real.servers import Server

from .connect import DOORS, Target

API = """---
tags: [devlog, api]
topic: api
---
# API

First words. See [[Welcome]] and ![[picture.png]]. ^intro

## Limits

- [ ] measure them
- [x] name them
"""


def fill(folder: Path) -> None:
    """A vault with one thing of every kind."""
    for name in (".obsidian", "devlog", "notes/deep"):
        (folder / name).mkdir(parents=True)
    (folder / "devlog/api.md").write_text(API)
    (folder / "notes/Welcome.md").write_text("# Welcome\n\nneedle one\nsecond needle\n")
    (folder / "trash").mkdir()
    for door in DOORS:
        (folder / f"trash/{door}.md").write_text("to be thrown away\n")
    (folder / "notes/deep/Grüße.md").write_text("needle drei\n")
    (folder / unicodedata.normalize("NFD", "notes/Ängste.md")).write_text("decomposed\n")
    (folder / "notes/broken.md").write_text("---\ntags: [a\n---\nneedle in a broken note\n")
    (folder / "binary.md").write_bytes(bytes(range(256)) * 8)
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\0")


def environ(vault: Path, state: Path) -> dict[str, str]:
    return {
        "VAULT_PATH": str(vault), "STATE_DIR": str(state), "SCAN_INTERVAL": "1",
        "TOOLSETS": ",".join(TOOLSETS), "CALLS_PER_SECOND": "0", "CONCURRENT_CALLS": "0",
    }  # fmt: skip


def stdio_command(vault: Path, state: Path) -> list[str]:
    assigned = [f"{name}={value}" for name, value in environ(vault, state).items()]
    return ["env", *assigned, sys.executable, "-m", "server", "stdio"]


@contextmanager
def served(vault: Path, state: Path) -> Iterator[Target]:
    """One vault behind three servers: a process over HTTP, one over stdio, one in this process."""
    settings = load(environ(vault, state))
    with Server(vault, state, TOOLSETS=",".join(TOOLSETS)) as http, open_app(settings) as app:
        url = f"http://127.0.0.1:{http.port}/mcp"
        yield Target(url, stdio_command(vault, state), stdio_door(app))


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a call says, success or error, as data."""
    said: dict[str, Any] | None = (await client.call_tool(tool, arguments)).structured_content
    assert said is not None
    return said


async def until_ready(client: Client) -> None:
    """Wait for the first scan."""
    with anyio.fail_after(30):
        while (await answer(client, "health_check"))["status"] != "ok":
            await anyio.sleep(0.02)
