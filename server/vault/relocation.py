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

from server.errors import Conflict, InvalidPath, NotFound
from server.models import FileStat, Kind, kind_of
from server.vault import files
from server.vault.guard import Pin
from server.vault.locks import folder_lock
from server.vault.writers import BaseChanged, Writer
from server.workers import Deadline


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is on disk, and what it is."""

    disk: str
    kind: Kind
    stat: FileStat


def move(pin: Pin, writer: Writer, old: str, new: str, deadline: Deadline) -> tuple[Place, Place]:
    """Give a file or folder another path; what it was and what it is now.

    Raises `NotFound` when there is nothing at `old`, `Conflict` when there is something at `new`.
    """
    with (
        files.spot(pin.root, old) as source,
        files.spot(pin.root, new, make_folders=True) as target,
    ):
        if not source.exists:
            raise NotFound(f"{old!r} is not there.", "List the folder to see what is.")
        name = new.rpartition("/")[2]
        before = place_of(source)
        if target.exists and target.disk != source.disk:
            raise Conflict(f"{target.disk!r} is there already.", "Choose another name.")
        if f"{target.disk}/".startswith(f"{source.disk}/") and target.disk != source.disk:
            raise InvalidPath("A folder can't be moved into itself.", "Choose another place.")
        with _both(source, target, deadline):
            deadline.check()
            _rename(pin, before.kind, source, target.folder, name)
        above = target.disk.rpartition("/")[0]
        there = files.Spot(target.folder, name, f"{above}/{name}" if above else name, True)
        after = place_of(there)
    writer.refresh(pin, before.disk)
    writer.refresh(pin, after.disk)
    return before, after


def remove(pin: Pin, writer: Writer, path: str, etag: str, limit: int, deadline: Deadline) -> Place:
    """Delete a file for good. Raises `BaseChanged` unless its content has this etag."""
    with files.spot(pin.root, path) as at:
        if not at.exists:
            raise NotFound(f"{path!r} is not there.", "List the folder to see what is.")
        gone = place_of(at)
        with folder_lock(at.folder, deadline):
            content = files.read(at, limit)
            if content is None or content.etag != etag:
                raise BaseChanged
            deadline.check()
            os.unlink(at.name, dir_fd=at.folder)
            if not pin.is_rclone:
                _sync(at.folder)
    writer.refresh(pin, gone.disk)
    return gone


def place_of(at: files.Spot) -> Place:
    """What is at a spot. Raises `InvalidPath` for devices and the like."""
    found = os.lstat(at.name, dir_fd=at.folder)
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
    with folder_lock(first.folder, deadline):
        if above[0] == above[1]:
            yield
        else:
            with folder_lock(second.folder, deadline):
                yield


def _rename(pin: Pin, kind: Kind, source: files.Spot, folder: int, name: str) -> None:
    same = source.name.casefold() == name.casefold()
    if pin.is_rclone or kind == "folder" or same:
        # A folder can't take the place of one that holds something; rclone has no links.
        os.rename(source.name, name, src_dir_fd=source.folder, dst_dir_fd=folder)
    else:
        try:
            # A link can't clobber what a stranger to the locks has just put there.
            os.link(
                source.name,
                name,
                src_dir_fd=source.folder,
                dst_dir_fd=folder,
                follow_symlinks=False,
            )
            os.unlink(source.name, dir_fd=source.folder)
        except FileExistsError:
            raise Conflict(f"{name!r} is there already.", "Choose another name.") from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            os.rename(source.name, name, src_dir_fd=source.folder, dst_dir_fd=folder)
    if not pin.is_rclone:
        _sync(source.folder)
        _sync(folder)


def _sync(folder: int) -> None:
    with suppress(FileNotFoundError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
