"""Connections, byte by byte: what is refused before it is served, and who has to leave."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from server.doors.connections import Connections

from .connect import Running, running
from .wire import INITIALIZE, JSON

HOST = "Host: 127.0.0.1:1\n"
GET = f"GET /healthz HTTP/1.1\n{HOST}".replace("\n", "\r\n").encode()
TIMEOUT = 1.0
MOST = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """Patience for a second, room for eight."""
    with running("http", json.dumps({"connections": [MOST, TIMEOUT]})) as server:
        assert server.port
        yield server


class Peer:
    """A client that sends what it likes."""

    def __init__(self, port: int, data: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(data)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def rest(self) -> bytes:
        """All that comes until the server closes; a reset is an end too."""
        received = b""
        try:
            while chunk := self.socket.recv(65536):
                received += chunk
        except ConnectionError:
            pass
        return received


def asked(port: int, data: bytes) -> bytes:
    with Peer(port, data) as peer:
        return peer.rest()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def head(text: str, start: str = "POST /mcp HTTP/1.1") -> bytes:
    lines = f"{start}\n{HOST}Content-Type: application/json\n{text}\n\n"
    return lines.replace("\n", "\r\n").encode("latin-1")


AMBIGUOUS = {
    "both lengths": head("Content-Length: 4\nTransfer-Encoding: chunked") + b"0\r\n\r\n",
    "both lengths, turned": head("Transfer-Encoding: chunked\nContent-Length: 4") + b"0\r\n\r\n",
    "one length twice": head("Content-Length: 2\nContent-Length: 2") + b"{}",
    "two lengths": head("Content-Length: 2\nContent-Length: 1") + b"{}",
    "a list of lengths": head("Content-Length: 2, 2") + b"{}",
    "a signed length": head("Content-Length: +2") + b"{}",
    "two hosts": head("Host: evil.example\nContent-Length: 2") + b"{}",
    "chunked twice": head("Transfer-Encoding: chunked\nTransfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunked and more": head("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "not quite chunked": head("Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "identity": head("Transfer-Encoding: identity") + b"{}",
    "a space before the colon": head("Transfer-Encoding : chunked") + b"0\r\n\r\n",
    "a folded line": head("X: a\n Transfer-Encoding: chunked"),
    "chunks in 1.0": head("Transfer-Encoding: chunked", "POST /mcp HTTP/1.0") + b"0\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a version to come": head("", "GET /healthz HTTP/3.0"),
    "line feeds alone": GET.replace(b"\r\n", b"\n") + b"\n",
    "a bad chunk": head("Transfer-Encoding: chunked") + b"0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk without end": head("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\n{}",
    "an upgrade with a body": head("Connection: Upgrade\nUpgrade: h2c\nContent-Length: 2") + b"{}",
    "a tunnel": head("", "CONNECT evil.example:80 HTTP/1.1"),
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a NUL": head("X: a\0b"),
    "noise": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(server: Running, name: str) -> None:
    smuggled = AMBIGUOUS[name] + GET + b"Connection: close\r\n\r\n"
    answer = asked(server.port, smuggled)
    assert status(answer) == 400, answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what follows is not served"
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["data"]["code"] == (
        "invalid_request"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (GET + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (GET + b"X: " + b"a" * 2_000_000, 431),
        (GET + b"X: a\r\n" * 101 + b"\r\n", 431),
        (GET + b"X" * 600_000, 431),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /" + b"a" * 2_000_000, 414),
        (b"\r\n" * 40_000, 431),
        (head("Transfer-Encoding: chunked") + b"1;" + b"a" * 2_000_000, 431),
        (head("Transfer-Encoding: chunked") + b"0\r\nT: " + b"a" * 2_000_000, 431),
    ],
    ids=[
        "a long field", "a field without end", "many fields", "a name without end", "a long URL",
        "a URL without end", "nothing but line ends", "a chunk's extension", "a trailer",
    ],
)  # fmt: skip
def test_a_head_too_long_is_refused_before_it_ends(
    server: Running, data: bytes, expected: int
) -> None:
    try:
        assert status(asked(server.port, data)) == expected
    except ConnectionError:
        pytest.fail("the client could not read why")


def test_a_head_that_is_long_but_not_too_long_is_served(server: Running) -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 300) for number in range(90))
    answer = asked(server.port, GET + fields + b"Connection: close\r\n\r\n")
    assert status(answer) == 200


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for(server: Running) -> None:
    answer = asked(
        server.port, GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + b"PRI * HTTP/2.0\r\n"
    )
    assert status(answer) == 200
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_in_a_row_are_answered_in_a_row_up_to_a_number(server: Running) -> None:
    answer = asked(server.port, (GET + b"\r\n") * 4 + GET + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 5
    assert asked(server.port, (GET + b"\r\n") * 5_000).count(b"HTTP/1.1 ") == 0


def test_a_trailer_is_no_header(server: Running) -> None:
    trailed = head("Transfer-Encoding: chunked\nAuthorization: Bearer nobody") + (
        b"0\r\nAuthorization: Bearer alice-token\r\nConnection: close\r\n\r\n"
    )
    with Peer(server.port, trailed) as peer:
        assert status(peer.socket.recv(65536)) == 401


SLOW = {
    "nothing at all": b"",
    "line ends": b"\r\n",
    "half a line": b"GET /hea",
    "half a head": GET,
    "half a body": head("Content-Length: 100") + b"{",
    "half a chunk": head("Transfer-Encoding: chunked") + b"fff\r\n{",
    "a body that nobody asked for": head("Content-Length: 100", "POST /nowhere HTTP/1.1") + b"{",
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("trickle", [False, True])
def test_a_client_that_is_slow_to_send_has_to_leave(
    server: Running, name: str, trickle: bool
) -> None:
    more = b"\r\n" if name in ("nothing at all", "line ends") else b"a"
    began = time.monotonic()
    with Peer(server.port, SLOW[name]) as peer:
        peer.socket.settimeout(0.2)
        received, ended = b"", False
        while not ended and time.monotonic() - began < 20:
            try:
                chunk = peer.socket.recv(65536)
                received, ended = received + chunk, not chunk
            except TimeoutError:
                with contextlib.suppress(ConnectionError):
                    peer.socket.sendall(more if trickle else b"")
            except ConnectionError:
                ended = True
    assert ended
    assert time.monotonic() - began >= TIMEOUT
    if name.startswith("half"):
        assert status(received) == 408


def test_a_client_that_is_idle_between_requests_has_to_leave(server: Running) -> None:
    with Peer(server.port, GET + b"\r\n") as peer:
        assert status(peer.rest()) == 200, "and the server was the one to close"


def test_a_slow_body_that_keeps_coming_is_taken(server: Running) -> None:
    body = json.dumps({**INITIALIZE, "padding": "x" * 60_000}).encode()
    fields = "\n".join(f"{name}: {value}" for name, value in JSON.items())
    length = f"Content-Length: {len(body)}\nConnection: close\n{fields}"
    with Peer(server.port, head(length)) as peer:
        step = len(body) // 20 + 1
        for start in range(0, len(body), step):
            peer.socket.sendall(body[start : start + step])
            time.sleep(2.5 * TIMEOUT / 20)
        assert status(peer.rest()) in (200, 400)


def test_a_newcomer_takes_the_place_of_whoever_keeps_the_house_waiting(server: Running) -> None:
    with ExitStack() as stack:
        for _ in range(5 * MOST):
            stack.enter_context(Peer(server.port, b"GET /hea"))
            answer = asked(server.port, GET + b"Connection: close\r\n\r\n")
            assert status(answer) == 200


class Stream:
    """An app that writes without end, or never."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece
        self.begun = self.ended = self.sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun += 1
        leaving = asyncio.create_task(self._leave(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not leaving.done():
                if self.piece:
                    await send(
                        {"type": "http.response.body", "body": self.piece, "more_body": True}
                    )
                    self.sent += len(self.piece)
                await asyncio.sleep(0 if self.piece else 0.01)
        finally:
            leaving.cancel()
            self.ended += 1

    @staticmethod
    async def _leave(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_client_that_never_reads_is_cut_off_and_its_stream_ends(
    loop: str, pipelined: bool
) -> None:
    ended: list[str] = []
    stream = Stream(b"x" * 100_000)
    connections = Connections(MOST, 0.4, ended.append)

    async def scenario() -> None:
        with Listening(stream, connections) as listening:
            await listening.start()
            with Peer(listening.port, (GET + b"\r\n") * (2 if pipelined else 1)):
                await listening.until(lambda: stream.begun == 1)
                await listening.until(lambda: stream.ended == 1)
            assert ended == ["unread"]
            assert stream.sent < 20_000_000, "it waited for the client"
            assert not listening.state.connections

    run(scenario, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_client_that_leaves_is_noticed_by_its_stream(loop: str, pipelined: bool) -> None:
    stream = Stream(b"" if not pipelined else b"x")

    async def scenario() -> None:
        with Listening(stream, Connections(MOST, 0.4)) as listening:
            await listening.start()
            with Peer(listening.port, (GET + b"\r\n") * (2 if pipelined else 1)):
                await listening.until(lambda: stream.begun == 1)
            await listening.until(lambda: stream.ended == 1)

    run(scenario, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_reads_slowly_but_reads_is_served(loop: str) -> None:
    ended: list[str] = []
    stream = Stream(b"x" * 100_000)

    async def scenario() -> None:
        with Listening(stream, Connections(MOST, 0.4, ended.append)) as listening:
            await listening.start()
            with Peer(listening.port, GET + b"\r\n") as peer:
                peer.socket.setblocking(False)
                end = time.monotonic() + 2
                while time.monotonic() < end:
                    await asyncio.get_running_loop().sock_recv(peer.socket, 1_000_000)
                    await asyncio.sleep(0.02)
                    listening.look()
            assert ended == []

    run(scenario, loop)


def test_a_full_house_of_served_clients_refuses_one_more() -> None:
    stream = Stream(b"")

    async def scenario() -> None:
        with Listening(stream, Connections(3, 5)) as listening, ExitStack() as stack:
            await listening.start()
            for _ in range(3):
                stack.enter_context(Peer(listening.port, GET + b"\r\n"))
            await listening.until(lambda: stream.begun == 3)
            with Peer(listening.port) as peer:
                answer = await asyncio.to_thread(peer.rest)
            assert status(answer) == 503
            assert stream.ended == 0

    run(scenario, "asyncio")


def run(scenario: Callable[[], Coroutine[Any, Any, None]], loop: str) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(scenario(), 20))


class Listening:
    """The protocol on a socket of its own, looked at as often as a test likes."""

    def __init__(self, app: Stream, connections: Connections) -> None:
        config = uvicorn.Config(app, http=connections.make, lifespan="off", log_config=None)  # type: ignore[arg-type]
        config.load()
        self.state = uvicorn.server.ServerState()
        self._connections = connections
        self._config = config
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        for task in self.state.tasks:
            task.cancel()
        self._server.close()
        self._socket.close()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def made() -> asyncio.Protocol:
            return self._connections.make(self._config, self.state, {}, loop)

        self._server = await loop.create_server(made, sock=self._socket)

    def look(self) -> None:
        self._connections.look(asyncio.get_running_loop().time())

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.look()
            await asyncio.sleep(0.01)
