"""Operations that get things back."""

from dataclasses import asdict

from pydantic import Field

from server.catalog.changes import ChangeOutput
from server.catalog.operation import Input, Offset, Operation, Output, Whole
from server.history.telling import told
from server.models import Caller
from server.service import Service
from server.service.reversal import What

_SHOWN = 100


class NoteHistoryInput(Input):
    path: str
    limit: int = Field(20, ge=1, le=200)
    offset: Offset = 0


class Version(Output):
    version: int
    at: str
    by: str
    tool: str
    change: str
    size: int | None = None
    etag: str | None = None
    moved_from: str | None = None


class NoteHistoryOutput(Output):
    path: str
    versions: list[Version]
    total: int
    truncated: bool
    obsidian_url: str | None = None


async def _note_history(
    service: Service, caller: Caller, args: NoteHistoryInput
) -> NoteHistoryOutput:
    found = await service.past.versions(caller, args.path, limit=args.limit, offset=args.offset)
    return NoteHistoryOutput(
        path=found.path,
        versions=[Version.model_validate(told(entry)) for entry in found.entries],
        total=found.total,
        truncated=args.offset + len(found.entries) < found.total,
        obsidian_url=found.obsidian_url,
    )


NOTE_HISTORY = Operation(
    name="note_history",
    title="Earlier versions of a note",
    description="Changes made to a note, even a deleted one; size and etag are those before.",
    toolset="edit",
    access="read",
    input=NoteHistoryInput,
    output=NoteHistoryOutput,
    run=_note_history,
    idempotent=True,
    subject="path",
)


class NoteRestoreInput(Input):
    path: str
    version: Whole | None = Field(None, description="Default: the last")
    if_match: str | None = None


class NoteRestoreOutput(ChangeOutput):
    path: str
    changed: bool
    created: bool
    etag: str
    version: int | None = None
    diff: str | None = None
    uploaded: bool | None = None
    obsidian_url: str | None = None


async def _note_restore(
    service: Service, caller: Caller, args: NoteRestoreInput
) -> NoteRestoreOutput:
    restored = await service.past.restore(caller, args.path, args.version, args.if_match)
    return NoteRestoreOutput.model_validate(asdict(restored))


NOTE_RESTORE = Operation(
    name="note_restore",
    title="Restore a note",
    description="Put back what a note said before a change, deleted or not.",
    toolset="edit",
    access="write",
    input=NoteRestoreInput,
    output=NoteRestoreOutput,
    run=_note_restore,
    destructive=True,
    subject="path",
)


class UndoInput(Input):
    since: str = Field(description="'2h', ISO time, or '#12': from version 12")
    caller: str | None = None
    session: str | None = None
    skip: list[str] = Field(default=[], max_length=500)
    apply: bool = False


class UndoneChange(Output):
    path: str
    what: What
    moved_from: str | None = None


class UndoOutput(ChangeOutput):
    changes: list[UndoneChange]
    total: int
    truncated: bool
    diff: str
    applied: bool
    version: int | None = None


async def _undo(service: Service, caller: Caller, args: UndoInput) -> UndoOutput:
    undone = await service.past.undo(
        caller,
        args.since,
        of=args.caller,
        session=args.session,
        skip=args.skip,
        apply=args.apply,
    )
    shown = undone.changes[:_SHOWN]
    return UndoOutput(
        changes=[
            UndoneChange(path=one.path, what=one.what, moved_from=one.moved_from) for one in shown
        ],
        total=len(undone.changes),
        truncated=len(shown) < len(undone.changes),
        diff=undone.diff,
        applied=undone.applied,
        version=undone.version,
        dry_run=undone.dry_run,
        pending=undone.pending,
    )


UNDO = Operation(
    name="undo",
    title="Undo what a caller did",
    description=(
        "Take back what a caller (default: you) did since a moment, all or nothing; others' work "
        "stays. Without apply: only the diff."
    ),
    toolset="admin",
    access="write",
    input=UndoInput,
    output=UndoOutput,
    run=_undo,
    destructive=True,
    subject="since",
)
