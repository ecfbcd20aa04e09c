"""The three ways to put a content in place of another, by what the vault lives on.

    LocalWriter   a plain folder: temp file, fsync, rename, fsync of the folder
    MountWriter   an rclone mount alone: temp file and rename through its cache; rclone may still lose
                  it when it dies before the upload, so the journal keeps it until it is known safe
    DriveWriter   rclone's remote control: copied straight to the remote and verified there

Each compares the current content with the base under the folder's lock before it replaces anything,
and raises `BaseChanged` when they differ. None ever appends in place: on an rclone mount that
uploads a mix of two contents when another device changed the note.
"""

import errno
import hashlib
import os
import stat as st
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from server.errors import TooLarge, Unavailable
from server.models import Content, Entry, FileStat
from server.vault import files, temps
from server.vault.guard import Pin
from server.vault.listing import entries_of, is_visible
from server.vault.locks import folder_lock
from server.vault.mounts import inner_path
from server.vault.rc import Rc, RcError, RemoteStat, Upload
from server.workers import Deadline

_MANY_FOLDERS = 20
_LOOKS = 20
"""How often a remote is asked for what was just copied there, four times in a second."""


class BaseChanged(Exception):
    """Somebody else changed the note between reading and replacing it."""


Ready = Callable[[Callable[[], None]], None]
"""Does all that must be done before a content is put in place, and beside it what it is given."""


def at_once(beside: Callable[[], None]) -> None:
    """Nothing else has to be done."""
    beside()


def nothing() -> None:
    """Nothing to do beside it."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is to be put where, and what must be there until then."""

    pin: Pin
    at: files.Spot
    base: Content | None
    data: bytes
    temp: str
    ready: Ready = at_once
    """Called when it is staged and not yet there; may raise."""


class Writer(Protocol):
    """A way to replace a content."""

    name: str
    on_remote: bool
    """Whether an answer means that the remote has it."""

    def needs_journal(self, pin: Pin, /) -> bool:
        """Whether a commit that SIGKILL or a power cut ends may leave a vault that has to be mended."""
        ...

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat: ...

    def refresh(self, pin: Pin, disk: str, /) -> bool:
        """Have the mount look at the remote again; False when nobody can tell it to."""
        ...


class LocalWriter:
    """For a folder whose renames are atomic and whose fsync means it."""

    name = "local"
    on_remote = True

    def needs_journal(self, pin: Pin) -> bool:
        # A disk of this machine has the old content or the new one. What a file server does when it
        # is cut off is its own affair.
        return pin.may_hang

    def refresh(self, _pin: Pin, _disk: str) -> bool:
        return False

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat:
        at, hands = what.at, what.at.hands
        like = at.name if what.base is not None else None
        fd, stat = hands.run(_stage_locked, at.folder, what.temp, what.data, like)
        try:
            what.ready(lambda: hands.run(os.fsync, fd))
            with folder_lock(at.folder, deadline, hands):
                deadline.check()
                check_base(what)
                hands.run(_put_in_place, at.folder, what.temp, at.name, what.base is not None)
        except BaseException:
            remove_temp(at, what.temp)
            raise
        finally:
            hands.close(fd)
        return stat


class MountWriter:
    """For an rclone mount as such: the answer means its cache. `fsync` and hard links do nothing there."""

    name = "mount"
    on_remote = False

    def __init__(self, drive: "DriveWriter | None" = None) -> None:
        """`drive` can tell the mount to look again, where there is remote control."""
        self._drive = drive

    def needs_journal(self, _pin: Pin) -> bool:
        return True

    def refresh(self, pin: Pin, disk: str) -> bool:
        return self._drive is not None and self._drive.refresh(pin, disk)

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat:
        stage(what)
        try:
            what.ready(nothing)
            with folder_lock(what.at.folder, deadline, what.at.hands):
                deadline.check()
                check_base(what)
                return what.at.hands.run(_replace, what.at.folder, what.temp, what.at.name)
        except BaseException:
            remove_temp(what.at, what.temp)
            raise


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


def stage(what: Replacement) -> None:
    """Write the new content to a temp file beside the target; checked for short writes."""
    what.at.hands.run(_stage, what.at.folder, what.temp, what.data)


def _stage(folder: int, temp: str, data: bytes) -> None:
    fd = _make_temp(folder, temp)
    try:
        _fill(fd, data)
    except BaseException:
        _unlink(folder, temp)
        raise
    finally:
        os.close(fd)


def _stage_locked(folder: int, temp: str, data: bytes, like: str | None) -> tuple[int, FileStat]:
    """A temp file with the permissions of `like`, open and locked until it is in its place."""
    fd = _make_temp(folder, temp)
    try:
        temps.claim(fd)
        stat = _fill(fd, data)
        if like is not None:
            os.fchmod(fd, _mode(folder, like))
    except BaseException as error:
        os.close(fd)
        _unlink(folder, temp)
        if isinstance(error, FileNotFoundError):
            raise BaseChanged from None
        raise
    return fd, stat


def _make_temp(folder: int, temp: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(temp, flags, 0o666, dir_fd=folder)


def _fill(fd: int, data: bytes) -> FileStat:
    """Write all of it. A full cache disk makes rclone keep less, and say nothing."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    stat = files.stat_of(os.fstat(fd))
    if stat.size != len(data):
        raise OSError(errno.ENOSPC, "short write")
    return stat


def _mode(folder: int, name: str) -> int:
    found = os.lstat(name, dir_fd=folder)
    if not st.S_ISREG(found.st_mode):
        # Somebody put a link in its place: following it would lead out of the vault.
        raise BaseChanged
    return found.st_mode & 0o7777


def check_base(what: Replacement) -> None:
    """Raise `BaseChanged` unless the target still holds the base."""
    try:
        now = files.read(what.at, max(len(what.base.data), 1) if what.base else 1)
    except TooLarge:
        raise BaseChanged from None
    if (now.data if now else None) != (what.base.data if what.base else None):
        raise BaseChanged


def remove_temp(at: files.Spot, temp: str) -> None:
    """Remove a temp file if it is still there and the mount still answers."""
    with suppress(OSError):
        at.hands.run(_unlink, at.folder, temp)


def _unlink(folder: int, temp: str) -> None:
    with suppress(OSError):
        os.unlink(temp, dir_fd=folder)


def _replace(folder: int, temp: str, name: str) -> FileStat:
    os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    return files.stat_of(os.lstat(name, dir_fd=folder))


def _put_in_place(folder: int, temp: str, name: str, known: bool) -> None:
    if known:
        os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        _create(folder, temp, name)
    sync_folder(folder)


def _create(folder: int, temp: str, name: str) -> None:
    try:
        # A link can't clobber: of two creators, even strangers to the lock, one wins.
        os.link(temp, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise BaseChanged from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        # The note is there: a temp file that can't be removed is no failure.
        _unlink(folder, temp)


def sync_folder(folder: int) -> None:
    """Make what happened in a folder durable."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
