"""Every change that a caller makes to the vault: access, write mode, history, vault, index.

The one way to write. What a tool wants is a function from the present content to the new one, or a
batch of steps made from what the vault holds; whether that is done, only shown, or refused is
decided here.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from server.access import Access
from server.errors import Conflict, PermissionDenied, VaultError
from server.history.store import Author, Change, History
from server.models import Caller, Content, NotePath, etag_of
from server.service.loading import Loader
from server.vault.files import OutcomeOpen
from server.vault.plans import Move, Plans, Remove, Replace, Step
from server.vault.vault import Vault
from server.workers import Deadline, Workers

T = TypeVar("T")
WriteMode = Literal["on", "off", "dry-run"]

_BATCH_SECONDS = 1800.0
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one file: made, or only shown when `dry_run`. `after` is None for no file."""

    path: str
    before: bytes | None
    after: bytes | None
    dry_run: bool = False
    uploaded: bool = True
    version: int | None = None
    """The entry of the history that holds what was there before."""

    @property
    def created(self) -> bool:
        return self.before is None

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def etag(self) -> str:
        return etag_of(self.after or b"")


@dataclass(slots=True)
class Batch:
    """Steps to be made together, and what the history shall keep of them."""

    kind: str
    steps: list[Step] = field(default_factory=list)
    kept: list[Change] = field(default_factory=list)

    def replace(self, path: str, before: bytes | None, after: bytes) -> None:
        """A file's content becomes another."""
        self.steps.append(Replace(path, before, after))
        self.kept.append(Change(self.kind, path, before, etag_of(after)))

    def remove(self, path: str, before: bytes) -> None:
        """A file goes for good."""
        self.steps.append(Remove(path, before))
        self.kept.append(Change(self.kind, path, before, None))

    def move(self, old: str, new: str) -> None:
        """A file or folder gets another path; who calls keeps what is in it by `moved`."""
        self.steps.append(Move(old, new))

    def gone(self, path: str, before: bytes) -> None:
        """The history keeps a file that a move takes out of sight."""
        self.kept.append(Change(self.kind, path, before, None))

    def moved(self, old: str, new: str, data: bytes | None) -> None:
        """The history knows that a file moved; `data` is None for an attachment."""
        after = None if data is None else etag_of(data)
        self.kept.append(Change("move", new, data, after, other=old))


class Editing:
    """Writes for a caller. The caller comes first."""

    def __init__(
        self,
        vault: Vault,
        plans: Plans,
        history: History,
        loader: Loader,
        access: Access,
        mount: Workers,
        *,
        mode: WriteMode,
        timeout: float,
    ) -> None:
        self._vault = vault
        self._plans = plans
        self._history = history
        self._loader = loader
        self._access = access
        self._mount = mount
        self._mode = mode
        self._timeout = timeout
        self._open: set[int] = set()
        """Entries of the history about changes of which nobody knows yet whether they were made."""

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
        self._require(caller, [path])
        deadline = Deadline.after(self._timeout)
        if self._mode == "dry-run":
            return await self._mount.run_async(deadline, self._shown, path, change)
        author = _author(caller, tool)
        return await self._mount.run_async(
            deadline, self._edit, author, path, change, kind, about_to, deadline
        )

    async def apply(
        self, caller: Caller, tool: str, make: Callable[[], tuple[Batch, T]]
    ) -> tuple[T, bool]:
        """Carry out the batch that `make` builds from what is there; what it told, and whether done.

        All or nothing. `make` runs where the vault may be read, and again when somebody changed a
        file before its turn came.
        """
        self._require(caller, [])
        deadline = Deadline.after(_BATCH_SECONDS)

        def run(attempts: int = _ATTEMPTS) -> tuple[T, bool]:
            batch, told = make()
            self._require(caller, _touched(batch.steps))
            if self._mode == "dry-run":
                return told, False
            try:
                self._carry_out(_author(caller, tool), batch, deadline)
            except Conflict:
                if attempts == 1:
                    raise
                return run(attempts - 1)
            return told, True

        return await self._mount.run_async(deadline, run)

    def settle(self) -> None:
        """Decide about changes whose outcome was open, now that the vault answers."""
        unknown = frozenset(self._open)
        self._history.settle(self._etag, own=unknown)
        self._open -= unknown

    def _etag(self, path: str) -> str | None:
        found = self._vault.read(NotePath(path))
        return found.content.etag if found else None

    def _carry_out(self, author: Author, batch: Batch, deadline: Deadline) -> None:
        if not batch.steps:
            return
        ids = self._history.begin(author, batch.kept)
        with self._recorded(ids):
            self._plans.carry_out(batch.steps, deadline)

    @contextmanager
    def _recorded(self, ids: Sequence[int]) -> Iterator[None]:
        """Tell the history what became of the changes that were begun in it."""
        try:
            yield
        except OutcomeOpen:
            self._open.update(ids)
            raise
        except BaseException:
            self._history.drop(ids)
            raise
        self._history.finish(ids)

    def _edit(
        self,
        author: Author,
        path: NotePath,
        change: Callable[[Content | None], bytes],
        kind: str,
        about_to: Callable[[str], None] | None,
        deadline: Deadline,
    ) -> Edit:
        ids: list[int] = []
        before: list[bytes | None] = [None]

        def recorded(current: Content | None) -> bytes:
            data = change(current)
            before[0] = current.data if current else None
            if data == before[0]:
                raise _UnchangedError
            # Another writer came between: what was kept for the first try is not what is there.
            self._history.drop(ids)
            etag = etag_of(data)
            ids[:] = self._history.begin(author, [Change(kind, path, before[0], etag)])
            if about_to is not None:
                about_to(etag)
            return data

        try:
            with self._recorded(ids):
                written = self._vault.edit(path, recorded, deadline)
                # In the same thread: even when the caller has gone, the index knows of the write.
                self._loader.store_written(written)
        except _UnchangedError:
            return Edit(path, before[0], before[0])
        return Edit(
            written.path,
            before[0],
            written.content.data,
            uploaded=written.uploaded,
            version=ids[0] if ids and before[0] is not None else None,
        )

    def _shown(self, path: NotePath, change: Callable[[Content | None], bytes]) -> Edit:
        found = self._vault.read(path)
        content = found.content if found else None
        after = change(content)
        return Edit(
            found.path if found else path, content.data if content else None, after, dry_run=True
        )

    def _require(self, caller: Caller, paths: Sequence[str]) -> None:
        """Raise `PermissionDenied` unless all of this may be written."""
        for path in paths:
            self._access.require(caller, "write", path)
        if self._mode == "off":
            raise PermissionDenied(
                "This server doesn't write: its owner switched that off.",
                "Tell the user what you would have written; WRITE_MODE decides.",
            )


class _UnchangedError(VaultError):
    """The content is what it should become: there is nothing to write."""

    def __init__(self) -> None:
        super().__init__("Nothing changes.")


def _author(caller: Caller, tool: str) -> Author:
    return Author(caller.name, caller.session, tool, uuid.uuid4().hex[:16])


def _touched(steps: Sequence[Step]) -> list[str]:
    found: list[str] = []
    for step in steps:
        found += [step.old, step.new] if isinstance(step, Move) else [step.path]
    # The trash is nobody's to write in, and everybody's to throw into.
    return [path for path in dict.fromkeys(found) if not path.startswith(".trash/")]
