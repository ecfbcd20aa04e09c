"""Every way to reach a server: a door is a transport and a protocol era.

`Target` names a server by how it is started, so that the same bodies run against any catalog.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server

ROOT = Path(__file__).parents[2]
SAMPLE = (sys.executable, str(Path(__file__).with_name("sample.py")))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Door:
    transport: Literal["http", "stdio", "memory"]
    era: Literal["session", "modern"]

    def __str__(self) -> str:
        return f"{self.transport}-{self.era}"


DOORS = [
    Door(transport, era)
    for transport in ("http", "stdio", "memory")
    for era in ("session", "modern")
]


@dataclass(frozen=True)
class Target:
    """One server: its URL, the command that serves it over stdio, and itself."""

    url: str
    command: Sequence[str]
    server: Server[Any]


@asynccontextmanager
async def connected(door: Door, target: Target, **options: Any) -> AsyncIterator[Client]:
    """The SDK's own client; `auto` asks the server what it speaks and takes the newest."""
    reach: dict[str, Any] = {
        "http": target.url,
        "stdio": StdioServerParameters(
            command=target.command[0], args=list(target.command[1:]), env=ENVIRONMENT
        ),
        "memory": target.server,
    }
    mode = "legacy" if door.era == "session" else "auto"
    async with Client(reach[door.transport], mode=mode, cache=None, **options) as client:
        yield client


class Running:
    """A server in a process of its own, with what it said on stderr."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        # Closed under it when somebody else still holds the other end.
        with suppress(ValueError):
            self.said.extend(iter(self.process.stderr.readline, ""))

    @property
    def port(self) -> int:
        """The port it listens on, once it says so."""
        until(lambda: any('"listening"' in line for line in self.said) or self._dead())
        line = next(line for line in self.said if '"listening"' in line)
        port: int = json.loads(line)["port"]
        return port

    def _dead(self) -> bool:
        assert self.process.poll() is None, "".join(self.said)
        return False

    def end(self, seconds: float = 30) -> tuple[int, str]:
        """Wait for its end: the exit code and everything it said."""
        code = self.process.wait(seconds)
        self._listener.join(20)
        return code, "".join(self.said)


@contextmanager
def running(*arguments: str, command: Sequence[str] = SAMPLE, **popen: Any) -> Iterator[Running]:
    server = Running([*command, *arguments], **popen)
    try:
        yield server
    finally:
        server.process.kill()
        server.end()
        for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
            if stream is not None:
                stream.close()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition, not for a time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


async def until_counted(client: Client, name: str, number: int) -> None:
    """Wait until the sample's counter has reached a number."""
    with anyio.fail_after(30):
        while True:
            result = await client.call_tool("seen", {})
            assert result.structured_content is not None
            if result.structured_content["counts"].get(name, 0) >= number:
                return
            await anyio.sleep(0.01)
