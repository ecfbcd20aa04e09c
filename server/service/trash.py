"""Names in the trash."""

from server.service.batches import TRASH
from server.vault.vault import Vault


def free_in_trash(vault: Vault, disk: str) -> str:
    """A path in the trash that nobody has; Obsidian numbers them, too."""
    stem, dot, suffix = disk.rpartition("/")[2].rpartition(".")
    stem, dot, suffix = (stem, dot, suffix) if stem else (suffix, "", "")
    number = 1
    while True:
        name = stem if number == 1 else f"{stem} {number}"
        if vault.find(f"{TRASH}{name}{dot}{suffix}") is None:
            return f"{TRASH}{name}{dot}{suffix}"
        number += 1
