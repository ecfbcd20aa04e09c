"""Operations on decision records (ADRs)."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from server.catalog.changes import ChangeOutput
from server.catalog.operation import IndexOutput, Input, Offset, Operation, Output
from server.markdown.decisions import Decision, Status
from server.models import Caller
from server.service import Service
from server.service.records import Record
from server.service.room import short

_Named = Annotated[Status, WithJsonSchema({"type": "string"})]
"""adr_set_status lists them; once is enough."""


class AdrCreateInput(Input):
    title: str
    context: str
    decision: str
    consequences: str
    options: list[str] = Field([], max_length=50)
    status: _Named = "accepted"
    project: str | None = None
    related: list[str] = Field([], max_length=50, description="Notes, ADR numbers or URLs")


class AdrCreateOutput(ChangeOutput):
    path: str
    adr: int
    etag: str
    diff: str | None = None
    obsidian_url: str | None = None


async def _adr_create(service: Service, caller: Caller, args: AdrCreateInput) -> AdrCreateOutput:
    made = await service.decisions.create(caller, Decision(**args.model_dump()))
    fields = asdict(made)
    return AdrCreateOutput.model_validate(fields | {"diff": made.diff if made.dry_run else None})


ADR_CREATE = Operation(
    name="adr_create",
    title="Record a decision",
    description="Write a decision record (ADR) under the next number, and its row in _index.md.",
    toolset="devlog",
    access="write",
    input=AdrCreateInput,
    output=AdrCreateOutput,
    run=_adr_create,
    subject="title",
)


class AdrListInput(Input):
    status: _Named | None = None
    project: str | None = None
    limit: int = Field(50, ge=1, le=500)
    offset: Offset = 0


class AdrItem(Output):
    adr: int
    title: str
    status: str | None = None
    date: str | None = None
    project: str | None = None
    path: str


class AdrListOutput(IndexOutput):
    items: list[AdrItem]
    total: int
    truncated: bool


def _told(record: Record) -> dict[str, Any]:
    return {
        "adr": record.number,
        "title": short(record.title),
        "status": record.status and short(record.status),
        "date": record.date,
        "project": record.project,
        "path": record.path,
    }


async def _adr_list(service: Service, caller: Caller, args: AdrListInput) -> AdrListOutput:
    found = await service.decisions.overview(
        caller, args.status, args.project, args.limit, args.offset
    )
    return AdrListOutput(
        items=[AdrItem.model_validate(_told(record)) for record in found.records],
        total=found.total,
        truncated=args.offset + len(found.records) < found.total,
        **asdict(found.freshness),
    )


ADR_LIST = Operation(
    name="adr_list",
    title="List decisions",
    description="Decision records with numbers and states, newest first.",
    toolset="devlog",
    access="read",
    input=AdrListInput,
    output=AdrListOutput,
    run=_adr_list,
    idempotent=True,
    subject="project",
)


class AdrReadInput(Input):
    adr: int = Field(ge=0, le=999_999)
    project: str | None = None
    max_chars: int = Field(8_000, ge=100, le=60_000)


class AdrSection(Output):
    heading: str
    text: str
    chars: int | None = None


class AdrReadOutput(Output):
    path: str
    adr: int
    title: str
    status: str | None = None
    date: str | None = None
    project: str | None = None
    related: list[Any] | None = None
    sections: list[AdrSection]
    truncated: bool
    etag: str
    obsidian_url: str | None = None
    stale: bool | None = None
    as_of: str | None = None


async def _adr_read(service: Service, caller: Caller, args: AdrReadInput) -> AdrReadOutput:
    seen = await service.decisions.read(caller, args.adr, args.project, args.max_chars)
    related = seen.related if isinstance(seen.related, list) or not seen.related else [seen.related]
    sections = [
        AdrSection(
            heading=short(part.heading),
            text=part.text,
            chars=part.chars if part.chars > len(part.text) else None,
        )
        for part in seen.parts[:_MOST_SECTIONS]
    ]
    return AdrReadOutput(
        **_told(seen.record),
        related=related[:_MOST_SECTIONS] if related else None,
        sections=sections,
        truncated=len(sections) < len(seen.parts) or any(part.chars for part in sections),
        etag=seen.loaded.etag,
        obsidian_url=seen.obsidian_url,
        stale=seen.loaded.stale,
        as_of=seen.loaded.as_of,
    )


_MOST_SECTIONS = 100

ADR_READ = Operation(
    name="adr_read",
    title="Read a decision",
    description="One decision record by its number; long sections are cut.",
    toolset="devlog",
    access="read",
    input=AdrReadInput,
    output=AdrReadOutput,
    run=_adr_read,
    idempotent=True,
    subject="adr",
)


class AdrSetStatusInput(Input):
    adr: int = Field(ge=0, le=999_999)
    status: Status
    superseded_by: int | None = Field(None, ge=0, le=999_999)
    project: str | None = None


class AdrSetStatusOutput(ChangeOutput):
    path: str
    adr: int
    status: str
    changed: bool
    etag: str
    notes_changed: list[str]
    diff: str | None = None


async def _adr_set_status(
    service: Service, caller: Caller, args: AdrSetStatusInput
) -> AdrSetStatusOutput:
    told = await service.decisions.set_status(
        caller, args.adr, args.status, args.superseded_by, args.project
    )
    return AdrSetStatusOutput.model_validate(
        asdict(told) | {"diff": told.diff if told.dry_run else None}
    )


ADR_SET_STATUS = Operation(
    name="adr_set_status",
    title="Change a decision's status",
    description="Change an ADR's status in its file, its successor's and _index.md.",
    toolset="devlog",
    access="write",
    input=AdrSetStatusInput,
    output=AdrSetStatusOutput,
    run=_adr_set_status,
    destructive=True,
    idempotent=True,
    subject="adr",
)


class AdrPublishInput(Input):
    adr: int = Field(ge=0, le=999_999)
    repository: str | None = Field(None, description="owner/name; default: the only one allowed")
    project: str | None = None
    dry_run: bool = True


class AdrPublishOutput(ChangeOutput):
    path: str
    repository: str
    file: str
    branch: str
    changed: bool
    diff: str
    content: str | None = None
    url: str | None = None


async def _adr_publish(service: Service, caller: Caller, args: AdrPublishInput) -> AdrPublishOutput:
    done = await service.publishing.publish(
        caller, args.adr, args.repository, args.project, dry_run=args.dry_run
    )
    return AdrPublishOutput.model_validate(asdict(done))


ADR_PUBLISH = Operation(
    name="adr_publish",
    title="Publish a decision to GitHub",
    description=(
        "Propose an accepted ADR as docs/adr/NNNN-slug.md in a GitHub repository, as a pull request. "
        "Shows the file and the diff unless dry_run is false."
    ),
    toolset="admin",
    access="write",
    input=AdrPublishInput,
    output=AdrPublishOutput,
    run=_adr_publish,
    idempotent=True,
    subject="adr",
)
