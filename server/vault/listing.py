"""What a remote's own listing says about the vault: the entries that a walk of the mount would see. Pure."""

import unicodedata
from collections.abc import Collection, Iterable, Iterator

from server.models import Entry, FileStat, kind_of
from server.vault.paths import is_hidden
from server.vault.rc import RemoteItem


def is_visible(disk: str) -> bool:
    """Whether a walk would show it: nothing in it begins with a dot."""
    return bool(disk) and not any(map(is_hidden, disk.split("/")))


def entries_of(
    items: Iterable[RemoteItem], above: str, waiting: Collection[str]
) -> Iterator[Entry]:
    """The visible entries whose paths begin with `above`; of one name there may be several.

    What waits for its upload (`waiting`) is left out: the mount knows more of it than the remote.
    """
    for item in items:
        if item.path in waiting or not item.path.startswith(above):
            continue
        disk = item.path[len(above) :]
        if not is_visible(disk):
            continue
        path = unicodedata.normalize("NFC", disk)
        stat = item.stat
        if item.is_folder:
            yield Entry(path, disk, "folder", FileStat(0, stat.mtime_ns), id=stat.id or None)
        else:
            yield Entry(
                path, disk, kind_of(disk), FileStat(max(0, stat.size), stat.mtime_ns),
                md5=stat.md5 or None, id=stat.id or None,
            )  # fmt: skip
