"""MCP over Streamable HTTP, in both protocol eras, beside the probes of an operator.

Everything here is one listener: `/mcp` for agents, `/healthz`, `/readyz` and `/metrics` for whoever
runs the server. Sessions are this process's memory. No event store is given to the SDK: one store
shared by sessions would replay one session's answers to another.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.catalog.dispatch import unexpected
from server.doors.flights import Flights
from server.doors.guards import Origins, Refusal, bearer, check_json, read_body, replayed, tidied
from server.doors.streams import Responses, is_endless
from server.errors import VaultError
from server.models import Caller
from server.telemetry import Telemetry

Ready = Callable[[], tuple[bool, Mapping[str, Any]]]


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Who sent the request that `ctx` belongs to: the caller that the door let in."""
    assert ctx.request is not None  # noqa: S101 - only HTTP requests reach this door
    caller: Caller = ctx.request.scope["state"]["caller"]
    return caller


def build_http(
    server: Server[Any],
    *,
    version: str,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str],
    max_body_bytes: int,
    session_idle_seconds: float,
    max_sessions: int,
    authenticate: Callable[[str | None], Caller],
    ready: Ready,
    telemetry: Telemetry,
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext,
) -> FastAPI:
    """The whole listener. `lifespan` is entered before the first request and left after the last.

    `authenticate` gets the bearer token, or None, and raises `VaultError` to refuse; `ready`
    answers from memory. `app.state.responses` are what a stop has to end.
    """
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=session_idle_seconds,
        max_sessions=max_sessions,
        max_request_body_size=max_body_bytes,
    )

    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(), sessions.run():
            yield

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=living)
    door = _Door(
        sessions,
        Origins(allowed_hosts, allowed_origins),
        max_body_bytes,
        authenticate,
    )
    app.state.responses = door.responses
    server.middleware.append(door.flights.follow)
    app.router.routes.extend([*_probes(version, ready, telemetry, sessions), Route("/mcp", door)])
    return app


class _Door:
    """`/mcp`: every check that needs no protocol, in order, then the SDK."""

    def __init__(
        self,
        sessions: StreamableHTTPSessionManager,
        origins: Origins,
        max_body_bytes: int,
        authenticate: Callable[[str | None], Caller],
    ) -> None:
        self.flights = Flights()
        self.responses = Responses()
        self._sessions = sessions
        self._origins = origins
        self._max_body_bytes = max_body_bytes
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._serve(scope, receive, watched)
        except Refusal as refusal:
            await refusal.response(scope, receive, send)
        except Exception as error:
            if started:
                raise
            await Refusal(unexpected(error)).response(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = tidied(scope)
        self._origins.check(headers)
        self._admit(scope, headers)
        if scope["method"] == "POST":
            check_json(headers)
            body = await read_body(receive, headers, self._max_body_bytes)
            if body is None:
                return
            receive = replayed(body, receive)
            if _has_session(headers):
                session = headers.get("mcp-session-id") or f"opening {id(scope)}"
                with self.flights.enter(scope, session, body, send) as send_and_free:
                    await self._answer(scope, receive, send_and_free)
                return
        await self._answer(scope, receive, send, endless=is_endless(scope, headers))

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, *, endless: bool = False
    ) -> None:
        app = self._sessions.handle_request
        await self.responses.run(app, scope, receive, send, endless=endless)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        try:
            caller = self._authenticate(bearer(headers))
        except VaultError as error:
            raise Refusal(error) from None
        if _has_session(headers):
            caller = replace(caller, session=headers.get("mcp-session-id"))
        scope.setdefault("state", {})["caller"] = caller
        scope["user"] = _principal(caller.name)


def _has_session(headers: Headers) -> bool:
    """Whether the request is of the session era; in the other one a session id is a mere claim."""
    return headers.get("mcp-protocol-version") in (None, *HANDSHAKE_PROTOCOL_VERSIONS)


@lru_cache(maxsize=256)
def _principal(name: str) -> AuthenticatedUser:
    """By this the SDK knows a session's owner; to anyone else the session does not exist (404)."""
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))


def _probes(
    version: str, ready: Ready, telemetry: Telemetry, sessions: StreamableHTTPSessionManager
) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": version})

    async def readyz(_request: Request) -> Response:
        is_ready, state = ready()
        return JSONResponse({"ready": is_ready, **state}, status_code=200 if is_ready else 503)

    async def metrics(_request: Request) -> Response:
        # The SDK tells the number of sessions in no other way.
        telemetry.sessions.set(len(sessions._server_instances))
        body = generate_latest(telemetry.registry)
        return Response(body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
