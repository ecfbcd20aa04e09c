"""Asking the user of a client whether a write shall be made, in the way of each protocol era.

In the session era the question travels to the client while the call waits; in the modern one it is
the answer to the call, and the client sends the call again with what its user said.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from server.catalog.operation import Output
from server.errors import InvalidRequest
from server.models import Caller
from server.service.approving import Approving

Context = ServerRequestContext[Any, Any]

_KEY = "approve"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_KEY: {"type": "boolean", "title": "Make this change"}},
    "required": [_KEY],
}


class Asking:
    """Puts waiting writes to people; `seconds` is how long a call waits for its answer."""

    def __init__(self, approving: Approving, *, seconds: float, by_client: bool = True) -> None:
        self._approving = approving
        self._seconds = seconds
        self._by_client = by_client

    async def answered(self, params: CallToolRequestParams, caller: Caller) -> str | None:
        """The approval that a call of the modern era brings the user's yes to.

        None when it brings no answer. Raises `PermissionDenied` when the user said no, and for an
        answer that is not this call's own.
        """
        given = (params.input_responses or {}).get(_KEY)
        if params.request_state is None or given is None or not self._by_client:
            return None
        if not isinstance(given, ElicitResult):
            raise InvalidRequest("That is no answer to the question.", "Answer the form.")
        arguments = params.arguments or {}
        id = await self._approving.answered(caller, params.name, arguments, params.request_state)
        return await self._judged(caller, id, given)

    async def ask(
        self, ctx: Context, params: CallToolRequestParams, caller: Caller, output: Output
    ) -> InputRequiredResult | str | None:
        """Ask about a write that waits now: the question itself, the approval it got, or None.

        None stands for no answer: the write stays in the queue. Raises `PermissionDenied` when the
        user said no.
        """
        pending: Mapping[str, Any] | None = getattr(output, "pending", None)
        if pending is None or not self._by_client or not _can_ask(ctx):
            return None
        id = str(pending["approval"])
        question = await self._approving.question(caller, params.name, params.arguments or {}, id)
        request = ElicitRequest(
            params=ElicitRequestFormParams(message=question.message, requested_schema=_SCHEMA)
        )
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return InputRequiredResult(
                input_requests={_KEY: request}, request_state=question.answer
            )
        try:
            given = await ctx.session.send_request(
                request,
                ElicitResult,
                request_read_timeout_seconds=self._seconds,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        except (MCPError, ValidationError):
            # Nobody answered, or nobody could: somebody else may still decide.
            return None
        return await self._judged(caller, id, given)

    async def _judged(self, caller: Caller, id: str, given: ElicitResult) -> str:
        accepted = given.action == "accept" and (given.content or {}).get(_KEY) is True
        return await self._approving.judged(caller, id, accepted=accepted)


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    # Before there were modes, forms were all that there was.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
