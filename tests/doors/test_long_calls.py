"""Long calls through every door: they tell how far they are, and they end when nobody waits."""

import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import LoggingMessageNotificationParams

from .connect import DOORS, Door, Target, connected
from .vaults import answer, fill, served, until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

SLOW = "(.{0,50}[aeiou]){20,40}[0-9]"
"""Takes rg some ten seconds over these notes."""
ENTRIES = 40


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "vault"
    fill(folder)
    letters, chance = "abcdefghijklmnopqrstuvwxyz", random.Random(1)
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(2000)]
    (folder / "long").mkdir()
    for number in range(12):
        lines = (" ".join(chance.choices(words, k=12)) for _ in range(3_500))
        (folder / f"long/{number}.md").write_text("\n".join(lines))
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


def running(mark: str) -> list[int]:
    """The processes that search for something."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        if mark.encode() in command and b"--regexp" in command:
            found.append(int(entry))
    return found


async def until(condition: Any, seconds: float) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


@pytest.mark.parametrize("turn", range(2))
async def test_a_search_that_nobody_waits_for_is_killed(
    client: Client, door: Door, turn: int
) -> None:
    mark = f"mark-{door}-{turn}"
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "vault_search", {"query": f"{SLOW}|{mark}"})
        await until(lambda: running(mark), 20)
        group.cancel_scope.cancel()
    await until(lambda: not running(mark), 1.5)


async def test_threads_are_free_again_after_many_cancelled_searches(
    client: Client, door: Door
) -> None:
    mark = f"crowd-{door}"
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(client.call_tool, "vault_search", {"query": f"{SLOW}|{mark}"})
        await until(lambda: len(running(mark)) == 2, 20)
        group.cancel_scope.cancel()
    started = time.monotonic()
    found = await answer(client, "vault_search", query="needle one")
    assert found["total"] == 1
    assert time.monotonic() - started < 5
    await until(lambda: not running(mark), 1.5)


def _skip_without_tokens(door: Door) -> None:
    if str(door) == "memory-modern":
        pytest.skip("the SDK's own short cut between client and server has no progress tokens")


async def test_progress_is_told_to_who_asks_for_it(client: Client, door: Door) -> None:
    _skip_without_tokens(door)
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    edits = [
        {"path": f"progress/{door}/{number}.md", "content": "x", "mode": "create"}
        for number in range(ENTRIES)
    ]
    result = await client.call_tool("notes_edit", {"edits": edits}, progress_callback=hear)
    assert not result.is_error, result
    await until(lambda: told, 5)
    steps = [progress for progress, _, _ in told]
    assert steps == sorted(set(steps))
    assert {total for _, total, _ in told} == {ENTRIES}
    assert all(message for _, _, message in told)


async def test_a_folder_that_moves_tells_its_progress(client: Client, door: Door) -> None:
    _skip_without_tokens(door)
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    place = f"moving/{door}"
    await answer(client, "note_upsert", path=f"{place}/a.md", content=f"[[{door} b]]")
    await answer(client, "note_upsert", path=f"{place}/{door} b.md", content="x")
    result = await client.call_tool(
        "note_move", {"from": place, "to": f"moved/{door}"}, progress_callback=hear
    )
    assert not result.is_error, result
    await until(lambda: told, 5)


@pytest.mark.parametrize("door", DOORS, ids=str)
async def test_a_client_hears_of_its_own_failures_when_it_asks(door: Door, target: Target) -> None:
    heard: list[LoggingMessageNotificationParams] = []

    async def hear(params: LoggingMessageNotificationParams) -> None:
        heard.append(params)

    options: dict[str, Any] = {"log_level": "info"} if door.era == "modern" else {}
    async with (
        connected(door, target, logging_callback=hear, **options) as client,
        connected(door, target, logging_callback=hear) as other,
    ):
        if door.era == "session":
            await answer(client, "note_info", path="no/such.md")
            assert heard == []
            await client.set_logging_level("info")
        await answer(client, "note_info", path="no/such.md")
        await until(lambda: heard, 5)
        (told,) = heard
        assert told.level == "info"
        assert told.data["tool"] == "note_info"
        assert told.data["code"] == "not_found"
        await answer(client, "note_read", path="notes/Welcome.md")
        await answer(other, "note_info", path="no/such.md")
        await anyio.sleep(0.2)
        assert len(heard) == 1


@pytest.mark.parametrize("door", DOORS, ids=str)
async def test_a_client_that_asks_for_errors_alone_hears_no_more(
    door: Door, target: Target
) -> None:
    heard: list[LoggingMessageNotificationParams] = []

    async def hear(params: LoggingMessageNotificationParams) -> None:
        heard.append(params)

    options: dict[str, Any] = {"log_level": "error"} if door.era == "modern" else {}
    async with connected(door, target, logging_callback=hear, **options) as client:
        if door.era == "session":
            await client.set_logging_level("error")
        await answer(client, "note_info", path="no/such.md")
        await anyio.sleep(0.2)
    assert heard == []
