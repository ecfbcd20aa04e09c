"""The operation that finds notes by what they say and what they are."""

from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from server.catalog.operation import IndexOutput, Input, Offset, Operation, Output
from server.models import Caller
from server.service import Service


class SearchNotesInput(Input):
    mode: Literal["tags", "properties", "full_text", "hybrid"] = Field(
        "hybrid", description="hybrid combines all, the others take one"
    )
    query: str | None = Field(
        None,
        description=(
            'word "a phrase" begin* -not this OR that tag:x path:x file:x [property:value] [n:>5]'
        ),
    )
    tags: list[str] = Field([])
    tags_match: Literal["all", "any"] = "all"
    properties: dict[str, Any] = Field(
        {},
        description=(
            "{name: value or {op: value}}; op: eq, ne, contains, gt, gte, lt, lte, exists, in"
        ),
    )
    path_scope: list[str] = Field([], description="Folders or globs")
    limit: int = Field(20, ge=1, le=100)
    offset: Offset = 0
    sort: Literal["relevance", "modified_desc", "path_asc", "created", "title"] = "relevance"
    full: bool = False


class FoundItem(Output):
    path: str
    title: str
    score: float | None = None
    snippet: str
    tags: list[str]
    properties: dict[str, Any]
    modified_time: str
    obsidian_url: str | None = None


class SearchNotesOutput(IndexOutput):
    total: int
    items: list[FoundItem]
    truncated: bool


async def _search_notes(
    service: Service, caller: Caller, args: SearchNotesInput
) -> SearchNotesOutput:
    page = await service.searching.search(
        caller,
        mode=args.mode,
        query=args.query,
        tags=args.tags,
        tags_match=args.tags_match,
        properties=args.properties,
        path_scope=args.path_scope,
        sort=args.sort,
        limit=args.limit,
        offset=args.offset,
        full=args.full,
    )
    return SearchNotesOutput(
        total=page.total,
        items=[
            FoundItem.model_validate({n: getattr(item, n) for n in FoundItem.model_fields})
            for item in page.items
        ],
        truncated=page.truncated,
        **asdict(page.freshness),
    )


SEARCH_NOTES = Operation(
    name="search_notes",
    title="Search notes by words, tags and properties",
    description=(
        "Find notes by words, tags and properties, best first, with the matching passage."
    ),
    toolset="find",
    access="read",
    input=SearchNotesInput,
    output=SearchNotesOutput,
    run=_search_notes,
    idempotent=True,
    subject="query",
)
