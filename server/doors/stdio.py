"""One client over stdin and stdout. Stdout carries the protocol alone.

The SDK's own transport reads in a thread that holds up the process, drops what is in flight when
its input ends and says nothing to a line it can't read. Here daemon threads move the bytes, so that
neither a silent client nor one that stopped reading can keep the process from ending.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from server.doors.pipes import LineReader, LineWriter, claim_standard_streams

_ENDING = 0.5
"""Seconds for the last answers to be written."""


async def serve_stdio(
    server: Server[Any], *, max_message_bytes: int = 24 << 20, grace_seconds: float = 4
) -> None:
    """Serve until EOF, SIGINT or SIGTERM, then finish what is in flight; a second one hurries.

    Calls in flight may take `grace_seconds` more. The largest note has room in a message, even if
    every character of it is escaped.
    """
    source, sink = claim_standard_streams()
    flights = _Flights()
    stop, hurry = asyncio.Event(), asyncio.Event()
    inbox, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outbox = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = answers.clone()
    reader = LineReader(source, max_message_bytes)
    _catch_signals(stop, hurry)
    serving = asyncio.create_task(
        server.run(requests, answers, server.create_initialization_options())
    )
    sending = asyncio.create_task(_send(outbox, LineWriter(sink), flights))
    reading = asyncio.create_task(_receive(reader, inbox, refusals, flights))
    await _first({serving, sending, reading}, stop)
    reading.cancel()
    await _first({serving, sending}, flights.none, hurry, within=grace_seconds)
    inbox.close()
    refusals.close()
    await asyncio.wait({serving, sending}, timeout=_ENDING)
    for task in (serving, sending, reading):
        task.cancel()
    await asyncio.wait({serving, sending, reading}, timeout=_ENDING)
    if serving.done() and not serving.cancelled():
        serving.result()


class _Flights:
    """The requests that still wait for an answer."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._endless: set[RequestId] = set()
        self._writes = 0
        self.none = asyncio.Event()
        self.none.set()

    def start(self, request_id: RequestId, *, endless: bool = False) -> bool:
        """Whether the id was free; then it is no longer. Nobody waits for an endless one."""
        key = coerce_request_id(request_id)
        if key in self._ids or key in self._endless:
            return False
        (self._endless if endless else self._ids).add(key)
        self._settle()
        return True

    def end(self, request_id: RequestId) -> None:
        self._ids.discard(coerce_request_id(request_id))
        self._endless.discard(coerce_request_id(request_id))
        self._settle()

    @contextmanager
    def landing(self, message: JSONRPCMessage) -> Iterator[None]:
        """While a message is written; an answer's id is free before its client can have read it."""
        self._writes += 1
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.end(message.id)
        try:
            yield
        finally:
            self._writes -= 1
            self._settle()

    def _settle(self) -> None:
        if self._ids or self._writes:
            self.none.clear()
        else:
            self.none.set()


async def _receive(
    reader: LineReader,
    inbox: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    flights: _Flights,
) -> None:
    async for line in reader:
        message = _parsed(line, reader.limit)
        if isinstance(message, _Refusal):
            await refusals.send(SessionMessage(message.answer))
        elif isinstance(message, JSONRPCRequest):
            if flights.start(message.id, endless=message.method == "subscriptions/listen"):
                await inbox.send(SessionMessage(message))
            else:
                # Without an id: the client would take it for the answer to its first request.
                twice = _Refusal(INVALID_REQUEST, f"Request id {message.id!r} is still in use.")
                await refusals.send(SessionMessage(twice.answer))
        elif message is not None:
            await inbox.send(SessionMessage(message))
            if isinstance(message, JSONRPCNotification):
                _forget_cancelled(message, flights)


def _forget_cancelled(message: JSONRPCNotification, flights: _Flights) -> None:
    """A cancelled request is never answered, so nothing at the end may wait for it."""
    request_id = (message.params or {}).get("requestId")
    if message.method == "notifications/cancelled" and isinstance(request_id, int | str):
        flights.end(request_id)


async def _send(
    outbox: MemoryObjectReceiveStream[SessionMessage], writer: LineWriter, flights: _Flights
) -> None:
    """Write every answer; returns when there are no more or nobody reads them."""
    with outbox, suppress(OSError):
        async for item in outbox:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            with flights.landing(item.message):
                await writer.write(line.encode())


class _Refusal:
    """The answer to a line that is no message."""

    def __init__(self, code: int, text: str, request_id: RequestId | None = None) -> None:
        self.answer = JSONRPCError(
            jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=text)
        )


def _parsed(line: bytes, limit: int) -> JSONRPCMessage | _Refusal | None:
    if len(line) > limit:
        return _Refusal(INVALID_REQUEST, f"A message may have {limit} bytes.")
    if not line.strip():
        return None
    try:
        raw = from_json(line)
    except ValueError:
        return _Refusal(PARSE_ERROR, "The line is not valid JSON.")
    try:
        return jsonrpc_message_adapter.validate_python(raw, by_name=False)
    except ValidationError:
        request_id = raw.get("id") if isinstance(raw, dict) else None
        known = request_id if type(request_id) in (int, str) else None
        return _Refusal(INVALID_REQUEST, "The line is not one JSON-RPC message.", known)


def _catch_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Until the loop closes: a signal that comes while the process ends must not spoil its end."""

    def received() -> None:
        (hurry if stop.is_set() else stop).set()

    with suppress(NotImplementedError):  # Windows ends a process without asking it
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, received)


async def _first(
    tasks: set[asyncio.Task[None]], *events: asyncio.Event, within: float | None = None
) -> None:
    """Wait until one of the tasks has ended or one of the events is set."""
    waiting = {asyncio.create_task(event.wait()) for event in events}
    try:
        await asyncio.wait({*tasks, *waiting}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiting:
            waiter.cancel()
