"""Operations that change notes: whole, in parts, in place, and away."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import Field, create_model, model_validator

from server.catalog.notes import Key
from server.catalog.operation import Input, Operation, Output
from server.markdown.patching import Target, Verb
from server.models import Caller
from server.service import Service
from server.service.making import Mode, Request
from server.service.writing import MOST_EDITS

IfMatch = Annotated[str | None, Field(description="etag that you read")]


class Written(Output):
    path: str
    changed: bool | None = None
    created: bool | None = None
    etag: str
    bytes: int | None = None
    uploaded: bool | None = None
    merged: bool | None = None
    replayed: bool | None = None
    dry_run: bool | None = None
    version: int | None = None
    diff: str | None = None
    obsidian_url: str | None = None


class NoteWriteOutput(Written):
    written: bool | None = None


class NoteWriteInput(Input):
    path: str
    content: str
    mode: Mode = Field(description="prepend goes below the frontmatter")
    frontmatter: dict[str, Any] | None = Field(None, description="Properties to set")
    if_match: IfMatch = None
    idempotency_key: Key = None


async def _note_write(service: Service, caller: Caller, args: NoteWriteInput) -> NoteWriteOutput:
    request = Request(args.path, args.content, args.mode, args.frontmatter, if_match=args.if_match)
    return NoteWriteOutput.model_validate(
        await service.writing.write(caller, request, args.idempotency_key)
    )


NOTE_WRITE = Operation(
    name="note_write",
    title="Write a note",
    description=(
        "Create a note, replace its whole text, or add at its end or its top. With if_match, what others "
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
    create_missing: bool = Field(False, description="Make an absent heading or property")
    if_match: IfMatch = None


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
        "Append to, prepend to, replace or delete one section, block, property or exact text of a note; "
        "every other byte stays. Answers with the diff."
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
    mode: Mode | None = None
    target: Target | None = None
    selector: str = ""
    operation: Verb | None = None
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


class NotesEditOutput(Output):
    notes: list[dict[str, Any]]
    diff: str
    dry_run: bool | None = None


async def _notes_edit(service: Service, caller: Caller, args: NotesEditInput) -> NotesEditOutput:
    requests = [Request(**edit.model_dump()) for edit in args.edits]
    edited = await service.writing.edit_many(caller, requests)
    return NotesEditOutput.model_validate(asdict(edited))


NOTES_EDIT = Operation(
    name="notes_edit",
    title="Edit several notes",
    description="Make several edits in one or many notes: all of them or none. One diff comes back.",
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


class NoteMoveOutput(Output):
    path: str
    moved_from: str
    moved: int
    links_updated: int
    notes_changed: list[str]
    total_changed: int
    dry_run: bool | None = None
    obsidian_url: str | None = None


async def _note_move(service: Service, caller: Caller, args: Any) -> NoteMoveOutput:
    moved = await service.moving.move(
        caller, getattr(args, "from"), args.to, update_links=args.update_links
    )
    return NoteMoveOutput.model_validate(asdict(moved))


NOTE_MOVE = Operation(
    name="note_move",
    title="Move a note or folder",
    description=(
        "Move or rename a note, an attachment or a folder; links to it are rewritten in the form they "
        "had. All or nothing."
    ),
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


class HeadingRenameOutput(Output):
    path: str
    heading: str
    etag: str
    links_updated: int
    notes_changed: list[str]
    diff: str
    dry_run: bool | None = None


async def _heading_rename(
    service: Service, caller: Caller, args: HeadingRenameInput
) -> HeadingRenameOutput:
    renamed = await service.moving.rename_heading(caller, args.path, args.heading, args.to)
    return HeadingRenameOutput.model_validate(asdict(renamed))


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
    permanent: bool = Field(False, description="Not to .trash")


class NoteDeleteOutput(Output):
    path: str
    deleted: Literal[True] = True
    trashed_to: str | None = None
    broken_links: int
    dry_run: bool | None = None


async def _note_delete(service: Service, caller: Caller, args: NoteDeleteInput) -> NoteDeleteOutput:
    deleted = await service.deleting.delete(caller, args.path, permanent=args.permanent)
    return NoteDeleteOutput(
        path=deleted.path,
        trashed_to=deleted.trashed_to,
        broken_links=deleted.broken_links,
        dry_run=deleted.dry_run,
    )


NOTE_DELETE = Operation(
    name="note_delete",
    title="Delete a note",
    description=(
        "Move a note or an attachment to the trash; tells how many links break. note_restore brings it back."
    ),
    toolset="edit",
    access="write",
    input=NoteDeleteInput,
    output=NoteDeleteOutput,
    run=_note_delete,
    destructive=True,
    subject="path",
)
