"""Every change that a caller makes to the vault: access, write mode, history, vault, index.

The one way to write. What a tool wants is a function from the present content to the new one, or a
batch of steps made from what the vault holds; whether that is done, only shown, kept for a person to
approve, or refused is decided here.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from server.access.decision import Access
from server.access.rules import STRICTNESS, Verb, WriteMode
from server.approvals.records import Approval
from server.approvals.store import Claim
from server.errors import Conflict, PermissionDenied, Unavailable, VaultError
from server.history.store import Author, Change
from server.models import Caller, Content, NotePath, etag_of
from server.service import holding
from server.service.batches import Batch, Edit, Fate, touched
from server.service.keeping import Keeping, Kept
from server.service.loading import Loader
from server.service.waiting import Waiting
from server.vault.files import Denied, OutcomeOpen
from server.vault.plans import Plans, Replace
from server.vault.replacement import Ready, nothing
from server.vault.steps import read_steps
from server.vault.vault import Vault, Written
from server.workers import Deadline, Workers

__all__ = ["Batch", "Edit", "Editing", "Fate"]

T = TypeVar("T")

_BATCH_SECONDS = 1800.0
_ATTEMPTS = 4
_LINKS = 3
BLIND = frozenset({"note_upsert", "devlog_append"})
"""Tools that tell nothing of what was there: who may write but not read may use them."""


class Editing:
    """Writes for a caller. The caller comes first."""

    def __init__(
        self,
        vault: Vault,
        plans: Plans,
        keeping: Keeping,
        loader: Loader,
        access: Access,
        mount: Workers,
        waiting: Waiting,
        *,
        timeout: float,
        queues: Callable[[], bool] = lambda: False,
        queues_failed: bool = False,
    ) -> None:
        """`queues` tells whether a write shall be put on record now and made later; with
        `queues_failed` so is one that the vault, or the remote behind it, just could not take.
        """
        self._vault = vault
        self._plans = plans
        self._keeping = keeping
        self._loader = loader
        self._access = access
        self._mount = mount
        self._waiting = waiting
        self._timeout = timeout
        self._queues = queues
        self._queues_failed = queues_failed

    async def edit(
        self,
        caller: Caller,
        tool: str,
        path: NotePath,
        change: Callable[[Content | None], bytes],
        *,
        kind: str = "write",
        about_to: Callable[[str], None] | None = None,
    ) -> Edit:
        """Replace one file's content by what `change` makes of it; it may raise to leave it alone.

        A change that changes nothing writes nothing. `about_to` learns the etag before the write.
        """
        wanted = _Wanted(caller, tool, change, kind, about_to)
        deadline = Deadline.after(self._timeout)
        for _ in range(_LINKS):
            mode = self._judge(caller, [path])
            try:
                return await self._mount.run_async(
                    deadline, self._edit, wanted, path, mode, deadline
                )
            except _StricterError as error:
                path = NotePath(error.path)
        raise Conflict(f"The links at {path!r} keep changing.", "Name the file itself.")

    async def apply(
        self, caller: Caller, tool: str, make: Callable[[], tuple[Batch, T]]
    ) -> tuple[T, Fate]:
        """Carry out the batch that `make` builds from what is there; what it told, and its fate.

        All or nothing. `make` runs where the vault may be read, and again when somebody changed a
        file before its turn came.
        """
        deadline = Deadline.after(_BATCH_SECONDS)

        def run(attempts: int = _ATTEMPTS) -> tuple[T, Fate]:
            batch, told = make()
            mode = self._judge(caller, touched(batch.steps))
            if mode == "dry-run":
                return told, Fate(False)
            if not batch.steps:
                return told, Fate(True)
            if caller.approval is not None:
                with self._waiting.approved(caller, tool, batch):
                    self._carry_out(caller, tool, batch, mode, deadline)
                return told, Fate(True)
            if mode == "confirm":
                return told, Fate(False, self._waiting.hold(caller, tool, batch))
            try:
                self._carry_out(caller, tool, batch, mode, deadline)
            except Conflict:
                if attempts == 1:
                    raise
                return run(attempts - 1)
            return told, Fate(True)

        return await self._mount.run_async(deadline, run)

    def release(self, claim: Claim, approver: Caller) -> Approval:
        """Make a write that waited, now that somebody approved it. Blocks: it touches the vault.

        Raises `Conflict` when a file is not what the approver was shown, `PermissionDenied` when
        who asked may not write there any more.
        """
        approval = claim.approval
        steps = tuple(read_steps(claim.steps()))
        asker = replace(approval.asker, trail=approver.trail)
        mode = self._judge(asker, touched(steps))
        if mode == "dry-run":
            raise PermissionDenied(
                "Writes there are only shown now, not made.", "The policy or WRITE_MODE decides."
            )
        try:
            batch = holding.batch_of(approval, steps, self._vault)
        except Conflict as error:
            claim.close("outdated", approver.name, error.message)
            raise
        claim.approve(approver.name)
        deadline = Deadline.after(_BATCH_SECONDS)
        with self._waiting.decided(claim):
            self._carry_out(asker, approval.tool, batch, mode, deadline, approver.name)
        return claim.approval

    def resume(self, claim: Claim) -> None:
        """Decide about an approved write whose server died, or lost the mount, on the way."""
        approval = claim.approval
        if holding.is_made(approval, self._vault):
            claim.close("applied")
            return
        try:
            holding.batch_of(approval, tuple(read_steps(claim.steps())), self._vault)
        except Conflict as error:
            # A batch that was cut short is finished by its journal; until then nobody may decide.
            if not holding.is_between(approval, self._vault):
                claim.close("outdated", reason=error.message)
            return
        try:
            self.release(claim, Caller(approval.by or "somebody"))
        except PermissionDenied as error:
            claim.close("denied", reason=error.message)

    def settle(self) -> None:
        """Decide about changes whose outcome was open, now that the vault answers."""
        self._keeping.settle(self._etag)

    def _etag(self, path: str) -> str | None:
        found = self._vault.read(NotePath(path))
        return found.content.etag if found else None

    def _edit(self, wanted: "_Wanted", path: NotePath, mode: WriteMode, deadline: Deadline) -> Edit:
        caller = wanted.caller
        if mode == "on" and caller.approval is None:
            return self._write(wanted, path, mode, deadline)
        edit = self._shown(wanted, path, mode)
        if mode == "dry-run":
            return edit
        if not edit.changed or edit.after is None:
            return replace(edit, dry_run=False)
        batch = Batch(wanted.kind)
        batch.replace(edit.path, edit.before, edit.after)
        if caller.approval is None:
            return replace(edit, pending=self._waiting.hold(caller, wanted.tool, batch))
        exact = replace(wanted, change=_exactly(edit.before, edit.after))
        with self._waiting.approved(caller, wanted.tool, batch):
            return self._write(exact, NotePath(edit.path), mode, deadline)

    def _shown(self, wanted: "_Wanted", path: NotePath, mode: WriteMode) -> Edit:
        found = self._vault.read(path, permit=self._permit(wanted.caller, wanted.tool, path, mode))
        content = found.content if found else None
        after = wanted.change(content)
        name = found.path if found else path
        return Edit(name, content.data if content else None, after, dry_run=True)

    def _write(
        self, wanted: "_Wanted", path: NotePath, mode: WriteMode, deadline: Deadline
    ) -> Edit:
        permit = self._permit(wanted.caller, wanted.tool, path, mode)
        try:
            with self._keeping.one(_author(wanted.caller, wanted.tool)) as kept:
                change = _KeptChange(wanted, path, kept)
                how = _How(path, change, deadline, permit, kept.ready)
                written = self._put_on_record(how) if self._queues() else self._make(how)
        except _UnchangedError as same:
            return Edit(path, same.data, same.data)
        before, data = change.before, written.content.data
        _tell(wanted.caller, written.path, before, etag_of(data), len(data))
        return Edit(
            written.path,
            before,
            data,
            uploaded=written.uploaded,
            version=kept.ids[0] if before is not None else None,
            ack=written.ack,
        )

    def _make(self, how: "_How") -> Written:
        try:
            written = self._vault.edit(
                how.path, how.change, how.deadline, permit=how.permit, ready=how.ready
            )
        except (OutcomeOpen, Denied):
            raise
        except Unavailable:
            if not self._queues_failed:
                raise
            # The mount may look well while nobody can reach the remote behind it.
            return self._put_on_record(how)
        # In the same thread: even when the caller has gone, the index knows of the write.
        self._loader.store_written(written)
        return written

    def _put_on_record(self, how: "_How") -> Written:
        """A write that is made when the vault answers, on top of the newest that is known here."""
        path = how.path
        with self._vault.hold([path], how.deadline):
            # The index may not have heard of the last one, if the server was killed right after it.
            waiting = self._vault.queued_content(path)
            known = None if waiting else self._loader.known(path)
            found = waiting or known
            name = NotePath(found.path) if found else path
            how.permit(name)
            base = Content(known.data, known.stat) if known else None
            base = waiting.content if waiting else base
            data = how.change(base)
            how.ready(nothing)
            # Whoever was told "timeout" may have written something else since.
            how.deadline.check()
            written = self._vault.queue(name, found.disk if found else path, base, data)
            self._loader.store_written(written)
            return written

    def _carry_out(
        self,
        caller: Caller,
        tool: str,
        batch: Batch,
        mode: WriteMode,
        deadline: Deadline,
        approver: str | None = None,
    ) -> None:
        told = tool if approver is None else f"{tool}, approved by {approver}"
        first = next(iter(touched(batch.steps)), "")
        permit = self._permit(caller, tool, first, mode)
        with self._keeping.several(_author(caller, told), batch.kept):
            self._plans.carry_out(
                batch.steps,
                deadline,
                permit=permit,
                on_step=lambda done: caller.tell(done, len(batch.steps), "writing"),
            )
        sizes = {step.path: len(step.after) for step in batch.steps if isinstance(step, Replace)}
        for change in batch.kept:
            moved = len(change.before or b"") if change.other is not None else 0
            size = sizes.get(change.path, moved)
            _tell(caller, change.path, change.before, change.after_etag, size)

    def _judge(self, caller: Caller, paths: Sequence[str]) -> WriteMode:
        """How a write of all this is to be handled. Raises `PermissionDenied`."""
        for path in paths:
            self._access.require(caller, "write", path)
        mode = self._access.write_mode(caller, paths)
        if mode == "off":
            raise PermissionDenied(
                "Nothing is written there: the owner switched that off.",
                "Tell the user what you would have written; WRITE_MODE or the policy decides.",
            )
        return mode

    def _permit(
        self, caller: Caller, tool: str, asked: str, mode: WriteMode
    ) -> Callable[[str], None]:
        """Asked where a write really goes: links change neither what is allowed nor how."""
        verbs: tuple[Verb, ...] = ("write",) if tool in BLIND else ("write", "read")
        check = self._access.permit(caller, asked, *verbs)

        def permit(path: str) -> None:
            check(path)
            real = self._access.write_mode(caller, [path])
            if STRICTNESS.index(real) > STRICTNESS.index(mode):
                raise _StricterError(path)

        return permit


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A change of one file as a tool asks for it."""

    caller: Caller
    tool: str
    change: Callable[[Content | None], bytes]
    kind: str
    about_to: Callable[[str], None] | None


