"""Subscribers of a real server: hundreds at once, some that never read, and changes on real mounts."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from server.catalog.resources import uri_of
from tests.doors.connect import Door, Target
from tests.doors.test_subscriptions import Heard, watching
from tests.doors.wire import JSON, META, modern_headers, request
from tests.drive.fixtures import DriveMounter
from tests.drive.processes import wait_for
from tests.real.servers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

STREAMS, SESSIONS = 420, 80
ROUNDS = 20
INTERVAL = 3.0
NOTE = f"devlog/a long name for one note that many want to hear of{' and of which much is said' * 6}.md"
URI = uri_of("note", NOTE)
ERAS = [Door("http", "session"), Door("http", "modern")]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def target(server: Server) -> Target:
    return Target(f"http://127.0.0.1:{server.port}/mcp", ["none"], None)  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "vault/devlog").mkdir(parents=True)
    (tmp_path / "vault" / NOTE).write_text("before\n")
    with Server(
        tmp_path / "vault",
        tmp_path / "state",
        MAX_CONNECTIONS="2048",
        MAX_STREAMS="1000",
        SCAN_INTERVAL=str(INTERVAL),
        CLIENT_TIMEOUT="4",
    ) as running:
        yield running


def spellings(number: int) -> list[str]:
    """URIs of one and the same note, which a server has to tell one by one."""
    name = NOTE.rpartition("/")[2]
    letters = [place for place, letter in enumerate(name) if letter.isalpha()]
    found = []
    for one in range(number):
        chars = list(name)
        for bit, place in enumerate(letters[:12]):
            if one >> bit & 1:
                chars[place] = chars[place].upper()
        found.append(uri_of("note", f"devlog/{''.join(chars)}"))
    return found


def listening(uris: list[str]) -> bytes:
    """A `subscriptions/listen` as it goes over the wire."""
    body: dict[str, Any] = request("subscriptions/listen", 7)
    body["params"] = {"notifications": {"resourceSubscriptions": uris}, "_meta": META}
    content = json.dumps(body).encode()
    headers = {**JSON, **modern_headers(body), "Host": "127.0.0.1", "Content-Length": len(content)}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + content


@asynccontextmanager
async def stream(port: int, uris: list[str]) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(listening(uris))
        await _until(reader, b"notifications/subscriptions/acknowledged")
        yield reader
    finally:
        writer.close()


async def _until(reader: asyncio.StreamReader, what: bytes) -> None:
    while True:
        line = await reader.readline()
        assert line, "the stream ended"
        if what in line:
            return


def never_reading(port: int) -> socket.socket:
    """A client that asks for much and takes nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(listening(spellings(1000)))
    return connection


@pytest.mark.timeout(600)
async def test_five_hundred_are_served_whoever_does_not_read(server: Server) -> None:
    deaf = [never_reading(server.port) for _ in range(2)]
    async with _many(server) as readers, _sessions(server) as sessions:
        for number in range(ROUNDS):
            started = time.monotonic()
            for heard in sessions:
                heard.all.clear()
            # Enough for those that don't read to be stuck, in the middle of it all.
            await anyio.to_thread.run_sync(
                lambda: server.call("note_upsert", path=NOTE, content="more " * 50)
            )
            with anyio.fail_after(30):
                await asyncio.gather(
                    *(_until(r, b"notifications/resources/updated") for r in readers)
                )
                for heard in sessions:
                    await heard.until(lambda told: URI in told)
            print(
                f"round {number}: {len(readers) + len(sessions)} told in {time.monotonic() - started:.2f} s"
            )
    for connection in deaf:
        connection.close()
    # Whatever was held for any of them is given back.
    assert server.call("health_check")["status"] == "ok"


@asynccontextmanager
async def _many(server: Server) -> AsyncIterator[list[asyncio.StreamReader]]:
    async with anyio.create_task_group() as group:
        readers: list[asyncio.StreamReader] = []
        done = anyio.Event()

        async def one() -> None:
            async with stream(server.port, [URI]) as reader:
                readers.append(reader)
                await done.wait()

        for _ in range(STREAMS):
            group.start_soon(one)
        with anyio.fail_after(60):
            while len(readers) < STREAMS:
                await anyio.sleep(0.05)
        yield readers
        done.set()


@asynccontextmanager
async def _sessions(server: Server) -> AsyncIterator[list[Heard]]:
    async with anyio.create_task_group() as group:
        sessions: list[Heard] = []
        done = anyio.Event()

        async def one() -> None:
            heard = Heard()
            async with Client(
                target(server).url, mode="legacy", cache=None, message_handler=heard
            ) as client:
                await client.subscribe_resource(URI)
                sessions.append(heard)
                await done.wait()

        for _ in range(SESSIONS):
            group.start_soon(one)
        with anyio.fail_after(60):
            while len(sessions) < SESSIONS:
                await anyio.sleep(0.05)
        yield sessions
        done.set()


@pytest.mark.parametrize("door", ERAS, ids=str)
async def test_an_edit_in_a_folder_is_told_within_an_interval_and_a_second(
    server: Server, door: Door
) -> None:
    file = Path(server.env["VAULT_PATH"]) / NOTE
    async with watching(door, target(server), URI) as (_, heard):
        await _told_in_time(heard, file)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("door", ERAS, ids=str)
async def test_an_edit_on_a_real_mount_is_told_within_an_interval_and_a_second(
    drive_mount: DriveMounter, tmp_path: Path, door: Door
) -> None:
    mount = drive_mount(rc=False)
    (mount.root / "devlog").mkdir()
    (mount.root / NOTE).write_text("before\n")
    with Server(mount.root, tmp_path / "state", SCAN_INTERVAL=str(INTERVAL)) as server:
        wait_for(lambda: server.call("note_info", path=NOTE).get("etag"), 30, "indexed")
        # A remote that has been quiet is asked less often, unless somebody waits.
        time.sleep(3 * INTERVAL)
        async with watching(door, target(server), URI) as (_, heard):
            await _told_in_time(heard, mount.root / NOTE)


async def _told_in_time(heard: Heard, file: Path) -> None:
    """Twice: whatever was the scanner's pace before."""
    await anyio.sleep(INTERVAL + 0.5)
    for number in range(2):
        heard.all.clear()
        started = time.monotonic()
        await anyio.to_thread.run_sync(file.write_text, f"after {'more ' * number}\n")
        await heard.until(lambda told: URI in told)
        took = time.monotonic() - started
        print(f"told after {took:.2f} s")
        assert took <= INTERVAL + 1
