"""The catalog as an MCP server: tools out, calls in. Knows no transport.

The low-level SDK server is driven directly: nothing between the wire and the dispatcher guesses at
arguments, and no exception's text reaches a model.
"""

import base64
import functools
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from server.catalog.dispatch import Dispatcher, unexpected
from server.catalog.operation import Operation, Output
from server.doors.asking import Asking
from server.doors.errors import payload
from server.doors.logs import Logs
from server.doors.progress import Tell, reporting
from server.doors.schema import input_schema, output_schema
from server.errors import InvalidRequest, NotFound, TooLarge, VaultError
from server.models import Caller
from server.service.room import MESSAGE, wire_bytes

Context = ServerRequestContext[Any, Any]
Wire = dict[str, Any]
"""The result of a call as it goes out."""

_FRESH = CacheHint(ttl_ms=300_000, scope="private")
"""The catalog changes only with the process; what a caller may see of it is the caller's own."""

_STRUCTURED = ("2025-06-18", "2025-11-25")
"""The versions with a handshake whose results carry data beside text."""

_MOST_BYTES = MESSAGE - 20_000
_MOST_LISTINGS = 50


def build_server(
    dispatcher: Dispatcher,
    *,
    name: str,
    version: str,
    instructions: str,
    caller: Callable[[Context], Caller],
    asking: Asking | None = None,
    logs: Logs | None = None,
) -> Server[Any]:
    """Serve every operation of `dispatcher` as a tool; `caller` tells who sent a request.

    `asking` puts writes that need an approval to the users of clients that can show a form; `logs`
    tells clients that want to know what went wrong with their calls.
    """

    def listed(ctx: Context) -> tuple[Operation, ...]:
        try:
            return dispatcher.listed_for(caller(ctx))
        except VaultError as error:
            raise MCPError(
                code=INVALID_PARAMS, message=error.message, data=payload(error)
            ) from None

    async def list_tools(ctx: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(operation) for operation in listed(ctx)])

    # When it is asked for: to make all schemas is a tenth of the time that a start takes.
    @functools.cache
    def schema_of(name: str) -> dict[str, Any] | None:
        operation = dispatcher.operations.get(name)
        return None if operation is None else input_schema(operation.input)

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> Wire | InputRequiredResult:
        async with reporting(ctx) as tell:
            result = await called(ctx, params, tell)
        if logs is not None and isinstance(result, dict):
            await logs.tell(ctx, params.name, result)
        return result

    async def call_tool_of_any_version(
        ctx: Context, params: CallToolRequestParams
    ) -> Wire | InputRequiredResult:
        result = await call_tool(ctx, params)
        return {**result, "resultType": "complete"} if isinstance(result, dict) else result

    async def called(
        ctx: Context, params: CallToolRequestParams, tell: Tell | None
    ) -> Wire | InputRequiredResult:
        try:
            who = caller(ctx)
            is_known = dispatcher.offers(params.name, who)
        except VaultError as error:
            return _failure(error)
        if not is_known:
            unknown = NotFound(
                f"There is no tool named {params.name[:80]!r}.",
                "List the tools to see what there is.",
            )
            raise MCPError(code=INVALID_PARAMS, message=unknown.message, data=payload(unknown))
        arguments = params.arguments or {}
        try:
            _refuse_broken_text(arguments)
            if tell is not None:
                who = replace(who, progress=tell)
            if asking is not None and (yes := await asking.answered(params, who)) is not None:
                who = replace(who, approval=yes)
            output = await dispatcher.call(params.name, arguments, who)
            if asking is not None:
                asked = await asking.ask(ctx, params, who, output)
                if isinstance(asked, InputRequiredResult):
                    return asked
                if asked is not None:
                    # Who may do what, and who the caller is, may be another by now.
                    who = replace(caller(ctx), approval=asked, progress=tell)
                    output = await dispatcher.call(params.name, arguments, who)
            return _success(output)
        except VaultError as error:
            return _failure(error)
        except Exception as error:  # noqa: BLE001 - the edge: nothing of it may reach a caller
            return _failure(unexpected(error))

    server: Server[Any] = Server(
        name,
        version=version,
        instructions=instructions,
        cache_hints={"tools/list": _FRESH, "server/discover": _FRESH},
        get_tool_input_schema=schema_of,
        on_list_tools=list_tools,
    )
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool_of_any_version)
    # The SDK's tracing costs on every message and nothing here exports spans.
    server.middleware[:] = [_answering(call_tool), _remembered_listing(listed)]
    return server


