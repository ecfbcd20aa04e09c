"""The process around the HTTP door: its socket, its signals, its end."""

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from server.doors.connections import Connections
from server.doors.errors import OUTWARD
from server.doors.streams import Responses
from server.doors.supervisor import Supervisor
from server.settings import Supervision
from server.telemetry import log

_LOOK_SECONDS = 0.05


def serve_http(
    app: FastAPI,
    host: str,
    port: int,
    *,
    grace_seconds: float = 3,
    connections: Connections | None = None,
    supervisor: Supervisor | None = None,
    on_listening: Callable[[int], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Calls in flight may take `grace_seconds` more, after a second signal no more. The socket is
    bound first: an address that can't be had ends in one line on stderr.
    """
    try:
        listener = _bound(host, port)
    except OSError as error:
        sys.stderr.write(f"vault-mcp: can't listen on {host}:{port}: {_reason(error)}\n")
        return OUTWARD["unavailable"].exit
    connections = connections or Connections()
    config = uvicorn.Config(
        app,
        lifespan="on",
        loop="auto",
        http=connections.make,  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(grace_seconds + 0.5),
    )
    server = _Server(
        config,
        app.state.responses,
        connections,
        supervisor or Supervisor(Supervision()),
        grace_seconds,
    )
    with listener:
        log(logging.INFO, "listening", host=host, port=listener.getsockname()[1])
        if on_listening is not None:
            on_listening(listener.getsockname()[1])
        try:
            server.run(sockets=[listener])
        except SystemExit:  # uvicorn's way to say that the lifespan did not start; it logged why
            return OUTWARD["internal_error"].exit
    return 0


def _reason(error: OSError) -> str:
    # Python adds the address to the text of some of these, which the line already has.
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error.strerror or error)


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family, backlog=1024)


class _Server(uvicorn.Server):
    """uvicorn that ends endless streams before it waits, and returns after a signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        responses: Responses,
        connections: Connections,
        supervisor: Supervisor,
        grace_seconds: float,
    ) -> None:
        super().__init__(config)
        self._responses = responses
        self._connections = connections
        self._supervisor = supervisor
        self._grace_seconds = grace_seconds
        self._is_hurried = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:  # set when the lifespan failed
            self._supervisor.ready()

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        self._connections.look(now)
        self._supervisor.beat(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._supervisor.stopping()
        self._responses.stop()
        waiting = asyncio.create_task(self._abandon_calls())
        await super().shutdown(sockets)
        waiting.cancel()

    async def _abandon_calls(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._grace_seconds
        while loop.time() < end and not self._is_hurried:  # noqa: ASYNC110 - no event in a signal handler
            await asyncio.sleep(_LOOK_SECONDS)
        self._responses.abandon()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # A plain function: the SSE library looks for uvicorn behind a bound handler and would cut
        # every answer in flight at the first signal.
        def received(_number: int, _frame: FrameType | None) -> None:
            # uvicorn's own way of not waiting leaves what it drops to end in tracebacks.
            self.force_exit = self._is_hurried
            self._is_hurried = self.should_exit
            self.should_exit = True

        before = {
            number: signal.signal(number, received) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
