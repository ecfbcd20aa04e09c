"""One client over stdin and stdout. Stdout carries the protocol alone.

The SDK's own transport reads in a thread that holds up the process, drops what is in flight when
its input ends and says nothing to a line it can't read. Here the streams that it is given are the
pipes themselves: nothing but the call is between a line that comes and the line that answers it.
"""

import asyncio
import signal
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop, serve_loop
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
    outbox = _Outbox(LineWriter(sink), flights)
    inbox = _Inbox(LineReader(source, max_message_bytes), outbox, flights)
    _catch_signals(stop, hurry)
    serving = asyncio.create_task(_serve(server, inbox, outbox))
    await _first({serving}, stop, inbox.ended, outbox.broken)
    inbox.stop()
    if not outbox.broken.is_set():
        await _first({serving}, flights.none, hurry, within=grace_seconds)
    inbox.release()
    await asyncio.wait({serving}, timeout=_ENDING)
    serving.cancel()
    await asyncio.wait({serving}, timeout=_ENDING)
    if serving.done() and not serving.cancelled():
        serving.result()


async def _serve(server: Server[Any], inbox: "_Inbox", outbox: "_Outbox") -> None:
    async with server.lifespan(server) as state:
        # Who begins with a handshake is in its era for good; of the others the SDK has to find out,
        # and passes on every message through one more stream for it.
        serve = serve_loop if await inbox.opens_with("initialize") else serve_dual_era_loop
        options = server.create_initialization_options()
        await serve(server, inbox, outbox, lifespan_state=state, init_options=options)


class _Stream:
    """What the SDK expects of a stream beside its messages."""

    async def aclose(self) -> None:
        """The pipes are the process's, and go with it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


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

    def landed(self, message: JSONRPCMessage, written: "asyncio.Future[None] | None") -> None:
        """An answer is on its way; its id is free before its client can have read it."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.end(message.id)
        if written is not None:
            self._writes += 1
            self._settle()
            written.add_done_callback(self._written)

    def _written(self, _: "asyncio.Future[None]") -> None:
        self._writes -= 1
        self._settle()

    def _settle(self) -> None:
        if self._ids or self._writes:
            self.none.clear()
        else:
            self.none.set()


class _Outbox(_Stream):
    """Writes every message that it is sent; `broken` once nobody reads them."""

    def __init__(self, writer: LineWriter, flights: _Flights) -> None:
        self._writer = writer
        self._flights = flights
        self.broken = asyncio.Event()

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            written = self._writer.write(line.encode())
            self._flights.landed(item.message, written)
            if written is not None:
                # A call that is cancelled now doesn't take back what is half out.
                await asyncio.shield(written)
        except OSError:
            self.broken.set()
            raise anyio.BrokenResourceError from None


class _Inbox(_Stream):
    """Reads messages; refuses what is none. After the last one it waits for `release`, because the
    SDK ends what is in flight when its stream ends.
    """

    def __init__(self, reader: LineReader, outbox: _Outbox, flights: _Flights) -> None:
        self._reader = reader
        self._outbox = outbox
        self._flights = flights
        self._opening: SessionMessage | None = None
        self._released = asyncio.Event()
        self.ended = asyncio.Event()

    def stop(self) -> None:
        """Take no more messages."""
        self._reader.close()

    def release(self) -> None:
        """Let the stream end."""
        self._released.set()

    async def opens_with(self, method: str) -> bool:
        """Whether the first message is a request for this; it stays the first to be received."""
        with suppress(StopAsyncIteration):
            self._opening = await self.__anext__()
        first = self._opening.message if self._opening else None
        return isinstance(first, JSONRPCRequest) and first.method == method

    def __aiter__(self) -> "_Inbox":
        return self

    async def receive(self) -> SessionMessage:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def __anext__(self) -> SessionMessage:
        opening, self._opening = self._opening, None
        if opening is not None:
            return opening
        async for line in self._reader:
            message = _parsed(line, self._reader.limit)
            if isinstance(message, JSONRPCRequest):
                message = self._admitted(message)
            if isinstance(message, _Refusal):
                # Who doesn't read any more is told nothing; `broken` ends it all.
                with suppress(anyio.BrokenResourceError):
                    await self._outbox.send(SessionMessage(message.answer))
            elif message is not None:
                if isinstance(message, JSONRPCNotification):
                    _forget_cancelled(message, self._flights)
                return SessionMessage(message)
        self.ended.set()
        await self._released.wait()
        raise StopAsyncIteration

    def _admitted(self, request: JSONRPCRequest) -> "JSONRPCRequest | _Refusal":
        if self._flights.start(request.id, endless=request.method == "subscriptions/listen"):
            return request
        # Without an id: the client would take it for the answer to its first request.
        return _Refusal(INVALID_REQUEST, f"Request id {request.id!r} is still in use.")


def _forget_cancelled(message: JSONRPCNotification, flights: _Flights) -> None:
    """A cancelled request is never answered, so nothing at the end may wait for it."""
    request_id = (message.params or {}).get("requestId")
    if message.method == "notifications/cancelled" and isinstance(request_id, int | str):
        flights.end(request_id)


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
