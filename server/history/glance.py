"""A look at a history that a server may have open, for who wants a number and no more."""

from pathlib import Path

from server.databases import rows
from server.history.database import FILE


def totals_in(folder: Path) -> tuple[int, int] | None:
    """How many changes it holds and their bytes; None when there is none that could be read."""
    found = rows(folder / FILE, "SELECT entries, bytes FROM totals")
    return (int(found[0][0]), int(found[0][1])) if found else None
