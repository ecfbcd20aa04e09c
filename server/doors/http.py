"""MCP over Streamable HTTP, in both protocol eras, beside the probes of an operator.

Everything here is one listener: `/mcp` for agents, `/healthz`, `/readyz` and `/metrics` for whoever
runs the server. Sessions are this process's memory. No event store is given to the SDK: one store
shared by sessions would replay one session's answers to another.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import anyio
from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.catalog.dispatch import unexpected
from server.doors.flights import Flights
from server.doors.guards import Origins, Refusal, check_json, read_body, replayed, tidied
from server.doors.identity import Reception, Refused, Resource
from server.doors.sessions import Sessions
from server.doors.streams import Responses, is_endless
from server.errors import PermissionDenied, RateLimited
from server.models import Caller
from server.telemetry import Telemetry

_LOOK_SECONDS = 2.0
"""How long a stream may go on after its caller's token has ended."""

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
    max_sessions_of_one_caller: int | None = None,
    authenticate: Callable[[str | None], Caller],
    may_wait: Callable[[str | None], bool] = lambda _token: False,
    resource: Resource | None = None,
    ready: Ready,
    telemetry: Telemetry,
    knows_all: Callable[[Caller], bool] = lambda _caller: True,
    refused: Refused | None = None,
    responses: Responses | None = None,
    charge: Callable[[Caller], None] = lambda _caller: None,
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext,
) -> FastAPI:
    """The whole listener. `lifespan` is entered before the first request and left after the last.

    `authenticate` gets the bearer token, or None, and raises `VaultError` to refuse; where
    `may_wait` says so it is asked from a thread. `resource` is told to clients that need a token.
    `ready` answers from memory; `knows_all` tells who may see figures about the whole vault;
    `charge` raises `RateLimited` for a caller that asks too often.
    `app.state.responses` are what a stop has to end, and
    `app.state.reception` lets callers into other pages.
    """
    sessions = Sessions(
        server,
        most_of_one_caller=max_sessions_of_one_caller,
        session_idle_timeout=session_idle_seconds,
        max_sessions=max_sessions,
        max_request_body_size=max_body_bytes,
    )

    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(), sessions.run():
            yield

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=living)
    reception = Reception(
        authenticate,
        Origins(allowed_hosts, allowed_origins),
        resource=resource,
        may_wait=may_wait,
        refused=refused,
    )
    door = _Door(
        sessions,
        reception,
        max_body_bytes,
        responses or Responses(),
        charge,
    )
    app.state.responses = door.responses
    app.state.reception = reception
    # Before all that may answer a call without asking what comes behind it.
    server.middleware.insert(0, door.flights.follow)
    app.router.routes.extend(
        [
            *_probes(version, ready, telemetry, sessions, reception, knows_all),
            *reception.routes(),
            Route("/mcp", door),
        ]
    )
    return app


class _Door:
    """`/mcp`: every check that needs no protocol, in order, then the SDK."""

    def __init__(
        self,
        sessions: Sessions,
        reception: Reception,
        max_body_bytes: int,
        responses: Responses,
        charge: Callable[[Caller], None],
    ) -> None:
        self.flights = Flights()
        self.responses = responses
        self._charge = charge
        self._sessions = sessions
        self._reception = reception
        self._max_body_bytes = max_body_bytes

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
        self._reception.origins.check(headers)
        await self._admit(scope, headers)
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
        app = self._while_welcome if endless else self._sessions.handle_request
        await self.responses.run(app, scope, receive, send, endless=endless)

    async def _while_welcome(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream until its caller's token is revoked or ends."""
        headers, unfinished = Headers(scope=scope), False

        async def watched(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        async def watch() -> None:
            while True:
                await anyio.sleep(_LOOK_SECONDS)
                if not self._reception.is_welcome(headers):
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self._sessions.handle_request(scope, receive, watched)
            group.cancel_scope.cancel()
        if unfinished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        caller = await self._reception.admit(scope, headers)
        try:
            self._charge(caller)
        except RateLimited as error:
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
    version: str,
    ready: Ready,
    telemetry: Telemetry,
    sessions: Sessions,
    reception: Reception,
    knows_all: Callable[[Caller], bool],
) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": version})

    async def readyz(caller: Caller) -> Response:
        is_ready, state = ready()
        if not knows_all(caller):
            state = {name: part for name, part in state.items() if name != "scan"}
        return JSONResponse({"ready": is_ready, **state}, status_code=200 if is_ready else 503)

    async def metrics(caller: Caller) -> Response:
        if not knows_all(caller):
            raise PermissionDenied(
                "The metrics count the whole vault.",
                "Use a token that may read all of it, or one of an administrator.",
            )
        # The SDK tells the number of sessions in no other way.
        telemetry.sessions.set(len(sessions._server_instances))
        body = generate_latest(telemetry.registry)
        return Response(body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def admitted(
        page: Callable[[Caller], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            headers = tidied(request.scope)
            try:
                caller = await reception.admit(request.scope, headers)
                reception.origins.check(headers)
                return await page(caller)
            except Refusal as refusal:
                return refusal.response
            except PermissionDenied as error:
                challenge = reception.challenge(request.scope, headers, "insufficient_scope")
                return Refusal(error, challenge=challenge).response

        return answer

    return [
        Route("/healthz", healthz),
        Route("/readyz", admitted(readyz)),
        Route("/metrics", admitted(metrics)),
    ]
