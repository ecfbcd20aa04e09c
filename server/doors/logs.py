"""Log messages to a client that asked for them: about its own calls, and nobody else's."""

from collections.abc import Mapping
from typing import Any, get_args
from weakref import WeakKeyDictionary

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    LOG_LEVEL_META_KEY,
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]

_STALE = "The vault can't be reached: this answer is from a copy."
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_LEVEL_OF: Mapping[str, LoggingLevel] = {
    "internal_error": "error",
    "unavailable": "warning",
    "timeout": "warning",
    "rate_limited": "warning",
    "permission_denied": "notice",
    "conflict": "notice",
}


class Logs:
    """Knows the level that each session asked for; before it asks, it is sent nothing."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Connection, LoggingLevel] = WeakKeyDictionary()

    def offer(self, server: Server[Any]) -> None:
        """Serve `logging/setLevel`; in the modern era every request brings its own level."""
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    async def _set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._asked[ctx.session._connection] = params.level
        return EmptyResult()

    async def tell(self, ctx: Context, tool: str, result: Mapping[str, Any]) -> None:
        """Say what went wrong with a call, or that its answer is from a copy; else nothing."""
        said: Mapping[str, Any] = result.get("structuredContent") or {}
        if result.get("isError"):
            data = {"tool": tool, "code": said.get("code"), "message": said.get("message")}
            await self._send(ctx, _LEVEL_OF.get(str(said.get("code")), "info"), data)
        elif said.get("stale") is True:
            data = {"tool": tool, "message": _STALE, "as_of": said.get("as_of")}
            await self._send(ctx, "warning", data)

    async def _send(self, ctx: Context, level: LoggingLevel, data: dict[str, Any]) -> None:
        asked: Any
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            asked = self._asked.get(ctx.session._connection)
        else:
            asked = (ctx.meta or {}).get(LOG_LEVEL_META_KEY)
        if asked not in _LEVELS or _LEVELS.index(level) < _LEVELS.index(asked):
            return
        params = LoggingMessageNotificationParams(level=level, logger="vault", data=data)
        await ctx.session.send_notification(
            LoggingMessageNotification(params=params), ctx.request_id
        )
