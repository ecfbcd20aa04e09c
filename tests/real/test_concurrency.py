"""Many agents and several servers at once: every line is there once, whole, and everyone sees it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from mcp import Client

from tests.drive.processes import wait_for
from tests.real.servers import Server

CALLS, CLIENTS, NOTES, LINES = 200, 8, 5, 40


def line(writer: int, number: int) -> str:
    """Long enough to be torn, and whole only with both its ends."""
    return f"<writer {writer} line {number} " + "é" * 200 + ">"


async def write_at_once(url: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(url, mode="legacy" if number % 2 else "auto"))
            for number in range(CLIENTS)
        ]
        assert {client.protocol_version for client in clients} == {"2025-11-25", "2026-07-28"}

        async def write(call: int) -> dict[str, Any]:
            arguments = {
                "path": f"shared/{call % NOTES}.md",
                "content": line(call % CLIENTS, call),
                "frontmatter": {"tags": ["shared"]},
            }
            result = await clients[call % CLIENTS].call_tool("note_upsert", arguments)
            assert not result.is_error, result.structured_content
            assert result.structured_content is not None
            return dict(result.structured_content)

        answers = await asyncio.gather(*map(write, range(CALLS)))
    assert sum(said["created"] for said in answers) == NOTES
    assert len({said["etag"] for said in answers}) == CALLS


@pytest.mark.requirement("write.concurrent")
@pytest.mark.requirement("index.own_writes")
def test_calls_of_many_clients_at_once_lose_nothing(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    with Server(vault, tmp_path / "state") as server:
        asyncio.run(write_at_once(f"http://127.0.0.1:{server.port}/mcp"))
        texts = [(vault / f"shared/{number}.md").read_text() for number in range(NOTES)]
        found = server.call("vault_search", query="^<writer", limit=500)
    for text in texts:
        assert text.startswith("---\ntags:\n  - shared\n---\n\n<writer")
    written = Counter(row for text in texts for row in text.splitlines() if "writer" in row)
    assert written == Counter(line(call % CLIENTS, call) for call in range(CALLS))
    assert found["total"] == CALLS
    assert [entry.name for entry in (vault / "shared").iterdir() if entry.suffix != ".md"] == []


def sees_all(server: Server, lines: Sequence[str]) -> bool:
    found = server.call("vault_search", query="<writer .*>", limit=500)
    return bool(found["total"] == len(lines))


@pytest.mark.requirement("write.two_servers")
@pytest.mark.parametrize("states", [("state", "state"), ("state", "other")], ids=["one", "two"])
def test_two_servers_on_one_vault_lose_nothing(tmp_path: Path, states: tuple[str, str]) -> None:
    """With one state folder or two; one note from nothing, and one that both make first."""
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "log.md").write_text("start\n")
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        servers = [stack.enter_context(Server(vault, tmp_path / state)) for state in states]
        barrier = Barrier(len(servers))

        def append(writer: int) -> list[bool]:
            barrier.wait(20)
            created = []
            for number in range(LINES):
                path = "log.md" if number else "new.md"
                said = servers[writer].call("note_upsert", path=path, content=line(writer, number))
                assert "etag" in said, said
                created.append(said["created"])
            return created

        created = list(pool.map(append, range(len(servers))))
        assert sum(map(sum, created)) == 1, "exactly one of them made the new note"
        written = [
            row
            for note in ("log.md", "new.md")
            for row in (vault / note).read_text().splitlines()
            if row not in ("", "start")
        ]
        expected = [line(writer, number) for writer in range(2) for number in range(LINES)]
        assert sorted(written) == sorted(expected)
        for server in servers:
            wait_for(partial(sees_all, server, expected), 20, "the other's lines")
            total = server.call("note_info", path="log.md")["lines"]
            assert total == (vault / "log.md").read_text().count("\n") + 1


@pytest.mark.requirement("vault.create_once")
def test_a_note_that_two_servers_create_at_once_is_created_once(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "keep.md").write_text("here")
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        servers = [stack.enter_context(Server(vault, tmp_path / f"state{n}")) for n in range(2)]
        for round_ in range(10):
            path, barrier = f"race/{round_}.md", Barrier(8)

            def create(writer: int, path: str = path, barrier: Barrier = barrier) -> bool:
                barrier.wait(20)
                said = servers[writer % 2].call(
                    "note_upsert", path=path, content=f"w{writer}", frontmatter={"by": writer}
                )
                return bool(said["created"])

            created = list(pool.map(create, range(8)))
            assert sum(created) == 1
            text = (vault / path).read_text()
            assert text.startswith(
                f"---\nby: {created.index(True)}\n---\n\nw{created.index(True)}\n"
            )
            assert sorted(text.split("---\n\n")[1].split("\n")) == [f"w{n}" for n in range(8)]


@pytest.mark.requirement("index.external_edits")
def test_what_others_do_is_seen_by_the_next_scan(tmp_path: Path) -> None:
    """Edited, created, moved and deleted by another program while the server runs."""
    vault = tmp_path / "vault"
    vault.mkdir()
    for name in ("edited", "moved", "deleted"):
        (vault / f"{name}.md").write_text(f"before {name}\n")
    with Server(vault, tmp_path / "state") as server:

        def paths(query: str) -> list[str]:
            return [hit["path"] for hit in server.call("vault_search", query=query)["results"]]

        assert paths("^before") == ["deleted.md", "edited.md", "moved.md"]
        (vault / "edited.md").write_text("after\n")
        (vault / "created.md").write_text("after\n")
        (vault / "moved.md").rename(vault / "elsewhere.md")
        (vault / "deleted.md").unlink()
        assert server.call("note_read", path="edited.md")["content"] == "after\n", "a read looks"
        wait_for(lambda: paths("^before") == ["elsewhere.md"], 20, "the scan")
        assert paths("^after") == ["created.md", "edited.md"]
