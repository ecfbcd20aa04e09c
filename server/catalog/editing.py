"""Operations that change notes: whole, in parts, in place, and away."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, create_model, model_validator

from server.catalog.changes import ChangeOutput
from server.catalog.operation import Input, Operation, Patience
from server.markdown.patching import Target, Verb
from server.models import Caller
from server.service import Service
from server.service.making import Mode, Request
from server.service.writing import MOST_EDITS

_AS_SAID = WithJsonSchema({"type": "string"})
"""The words are those that note_write and note_patch list."""


class Written(ChangeOutput):
    path: str
    changed: bool | None = None
    created: bool | None = None
    etag: str
    bytes: int | None = None
    uploaded: bool | None = None
    ack: str | None = None
    merged: bool | None = None
    replayed: bool | None = None
    version: int | None = None
    diff: str | None = None
    obsidian_url: str | None = None


class NoteWriteOutput(Written):
    written: bool | None = None


class NoteWriteInput(Input):
    path: str
    content: str
    mode: Mode
    frontmatter: dict[str, Any] | None = Field(None, description="Properties to set")
    if_match: str | None = Field(None, description="etag that you read")
    idempotency_key: str | None = None
    wait_uploaded: Patience = 0


async def _note_write(service: Service, caller: Caller, args: NoteWriteInput) -> NoteWriteOutput:
    request = Request(args.path, args.content, args.mode, args.frontmatter, if_match=args.if_match)
    return NoteWriteOutput.model_validate(
        await service.writing.write(caller, request, args.idempotency_key, args.wait_uploaded)
    )


NOTE_WRITE = Operation(
    name="note_write",
    title="Write a note",
    description=(
        "Create a note, replace its text, or add at its end or top. With if_match, what others "
        "changed since is merged or refused."
    ),
    toolset="edit",
    access="write",
    input=NoteWriteInput,
    output=NoteWriteOutput,
    run=_note_write,
    destructive=True,
    subject="path",
)


class NotePatchInput(Input):
    path: str
    target: Target
    selector: str = Field(
        description="'Heading' or 'Parent#Heading', a block id, a property, or an exact text"
    )
    operation: Verb
    content: str = ""
    create_missing: bool = False
    if_match: str | None = None


async def _note_patch(service: Service, caller: Caller, args: NotePatchInput) -> Written:
    return Written.model_validate(
        await service.writing.patch(
            caller,
            Request(
                args.path,
                args.content,
                target=args.target,
                selector=args.selector,
                operation=args.operation,
                create_missing=args.create_missing,
                if_match=args.if_match,
            ),
        )
    )


NOTE_PATCH = Operation(
    name="note_patch",
    title="Change a part of a note",
    description=(
        "Change one section, block, property or exact text of a note; every other byte stays. "
        "Answers with the diff."
    ),
    toolset="edit",
    access="write",
    input=NotePatchInput,
    output=Written,
    run=_note_patch,
    destructive=True,
    subject="path",
)


class OneEdit(Input):
    path: str
    content: str = ""
    mode: Annotated[Mode, _AS_SAID] | None = None
    target: Annotated[Target, _AS_SAID] | None = None
    selector: str = ""
    operation: Annotated[Verb, _AS_SAID] | None = None
    create_missing: bool = False
    if_match: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.mode is None) == (self.target is None):
            raise ValueError("give either mode, or target with selector and operation")
        if self.target is not None and self.operation is None:
            raise ValueError("target needs an operation: append, prepend, replace or delete")
        return self


class NotesEditInput(Input):
    edits: list[OneEdit] = Field(
        min_length=1,
        max_length=MOST_EDITS,
        description="As note_write (mode) or note_patch (target)",
    )


class NotesEditOutput(ChangeOutput):
    notes: list[dict[str, Any]]
    diff: str


async def _notes_edit(service: Service, caller: Caller, args: NotesEditInput) -> NotesEditOutput:
    requests = [Request(**edit.model_dump()) for edit in args.edits]
    edited = await service.writing.edit_many(caller, requests)
    return NotesEditOutput.model_validate(asdict(edited))


NOTES_EDIT = Operation(
    name="notes_edit",
    title="Edit several notes",
    description="Make several edits in one or many notes: all of them or none.",
    toolset="edit",
    access="write",
    input=NotesEditInput,
    output=NotesEditOutput,
    run=_notes_edit,
    destructive=True,
)


_NOTE_MOVE: dict[str, Any] = {"from": (str, ...), "to": (str, ...), "update_links": (bool, True)}
# Made by a call, because `from` is a word of the language.
NoteMoveInput = create_model("NoteMoveInput", __base__=Input, **_NOTE_MOVE)


class NoteMoveOutput(ChangeOutput):
    path: str
    moved_from: str
    moved: int
    links_updated: int
    notes_changed: list[str]
    total_changed: int
    notes_left: list[str] | None = None
    obsidian_url: str | None = None


async def _note_move(service: Service, caller: Caller, args: Any) -> NoteMoveOutput:
    moved = await service.moving.move(
        caller, getattr(args, "from"), args.to, update_links=args.update_links
    )
    return NoteMoveOutput.model_validate(
        {**asdict(moved), "notes_left": list(moved.notes_left) or None}
    )


NOTE_MOVE = Operation(
    name="note_move",
    title="Move a note or folder",
    description=("Move or rename a note, attachment or folder; links follow. All or nothing."),
    toolset="edit",
    access="write",
    input=NoteMoveInput,
    output=NoteMoveOutput,
    run=_note_move,
    destructive=True,
    subject="from",
)


class HeadingRenameInput(Input):
    path: str
    heading: str
    to: str


class HeadingRenameOutput(ChangeOutput):
    path: str
    heading: str
    etag: str
    links_updated: int
    notes_changed: list[str]
    notes_left: list[str] | None = None
    diff: str


async def _heading_rename(
    service: Service, caller: Caller, args: HeadingRenameInput
) -> HeadingRenameOutput:
    renamed = await service.moving.rename_heading(caller, args.path, args.heading, args.to)
    return HeadingRenameOutput.model_validate(
        {**asdict(renamed), "notes_left": list(renamed.notes_left) or None}
    )


HEADING_RENAME = Operation(
    name="heading_rename",
    title="Rename a heading",
    description="Rename a heading; every link to it in the vault follows.",
    toolset="edit",
    access="write",
    input=HeadingRenameInput,
    output=HeadingRenameOutput,
    run=_heading_rename,
    destructive=True,
    subject="path",
)


class NoteDeleteInput(Input):
    path: str
    permanent: bool = False


class NoteDeleteOutput(ChangeOutput):
    path: str
    deleted: Literal[True] = True
    trashed_to: str | None = None
    broken_links: int


async def _note_delete(service: Service, caller: Caller, args: NoteDeleteInput) -> NoteDeleteOutput:
    deleted = await service.deleting.delete(caller, args.path, permanent=args.permanent)
    return NoteDeleteOutput(
        path=deleted.path,
        trashed_to=deleted.trashed_to,
        broken_links=deleted.broken_links,
        dry_run=deleted.dry_run,
        pending=deleted.pending,
    )


NOTE_DELETE = Operation(
    name="note_delete",
    title="Delete a note",
    description="Move a note or an attachment to the trash; tells how many links break.",
    toolset="edit",
    access="write",
    input=NoteDeleteInput,
    output=NoteDeleteOutput,
    run=_note_delete,
    destructive=True,
    subject="path",
)
