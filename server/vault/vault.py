"""The vault as the service sees it: read a file, change a file, list a folder.

Synchronous and possibly slow: callers run it in `Workers`. Everything goes through the guard's
pinned root; every write through the journal and one of the writers.
"""

import hashlib
import logging
import threading
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from server.errors import Conflict, NotFound, TooLarge, Unavailable, VaultError
from server.models import Content, Entry, FileStat, NotePath, etag_of, kind_of, path_key
from server.telemetry import Telemetry, log
from server.vault import files, folders, relocation, temps
from server.vault.aliases import Aliases
from server.vault.drive import DriveWriter
from server.vault.files import Permit
from server.vault.guard import Guard, Pin
from server.vault.journal import QUEUED, Journal, Record
from server.vault.locks import PathLocks
from server.vault.paths import is_hidden
from server.vault.rc import RcError
from server.vault.replacement import BaseChanged, Ready, Replacement, Writer, at_once
from server.vault.turns import Turns
from server.workers import Deadline

T = TypeVar("T")
Change = Callable[[Content | None], bytes]
"""From the current content (None: there is no file) to the new one; may raise a domain error."""

_ATTEMPTS = 50
_READ_PATIENCE = 30.0
_ASK_SECONDS = 2.0
"""For a remote to say what it holds, where nobody waits for it to take a write."""


class Unsettled(Unavailable):
    """Nothing was written: an earlier write of the file has to come true first."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"An earlier write of {path!r} is still being made.", "Try again in a moment."
        )


class CameBack(Unsettled):
    """What is there is an older content of a note that was moved away or deleted since."""


class Leftovers(Protocol):
    """Batches that a crash or a lost mount cut short."""

    def touch(self, paths: Iterable[str]) -> bool:
        """Whether one of them is yet to change one of the paths, or what is above or below it."""
        ...

    def settle(self) -> int: ...

    def follow(self) -> None:
        """Have the journal know of the moves that were made before the cut."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A file as read: its canonical path, its spelling on disk, its content."""

    path: str
    disk: str
    content: Content


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write. `uploaded` is False while only rclone's cache has it."""

    path: str
    disk: str
    created: bool
    content: Content
    protocol: str
    uploaded: bool
    at_ns: int
    """When it was made, taken while no other writer could follow."""

    @property
    def ack(self) -> str:
        """Where it is for certain."""
        return "disk" if self.protocol == "local" else self.protocol


@dataclass(frozen=True, slots=True)
class Origin:
    """Of a write that is made once more: when it was asked for, and what it was to replace then."""

    created: float
    earlier: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """What changed its place: as it was, and as it is."""

    before: relocation.Place
    after: relocation.Place


