"""Operations that find things."""

from dataclasses import asdict
from typing import Literal

from pydantic import Field

from server.catalog.operation import IndexOutput, Input, Offset, Operation, Output
from server.models import Caller
from server.service import Service
from server.service.freshness import iso_ns


class VaultSearchInput(Input):
    query: str = Field(min_length=1, description="ripgrep (Rust) regex")
    path_filter: str | None = Field(None, description="Glob like 'devlog/*.md'")
    context: int = Field(0, ge=0, le=10)
    case: Literal["smart", "sensitive", "insensitive"] = "smart"
    limit: int = Field(50, ge=1, le=500)
    offset: Offset = 0


class SearchResult(Output):
    path: str
    line: int
    text: str
    before: list[str] | None = None
    after: list[str] | None = None
    obsidian_url: str | None = None


class VaultSearchOutput(IndexOutput):
    results: list[SearchResult]
    total: int
    truncated: bool
    capped: bool | None = None


async def _vault_search(
    service: Service, caller: Caller, args: VaultSearchInput
) -> VaultSearchOutput:
    found = await service.finding.search(
        caller,
        args.query,
        path_filter=args.path_filter,
        case=args.case,
        context=args.context,
        limit=args.limit,
        offset=args.offset,
    )
    return VaultSearchOutput(
        results=[
            SearchResult.model_validate({n: getattr(m, n) for n in SearchResult.model_fields})
            for m in found.results
        ],
        total=found.total,
        truncated=found.truncated,
        capped=found.capped or None,
        **asdict(found.freshness),
    )


VAULT_SEARCH = Operation(
    name="vault_search",
    title="Search notes by regex",
    description="Lines that match a regex, with path and line number.",
    toolset="core",
    access="read",
    input=VaultSearchInput,
    output=VaultSearchOutput,
    run=_vault_search,
    idempotent=True,
    subject="query",
)


class VaultListInput(Input):
    path: str | None = Field(None, description="Default: the whole vault")
    depth: int = Field(1, ge=1, le=20)
    glob: str | None = Field(None, description="Like '*.png'")
    kind: Literal["note", "attachment", "folder"] | None = None
    limit: int = Field(100, ge=1, le=1000)
    offset: Offset = 0


class ListEntry(Output):
    path: str
    kind: Literal["note", "attachment", "folder"]
    size: int | None = None
    modified: str | None = None
    obsidian_url: str | None = None


class VaultListOutput(IndexOutput):
    path: str
    entries: list[ListEntry]
    total: int
    truncated: bool


async def _vault_list(service: Service, caller: Caller, args: VaultListInput) -> VaultListOutput:
    listing = await service.finding.browse(
        caller,
        args.path,
        depth=args.depth,
        glob=args.glob,
        kind=args.kind,
        limit=args.limit,
        offset=args.offset,
    )
    return VaultListOutput(
        path=listing.path,
        entries=[
            ListEntry(path=row.path, kind="folder")
            if row.kind == "folder"
            else ListEntry(
                path=row.path,
                kind=row.kind,
                size=row.size,
                modified=iso_ns(row.mtime_ns),
                obsidian_url=service.notes.url(row.path),
            )
            for row in listing.entries
        ],
        total=listing.total,
        truncated=args.offset + len(listing.entries) < listing.total,
        **asdict(listing.freshness),
    )


VAULT_LIST = Operation(
    name="vault_list",
    title="List files and folders",
    description="Notes, attachments and folders below a folder, with sizes and times.",
    toolset="core",
    access="read",
    input=VaultListInput,
    output=VaultListOutput,
    run=_vault_list,
    idempotent=True,
    subject="path",
)
