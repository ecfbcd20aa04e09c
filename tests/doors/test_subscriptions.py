"""Who is told of which change, and when: through every door, in the way of its era."""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import ResourceListChangedNotification, ResourceUpdatedNotification

from server.catalog.resources import uri_of

from .connect import Door, Target, connected
from .vaults import answer, fill, served, until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

WITHIN = 10.0
"""Bounded, and long for a busy machine; how long it takes at rest is measured where it matters."""
LISTED = "list"


class Heard:
    """What a client was told: URIs, and `LISTED` for a changed list."""

    def __init__(self) -> None:
        self.all: list[str] = []

    async def __call__(self, message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self.all.append(str(message.params.uri))
        elif isinstance(message, ResourceListChangedNotification):
            self.all.append(LISTED)

    async def until(self, condition: Callable[[list[str]], bool]) -> None:
        with anyio.fail_after(WITHIN):
            while not condition(self.all):
                await anyio.sleep(0.01)


@asynccontextmanager
async def watching(door: Door, target: Target, *uris: str) -> AsyncIterator[tuple[Client, Heard]]:
    """A client that watches some resources and the list, in the way of its era."""
    heard = Heard()
    options = {"message_handler": heard} if door.era == "session" else {}
    async with connected(door, target, **options) as client:
        await until_ready(client)
        if door.era == "session":
            for uri in uris:
                await client.subscribe_resource(uri)
            yield client, heard
            return
        async with (
            client.listen(resource_subscriptions=uris, resources_list_changed=True) as stream,
            anyio.create_task_group() as group,
        ):

            async def listen() -> None:
                async for event in stream:
                    if isinstance(event, ResourceUpdated):
                        heard.all.append(event.uri)
                    elif isinstance(event, ResourcesListChanged):
                        heard.all.append(LISTED)

            group.start_soon(listen)
            yield client, heard
            group.cancel_scope.cancel()


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("subscriptions") / "vault"
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def target(vault: Path) -> Iterator[Target]:
    with served(vault, vault.with_name("state")) as target:
        yield target


def write(folder: Path, path: str, text: str) -> str:
    """Somebody writes a note behind the server's back; its URI."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    # Another time whatever the clock's resolution.
    os.utime(file, ns=(time.time_ns(), time.time_ns() - 5_000_000_000 + len(text)))
    return uri_of("note", path)


async def test_an_edit_behind_the_servers_back_is_told(
    door: Door, target: Target, vault: Path
) -> None:
    uri = write(vault, f"watched/{door}.md", "before")
    other = write(vault, f"watched/{door} other.md", "before")
    async with watching(door, target, uri) as (client, heard):
        await _indexed(client, f"watched/{door} other.md")
        heard.all.clear()
        write(vault, f"watched/{door}.md", "after, and longer")
        write(vault, f"watched/{door} other.md", "after, and longer")
        await heard.until(lambda all_: uri in all_)
        assert other not in heard.all


async def test_own_writes_are_told_at_once(door: Door, target: Target) -> None:
    path = f"own/{door} Ü.md"
    uri = uri_of("note", path)
    folder = "vault://folder/own"
    async with watching(door, target, uri, folder) as (client, heard):
        await answer(client, "note_upsert", path=path, content="first")
        await heard.until(lambda all_: {uri, folder, LISTED} <= set(all_))
        heard.all.clear()
        await answer(client, "note_upsert", path=path, content="second")
        await heard.until(lambda all_: uri in all_)
        # The list and the folder have the same names as before.
        assert LISTED not in heard.all
        assert folder not in heard.all
        heard.all.clear()
        await answer(client, "note_move", **{"from": path, "to": f"own/{door} moved.md"})
        await heard.until(lambda all_: {uri, folder, LISTED} <= set(all_))


async def test_a_note_is_heard_of_under_the_uri_that_was_asked_for(
    door: Door, target: Target
) -> None:
    path = f"own/{door} spelled.md"
    odd = f"vault://note/own/{door}%20SPELLED.md".replace("/own/", "/%6Fwn/")
    async with watching(door, target, odd) as (client, heard):
        await answer(client, "note_upsert", path=path, content="x")
        await heard.until(lambda all_: odd in all_)


async def test_many_changes_are_told_as_few(door: Door, target: Target) -> None:
    path = f"own/{door} often.md"
    uri = uri_of("note", path)
    async with watching(door, target, uri) as (client, heard):
        for number in range(30):
            await answer(client, "note_upsert", path=path, content=f"line {number}")
        await heard.until(lambda all_: uri in all_)
        await anyio.sleep(0.5)
        assert len(heard.all) <= 25


async def test_what_is_unsubscribed_is_told_no_more(door: Door, target: Target) -> None:
    if door.era == "modern":
        pytest.skip("a stream of the modern era is closed instead")
    first, second = f"own/{door} a.md", f"own/{door} b.md"
    async with watching(door, target, uri_of("note", first), uri_of("note", second)) as (
        client,
        heard,
    ):
        await client.unsubscribe_resource(uri_of("note", first))
        await answer(client, "note_upsert", path=first, content="x")
        await answer(client, "note_upsert", path=second, content="x")
        await heard.until(lambda all_: uri_of("note", second) in all_)
        assert uri_of("note", first) not in heard.all


async def test_what_can_never_be_there_is_watched_in_silence(door: Door, target: Target) -> None:
    uris = ["vault://note/.obsidian/app.json", "vault://note/../x.md", "file:///etc/passwd"]
    async with watching(door, target, *uris) as (client, heard):
        await answer(client, "note_upsert", path=f"own/{door} c.md", content="x")
        await heard.until(lambda all_: LISTED in all_)
        assert not set(heard.all) & set(uris)


async def _indexed(client: Client, path: str) -> None:
    with anyio.fail_after(WITHIN):
        while (await answer(client, "search_notes", path_scope=[path])).get("total") != 1:
            await anyio.sleep(0.05)
