"""Makes journalled writes come true after a crash of the server, of rclone or of both.

Runs at start, whenever the mount returns, and every few seconds while acknowledged writes wait to be
known safe. Entries of one path form a chain; what the vault holds decides:

    the newest content      safe, once the remote has it too
    one of the chain, or
    the base                the write was lost: write the newest again
    anything else           somebody else changed the note: keep theirs, and put ours beside it
                            unless theirs holds every line of it

What was never acknowledged is made only where the note it was to replace has vanished; where it was made
already, it is kept like an acknowledged one.

Without rclone's remote control nobody can ask the remote. Then a write counts as safe when the mount
it was made on stayed up for `grace` seconds; if the mount was replaced before that, the content is
written again even though the mount shows it, because a restarted rclone may show a content that it
never uploads.
"""

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from server.errors import Conflict, NotFound, PathNotAllowed, VaultError
from server.models import Content, NotePath, path_key
from server.telemetry import Telemetry, log
from server.vault import files
from server.vault.drive import DriveWriter
from server.vault.guard import Pin
from server.vault.journal import QUEUED, Ghost, Item, Journal, by_path
from server.vault.vault import Origin, Vault, Written
from server.vault.writers import remove_temp
from server.workers import Deadline

_GHOST_SECONDS = 900.0
"""Longer than rclone remembers a folder with the flags that we recommend (5 min)."""

_LIST_SECONDS = 10.0