def _answering(
    call_tool: Callable[[Context, CallToolRequestParams], Awaitable[Wire | InputRequiredResult]],
) -> ServerMiddleware[Any]:
    """Let the answer to a call go out as it is made.

    The SDK would make models of it and data again, twice, to drop what a version doesn't know: a
    quarter of the time that a short answer takes. These versions know all that is in it.
    """

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        # What has no id wants no answer, and is no call.
        is_call = ctx.method == "tools/call" and ctx.request_id is not None
        is_ours = is_call and ctx.protocol_version in _STRUCTURED
        if not is_ours or not ctx.session._connection.initialize_accepted:
            return await call_next(ctx)
        try:
            params = CallToolRequestParams.model_validate(ctx.params, by_name=False)
        except ValidationError:
            # The SDK has the words for it.
            return await call_next(ctx)
        return await call_tool(ctx, params)

    return answer


def _remembered_listing(
    listed: Callable[[Context], tuple[Operation, ...]],
) -> ServerMiddleware[Any]:
    """Keep the wire form of `tools/list` per protocol version and tools: building it costs milliseconds."""
    known: dict[tuple[str, ...], dict[str, Any]] = {}

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/list" or "cursor" in (ctx.params or ()):
            return await call_next(ctx)
        key = (ctx.protocol_version, *(operation.name for operation in listed(ctx)))
        if key not in known:
            listing = await call_next(ctx)
            if not isinstance(listing, dict):
                return listing
            if len(known) >= _MOST_LISTINGS:
                known.clear()
            known[key] = listing
        return known[key]

    return answer


def _tool(operation: Operation) -> Tool:
    return Tool(
        name=operation.name,
        title=operation.title,
        description=operation.description,
        input_schema=input_schema(operation.input),
        output_schema=output_schema(operation.output),
        annotations=ToolAnnotations(
            read_only_hint=operation.access == "read",
            destructive_hint=operation.destructive,
            idempotent_hint=operation.idempotent,
            open_world_hint=False,
        ),
    )


def _refuse_broken_text(arguments: dict[str, Any]) -> None:
    """Half a surrogate pair is no text: it could be neither stored nor sent back."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest("The arguments are not valid Unicode.", "Send UTF-8.") from None
    except RecursionError:
        raise InvalidRequest("The arguments are nested too deeply.", "Flatten them.") from None


def _text(output: Output) -> str:
    try:
        return output.model_dump_json(exclude_none=True)
    except PydanticSerializationError:
        return _replaced(output.model_dump(mode="json", exclude_none=True))


def _replaced(data: dict[str, Any]) -> str:
    """JSON in which a name that is no text on disk has question marks: better than no answer."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace").decode()


def _success(output: Output) -> Wire:
    media = output.media
    if media is None:
        return _result(_sendable(_text(output)), failed=False)
    data = base64.b64encode(media.data).decode()
    text = _sendable(_text(output), _MOST_BYTES - len(data))
    return _result(text, {"type": "image", "data": data, "mimeType": media.type}, failed=False)


def _sendable(text: str, room: int = _MOST_BYTES) -> str:
    """The JSON of an answer that a client can take; raises `TooLarge`."""
    # No character takes more than eight bytes on the wire.
    if 8 * len(text) > room and wire_bytes(text) > room:
        raise TooLarge("The answer is too long to be sent.", "Ask for less at once.")
    return text


def _failure(error: VaultError) -> Wire:
    """An error says what is wrong, whatever would not fit beside it."""
    said = payload(error)
    try:
        text = _sendable(_replaced(said))
    except TooLarge:
        text = _replaced({"code": error.code, "message": error.message[:2_000], "hint": error.hint})
    return _result(text, failed=True)


def _result(text: str, *more: Wire, failed: bool) -> Wire:
    """Both forms of one answer: compact JSON for clients that read text, the same as data."""
    return {
        "content": [{"type": "text", "text": text}, *more],
        "structuredContent": from_json(text),
        "isError": failed,
    }
