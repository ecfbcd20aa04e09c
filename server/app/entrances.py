"""The doors, built over an app. What they need is loaded when one is asked for: it is slow to load."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from server import __version__
from server.app.app import App
from server.catalog.instructions import instructions
from server.catalog.table import INSTRUCTIONS
from server.models import Caller
from server.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from server.doors.connections import Connections


def http_door(app: App) -> "FastAPI":
    """The HTTP listener: `/mcp`, `/healthz`, `/readyz`, `/metrics`."""
    from server.admin import approvals  # noqa: PLC0415 - stdio does without FastAPI
    from server.doors.http import build_http, caller_of  # noqa: PLC0415
    from server.doors.identity import Administrators, Resource  # noqa: PLC0415
    from server.doors.pages import admitted  # noqa: PLC0415
    from server.doors.streams import Responses  # noqa: PLC0415

    own = [name for name in (app.settings.host,) if name not in ("0.0.0.0", "::")]  # noqa: S104
    hosts = ["127.0.0.1", "localhost", "[::1]", *own, *app.settings.allowed_hosts]
    public = app.settings.public_base
    if public is not None:
        hosts.append(public.partition("://")[2])
    door = build_http(
        _mcp_server(app, caller_of),
        version=__version__,
        allowed_hosts=[name for host in hosts for name in (host, f"{host}:*")],
        allowed_origins=[
            *_own_origins(app.settings),
            *app.settings.allowed_origins,
            *([public] if public else []),
        ],
        max_body_bytes=app.settings.max_message_bytes,
        session_idle_seconds=60 * app.settings.session_idle_minutes,
        max_sessions=app.settings.max_sessions,
        # Without credentials all are one caller.
        max_sessions_of_one_caller=None
        if app.settings.auth == "none"
        else (app.settings.max_sessions + 1) // 2,
        responses=Responses(app.settings.max_connections // 2, app.settings.max_streams),
        charge=app.dispatcher.limiter.request,
        authenticate=app.authenticate,
        may_wait=app.callers.may_wait,
        resource=Resource("obsidian-vault", public, app.settings.jwt_issuer)
        if app.settings.auth == "token"
        else None,
        refused=app.audit.refused,
        ready=app.service.status.ready,
        knows_all=app.service.status.knows_all,
        telemetry=app.telemetry,
    )
    proxy = app.settings.trusted_proxy
    door.state.administrators = Administrators(
        door.state.reception,
        lambda caller: app.access.decide(caller, "admin", "").allowed,
        proxy=str(proxy) if proxy else None,
        logins=frozenset(login.lower() for login in app.settings.admins),
    )
    door.router.routes.extend(
        approvals.routes(app.service.approving, admitted(door.state.administrators))
    )
    return door


def _own_origins(settings: Settings) -> list[str]:
    # Pages of this very machine, such as an inspector, may call a server that only it can reach.
    local = ("127.0.0.1", "localhost", "[::1]")
    return [
        f"{scheme}://{host}:*"
        for scheme in ("http", "https")
        for host in local
        if settings.is_loopback
    ]


def stdio_door(app: App) -> "Server[Any]":
    """The MCP server for one client over stdin and stdout."""
    secret = app.settings.caller_token
    token = secret.get_secret_value() if secret else None
    # Anew for every call: a token that was revoked meanwhile is good for nothing more.
    return _mcp_server(app, lambda _ctx: app.authenticate(token, "stdio"))


def _mcp_server(
    app: App, caller: "Callable[[ServerRequestContext[Any, Any]], Caller]"
) -> "Server[Any]":
    from server.doors.asking import Asking  # noqa: PLC0415
    from server.doors.charges import charging  # noqa: PLC0415
    from server.doors.introductions import introducing  # noqa: PLC0415
    from server.doors.logs import Logs  # noqa: PLC0415
    from server.doors.mcp import build_server  # noqa: PLC0415
    from server.doors.prompts import offer_prompts  # noqa: PLC0415
    from server.doors.resources import offer_resources  # noqa: PLC0415
    from server.doors.subscriptions import Subscriptions  # noqa: PLC0415

    async def introduced(who: Caller) -> str:
        folders = await app.service.resources.top_folders(who)
        return instructions(folders, app.access.write_mode(who, ()))

    logs = Logs()
    server = build_server(
        app.dispatcher,
        name="obsidian-vault",
        version=__version__,
        instructions=INSTRUCTIONS,
        caller=caller,
        asking=Asking(
            app.service.approving,
            seconds=app.settings.approval_seconds,
            by_client=app.settings.confirm_by == "client",
        ),
        logs=logs,
    )
    logs.offer(server)
    offer_resources(server, app.dispatcher, app.service, caller)
    offer_prompts(server, app.dispatcher, app.service, caller)
    Subscriptions(app.service.watching, caller).offer(server)
    server.middleware.append(introducing(caller, introduced))
    server.middleware.insert(0, charging(caller, app.dispatcher.limiter.question))
    return server


def http_connections(app: App) -> "Connections":
    """How the clients of the HTTP listener are to be treated."""
    from server.doors.connections import Connections  # noqa: PLC0415

    return Connections(
        app.settings.max_connections,
        app.settings.client_timeout,
        lambda why: app.telemetry.connections_ended.labels(why).inc(),
    )