class Vault:
    """Reads and writes below the pinned root."""

    def __init__(
        self,
        guard: Guard,
        journal: Journal,
        choose_writer: Callable[[Pin], Writer],
        telemetry: Telemetry,
        *,
        max_bytes: int,
        max_attachment_bytes: int = 0,
        drive: Callable[[Pin], DriveWriter | None] | None = None,
        aliases: Aliases | None = None,
    ) -> None:
        """`max_bytes` limits notes, and other files unless theirs is larger.

        `drive` is the way to ask the remote itself; without it, the writer if that is one.
        """
        self.guard = guard
        self.aliases = aliases or Aliases()
        self._journal = journal
        self.choose_writer = choose_writer
        self._drive = drive
        self._telemetry = telemetry
        self._max_bytes = max_bytes
        self._max_attachment_bytes = max(max_bytes, max_attachment_bytes)
        self._locks = PathLocks()
        self._turns = Turns()
        self.queued = threading.Event()
        """Set when there may be something to make come true."""
        # Agents who come first must not have to wait for it.
        guard.on_return = self.queued.set
        self.settle: Callable[[], object] | None = None
        """What makes waiting writes come true; set by who builds the rooms."""
        self.leftovers: Leftovers | None = None
        """What else has to come true before somebody builds on it."""
        self.generations: dict[str, int] = {}
        """Which pin a journalled write was made under, by record id; lost with the process."""

    def read(self, path: NotePath, *, permit: Permit | None = None) -> Found | None:
        """The file at `path`, found in any Unicode form or case; None when there is none.

        Here and below, `permit` is asked with the path that symbolic links lead to, before
        anything is read, made or told; it raises `PermissionDenied`.
        """
        return self._guarded(lambda pin: self._read_apart(pin, path, permit))

    def stat(self, path: NotePath, *, permit: Permit | None = None) -> Entry | None:
        """What a scan would see of `path` now; None when there is no file."""
        return self._guarded(lambda pin: self._stat(pin, path, permit))

    def stat_at_once(self, path: str, *, permit: Permit | None = None) -> Entry | None:
        """`stat` for who may not wait: None, too, unless this machine's own kernel answers."""
        with suppress(files.VaultGone):
            return self._translated(
                lambda pin: None if pin.may_hang else self._stat(pin, path, permit)
            )
        return None

    def list_folder(self, disk: str) -> list[Entry]:
        """The visible entries of a folder, spelled as on disk."""
        turn = self.aliases.turn()
        found = self._guarded(lambda pin: folders.list_folder(pin.root, disk))
        self.aliases.learn(disk, found, turn)
        return found

    def drive(self, pin: Pin) -> DriveWriter | None:
        """The remote itself, if it can be asked."""
        if self._drive is not None:
            return self._drive(pin)
        writer = self.choose_writer(pin)
        return writer if isinstance(writer, DriveWriter) else None

    def waits(self, path: str) -> bool:
        """Whether a write of a file is on record that the vault may not show.

        It was never made, or on a mount that is gone since: a restarted rclone shows anything
        until what it lost is written again.
        """
        return self._waits_for(path, self.guard.last)

    def _waits_for(self, path: str, pin: Pin | None) -> bool:
        ids = self._journal.ids(path)
        return any(self.generations.get(one) != (pin.generation if pin else -1) for one in ids)

    def settle_first(self, paths: Iterable[str]) -> None:
        """Have what waits come true before something is built on it. Raises `Unavailable`."""
        paths = list(paths)
        waiting = [path for path in paths if self.waits(path)]
        planned = [path for path in paths if self._is_planned(path)]
        if (waiting or planned) and self.settle is not None:
            self.settle()
            waiting = [path for path in waiting if self.waits(path)]
        if waiting:
            self._hurry(waiting)
            raise Unsettled(waiting[0])
        if planned and self.leftovers is not None:
            self.leftovers.settle()
            self.check_unplanned(planned)

    def check_unplanned(self, paths: Iterable[str]) -> None:
        """Raise `Unsettled` where a batch that was cut short is yet to change something."""
        for path in paths:
            if self._is_planned(path):
                raise Unsettled(path)

    def _is_planned(self, path: str) -> bool:
        return self.leftovers is not None and self.leftovers.touch([path])

    def _hurry(self, paths: Iterable[str]) -> None:
        """Have rclone upload at once what somebody waits for."""

        def tell(pin: Pin) -> None:
            if (drive := self.drive(pin)) is not None:
                for path in paths:
                    drive.hurry(pin, path)

        # Who waits is told to try again anyway.
        with suppress(VaultError):
            self._guarded(tell)

    def queued_content(self, path: str) -> Found | None:
        """What a file will hold when the newest write that waits for the vault is made."""
        item = self._journal.queued(path)
        if item is None:
            return None
        record = item.record
        stat = FileStat(record.size, int(record.created * 1e9))
        return Found(record.path, record.disk, Content(item.data(), stat))

    def queue(self, path: NotePath, disk: str, base: Content | None, data: bytes) -> Written:
        """Put a write on record, to be made when the vault answers: the caller may be told so.

        `base` is what it was made from. Should the vault hold something else by then, both stay.
        """
        self._check_size(disk, data)
        self.check_unplanned([path])
        record = _record(path, disk, base, data, QUEUED, origin=Origin(self._journal.stamp()))
        # At once in the state of an acknowledged write: what is only prepared need not come true.
        self._journal.prepare(record, data, "applied")
        self._telemetry.writes.labels("journal", "ok").inc()
        self._telemetry.journal_entries.set(len(self._journal))
        now = time.time_ns()
        content = Content(data, FileStat(len(data), now))
        self.queued.set()
        return Written(path, disk, base is None, content, QUEUED, False, now)

    def listing(self, timeout: float) -> list[Entry] | None:
        """Everything as the remote itself lists it; None when nobody can ask the remote.

        What waits in rclone's queue is in it as the mount shows it.
        """

        def ask(pin: Pin) -> list[Entry] | None:
            drive = self.drive(pin)
            if drive is None:
                return None
            found, waiting = drive.listing(pin, timeout)
            found += [entry for path in waiting if (entry := self._stat(pin, path, None))]
            return sorted(found, key=lambda entry: (entry.path, entry.disk))

        return self._guarded(ask)

    def look_again(self, folders: Sequence[str], timeout: float) -> None:
        """Have the mount look at the remote again in some folders, if anybody can tell it to."""

        def tell(pin: Pin) -> None:
            if (drive := self.drive(pin)) is not None:
                drive.look_again(pin, folders, timeout)

        self._guarded(tell)

    def edit(
        self,
        path: NotePath,
        change: Change,
        deadline: Deadline,
        *,
        permit: Permit | None = None,
        ready: Ready = at_once,
    ) -> Written:
        """Replace a file's content by `change(content)`, so that no other writer's work is lost.

        `ready` is called when all is staged and nothing is in place yet; it may raise.
        Raises `Conflict` when others keep changing it, `Unavailable` or `Timeout` with nothing
        written, and whatever `change` raises.
        """
        for _ in range(_ATTEMPTS):
            self.settle_first([path])
            try:
                with self.hold([path], deadline):
                    # Who came before us may have put theirs on record while we waited.
                    if not self.waits(path):
                        self.check_unplanned([path])
                        return self.edit_held(path, change, deadline, permit=permit, ready=ready)
            except CameBack:
                if self.settle is None:
                    raise
                self.settle()
            except Unsettled:
                pass
        raise _unsteady(path)

    def mend(
        self,
        path: NotePath,
        change: Change,
        deadline: Deadline,
        *,
        origin: Origin,
        permit: Permit | None = None,
    ) -> Written:
        """`edit` for who makes an earlier write come true: later ones stay the later ones."""
        with self.hold([path], deadline):
            return self.edit_held(path, change, deadline, permit=permit, origin=origin)

    @contextmanager
    def hold(self, paths: Iterable[str], deadline: Deadline) -> Iterator[None]:
        """Keep other writers of this process away from some paths and what is below them.

        Not twice in one thread.
        """
        keys = sorted({path_key(path) for path in paths})
        with self._turns.take(keys, deadline), ExitStack() as stack:
            # These are for the readers of a mount, who look at one path at a time.
            for key in keys:
                stack.enter_context(self._locks.hold(key, deadline))
            yield

    def edit_held(
        self,
        path: NotePath,
        change: Change,
        deadline: Deadline,
        *,
        permit: Permit | None = None,
        origin: Origin | None = None,
        ready: Ready = at_once,
    ) -> Written:
        """`edit` for who holds the path already; without `origin` it is asked for now.

        Raises `Unsettled` when an earlier write has to come true first.
        """
        for attempt in range(_ATTEMPTS):
            deadline.check()
            try:
                return self._guarded(
                    lambda pin: self._try_edit(pin, path, change, deadline, permit, origin, ready)
                )
            except BaseChanged:
                if attempt == 1:
                    # Twice is no chance: the pin's view of the mount may be the one that is old.
                    self.guard.wake()
                time.sleep(min(0.001 * 2**attempt, 0.1))
        raise _unsteady(path)

    def read_held(self, path: NotePath, *, permit: Permit | None = None) -> Found | None:
        """`read` for who holds the path already."""
        return self._guarded(lambda pin: self._read(pin, path, permit))

    def find(self, path: str, *, permit: Permit | None = None) -> relocation.Place | None:
        """What is at a path, a folder too; None when there is nothing."""
        return self._guarded(lambda pin: self._find(pin, path, permit))

    def move_held(
        self, old: str, new: str, deadline: Deadline, *, permit: Permit | None = None
    ) -> "Moved":
        """Give a file or folder that the caller holds another path.

        Raises `NotFound`, `Conflict` when something is there already, or `Unavailable`.
        """

        def run(pin: Pin) -> Moved:
            writer = self.choose_writer(pin)
            before, after = relocation.move(pin, writer, old, new, deadline, permit)
            self._journal.lay(after.disk)
            # What waits to be known safe has to come true at its new place.
            self.redirect(before.disk, after.disk)
            if is_hidden(after.disk):
                self._left(pin)
            return Moved(before, after)

        return self._guarded(run)

    def remove_held(
        self, path: str, etag: str, deadline: Deadline, *, permit: Permit | None = None
    ) -> relocation.Place:
        """Delete a file that the caller holds. Raises `Conflict` unless it has this etag."""

        def run(pin: Pin) -> relocation.Place:
            writer = self.choose_writer(pin)
            try:
                limit = self._limit(path)
                gone = relocation.remove(pin, writer, path, etag, limit, deadline, permit)
            except BaseChanged:
                raise _unsteady(path) from None
            self.redirect(gone.disk, None)
            self._left(pin)
            return gone

        return self._guarded(run)

    def _left(self, pin: Pin) -> None:
        # What was removed is removed, whatever comes of this look.
        with suppress(OSError):
            self.guard.expect_less(pin)

    def _find(self, pin: Pin, path: str, permit: Permit | None) -> relocation.Place | None:
        try:
            with files.spot(pin.root, path, permit=permit) as at:
                return relocation.place_of(at) if at.exists else None
        except NotFound:
            return None

    def redirect(self, old: str, new: str | None) -> None:
        """Acknowledged writes follow what moved; None: it was removed."""
        try:
            changed = self._journal.redirect(old, new)
        except OSError as error:
            # What moved has moved: recovery may bring its old place back, but loses nothing.
            log(logging.ERROR, "a waiting write could not follow its note", why=repr(error))
            return
        for was, now in changed:
            generation = self.generations.pop(was, None)
            if now is not None and generation is not None:
                self.generations[now] = generation

    def _guarded(self, call: Callable[[Pin], T]) -> T:
        try:
            return self._translated(call)
        except files.OutcomeOpen:
            raise
        except files.VaultGone:
            # The mount may be back already (rclone was restarted): one look, one more try.
            if not self.guard.probe().ok:
                raise
            return self._translated(call)

    def _translated(self, call: Callable[[Pin], T]) -> T:
        try:
            return call(self.guard.pin())
        except VaultError as error:
            self.guard.suspect(error)
            raise
        except OSError as error:
            translated = files.translate(error)
            self.guard.suspect(translated)
            raise translated from error

    def _read_apart(self, pin: Pin, path: NotePath, permit: Permit | None) -> Found | None:
        if not pin.is_rclone:
            return self._read(pin, path, permit)
        # rclone may lose a write whose note is closed by a reader after the rename: keep ours apart.
        with self._locks.hold(path_key(path), Deadline.after(_READ_PATIENCE)):
            return self._read(pin, path, permit)

    def _read(self, pin: Pin, path: str, permit: Permit | None = None) -> Found | None:
        try:
            with files.spot(pin.root, path, permit=permit) as at:
                content = self._read_fresh(pin, at) if at.exists else None
        except NotFound:
            return None
        return Found(_canonical(at.disk), at.disk, content) if content else None

    def _read_fresh(self, pin: Pin, at: files.Spot) -> Content | None:
        try:
            return files.read(at, self._limit(at.disk))
        except files.Unreadable:
            # The mount's view is older than the remote's file: let it look again, if it can be told.
            if not self.choose_writer(pin).refresh(pin, at.disk):
                raise
            return files.read(at, self._limit(at.disk))

    def _check_size(self, path: str, data: bytes) -> None:
        limit = self._limit(path)
        if len(data) > limit:
            raise TooLarge(
                f"The note would have {len(data):,} bytes; {limit:,} is the limit.",
                "Start a new note and link to it.",
            )

    def _limit(self, path: str) -> int:
        return self._max_bytes if kind_of(path) == "note" else self._max_attachment_bytes

    def _stat(self, pin: Pin, path: str, permit: Permit | None) -> Entry | None:
        try:
            return files.glance(pin.root, path, permit=permit)
        except NotFound:
            return None

    def _try_edit(
        self,
        pin: Pin,
        path: NotePath,
        change: Change,
        deadline: Deadline,
        permit: Permit | None,
        origin: Origin | None,
        ready: Ready,
    ) -> Written:
        if origin is None and self._waits_for(path, pin):
            # The mount is a new one since the caller looked, and may show what it held long ago.
            raise Unsettled(path)
        found = self._read(pin, path, permit)
        base = found.content if found else None
        if found and origin is None and found.content.etag in self._journal.ghostly(found.disk):
            raise CameBack(path)
        self._check_seen(pin, found.disk if found else path, base)
        data = change(base)
        self._check_size(found.disk if found else path, data)
        if found is None:
            self._see_folders(pin, path)
        with files.spot(pin.root, path, make_folders=True, permit=permit) as at:
            what = Replacement(pin, at, base, data, temps.new_name(), ready)
            return self._commit(what, deadline, origin)

    def _check_seen(self, pin: Pin, disk: str, base: Content | None) -> None:
        """Before a write ends in the mount's cache: raise `BaseChanged` where the remote holds something else.

        rclone would upload ours over it. What waits there is an earlier write of ours, and recovery
        looks after that. A remote that can't be asked holds nobody up who chose not to wait for it.
        """
        drive = self.drive(pin)
        if drive is None or self.choose_writer(pin).on_remote or self._journal.ids(disk):
            return
        try:
            is_seen = drive.is_queued(pin, disk) or drive.holds(pin, disk, base, _ASK_SECONDS)
        except RcError:
            return
        if not is_seen:
            with suppress(RcError):
                drive.refresh(pin, disk)
            raise BaseChanged

    def _see_folders(self, pin: Pin, path: str) -> None:
        """Have the mount see a folder that another device made: a Drive takes two of one name."""
        folder = path.rpartition("/")[0]
        if not folder or not pin.is_rclone or self._find(pin, folder, None) is not None:
            return
        with suppress(VaultError):
            self.choose_writer(pin).refresh(pin, path)

    def _commit(self, what: Replacement, deadline: Deadline, origin: Origin | None) -> Written:
        writer = self.choose_writer(what.pin)
        record = self._prepared(what, writer, origin) if writer.needs_journal(what.pin) else None
        outcome = "failed"
        try:
            stat = writer.commit(what, deadline)
            outcome = "ok"
            self._journal.lay(what.at.disk)
        except BaseChanged:
            outcome = "changed"
            self._close(record)
            raise
        except (VaultError, OSError) as error:
            translated = files.translate(error) if isinstance(error, OSError) else error
            if isinstance(translated, files.VaultGone):
                # If the journal has it, recovery looks and clears away when the mount is back.
                raise files.OutcomeOpen from error
            self._close(record)
            raise translated from error
        finally:
            self._telemetry.writes.labels(writer.name, outcome).inc()
        if record is not None and not writer.on_remote:
            self._journal.applied(record)
        else:
            self._close(record)
        self._telemetry.journal_entries.set(len(self._journal))
        return Written(
            _canonical(what.at.disk),
            what.at.disk,
            what.base is None,
            Content(what.data, stat),
            writer.name,
            writer.on_remote,
            time.time_ns(),
        )

    def _prepared(self, what: Replacement, writer: Writer, origin: Origin | None) -> Record:
        """Have a write on record before the vault is touched."""
        if origin is None:
            # The remote may still show what a note held that was moved away from here.
            origin = Origin(self._journal.stamp(), self._journal.ghostly(what.at.disk))
        record = _record(
            _canonical(what.at.disk), what.at.disk, what.base, what.data, writer.name, what.temp,
            origin=origin,
        )  # fmt: skip
        # Before it is on file: recovery must not take it for the write of a server that died.
        self.generations[record.id] = what.pin.generation
        try:
            self._journal.prepare(record, what.data)
        except BaseException:
            self.generations.pop(record.id, None)
            raise
        return record

    def _close(self, record: Record | None) -> None:
        if record is None:
            return
        try:
            self._journal.done(record)
        except OSError:
            log(logging.ERROR, "a finished journal entry can't be removed", id=record.id)
        # Only now: an entry without its generation is one of a mount that is gone.
        self.generations.pop(record.id, None)


def _unsteady(path: str) -> Conflict:
    return Conflict(
        f"{path!r} keeps changing under the write; nothing was written.", "Read it and try again."
    )


def _record(
    path: str,
    disk: str,
    base: Content | None,
    data: bytes,
    protocol: str,
    temp: str | None = None,
    *,
    origin: Origin,
) -> Record:
    return Record(
        id=uuid.uuid4().hex[:16],
        path=path,
        disk=disk,
        base=base.etag if base else None,
        etag=etag_of(data),
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        size=len(data),
        protocol=protocol,
        temp=temp,
        created=origin.created,
        earlier=origin.earlier,
    )


def _canonical(disk: str) -> str:
    return unicodedata.normalize("NFC", disk)
