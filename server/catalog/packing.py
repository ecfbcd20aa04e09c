"""The operation that gathers context for a question."""

from dataclasses import asdict

from pydantic import Field

from server.catalog.operation import IndexOutput, Input, Operation, Output
from server.models import Caller
from server.service import Service


class ContextPackInput(Input):
    question: str = Field(min_length=1, max_length=2000)
    max_chars: int = Field(6_000, ge=500, le=60_000)
    path_scope: list[str] = Field(default=[], max_length=20, description="Folders or globs")


class ContextExcerpt(Output):
    path: str
    heading: str | None = None
    line: int
    text: str
    etag: str
    score: float
    linked_from: str | None = None
    obsidian_url: str | None = None


class ContextPackOutput(IndexOutput):
    excerpts: list[ContextExcerpt]
    matched: int
    chars: int
    truncated: bool


async def _context_pack(
    service: Service, caller: Caller, args: ContextPackInput
) -> ContextPackOutput:
    pack = await service.packing.pack(
        caller, args.question, max_chars=args.max_chars, path_scope=args.path_scope
    )
    return ContextPackOutput(
        excerpts=[
            ContextExcerpt.model_validate({n: getattr(e, n) for n in ContextExcerpt.model_fields})
            for e in pack.excerpts
        ],
        matched=pack.matched,
        chars=pack.chars,
        truncated=pack.truncated,
        **asdict(pack.freshness),
    )


CONTEXT_PACK = Operation(
    name="context_pack",
    title="Gather context for a question",
    description=(
        "The best excerpts for a question in your own words, each with path, heading and line. "
        "Use it first."
    ),
    toolset="find",
    access="read",
    input=ContextPackInput,
    output=ContextPackOutput,
    run=_context_pack,
    idempotent=True,
    subject="question",
)
