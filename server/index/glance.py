"""A look at an index that a server may have open, for who wants a number and no more."""

from pathlib import Path

from server.databases import rows
from server.index.generations import FILE, complete_mark


def notes_in(folder: Path) -> int | None:
    """How many notes an index holds; None when there is none that could be read."""
    places = (place for place in (folder / "next", folder) if complete_mark(place).exists())
    for place in places:
        found = rows(place / FILE, "SELECT count(*) FROM notes WHERE kind='note'")
        if found:
            return int(found[0][0])
    return None
