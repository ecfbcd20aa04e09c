"""Operations on single notes."""

from typing import Annotated, Any

from pydantic import Field

from server.catalog.operation import Input, Operation, Output
from server.markdown.sections import outline
from server.models import Caller
from server.service import Service
from server.service.freshness import iso_ns
from server.service.notes import MANY, NoteView, metadata

Path = Annotated[str, Field(description="Vault path of the note, like 'devlog/api.md'")]


class NoteMetadata(Output):
    title: str
    tags: list[str] | None = None
    properties: dict[str, Any] | None = None
    aliases: list[str] | None = None
    headings: list[dict[str, Any]] | None = None
    links: list[dict[str, Any]] | None = None
    tasks: list[dict[str, Any]] | None = None


class NoteReadInput(Input):
    path: Path
    section: str | None = Field(
        None, description="Heading, 'Heading#Sub', or '^block' to read alone"
    )
    offset: int = Field(
        0, ge=0, description="Character to start at: next_offset of the last answer"
    )
    max_chars: int = Field(20_000, ge=1, le=200_000)
    include_metadata: bool = Field(
        False, description="Also tags, properties, headings, links, tasks"
    )


class NoteReadOutput(Output):
    path: str
    exists: bool
    content: str
    etag: str | None = None
    modified: str | None = None
    section: str | None = None
    chars: int | None = None
    next_offset: int | None = None
    metadata: NoteMetadata | None = None
    warnings: list[str] | None = None
    obsidian_url: str | None = None
    did_you_mean: list[str] | None = None
    stale: bool | None = None
    as_of: str | None = None


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
        "Read a note's markdown. A note that does not exist answers exists=false and empty content, not "
        "an error. Long notes come in pages: pass next_offset as offset. The etag identifies this version."
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
    glob: str | None = Field(None, description=f"Instead of paths: 'devlog/*.md'; the first {MANY}")
    max_chars_each: int = Field(4_000, ge=1, le=50_000)
    include_metadata: bool = False


class NoteReadManyOutput(Output):
    notes: list[NoteReadOutput]
    missing: list[str]
    total: int
    truncated: bool


async def _note_read_many(
    service: Service, caller: Caller, args: NoteReadManyInput
) -> NoteReadManyOutput:
    notes, missing, total = await service.notes.read_many(
        caller, args.paths, args.glob, args.max_chars_each, args.include_metadata
    )
    return NoteReadManyOutput(
        notes=[_read_output(view) for view in notes],
        missing=missing,
        total=total,
        truncated=total > len(notes) + len(missing),
    )


NOTE_READ_MANY = Operation(
    name="note_read_many",
    title="Read several notes",
    description=(
        "Read up to 50 notes at once, by paths or by one glob, each cut to max_chars_each "
        "(its next_offset tells where note_read goes on). Absent ones are listed in missing."
    ),
    toolset="core",
    access="read",
    input=NoteReadManyInput,
    output=NoteReadManyOutput,
    run=_note_read_many,
    idempotent=True,
    subject="glob",
)


class NoteOutlineInput(Input):
    path: Path


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
    obsidian_url: str | None = None
    stale: bool | None = None
    as_of: str | None = None


async def _note_outline(
    service: Service, caller: Caller, args: NoteOutlineInput
) -> NoteOutlineOutput:
    loaded, text, note = await service.notes.outline(caller, args.path)
    return NoteOutlineOutput(
        path=loaded.path,
        title=note.title,
        etag=loaded.etag,
        chars=len(text),
        headings=[
            OutlineHeading(
                level=part.heading.level,
                text=part.heading.text,
                line=part.heading.line,
                chars=part.whole,
            )
            for part in outline(text, note)
        ],
        blocks=[block.id for block in note.blocks],
        tasks=metadata(note).get("tasks", []),
        links=sum(not link.embed for link in note.links),
        embeds=sum(link.embed for link in note.links),
        obsidian_url=service.notes.url(loaded.path),
        stale=loaded.stale,
        as_of=loaded.as_of,
    )


NOTE_OUTLINE = Operation(
    name="note_outline",
    title="Outline of a note",
    description=(
        "The structure of a note without its text: headings with line numbers and section sizes, block "
        "ids, tasks, link counts. Use it before reading a section of a long note."
    ),
    toolset="core",
    access="read",
    input=NoteOutlineInput,
    output=NoteOutlineOutput,
    run=_note_outline,
    idempotent=True,
    subject="path",
)


class NoteInfoInput(Input):
    path: Path


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
    loaded, note, (inlinks, outlinks) = await service.notes.info(caller, args.path)
    text = loaded.text()
    return NoteInfoOutput(
        path=loaded.path,
        title=note.title,
        size=len(loaded.data),
        modified=iso_ns(loaded.stat.mtime_ns),
        etag=loaded.etag,
        words=len(text[note.frontmatter.body :].split()),
        lines=text.count("\n") + (not text.endswith("\n") and bool(text)),
        headings=len(note.headings),
        tasks=len(note.tasks),
        open_tasks=sum(not task.done for task in note.tasks),
        tags=list(note.tags),
        inlinks=inlinks,
        outlinks=outlinks,
        warnings=list(note.warnings) or None,
        obsidian_url=service.notes.url(loaded.path),
        stale=loaded.stale,
        as_of=loaded.as_of,
    )


NOTE_INFO = Operation(
    name="note_info",
    title="Facts about a note",
    description="Size, time, etag, tags, counts and numbers of links in and out of a note, without its text.",
    toolset="core",
    access="read",
    input=NoteInfoInput,
    output=NoteInfoOutput,
    run=_note_info,
    idempotent=True,
    subject="path",
)


class NoteUpsertInput(Input):
    path: Path
    content: str = Field(description="Markdown to write or append")
    frontmatter: dict[str, Any] | None = Field(
        None,
        description="YAML properties of a new note, like {'tags': ['devlog']}; ignored on append",
    )


class NoteUpsertOutput(Output):
    path: str
    created: bool
    etag: str
    bytes: int
    uploaded: bool
    obsidian_url: str | None = None


async def _note_upsert(service: Service, caller: Caller, args: NoteUpsertInput) -> NoteUpsertOutput:
    written = await service.notes.upsert(caller, args.path, args.content, args.frontmatter)
    return NoteUpsertOutput.model_validate(
        {name: getattr(written, name) for name in NoteUpsertOutput.model_fields}
    )


NOTE_UPSERT = Operation(
    name="note_upsert",
    title="Create a note or append to it",
    description=(
        "Create a note with optional YAML frontmatter, making folders as needed; if it exists already, "
        "append a newline and the content (frontmatter is then ignored). Never overwrites; several agents "
        "may append at once. The path must end in .md."
    ),
    toolset="core",
    access="write",
    input=NoteUpsertInput,
    output=NoteUpsertOutput,
    run=_note_upsert,
    subject="path",
)
