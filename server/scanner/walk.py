"""A complete walk of the vault: every visible file and folder, or an error, never a part."""

import logging
from dataclasses import dataclass
from operator import attrgetter

from server.errors import NotFound
from server.models import Entry, FileStat
from server.telemetry import log
from server.vault.files import Denied
from server.vault.vault import Vault
from server.workers import Workers


@dataclass(frozen=True, slots=True)
class Walk:
    """What was seen, sorted by path, and the folders that the system lets nobody list."""

    entries: list[Entry]
    closed: tuple[str, ...] = ()
    listed: bool = False
    """The remote told it: the mount may know less, or otherwise."""

    def hides(self, path: str) -> bool:
        """Whether a path lies in a closed folder: then nobody knows what became of it."""
        return path.startswith(tuple(f"{folder}/" for folder in self.closed))


def look(vault: Vault, workers: Workers, timeout: float) -> Walk:
    """All that is there: as the remote itself lists it where it can be asked, else by a walk."""
    listed = vault.listing(timeout)
    return walk(vault, workers, timeout) if listed is None else Walk(listed, listed=True)


def walk(vault: Vault, workers: Workers, timeout: float) -> Walk:
    """List the whole vault, folders of one depth side by side.

    Raises whatever a folder raises, except that a folder which vanished meanwhile is skipped and one
    that is closed to us is named: a walk that fails silently would report every unseen note as
    deleted.
    """
    found: list[Entry] = []
    closed: list[str] = []
    level = [Entry("", "", "folder", FileStat(0, 0))]
    while level:
        listed = workers.map(timeout, lambda folder: _list(vault, folder.disk), level)
        for folder, entries in zip(level, listed, strict=True):
            if entries is None:
                closed.append(folder.path)
        entries = [entry for inside in listed if inside is not None for entry in inside]
        found += entries
        level = [entry for entry in entries if entry.kind == "folder"]
    if closed:
        log(logging.WARNING, "folders that can't be listed", folders=", ".join(sorted(closed)[:5]))
    # By path, and by spelling where two share one.
    found.sort(key=attrgetter("disk"))
    found.sort(key=attrgetter("path"))
    return Walk(found, tuple(closed))


def _list(vault: Vault, disk: str) -> list[Entry] | None:
    try:
        return vault.list_folder(disk)
    except NotFound:
        if not disk:
            raise
        return []
    except Denied:
        if not disk:
            raise
        return None
