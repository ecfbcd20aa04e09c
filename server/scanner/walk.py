"""A complete walk of the vault: every visible file and folder, or an error, never a part."""

from server.errors import NotFound
from server.models import Entry
from server.vault.vault import Vault
from server.workers import Workers


def walk(vault: Vault, workers: Workers, timeout: float) -> list[Entry]:
    """List the whole vault, folders of one depth side by side; sorted by path.

    Raises whatever a folder raises, except that a folder which vanished meanwhile is skipped: a walk
    that fails silently would report every unseen note as deleted.
    """
    found: list[Entry] = []
    level = [""]
    while level:
        listed = workers.map(timeout, lambda disk: _list(vault, disk), level)
        entries = [entry for folder in listed for entry in folder]
        found += entries
        level = [entry.disk for entry in entries if entry.kind == "folder"]
    return sorted(found, key=lambda entry: (entry.path, entry.disk))


def _list(vault: Vault, disk: str) -> list[Entry]:
    try:
        return vault.list_folder(disk)
    except NotFound:
        if not disk:
            raise
        return []
