"""What the server says of itself to one caller: its instructions, and what it announces."""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

from server.errors import VaultError
from server.models import Caller

Context = ServerRequestContext[Any, Any]


def introducing(
    caller: Callable[[Context], Caller], instructions: Callable[[Caller], Awaitable[str]]
) -> ServerMiddleware[Any]:
    """Server middleware: the answers that open a conversation, made for who asks."""

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not isinstance(result, dict):
            return result
        try:
            said = await instructions(caller(ctx))
        except VaultError:
            return result
        return {**result, "instructions": said, "capabilities": _announced(result, ctx.method)}

    return answer


def _announced(result: dict[str, Any], method: str) -> dict[str, Any]:
    """Notes come and go, and clients are told; tools and prompts stay as they are."""
    capabilities: dict[str, Any] = dict(result.get("capabilities") or {})
    for name in ("tools", "prompts"):
        if method == "server/discover" and name in capabilities:
            capabilities[name] = {**capabilities[name], "listChanged": False}
    if "resources" in capabilities:
        capabilities["resources"] = {**capabilities["resources"], "listChanged": True}
    return capabilities
