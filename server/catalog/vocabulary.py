"""Operations about what notes are ordered by, and what changed."""

from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import Field

from server.catalog.operation import IndexOutput, Input, Offset, Operation, Output
from server.index.changes import Change
from server.models import Caller
from server.service import Service
from server.service.freshness import iso_ns
from server.service.room import short

Scope = Annotated[list[str], Field(max_length=50)]
Order = Literal["count", "name"]
_VALUE = 40


class ListTagsInput(Input):
    prefix: str = Field("", description="Like 'project/'")
    path_scope: Scope = Field(default=[])
    sort: Order = "count"
    limit: int = Field(50, ge=1, le=500)
    offset: Offset = 0


class TagCount(Output):
    tag: str
    count: int
    direct: int


class ListTagsOutput(IndexOutput):
    tags: list[TagCount]
    total: int
    truncated: bool


async def _list_tags(service: Service, caller: Caller, args: ListTagsInput) -> ListTagsOutput:
    page = await service.vocabulary.tags(
        caller,
        prefix=args.prefix,
        scope=args.path_scope,
        sort=args.sort,
        limit=args.limit,
        offset=args.offset,
    )
    return ListTagsOutput(
        tags=[TagCount(tag=short(t.tag), count=t.count, direct=t.direct) for t in page.items],
        total=page.total,
        truncated=args.offset + len(page.items) < page.total,
        **asdict(page.freshness),
    )


LIST_TAGS = Operation(
    name="list_tags",
    title="Tags and their counts",
    description="The tags in use; count includes nested tags, direct does not.",
    toolset="find",
    access="read",
    input=ListTagsInput,
    output=ListTagsOutput,
    run=_list_tags,
    idempotent=True,
    subject="prefix",
)

_TYPES = {"null": "empty", "bool": "checkbox", "num": "number", "str": "text", "json": "object"}
"""The index's types by Obsidian's names; list, date and datetime are called the same."""


class ListPropertiesInput(Input):
    prefix: str = ""
    path_scope: Scope = Field(default=[])
    sort: Order = "count"
    limit: int = Field(30, ge=1, le=200)
    offset: Offset = 0


class PropertyCount(Output):
    key: str
    count: int
    types: dict[str, int]
    values: dict[str, int]


class ListPropertiesOutput(IndexOutput):
    properties: list[PropertyCount]
    total: int
    truncated: bool


async def _list_properties(
    service: Service, caller: Caller, args: ListPropertiesInput
) -> ListPropertiesOutput:
    page = await service.vocabulary.properties(
        caller,
        prefix=args.prefix,
        scope=args.path_scope,
        sort=args.sort,
        limit=args.limit,
        offset=args.offset,
    )
    return ListPropertiesOutput(
        properties=[
            PropertyCount(
                key=short(found.key),
                count=found.count,
                types={_TYPES.get(kind, kind): count for kind, count in found.types.items()},
                values={_clipped(value): count for value, count in found.values.items()},
            )
            for found in page.items
        ],
        total=page.total,
        truncated=args.offset + len(page.items) < page.total,
        **asdict(page.freshness),
    )


def _clipped(value: str) -> str:
    return value if len(value) <= _VALUE else value[: _VALUE - 1] + "…"


LIST_PROPERTIES = Operation(
    name="list_properties",
    title="Properties, types and frequent values",
    description="The frontmatter properties in use, with counts, types and frequent values.",
    toolset="find",
    access="read",
    input=ListPropertiesInput,
    output=ListPropertiesOutput,
    run=_list_properties,
    idempotent=True,
    subject="prefix",
)


class RecentChangesInput(Input):
    since: str = Field("7d", description="'2h', '3d', '1w' or an ISO time")
    path_scope: Scope = Field(default=[])
    limit: int = Field(25, ge=1, le=200)
    offset: Offset = 0


class ChangedNote(Output):
    path: str
    change: Change
    at: str
    old_path: str | None = None
    title: str | None = None
    obsidian_url: str | None = None


class RecentChangesOutput(IndexOutput):
    changes: list[ChangedNote]
    total: int
    truncated: bool
    since: str
    log_since: str | None = None


async def _recent_changes(
    service: Service, caller: Caller, args: RecentChangesInput
) -> RecentChangesOutput:
    found = await service.vocabulary.changes(
        caller, args.since, scope=args.path_scope, limit=args.limit, offset=args.offset
    )
    return RecentChangesOutput(
        changes=[
            ChangedNote(
                path=entry.path,
                change=entry.change,
                at=iso_ns(entry.at_ns),
                old_path=entry.old_path,
                title=title and short(title),
                obsidian_url=None
                if entry.change == "deleted"
                else service.vocabulary.url(entry.path),
            )
            for entry, title in found.items
        ],
        total=found.total,
        truncated=args.offset + len(found.items) < found.total,
        since=found.since,
        log_since=found.log_since,
        **asdict(found.freshness),
    )


RECENT_CHANGES = Operation(
    name="recent_changes",
    title="Notes changed lately",
    description="Notes created, modified, moved or deleted since a moment, latest first.",
    toolset="find",
    access="read",
    input=RecentChangesInput,
    output=RecentChangesOutput,
    run=_recent_changes,
    idempotent=True,
    subject="since",
)
