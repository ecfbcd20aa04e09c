"""Two of the three ways to put a content in place of another, by what the vault lives on.

    LocalWriter   a plain folder: temp file, fsync, rename, fsync of the folder
    MountWriter   an rclone mount alone: temp file and rename through its cache; rclone may still lose
                  it when it dies before the upload, so the journal keeps it until it is known safe
    DriveWriter   in server/vault/drive.py: copied straight to the remote and verified there

Each compares the current content with the base under the folder's lock before it replaces anything,
and raises `BaseChanged` when they differ. None ever appends in place: on an rclone mount that
uploads a mix of two contents when another device changed the note.
"""

import errno
import os
import stat as st
import time
from contextlib import suppress

from server.errors import TooLarge
from server.models import FileStat
from server.vault import files, temps
from server.vault.drive import DriveWriter
from server.vault.guard import Pin
from server.vault.locks import folder_lock
from server.vault.replacement import BaseChanged, Replacement, nothing
from server.workers import Deadline

_NAPS = 5
_NAP_SECONDS = 0.01


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

    def __init__(self, drive: DriveWriter | None = None) -> None:
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
                if what.base is not None:
                    what.at.hands.run(_let_closes_come, what.at.folder, what.temp)
                deadline.check()
                if not _looks_like_base(what):
                    check_base(what)
                return what.at.hands.run(_replace, what.at.folder, what.temp, what.at.name)
        except BaseException:
            remove_temp(what.at, what.temp)
            raise


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


def _let_closes_come(folder: int, temp: str) -> None:
    """Give rclone time to hear of every close that came before: the kernel tells of them without waiting.

    A rename takes the earlier upload of its target out of rclone's queue only if what it renames is
    closed and in the queue itself. Else both are made, and a note that is new on a Drive is there twice.
    """
    for nap in range(_NAPS):
        time.sleep(_NAP_SECONDS)
        # The answer to a name that nobody has comes from rclone: one that stood still sleeps no nap.
        with suppress(FileNotFoundError):
            os.lstat(f"{temp}.{nap}", dir_fd=folder)


def _looks_like_base(what: Replacement) -> bool:
    """Whether the target still holds the base by all that can be told without opening it.

    rclone hears of a close some time after it. That of a look right before the rename may come amid
    it: rclone then uploads the note twice, side by side, or gives the new content the old time.
    """
    try:
        now = what.at.hands.run(os.lstat, what.at.name, dir_fd=what.at.folder)
    except FileNotFoundError:
        return what.base is None
    if what.base is None or not st.S_ISREG(now.st_mode):
        return False
    return files.stat_of(now) == what.base.stat


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
