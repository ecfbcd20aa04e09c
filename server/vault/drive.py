"""Notes put straight on an rclone mount's remote, by rclone's remote control, and what that is asked.

Copied there and verified: the answer means that the remote has it.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from server.errors import Unavailable
from server.models import Content, Entry, FileStat
from server.vault import files
from server.vault.guard import Pin
from server.vault.listing import entries_of, is_visible
from server.vault.locks import folder_lock
from server.vault.mounts import inner_path
from server.vault.rc import Rc, RcError, RemoteStat, Upload
from server.vault.replacement import BaseChanged, Replacement, nothing
from server.workers import Deadline

_MANY_FOLDERS = 20
_LOOKS = 20
"""How often a remote is asked for what was just copied there, four times in a second."""


class DriveWriter:
    """For an rclone mount with remote control: the answer means that the remote has it."""

    name = "drive"
    on_remote = True

    def __init__(self, rc: Rc, staging: Path, pause: Callable[[float], None] = time.sleep) -> None:
        self._rc = rc
        self._staging = staging
        self._pause = pause
        staging.mkdir(parents=True, exist_ok=True)

    def needs_journal(self, _pin: Pin) -> bool:
        return True

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat:
        remote = self._remote(what.pin, what.at.disk)
        staged = self._staging / what.temp.lstrip(".")
        staged.write_bytes(what.data)
        # rclone may run as another user that shares the folder's group.
        staged.chmod(0o640)
        try:
            what.ready(nothing)
            with folder_lock(what.at.folder, deadline, what.at.hands):
                self._flush(remote, deadline)
                self._check_base(remote, what.base)
                if (
                    what.base is None
                    and remote.folder
                    and not self._rc.has_folder(remote.fs, remote.folder)
                ):
                    self._check_root(what.pin)
                    # The mount still shows a folder that is gone: by its old id we would write there.
                    self._rc.forget_folders()
                deadline.check()
                written = self._copy(staged, remote, what.data, deadline)
                self._rc.refresh(remote.fs, remote.folder)
        finally:
            staged.unlink(missing_ok=True)
        # Not the mount's stat: for a second it may still show the old one.
        return FileStat(written.size, written.mtime_ns)

    def refresh(self, pin: Pin, disk: str) -> bool:
        remote = self._remote(pin, disk)
        folder = remote.folder
        while not self._rc.refresh(remote.fs, folder):
            # A folder that the mount never saw: the one above has to tell it first.
            if not folder:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def answers(self, pin: Pin) -> bool:
        """Whether rclone can be asked and its remote keeps the hashes that this protocol stands on."""
        try:
            return "md5" in self._rc.hashes(self._remote(pin, "").fs)
        except RcError:
            return False

    def remote_md5(self, pin: Pin, disk: str) -> str | None:
        """What the remote holds now, by hash; None when it holds nothing."""
        remote = self._remote(pin, disk)
        found = self._rc.stat(remote.fs, remote.path)
        return found.md5 if found else None

    def holds(self, pin: Pin, disk: str, base: Content | None, timeout: float) -> bool:
        """Whether the remote holds just that; None: nothing."""
        remote = self._remote(pin, disk)
        return _is_base(self._rc.stat(remote.fs, remote.path, timeout), base)

    def listing(self, pin: Pin, timeout: float) -> tuple[list[Entry], list[str]]:
        """Everything in the vault as the remote has it, and the paths of what it will still get."""
        remote = self._remote(pin, "")
        folder = remote.path.rstrip("/")
        # In this order: what leaves the queue meanwhile is on the remote by then.
        waiting = {item.name for item in self._rc.queue(remote.fs)}
        above = f"{folder}/" if folder else ""
        found = self._rc.list(remote.fs, folder, timeout)
        below = [name[len(above) :] for name in waiting if name.startswith(above)]
        return [*entries_of(found, above, waiting)], [name for name in below if is_visible(name)]

    def look_again(self, pin: Pin, folders: Sequence[str], timeout: float) -> None:
        """Have the mount see what the remote holds in some folders."""
        if len(folders) > _MANY_FOLDERS:
            self.refresh_all(pin, timeout)
            return
        for folder in folders:
            remote = self._remote(pin, f"{folder}/x" if folder else "x")
            if not self._rc.refresh(remote.fs, remote.folder):
                # A folder that the mount never saw: the one above has to tell it first.
                self.refresh_all(pin, timeout)
                return

    def queue(self, pin: Pin) -> list[Upload]:
        """What rclone still has to upload, of the whole mount."""
        return self._rc.queue(self._remote(pin, "").fs)

    def hurry(self, pin: Pin, disk: str | None = None) -> None:
        """Make uploads due now: one file's, or all."""
        remote = self._remote(pin, disk or "")
        for item in self._rc.queue(remote.fs):
            if disk is None or item.name == remote.path:
                self._rc.set_expiry(remote.fs, item.id)

    def last_error(self) -> str:
        """What went wrong at the last transfer that failed; fit for an owner, it may name paths."""
        return self._rc.stats_last_error()

    def refresh_all(self, pin: Pin, timeout: float) -> None:
        """Have the mount list everything anew."""
        self._rc.refresh_all(self._remote(pin, "").fs, timeout)

    def is_queued(self, pin: Pin, disk: str) -> bool:
        """Whether rclone still has to upload the file."""
        remote = self._remote(pin, disk)
        return any(item.name == remote.path for item in self._rc.queue(remote.fs))

    def _remote(self, pin: Pin, disk: str) -> "Remote":
        if pin.mount is None:
            raise Unavailable("The vault is not on a mount.", "RCLONE_RC needs an rclone mount.")
        inner = inner_path(pin.root.path, pin.mount)
        # rclone's own name of what it serves; the mount table shows it too, unless --devname hides it.
        names = self._rc.vfs_list()
        fs = pin.mount.source if pin.mount.source in names or len(names) != 1 else names[0]
        return Remote(fs, f"{inner}/{disk}" if inner else disk)

    def _flush(self, remote: "Remote", deadline: Deadline) -> None:
        """Wait until nothing of this path waits in rclone's own queue: it would overwrite ours."""
        while waiting := [item for item in self._rc.queue(remote.fs) if item.name == remote.path]:
            deadline.check()
            for item in waiting:
                self._rc.set_expiry(remote.fs, item.id)
            self._pause(0.1)

    def _check_base(self, remote: "Remote", base: Content | None) -> None:
        if not _is_base(self._rc.stat(remote.fs, remote.path), base):
            # The mount showed an old content: let it look again before the caller retries.
            self._rc.refresh(remote.fs, remote.folder)
            raise BaseChanged

    def _check_root(self, pin: Pin) -> None:
        """Raise `VaultGone` when the remote has no vault: rclone would begin another one there."""
        root = self._remote(pin, "").path.rstrip("/")
        if root and not self._rc.has_folder(self._remote(pin, "").fs, root):
            raise files.VaultGone(
                "The vault's folder is gone from the remote; nothing was written.",
                "Somebody moved or deleted it there. Reads still answer from the mirror.",
            )

    def _copy(self, staged: Path, remote: "Remote", data: bytes, deadline: Deadline) -> RemoteStat:
        """Copy and verify. What rclone says of the copy counts less than what the remote holds."""
        failure: RcError | None = None
        try:
            self._rc.copy_file(str(self._staging), staged.name, remote.fs, remote.path)
        except RcError as error:
            failure = error
        md5 = _md5(data)
        for _ in range(_LOOKS):
            try:
                found = self._rc.stat(remote.fs, remote.path)
            except RcError as error:
                raise files.OutcomeOpen from error
            if found is not None and found.md5 == md5:
                return found
            if failure is not None or not deadline.remaining:
                break
            # A Drive may need a moment until it lists what it has taken.
            self._pause(0.25)
        if failure is not None and failure.status is not None:
            raise failure
        raise files.OutcomeOpen from failure


@dataclass(frozen=True, slots=True)
class Remote:
    """A file as rclone's remote control names it."""

    fs: str
    path: str

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def _is_base(found: RemoteStat | None, base: Content | None) -> bool:
    return (found.md5 if found else None) == (_md5(base.data) if base else None)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
