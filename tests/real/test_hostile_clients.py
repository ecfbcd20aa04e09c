"""Clients that mean harm, against a real server, while another client works."""

import contextlib
import json
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drive.processes import wait_for
from tests.real.servers import MODERN, Server

LORISES, DEAF, GIANTS = 200, 6, 20
ANSWERS = 8
"""What whoever never reads asks for: more than the system's buffers take."""
SECONDS = 3.0
"""CLIENT_TIMEOUT of the server under attack."""
GROWTH_MB = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("hostile")
    vault = place / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("# A\n")
    for number in range(20):
        (vault / f"long {number}.md").write_text("all work and no play\n" * 2_500)
    limits = {"CLIENT_TIMEOUT": str(SECONDS), "MAX_CONNECTIONS": "128", "MAX_STREAMS": "32"}
    with Server(vault, place / "state", **limits) as server:
        yield server


def opened(server: Server, data: bytes, window: int | None = None) -> socket.socket:
    connection = socket.socket()
    if window is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.port))
    # Whoever is turned away at once has sent what it could.
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)
    return connection


def post(server: Server, method: str, params: dict[str, Any], **headers: str) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return head(server, "POST", {"Content-Length": str(len(body)), **headers}) + body


def head(server: Server, verb: str, headers: dict[str, str]) -> bytes:
    fields = {
        "Host": f"127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    lines = [f"{verb} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def reading(server: Server) -> bytes:
    """A modern call whose answer is long."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    arguments = {"glob": "long*.md", "max_chars_each": 50_000}
    params = {"name": "note_read_many", "arguments": arguments, "_meta": meta}
    modern = {
        "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "note_read_many",
    }  # fmt: skip
    return post(server, "tools/call", params, **modern)


def session(server: Server) -> str:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    with opened(server, post(server, "initialize", params)) as connection:
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
    lines = answer.decode().lower().splitlines()
    return next(line.split(": ")[1] for line in lines if line.startswith("mcp-session-id"))


def ends(connection: socket.socket, seconds: float) -> bool:
    """Whether the server closes within the time."""
    end = time.monotonic() + seconds
    connection.settimeout(seconds)
    try:
        while connection.recv(1 << 20):
            connection.settimeout(max(0.01, end - time.monotonic()))
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def resident_mb(server: Server) -> float:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def sockets(server: Server) -> int:
    assert server.process is not None
    folder = Path(f"/proc/{server.process.pid}/fd")
    links = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            links.append(os.readlink(folder / name))
    return sum(link.startswith("socket:") for link in links)


def cut_off(server: Server) -> float:
    try:
        return server.metric('vault_connections_ended_total{why="unread"}')
    except KeyError:
        return 0


class Worker(threading.Thread):
    """A client that does nothing wrong, and how long it waits for each answer."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopping = threading.Event()
        self.waits: list[float] = []
        self.problems: list[str] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                answer = self._server.call("note_read", timeout=10, path="a.md")
                if "# A" not in str(answer):
                    self.problems.append(str(answer)[:200])
            except OSError as error:
                self.problems.append(repr(error))
            self.waits.append(time.monotonic() - began)
            self._stopping.wait(0.02)

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join(20)

    def __enter__(self) -> "Worker":
        self.start()
        return self


def hostile(server: Server) -> Iterator[socket.socket]:
    long_header = b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 500_000
    large = head(server, "POST", {"Content-Length": str(1 << 40)}) + b"x" * 100_000
    chunked = head(server, "POST", {"Transfer-Encoding": "chunked"}) + b"fffff\r\n" + b"x" * 100_000
    for number in range(GIANTS):
        yield opened(server, (long_header, large, chunked)[number % 3])
    for _ in range(DEAF):
        yield opened(server, reading(server) * ANSWERS, window=4096)
    for number in range(LORISES):
        yield opened(server, (b"POST /m", head(server, "POST", {})[:-2], b"")[number % 3])


def test_hostile_clients_neither_stop_the_others_nor_stay(server: Server) -> None:
    idle = sockets(server)
    before = resident_mb(server)
    with Worker(server) as worker, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(one) for one in hostile(server)]
        peak = resident_mb(server)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for one in connections[-LORISES:]:
                with contextlib.suppress(OSError):
                    one.sendall(b"a")
            peak = max(peak, resident_mb(server))
            time.sleep(0.2)
        served = len(worker.waits)
        # With their buffers emptied they may still be told why, but not be kept.
        stayed = [one for one in connections if not ends(one, 20)]
        assert len(worker.waits) > served, "the worker goes on"
    assert stayed == []
    assert worker.problems == []
    assert statistics.median(worker.waits) < 0.5
    assert peak - before < GROWTH_MB
    wait_for(lambda: sockets(server) <= idle + 2, 30, "the sockets are closed")


def test_whoever_never_reads_is_cut_off_without_reading(server: Server) -> None:
    idle, before = sockets(server), cut_off(server)
    with contextlib.ExitStack() as stack:
        for _ in range(DEAF):
            stack.enter_context(opened(server, reading(server) * ANSWERS, window=4096))
        wait_for(lambda: cut_off(server) == before + DEAF, 30, "the server closes them")
        wait_for(lambda: sockets(server) <= idle + 2, 30, "the sockets are closed")


def test_streams_are_few_for_one_caller_and_end_with_their_clients(server: Server) -> None:
    key = session(server)
    asking = {"Mcp-Session-Id": key, "MCP-Protocol-Version": "2025-11-25"}

    def streams() -> list[int]:
        answers = []
        with contextlib.ExitStack() as stack:
            for number in range(40):
                # The SDK allows a session one stream: the rest come from sessions of their own.
                own = {**asking, "Mcp-Session-Id": key if number == 0 else session(server)}
                one = stack.enter_context(opened(server, head(server, "GET", own)))
                answers.append(int(one.recv(65536).split(b" ")[1]))
        return answers

    assert streams() == [200] * 32 + [429] * 8

    def room() -> bool:
        asked = {**asking, "Mcp-Session-Id": session(server)}
        with opened(server, head(server, "GET", asked)) as one:
            return b" 200 " in one.recv(65536)

    wait_for(room, 20, "streams of clients that left make room")


def test_the_settings_limit_a_caller(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("# A\n")
    with Server(vault, tmp_path / "state", CALLS_PER_SECOND="0.01", CALLS_BURST="5") as server:
        answers = [server.call("note_read", path="a.md") for _ in range(6)]
        assert [answer.get("code") for answer in answers] == [None] * 5 + ["rate_limited"]
        assert 50 < answers[-1]["details"]["retry_after"] <= 100
        assert server.get("/healthz")[0] == 200
