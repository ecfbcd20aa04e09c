"""The HTTP connections: how much a client may send before it is heard, and how long it may take.

uvicorn waits for clients without end. Here a connection ends whose client is slow to send, doesn't
read what it asked for, or sends what another server on the way could read otherwise. Nothing is
timed per request: one look at all connections now and then finds those that are overdue.

There is no limit per address: behind a proxy or a tailnet's router all clients share one. Instead a
newcomer to a full house takes the place of the connection that has kept the server waiting longest.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from starlette.responses import Response
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from server.doors.guards import Refusal
from server.errors import InvalidRequest, Timeout, TooLarge, Unavailable

_MOST_HEAD_BYTES = 32 * 1024
_MOST_URL_BYTES = 8 * 1024
_MOST_HEADERS = 100
_MOST_PIPELINED = 8
_SLOWEST_BODY = 8 * 1024
"""Bytes a second that a body may not fall short of in the long run."""
_READ_STEP = 16 * 1024
"""Whoever reads an answer takes as much of it within the timeout, or all that is left."""
_BUFFER_BYTES = 64 * 1024
"""What may wait to be read before whoever writes has to wait: one message more, at most."""
_MOST_UNREAD = 128 * 1024 * 1024
"""What may wait to be read on all connections together."""
_PARTING_SECONDS = 2.0
"""For a client that was turned away to read why; with data on the way it would see a reset."""


# What a client is to send next; plain numbers, because they are compared for every header.
_REQUEST, _HEAD, _BODY, _NOTHING = range(4)
_SENDING = (_HEAD, _BODY)


class Connections:
    """All connections of a listener; makes uvicorn's protocols and ends those that are overdue."""

    def __init__(
        self,
        most: int = 512,
        seconds: float = 30.0,
        ended: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """`ended` hears why a connection was ended from here."""
        self.seconds = seconds
        self.ended = ended
        self._most = most
        self._open: set[Connection] = set()
        self._looked = 0.0

    def make(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> "Connection":
        """What uvicorn calls for every connection."""
        return Connection(self, config, server_state, app_state, _loop)

    def enter(self, connection: "Connection") -> bool:
        """Whether there is room for one more, made by ending one that waits if need be."""
        if len(self._open) >= self._most:
            waiting = [one for one in self._open if one.is_waiting]
            if not waiting:
                return False
            longest = min(waiting, key=lambda one: (one.phase == _BODY, one.since))
            longest.end("crowded")
            self._open.discard(longest)
        self._open.add(connection)
        return True

    def leave(self, connection: "Connection") -> None:
        self._open.discard(connection)

    def look(self, now: float) -> None:
        """End what is overdue; costs nothing when the last look was a moment ago."""
        if now - self._looked < min(1.0, self.seconds / 4):
            return
        self._looked = now
        unread = 0
        for connection in list(self._open):
            connection.look(now)
            unread += connection.unread
        for connection in sorted(self._open, key=lambda one: one.unread, reverse=True):
            if unread <= _MOST_UNREAD:
                break
            unread -= connection.unread
            connection.end("unread")


class Connection(HttpToolsProtocol):
    """One client; what it sends is counted before it is parsed and checked before it is served."""

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._house = connections
        self.phase = _REQUEST
        self.since = self.loop.time()
        self.unread = 0
        self._unread_since = self.since
        self._body_bytes = 0
        self._heard = 0
        """How often the parser made something of what was sent; `_unheard` are the bytes since."""
        self._unheard = 0
        self._refusal: Refusal | None = None
        self._served: RequestResponseCycle | None = None
        """Not `cycle`, which is the newest: requests may wait for the answer to an earlier one."""

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for this client rather than works for it."""
        return self.phase in _SENDING or not self._is_serving

    @property
    def _is_serving(self) -> bool:
        served = self._served
        return served is not None and not (served.response_complete or served.disconnected)

    def end(self, why: str) -> None:
        """Cut the connection; whatever serves it sees its client gone."""
        self._house.ended(why)
        self.transport.abort()

    def look(self, now: float) -> None:
        """End the connection when its client is overdue."""
        seconds = self._house.seconds
        self._weigh_unread(now)
        if now - self._unread_since > seconds:
            self.end("unread")
        elif self.transport.is_closing():
            return
        elif self.flow.read_paused or (self.phase not in _SENDING and self._is_serving):
            self.since = now
        elif self.phase == _NOTHING:
            if now - self.since > min(seconds, _PARTING_SECONDS):
                self.transport.abort()
        elif now - self.since > seconds + self._grace():
            self._house.ended("slow")
            if self.phase == _REQUEST:
                self.transport.close()
            else:
                self._turn_away(_slow())

    def _grace(self) -> float:
        # Once it has been answered, the rest of a body is only there to be thrown away.
        return self._body_bytes / _SLOWEST_BODY if self._is_serving else 0.0

    def _weigh_unread(self, now: float) -> None:
        size = self.transport.get_write_buffer_size()
        if size == 0 or size <= self.unread - _READ_STEP:
            self.unread, self._unread_since = size, now
        else:
            self.unread = max(self.unread, size)

    def _turn_away(self, refusal: Refusal) -> None:
        self.phase, self.since = _NOTHING, self.loop.time()
        if self._is_serving and self._served is not None:
            if self._served.response_started or self._served is not self.cycle:
                self.transport.close()  # this answer would be read as a part of the other one
                return
            self._leave_off()
        self.transport.write(_on_the_wire(refusal.response))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()

    def _leave_off(self) -> None:
        """Let whatever serves this client see that it is gone."""
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()

    def _refuse(self, refusal: Refusal) -> None:
        # The parser tells its caller of any exception in the same words.
        self._refusal = refusal
        raise refusal

    # What the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        if not self._house.enter(self):
            self._house.ended("full")
            transport.write(_on_the_wire(_full().response))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._house.leave(self)
        self.unread = 0
        self._leave_off()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self.unread, self._unread_since = 0, self.loop.time()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.phase == _NOTHING:
            return
        self._unset_keepalive_if_required()
        heard = self._heard
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.phase = _NOTHING  # the request is answered, what follows it is not heard
        except httptools.HttpParserError:
            self._house.ended("refused")
            self._turn_away(self._refusal or _malformed())
        else:
            self._unheard = self._unheard + len(data) if heard == self._heard else 0
            if self._unheard > _MOST_HEAD_BYTES:
                self._house.ended("refused")
                self._turn_away(_long_head())

    # What the parser calls

    def on_message_begin(self) -> None:
        self._heard += 1
        self._body_bytes = 0
        self.phase, self.since = _HEAD, self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > _MOST_URL_BYTES:
            self._refuse(Refusal(TooLarge("The address is too long.", "Shorten it."), status=414))

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer is none of the headers that a proxy has looked at.
        if self.phase == _HEAD:
            super().on_header(name, value)
            if len(self.headers) > _MOST_HEADERS:
                self._refuse(_long_head())

    def on_headers_complete(self) -> None:
        self._heard += 1
        self._check_head()
        self.phase, self.since = _BODY, self.loop.time()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        if len(self.pipeline) > _MOST_PIPELINED:
            self._refuse(_malformed())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        self._heard += 1
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._heard += 1
        self.phase, self.since = _REQUEST, self.loop.time()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.phase == _REQUEST:
            self.since = self.loop.time()
        super().on_response_complete()

    def _check_head(self) -> None:
        """Refuse a head too long, or one that two servers could take for different requests."""
        if sum(len(name) + len(value) + 4 for name, value in self.headers) > _MOST_HEAD_BYTES:
            self._refuse(_long_head())
        version = self.parser.get_http_version()
        names = [name for name, _ in self.headers]
        encoded, sized = names.count(b"transfer-encoding"), names.count(b"content-length")
        if (
            version not in ("1.0", "1.1")
            or names.count(b"host") > 1
            or encoded + sized > 1
            or (encoded and (version == "1.0" or not _is_chunked(self.headers)))
            # The parser takes what follows an upgrade for another protocol, a body included.
            or (self.parser.should_upgrade() and (encoded or sized))
        ):
            self._refuse(_malformed())


def _is_chunked(headers: list[tuple[bytes, bytes]]) -> bool:
    values = [value for name, value in headers if name == b"transfer-encoding"]
    return values[0].strip().lower() == b"chunked"


def _malformed() -> Refusal:
    return Refusal(
        InvalidRequest(
            "This is no HTTP request that could be read in one way only.",
            "Send one length, one Host, no upgrade, and wait for answers.",
        )
    )


def _long_head() -> Refusal:
    error = TooLarge(
        f"A request's head may have {_MOST_HEAD_BYTES} bytes and {_MOST_HEADERS} fields.",
        "Send fewer or shorter headers.",
    )
    return Refusal(error, status=431)


def _slow() -> Refusal:
    return Refusal(Timeout("The request took too long to arrive.", "Send it again."), status=408)


def _full() -> Refusal:
    return Refusal(Unavailable("Too many connections are open.", "Try again in a moment."))


def _on_the_wire(response: Response) -> bytes:
    head = b"".join(b"%s: %s\r\n" % field for field in response.raw_headers)
    return STATUS_LINE[response.status_code] + head + b"connection: close\r\n\r\n" + response.body
