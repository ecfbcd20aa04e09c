"""Listing a folder below the pinned root: what a walk of the vault is made of."""

import os
import stat as st
import unicodedata
from collections.abc import Iterator

from server.errors import Ambiguous, InvalidPath, NotFound, PathNotAllowed
from server.models import Entry, FileStat, kind_of
from server.vault import files, temps
from server.vault.hands import OWN
from server.vault.paths import is_hidden


def list_folder(root: files.Root, disk: str) -> list[Entry]:
    """The visible entries of one folder, unsorted. Raises on any error but a vanished entry."""
    try:
        return root.hands.run(_list_folder, root.fd, root.path, disk, root.hands is OWN)
    except OSError as error:
        files.fail(error, "A folder")


def _list_folder(root: int, real: str, disk: str, clear: bool) -> list[Entry]:
    try:
        fd = _open_folder(root, disk)
    except NotADirectoryError:
        # It was a folder when it was seen: whoever put a link in its place has taken it away.
        raise NotFound("A folder is not there.", "List the folder above to see what is.") from None
    except OSError as error:
        files.fail(error, "A folder")
    try:
        with os.scandir(fd) as found:
            items = list(found)
        if clear:
            # Only here is known which of them are leftovers: on a mount, the journal knows.
            for left in filter(temps.is_temp, [item.name for item in items]):
                temps.clear(fd, left)
        return list(_entries(root, real, disk, items))
    except OSError as error:
        files.fail(error, "A folder")
    finally:
        os.close(fd)


def _open_folder(root: int, disk: str) -> int:
    """Open a folder name by name: in one step the kernel would follow a link on the way to it."""
    at = os.dup(root)
    try:
        for name in disk.split("/") if disk else ():
            below = os.open(name, files.FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _entries(root: int, real: str, folder: str, items: list["os.DirEntry[str]"]) -> Iterator[Entry]:
    """What the items are; they are taken out of the list, in their order.

    Each of them keeps its stat: in a large folder that is more than all that is made of it.
    """
    items.reverse()
    while items:
        entry = _entry(root, real, folder, items.pop())
        if entry is not None:
            yield entry


def _entry(root: int, real: str, folder: str, item: "os.DirEntry[str]") -> Entry | None:
    if is_hidden(item.name) or not files.is_text(item.name):
        return None
    disk = f"{folder}/{item.name}" if folder else item.name
    try:
        path = unicodedata.normalize("NFC", disk)
        stat = item.stat(follow_symlinks=False)
        if st.S_ISLNK(stat.st_mode):
            return _linked_file(root, real, path, disk)
    except FileNotFoundError:
        return None
    if st.S_ISDIR(stat.st_mode):
        return Entry(path, disk, "folder", FileStat(0, stat.st_mtime_ns))
    if st.S_ISREG(stat.st_mode):
        return Entry(path, disk, kind_of(item.name), files.stat_of(stat))
    return None


def _linked_file(root: int, real: str, path: str, disk: str) -> Entry | None:
    # Linked files inside the vault count; linked folders don't, they could form a cycle.
    try:
        target, stat = files.find(root, real, disk)
    except (NotFound, PathNotAllowed, InvalidPath, Ambiguous):
        return None
    except OSError as error:
        if isinstance(files.translate(error), NotFound | PathNotAllowed | InvalidPath):
            return None
        raise
    if stat is None or not st.S_ISREG(stat.st_mode):
        return None
    leads_to = unicodedata.normalize("NFC", target)
    return Entry(path, disk, kind_of(disk), files.stat_of(stat), real=leads_to)
