"""Files and folders that change their place or go, and never onto something that is there.

Works below the pinned root like everything else; callers hold the paths' locks and keep what is
removed.
"""

import errno
import os
import stat as st
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from server.errors import Conflict, InvalidPath, NotFound, VaultError
from server.models import FileStat, Kind, kind_of
from server.vault import files
from server.vault.guard import Pin
from server.vault.locks import folder_lock
from server.vault.replacement import BaseChanged, Writer
from server.vault.writers import sync_folder
from server.workers import Deadline


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is on disk, and what it is."""

    disk: str
    kind: Kind
    stat: FileStat


def move(
    pin: Pin,
    writer: Writer,
    old: str,
    new: str,
    deadline: Deadline,
    permit: files.Permit | None = None,
) -> tuple[Place, Place]:
    """Give a file or folder another path; what it was and what it is now.

    Raises `NotFound` when there is nothing at `old`, `Conflict` when there is something at `new`.
    """
    _refresh(pin, writer, new)
    with files.spot(pin.root, old, permit=permit) as source:
        if not source.exists:
            raise NotFound(f"{old!r} is not there.", "List the folder to see what is.")
        before = place_of(source)
        _check_outside(source.disk, new)
        with files.spot(pin.root, new, make_folders=True, permit=permit) as target:
            _check_outside(source.disk, target.disk)
            name = new.rpartition("/")[2]
            above = target.disk.rpartition("/")[0]
            there = files.Spot(
                target.folder, name, f"{above}/{name}" if above else name, True, target.hands
            )
            with _both(source, target, deadline):
                deadline.check()
                _move(pin, before.kind, source, target, name)
            after = _seen(there, before)
    _refresh(pin, writer, before.disk)
    _refresh(pin, writer, after.disk)
    return before, after


def remove(
    pin: Pin,
    writer: Writer,
    path: str,
    etag: str,
    limit: int,
    deadline: Deadline,
    permit: files.Permit | None = None,
) -> Place:
    """Delete a file for good. Raises `BaseChanged` unless its content has this etag."""
    _refresh(pin, writer, path)
    with files.spot(pin.root, path, permit=permit) as at:
        if not at.exists:
            raise NotFound(f"{path!r} is not there.", "List the folder to see what is.")
        gone = place_of(at)
        with folder_lock(at.folder, deadline, at.hands):
            content = files.read(at, limit)
            if content is None or content.etag != etag:
                raise BaseChanged
            deadline.check()
            with _open_when_gone(pin):
                at.hands.run(os.unlink, at.name, dir_fd=at.folder)
            _sync(pin, at)
    _refresh(pin, writer, gone.disk)
    return gone


def place_of(at: files.Spot) -> Place:
    """What is at a spot. Raises `InvalidPath` for devices and the like."""
    found = at.hands.run(os.lstat, at.name, dir_fd=at.folder)
    if st.S_ISDIR(found.st_mode):
        return Place(at.disk, "folder", FileStat(0, found.st_mtime_ns))
    if not st.S_ISREG(found.st_mode):
        raise InvalidPath("That is neither a file nor a folder.", "Use the real path.")
    return Place(at.disk, kind_of(at.name), files.stat_of(found))


@contextmanager
def _both(source: files.Spot, target: files.Spot, deadline: Deadline) -> Iterator[None]:
    """Hold both folders, in one order whoever moves in which direction."""
    above = [at.disk.rpartition("/")[0] for at in (source, target)]
    first, second = (source, target) if above[0] <= above[1] else (target, source)
    with folder_lock(first.folder, deadline, first.hands):
        if above[0] == above[1]:
            yield
        else:
            with folder_lock(second.folder, deadline, second.hands):
                yield


def _move(pin: Pin, kind: Kind, source: files.Spot, target: files.Spot, name: str) -> None:
    """Rename under the folders' locks; nothing that is there is lost, nor what a crash left half done."""
    own = target.exists and target.disk == source.disk
    if not own and _is_taken(target, name):
        if pin.is_rclone or not _is_one_file(source, target):
            raise Conflict(f"{target.disk!r} is there already.", "Choose another name.")
        source.hands.run(os.unlink, source.name, dir_fd=source.folder)
    elif pin.is_rclone or kind == "folder" or own:
        # A folder can't take the place of one that holds something; rclone has no links.
        with _open_when_gone(pin):
            _rename(source, target.folder, name)
    else:
        _link(pin, source, target.folder, name)
    _sync(pin, source)
    _sync(pin, target)


def _link(pin: Pin, source: files.Spot, folder: int, name: str) -> None:
    """A rename that can't clobber what a stranger to the locks has just put there."""
    try:
        source.hands.run(
            os.link,
            source.name,
            name,
            src_dir_fd=source.folder,
            dst_dir_fd=folder,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise Conflict(f"{name!r} is there already.", "Choose another name.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        with _open_when_gone(pin):
            _rename(source, folder, name)
        return
    try:
        source.hands.run(os.unlink, source.name, dir_fd=source.folder)
    except OSError:
        with suppress(OSError):
            source.hands.run(os.unlink, name, dir_fd=folder)
        raise


def _rename(source: files.Spot, folder: int, name: str) -> None:
    source.hands.run(os.rename, source.name, name, src_dir_fd=source.folder, dst_dir_fd=folder)


def _is_taken(target: files.Spot, name: str) -> bool:
    """Whether something is at the new place now: another server may have put it there meanwhile."""
    if target.exists:
        return True
    try:
        target.hands.run(os.lstat, name, dir_fd=target.folder)
    except FileNotFoundError:
        return False
    return True


def _is_one_file(source: files.Spot, target: files.Spot) -> bool:
    """Whether a crash came between the new name and the end of the old one."""
    first, second = (at.hands.run(os.lstat, at.name, dir_fd=at.folder) for at in (source, target))
    return os.path.samestat(first, second)


def _check_outside(source: str, target: str) -> None:
    if target.startswith(f"{source}/"):
        raise InvalidPath("A folder can't be moved into itself.", "Choose another place.")


def _seen(there: files.Spot, before: Place) -> Place:
    try:
        return place_of(there)
    except OSError:
        # It is moved, whatever somebody did with it since.
        return Place(there.disk, before.kind, before.stat)


@contextmanager
def _open_when_gone(pin: Pin) -> Iterator[None]:
    """A mount that fails under a call doesn't say whether it was done."""
    try:
        yield
    except OSError as error:
        gone = isinstance(files.translate(error), files.VaultGone)
        if gone or (pin.is_rclone and error.errno == errno.EIO):
            raise files.OutcomeOpen from error
        raise


def _refresh(pin: Pin, writer: Writer, disk: str) -> None:
    """Have the mount look at the remote again; what was done stays done if it can't be told to."""
    with suppress(VaultError):
        writer.refresh(pin, disk)


def _sync(pin: Pin, at: files.Spot) -> None:
    if pin.is_rclone:
        return
    try:
        at.hands.run(sync_folder, at.folder)
    except OSError as error:
        # It is done, but who knows for how long.
        raise files.OutcomeOpen from error
