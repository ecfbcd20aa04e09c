"""The prompts and what completes arguments, in the shapes of MCP."""

from collections.abc import Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    TextContent,
    TextResourceContents,
)

from server.catalog import completions, prompts
from server.catalog.dispatch import Dispatcher
from server.doors.refusals import answering
from server.models import Caller
from server.service import Service

Context = ServerRequestContext[Any, Any]

_LIST_MS = 300_000


def offer_prompts(
    server: Server[Any],
    dispatcher: Dispatcher,
    service: Service,
    caller: Callable[[Context], Caller],
) -> None:
    """Serve `prompts/list`, `prompts/get` and `completion/complete`."""

    def offered(who: Caller) -> dict[str, prompts.Prompt]:
        # A prompt whose tools the caller doesn't have would only send an agent astray.
        return {
            one.name: one
            for one in prompts.PROMPTS
            if all(dispatcher.offers(tool, who) for tool in one.needs)
        }

    async def list_prompts(ctx: Context, _params: PaginatedRequestParams) -> ListPromptsResult:
        with answering():
            listed = [_declared(one) for one in offered(caller(ctx)).values()]
        return ListPromptsResult(prompts=listed, ttl_ms=_LIST_MS, cache_scope="private")

    async def get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        with answering():
            prompt = offered(caller(ctx)).get(params.name)
            if prompt is None:
                raise MCPError(INVALID_PARAMS, f"There is no prompt named {params.name[:80]!r}.")
            arguments = prompts.checked(prompt, params.arguments)
            parts = await dispatcher.perform(
                "prompts/get",
                prompt.name,
                caller(ctx),
                lambda who: prompt.make(service, who, arguments),
            )
        return GetPromptResult(
            description=prompt.description,
            messages=[PromptMessage(role="user", content=_content(part)) for part in parts],
        )

    async def complete(ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        ref, argument = params.ref, params.argument
        if isinstance(ref, PromptReference):
            what = completions.of_prompt(ref.name, argument.name)
        else:
            what = completions.of_template(ref.uri, argument.name)
        # A client asks while somebody types: what is unknown has no completions, and is no error.
        if what is None:
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        with answering():
            found = await service.completing.complete(caller(ctx), what, argument.value)
        values = list(found.values)
        return CompleteResult(
            completion=Completion(
                values=values, total=found.total, has_more=found.total > len(values)
            )
        )

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)


def _declared(prompt: prompts.Prompt) -> Prompt:
    return Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(name=one.name, description=one.description, required=one.required)
            for one in prompt.arguments
        ],
    )


def _content(part: prompts.Part) -> TextContent | EmbeddedResource:
    if isinstance(part, str):
        return TextContent(text=part)
    contents = TextResourceContents(uri=part.uri, mime_type=part.mime, text=part.text)
    return EmbeddedResource(resource=contents)
