"""Operations on single notes."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from server.catalog.changes import ChangeOutput
from server.catalog.operation import Input, Offset, Operation, Output, Patience
from server.markdown.sections import outline
from server.models import Caller
from server.service import Service
from server.service.freshness import iso_ns
from server.service.metadata import heading_row, task_row
from server.service.notes import MANY, NoteView, Seen
from server.service.room import fitting, short
from server.vault.paths import parse_path

Path = Annotated[str, Field(description="Like 'devlog/api.md'")]


class NoteMetadata(Output):
    title: str
    tags: list[str] | None = None
    properties: dict[str, Any] | None = None
    aliases: list[str] | None = None
    headings: list[dict[str, Any]] | None = None
    links: list[dict[str, Any]] | None = None
    tasks: list[dict[str, Any]] | None = None
    cut: list[str] | None = None


class NoteReadInput(Input):
    path: Path
    section: str | None = Field(None, description="'Heading', 'Heading#Sub' or '^block'")
    offset: Offset = Field(0, description="next_offset of the last answer")
    max_chars: int = Field(20_000, ge=1, le=100_000)
    include_metadata: bool = Field(False, description="Tags, links, tasks …")


class NoteReadOutput(Output):
    path: str
    exists: bool
    content: str
    etag: str | None = None
    modified: str | None = None
    section: str | None = None
    chars: int | None = None
    next_offset: int | None = None
    metadata: Annotated[NoteMetadata, WithJsonSchema({"type": "object"})] | None = None
    warnings: list[str] | None = None
    obsidian_url: str | None = None
    did_you_mean: list[str] | None = None
    stale: bool | None = None
    as_of: str | None = None
    conflict_copies: list[str] | None = None


def _read_output(view: NoteView) -> NoteReadOutput:
    return NoteReadOutput.model_validate(
        {name: getattr(view, name) for name in NoteReadOutput.model_fields}
    )


async def _note_read(service: Service, caller: Caller, args: NoteReadInput) -> NoteReadOutput:
    return _read_output(
        await service.notes.read(
            caller,
            args.path,
            section=args.section,
            offset=args.offset,
            max_chars=args.max_chars,
            include_metadata=args.include_metadata,
        )
    )


NOTE_READ = Operation(
    name="note_read",
    title="Read a note",
    description=(
        "Read a note's markdown; an absent one answers exists=false. Long notes come in pages."
    ),
    toolset="core",
    access="read",
    input=NoteReadInput,
    output=NoteReadOutput,
    run=_note_read,
    idempotent=True,
    subject="path",
)


class NoteReadManyInput(Input):
    paths: list[str] = Field(default=[], max_length=MANY)
    glob: str | None = Field(None, description="Instead of paths")
    max_chars_each: int = Field(4_000, ge=1, le=50_000)
    include_metadata: bool = False


class NoteReadManyOutput(Output):
    # Each is what note_read answers: its shape is not told twice.
    notes: Annotated[
        list[NoteReadOutput], WithJsonSchema({"items": {"type": "object"}, "type": "array"})
    ]
    missing: list[str]
    failed: list[dict[str, str]] | None = None
    left_out: list[str] | None = None
    total: int
    truncated: bool


async def _note_read_many(
    service: Service, caller: Caller, args: NoteReadManyInput
) -> NoteReadManyOutput:
    found = await service.notes.read_many(
        caller, args.paths, args.glob, args.max_chars_each, args.include_metadata
    )
    return NoteReadManyOutput(
        notes=[_read_output(view) for view in found.notes],
        missing=list(found.missing),
        failed=[dict(one) for one in found.failed] or None,
        left_out=list(found.left_out) or None,
        total=found.total,
        truncated=found.total > len(found.notes) + len(found.missing) + len(found.failed),
    )


NOTE_READ_MANY = Operation(
    name="note_read_many",
    title="Read several notes",
    description="Read up to 50 notes, by paths or a glob, each cut to max_chars_each.",
    toolset="core",
    access="read",
    input=NoteReadManyInput,
    output=NoteReadManyOutput,
    run=_note_read_many,
    idempotent=True,
    subject="glob",
)


class NoteOutlineInput(Input):
    path: str


class OutlineHeading(Output):
    level: int
    text: str
    line: int
    chars: int


class NoteOutlineOutput(Output):
    path: str
    title: str
    etag: str
    chars: int
    headings: list[OutlineHeading]
    blocks: list[str]
    tasks: list[dict[str, Any]]
    links: int
    embeds: int
    cut: list[str] | None = None
    obsidian_url: str | None = None
    stale: bool | None = None
    as_of: str | None = None


async def _note_outline(
    service: Service, caller: Caller, args: NoteOutlineInput
) -> NoteOutlineOutput:
    return await service.notes.look(
        caller, args.path, lambda seen: _outlined(seen, service.notes.url(seen.loaded.path))
    )


def _outlined(seen: Seen, url: str | None) -> NoteOutlineOutput:
    loaded, note = seen.loaded, seen.note
    parts = outline(seen.text, note)
    rows = ({**heading_row(part.heading), "chars": part.whole} for part in parts)
    headings = fitting(rows, 400_000)
    blocks = fitting((short(block.id) for block in note.blocks), 100_000)
    tasks = fitting(map(task_row, note.tasks), 300_000)
    cut = {
        "headings": len(headings) < len(parts),
        "blocks": len(blocks) < len(note.blocks),
        "tasks": len(tasks) < len(note.tasks),
    }
    return NoteOutlineOutput(
        path=loaded.path,
        title=short(note.title),
        etag=loaded.etag,
        chars=len(seen.text),
        headings=[OutlineHeading.model_validate(heading) for heading in headings],
        blocks=blocks,
        tasks=tasks,
        links=sum(not link.embed for link in note.links),
        embeds=sum(link.embed for link in note.links),
        cut=[name for name, is_cut in cut.items() if is_cut] or None,
        obsidian_url=url,
        stale=loaded.stale,
        as_of=loaded.as_of,
    )


NOTE_OUTLINE = Operation(
    name="note_outline",
    title="Outline of a note",
    description=("Headings with lines and sizes, block ids and tasks of a note."),
    toolset="core",
    access="read",
    input=NoteOutlineInput,
    output=NoteOutlineOutput,
    run=_note_outline,
    idempotent=True,
    subject="path",
)


class NoteInfoInput(Input):
    path: str


class NoteInfoOutput(Output):
    path: str
    title: str
    size: int
    modified: str
    etag: str
    words: int
    lines: int
    headings: int
    tasks: int
    open_tasks: int
    tags: list[str]
    inlinks: int
    outlinks: int
    warnings: list[str] | None = None
    obsidian_url: str | None = None
    stale: bool | None = None
    as_of: str | None = None


async def _note_info(service: Service, caller: Caller, args: NoteInfoInput) -> NoteInfoOutput:
    facts = await service.notes.look(caller, args.path, _facts)
    inlinks, outlinks = await service.notes.link_counts(caller, facts["path"])
    return NoteInfoOutput(
        **facts,
        inlinks=inlinks,
        outlinks=outlinks,
        obsidian_url=service.notes.url(facts["path"]),
    )


def _facts(seen: Seen) -> dict[str, Any]:
    loaded, text, note = seen.loaded, seen.text, seen.note
    return {
        "path": loaded.path,
        "title": short(note.title),
        "size": len(loaded.data),
        "modified": iso_ns(loaded.stat.mtime_ns),
        "etag": loaded.etag,
        "words": len(text[note.frontmatter.body :].split()),
        "lines": text.count("\n") + (not text.endswith("\n") and bool(text)),
        "headings": len(note.headings),
        "tasks": len(note.tasks),
        "open_tasks": sum(not task.done for task in note.tasks),
        "tags": fitting(map(short, note.tags), 100_000),
        "warnings": list(note.warnings) or None,
        "stale": loaded.stale,
        "as_of": loaded.as_of,
    }


NOTE_INFO = Operation(
    name="note_info",
    title="Facts about a note",
    description="Size, time, etag, tags and counts of a note.",
    toolset="core",
    access="read",
    input=NoteInfoInput,
    output=NoteInfoOutput,
    run=_note_info,
    idempotent=True,
    subject="path",
)


class NoteUpsertInput(Input):
    path: str
    content: str
    frontmatter: dict[str, Any] | None = None
    idempotency_key: str | None = None
    wait_uploaded: Patience = 0


class NoteUpsertOutput(ChangeOutput):
    path: str
    created: bool | None = None
    etag: str | None = None
    bytes: int | None = None
    uploaded: bool | None = None
    ack: str | None = None
    replayed: bool | None = None
    diff: str | None = None
    obsidian_url: str | None = None


async def _note_upsert(service: Service, caller: Caller, args: NoteUpsertInput) -> NoteUpsertOutput:
    written = await service.writing.upsert(
        caller,
        args.path,
        args.content,
        args.frontmatter,
        args.idempotency_key,
        args.wait_uploaded,
    )
    # A link may lead from a folder that the caller reads to one that it only writes.
    if not all(service.notes.may_read(caller, path) for path in (args.path, written["path"])):
        written = _without_telling(written, args.path)
    return NoteUpsertOutput.model_validate(written)


def _without_telling(written: dict[str, Any], path: str) -> dict[str, Any]:
    """What may be said to who can't read: nothing of what was there, not even how it is spelled."""
    pending = written.get("pending")
    if pending is not None:
        pending = {name: value for name, value in pending.items() if name != "diff"}
    kept = {name: written.get(name) for name in ("replayed", "dry_run")}
    return {"path": parse_path(path), "pending": pending, **kept}


NOTE_UPSERT = Operation(
    name="note_upsert",
    title="Create a note or append to it",
    description=(
        "Create a note, or append to one that is there (frontmatter is then "
        "ignored). Never overwrites."
    ),
    toolset="core",
    access="write",
    input=NoteUpsertInput,
    output=NoteUpsertOutput,
    run=_note_upsert,
    subject="path",
)
