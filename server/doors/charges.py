"""What a caller is charged for requests that call no operation; the dispatcher charges the others."""

from collections.abc import Callable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError

from server.doors.errors import OUTWARD, payload
from server.errors import VaultError
from server.models import Caller

Context = ServerRequestContext[Any, Any]

_CHARGED_ELSEWHERE = ("tools/call", "resources/read", "prompts/get", "initialize")
"""A refused `initialize` would leave its session behind; sessions have a limit of their own."""


def charging(
    caller: Callable[[Context], Caller], charge: Callable[[Caller], None]
) -> ServerMiddleware[Any]:
    """Server middleware: `charge` for every request that the dispatcher doesn't see."""

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is not None and ctx.method not in _CHARGED_ELSEWHERE:
            try:
                charge(caller(ctx))
            except VaultError as error:
                number = OUTWARD[error.code].rpc
                raise MCPError(number, error.message, payload(error)) from None
        return await call_next(ctx)

    return answer