@dataclass(slots=True)
class _KeptChange:
    """A change that has what it was made from kept, each time that it is made."""

    wanted: _Wanted
    path: NotePath
    kept: Kept
    before: bytes | None = None

    def __call__(self, current: Content | None) -> bytes:
        data = self.wanted.change(current)
        self.before = current.data if current else None
        if data == self.before:
            raise _UnchangedError(data)
        etag = etag_of(data)
        self.kept.will(Change(self.wanted.kind, self.path, self.before, etag))
        if self.wanted.about_to is not None:
            self.wanted.about_to(etag)
        return data


@dataclass(frozen=True, slots=True)
class _How:
    """One write of one file, ready to be made or put on record."""

    path: NotePath
    change: Callable[[Content | None], bytes]
    deadline: Deadline
    permit: Callable[[str], None]
    ready: Ready


class _StricterError(PermissionDenied):
    """A link leads to where writes are handled more strictly."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "A link leads to where writes are only shown, or need an approval.",
            "Name the file itself.",
        )
        self.path = path


class _UnchangedError(VaultError):
    """The content is what it should become: there is nothing to write."""

    def __init__(self, data: bytes) -> None:
        super().__init__("Nothing changes.")
        self.data = data


def _author(caller: Caller, tool: str) -> Author:
    if caller.approval is not None:
        tool += ", approved by its user"
    return Author(caller.name, caller.session, tool, uuid.uuid4().hex[:16])


def _tell(caller: Caller, path: str, before: bytes | None, after: str | None, size: int) -> None:
    if caller.trail is not None:
        caller.trail.changed(path, None if before is None else etag_of(before), after, size)


def _exactly(before: bytes | None, after: bytes) -> Callable[[Content | None], bytes]:
    """The change that a person saw, and no other."""

    def change(current: Content | None) -> bytes:
        if (current.data if current else None) != before:
            raise holding.outdated([])
        return after

    return change
