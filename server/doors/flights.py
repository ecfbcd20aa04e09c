"""No two requests in flight share an id within one session.

The SDK keys its answer streams by request id alone: a second request under the id of a running one
would take over its stream, and each would get the other's answer. A request is in flight from its
arrival until both its response has been sent and its handler has ended, because a handler outlives
a client that hung up.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.dispatcher import coerce_request_id
from mcp.types import INVALID_REQUEST, PARSE_ERROR, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.types import Message, Scope, Send

from server.doors.guards import Refusal
from server.errors import Conflict, InvalidRequest

Key = tuple[str, str]
_FLIGHT = "flight"


class Flights:
    """Counts who still needs a request's id: its HTTP response and its handler."""

    def __init__(self) -> None:
        self._held: Counter[Key] = Counter()

    @contextmanager
    def enter(self, scope: Scope, session: str, body: bytes, send: Send) -> Iterator[Send]:
        """Hold the id of the request in `body`, if it is one; raises `Refusal`.

        Yields the `send` to answer with: the id is free before the client can have read the end.
        """
        request = _request(body)
        if request is None:
            yield send
            return
        key = (session, str(coerce_request_id(request.id)))
        if self._held[key]:
            raise Refusal(
                Conflict(
                    "A request with this id is still in flight.",
                    "Give every request of a session an id of its own.",
                ),
                rpc=INVALID_REQUEST,
            )
        scope["state"][_FLIGHT] = key
        with ExitStack() as held:
            held.enter_context(self._hold(key))

            async def freeing(message: Message) -> None:
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    held.close()
                await send(message)

            yield freeing

    async def follow(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Server middleware: hold the id for as long as the handler runs."""
        key = ctx.request.scope["state"].get(_FLIGHT) if ctx.request is not None else None
        if key is None or ctx.request_id is None:
            return await call_next(ctx)
        with self._hold(key):
            return await call_next(ctx)

    @contextmanager
    def _hold(self, key: Key) -> Iterator[None]:
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


def _request(body: bytes) -> JSONRPCRequest | None:
    """The request in `body`, None for a notification or response; raises `Refusal` for neither."""
    try:
        message = jsonrpc_message_adapter.validate_python(from_json(body), by_name=False)
    except ValidationError:
        raise Refusal(
            InvalidRequest(
                "The body is not one JSON-RPC message.", "Send one message per request."
            ),
            rpc=INVALID_REQUEST,
        ) from None
    except ValueError:
        raise Refusal(
            InvalidRequest("The body is not valid JSON.", "Send UTF-8 encoded JSON."),
            rpc=PARSE_ERROR,
        ) from None
    return message if isinstance(message, JSONRPCRequest) else None