class Recovery:
    """Settles the journal with the vault, one pass at a time."""

    def __init__(
        self,
        vault: Vault,
        journal: Journal,
        telemetry: Telemetry,
        *,
        on_write: Callable[[Written], None],
        grace: float = 120.0,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """What has to last is counted by `ticks`, which nobody sets back or forward."""
        self._vault = vault
        self._journal = journal
        self._telemetry = telemetry
        self._on_write = on_write
        self._grace = grace
        self._ticks = ticks
        self._since: dict[str, float] = {}
        """When writes of the present mount, and ghosts, were first looked at."""
        self._busy = threading.Lock()
        vault.settle = self.settle

    def settle(self) -> int:
        """Look once at every entry that nobody is writing; returns how many are left."""
        with self._busy:
            if len(self._journal):
                pin = self._vault.guard.pin()
                if self._vault.leftovers is not None:
                    self._vault.leftovers.follow()
                items = self._journal.items()
                on_file = {item.record.id for item in items}
                on_file |= {ghost.id for ghost in self._journal.ghosts}
                self._since = {one: at for one, at in self._since.items() if one in on_file}
                for chain in by_path(items).values():
                    waiting = [item for item in chain if self._is_waiting(pin, item)]
                    if waiting:
                        self._settle_safely(pin, waiting)
            for ghost in self._journal.ghosts:
                self._lay(ghost)
            left = len(self._journal)
            self._telemetry.journal_entries.set(left)
            return left

    def _lay(self, ghost: Ghost) -> None:
        """Put what came back at the place of a moved or deleted note into the trash."""
        if self._age(ghost.id) > _GHOST_SECONDS:
            self._journal.lay(ghost.disk)
            return
        try:
            found = self._vault.read(NotePath(ghost.disk))
            if found is None or found.content.etag not in ghost.etags:
                return
            name = found.disk.rpartition("/")[2]
            deadline = Deadline.after(60)
            with self._vault.hold([found.disk], deadline):
                self._vault.move_held(found.disk, f".trash/{ghost.id[:6]} {name}", deadline)
            log(logging.WARNING, "an older content came back after a move", path=found.path)
        except VaultError as error:
            self._vault.guard.suspect(error)

    def _is_waiting(self, pin: Pin, item: Item) -> bool:
        if item.state == "aside":
            return False
        if not self._same_mount(pin, item):
            return True
        # Of this mount: a prepared entry belongs to the thread that is writing it, and an applied
        # one needs no look before its time has come, unless the remote can be asked.
        if item.state == "prepared":
            return False
        return self._drive(pin) is not None or self._age(item.record.id) > self._grace

    def _settle_safely(self, pin: Pin, chain: Sequence[Item]) -> None:
        try:
            self._settle(pin, chain)
        except VaultError as error:
            self._vault.guard.suspect(error)
            log(
                logging.DEBUG,
                "journal entry not settled yet",
                path=chain[-1].record.path,
                why=error.code,
            )

    def _settle(self, pin: Pin, chain: Sequence[Item]) -> None:
        if chain[-1].state == "applied" and self._is_coming(pin, chain[-1]):
            # Not even read: rclone puts an upload off whenever somebody opens the file.
            return
        found = self._look(pin, chain)
        etag = found.etag if found else None
        ours = {item.record.etag for item in chain} | {item.record.base for item in chain}
        # What an earlier write of ours left on the remote is nobody else's.
        ours |= {etag for item in chain for etag in item.record.earlier}
        if all(item.state != "applied" for item in chain):
            if found is None and pin.is_rclone and chain[-1].record.base is not None:
                # rclone removes a note before it renames an uploaded one into its place: cut short in
                # between, neither is there.
                self._write_again(chain, None)
                self._done(chain)
                return
            self._settle_unacknowledged(pin, chain, found)
            return
        # What was never acknowledged counts if it is there: later writes may be built on it.
        made = [item for item in chain if item.state == "applied" or item.record.etag == etag]
        self._settle_unacknowledged(pin, [item for item in chain if item not in made], found)
        chain = made
        newest = chain[-1]
        if self._same_mount(pin, newest) and self._drive(pin) is None:
            # Its time has come on the mount it was made on. What the note says now is somebody's
            # later work, and no business of ours.
            self._done(chain)
            return
        if etag in ours or any(self._is_torn(pin, item, found) for item in chain):
            if self._is_coming(pin, newest):
                return
            if etag != newest.record.etag or not self._is_on_remote(pin, newest):
                self._write_again(chain, etag)
        elif not _holds_all_of(newest.data(), found):
            if self._is_outdated(pin, newest, found):
                return
            self._keep_both(newest, found)
        self._done(chain)

    def _look(self, pin: Pin, chain: Sequence[Item]) -> Content | None:
        """What the vault holds at the chain's path; temp files of the chain are cleared away."""
        disk = chain[-1].record.disk
        if self._drive(pin) is not None and not self._same_mount(pin, chain[-1]):
            # What a restarted rclone uploaded from its cache it takes for deleted until it has listed
            # the folder, and it empties it for whoever opens it before that.
            self._vault.look_again([disk.rpartition("/")[0]], _LIST_SECONDS)
        try:
            with files.spot(pin.root, disk) as at:
                for item in chain:
                    if item.record.temp:
                        remove_temp(at, item.record.temp)
        except NotFound:
            return None
        found = self._vault.read(NotePath(disk))
        return found.content if found else None

    def _settle_unacknowledged(
        self, pin: Pin, chain: Sequence[Item], found: Content | None
    ) -> None:
        for item in chain:
            if found is not None and found.etag == item.record.etag:
                if pin.is_rclone and not self._is_on_remote(pin, item):
                    # Nobody was told, but everybody can see it: it must not vanish with rclone.
                    self._vault.generations[item.record.id] = pin.generation
                    self._journal.applied(item.record)
                else:
                    self._done([item])
                continue
            log(
                logging.WARNING, "a write that was never acknowledged was not made",
                path=item.record.path, id=item.record.id,
            )  # fmt: skip
            self._journal.set_aside(item.record)
            self._vault.generations.pop(item.record.id, None)

    def _is_coming(self, pin: Pin, item: Item) -> bool:
        """Whether rclone itself will still upload it."""
        drive = self._drive(pin)
        return drive is not None and drive.is_queued(pin, item.record.disk)

    def _is_on_remote(self, pin: Pin, item: Item) -> bool:
        """Whether the remote has it for certain; without remote control nothing is."""
        drive = self._drive(pin)
        return drive is not None and drive.remote_md5(pin, item.record.disk) == item.record.md5

    def _is_outdated(self, pin: Pin, item: Item, found: Content | None) -> bool:
        """Whether the mount shows something else than its remote has, for a while at most.

        rclone may have forgotten its folders, and the pin is left with a view that nobody refreshes.
        """
        drive = self._drive(pin)
        if drive is None or self._age(item.record.id) > self._grace:
            return False
        shown = hashlib.md5(found.data, usedforsecurity=False).hexdigest() if found else None
        if drive.remote_md5(pin, item.record.disk) == shown:
            return False
        self._vault.guard.wake()
        return True

    def _is_torn(self, pin: Pin, item: Item, found: Content | None) -> bool:
        """Whether a restarted rclone shows ours in the length of the content before it."""
        if found is None or self._same_mount(pin, item):
            return False
        # Cut short, or filled up with zeros.
        ours, shown = item.data(), found.data
        return ours.startswith(shown) or shown.rstrip(b"\0") == ours.rstrip(b"\0")

    def _write_again(self, chain: Sequence[Item], seen: str | None) -> None:
        item = chain[-1]
        data = item.data()

        def change(current: Content | None) -> bytes:
            if (current.etag if current else None) != seen:
                raise Conflict("The note changed while it was being recovered.")
            return data

        def stay(path: str) -> None:
            if path_key(path) != path_key(item.record.path):
                raise PathNotAllowed("A symbolic link stands where the note was.")

        deadline = Deadline.after(60)
        made = self._vault.mend(
            NotePath(item.record.disk), change, deadline, origin=_origin(chain), permit=stay
        )
        self._on_write(made)
        if item.record.protocol == QUEUED:
            log(logging.INFO, "made a write that had waited", path=item.record.path)
            return
        self._telemetry.writes.labels("recovery", "rewritten").inc()
        log(
            logging.WARNING,
            "wrote again what the mount may have lost",
            path=item.record.path,
            id=item.record.id,
        )

    def _keep_both(self, item: Item, theirs: Content | None) -> None:
        data = item.data()
        stem, dot, suffix = item.record.disk.rpartition(".")
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(item.record.created))
        beside = f"{stem}.conflict-{stamp}-{item.record.id[:4]}{dot}{suffix}"
        made = self._vault.mend(
            NotePath(beside), lambda _: data, Deadline.after(60), origin=Origin(item.record.created)
        )
        self._on_write(made)
        if theirs is not None:
            # The index took ours for what is there.
            record = item.record
            self._on_write(replace(
                made, path=record.path, disk=record.disk, created=False, content=theirs,
                at_ns=time.time_ns(),
            ))  # fmt: skip
        self._telemetry.writes.labels("recovery", "conflict_copy").inc()
        log(
            logging.WARNING, "the note changed elsewhere while a write waited: both are kept",
            path=item.record.path, copy=beside,
        )  # fmt: skip

    def _done(self, items: Sequence[Item]) -> None:
        for item in items:
            self._journal.done(item.record)
            self._vault.generations.pop(item.record.id, None)

    def _drive(self, pin: Pin) -> DriveWriter | None:
        return self._vault.drive(pin)

    def _same_mount(self, pin: Pin, item: Item) -> bool:
        return self._vault.generations.get(item.record.id) == pin.generation

    def _age(self, one: str) -> float:
        """For how long a write has been on its mount, or a ghost expected, at least."""
        now = self._ticks()
        return now - self._since.setdefault(one, now)


def _origin(chain: Sequence[Item]) -> Origin:
    """Of what a chain comes down to: the remote may still hold any content that led there."""
    records = [item.record for item in chain]
    earlier = {etag for record in records for etag in (record.base, record.etag, *record.earlier)}
    return Origin(records[-1].created, tuple(sorted(earlier, key=lambda etag: etag or "")))


def _holds_all_of(ours: bytes, found: Content | None) -> bool:
    """Whether every line of ours is in what is there: then theirs was built on ours."""
    theirs = Counter(found.data.splitlines() if found else ())
    return not Counter(ours.splitlines()) - theirs
