"""Where an index lives on disk: two places, of which one is live and the other is for its successor.

The live one is `folder` itself or `folder/next`. A successor that was never completed is worth
nothing; one that was is moved to `folder` by the next start.
"""

import logging
import shutil
from pathlib import Path

from server.telemetry import log

FILE = "index.db"
_NAMES = (FILE, f"{FILE}-wal", f"{FILE}-shm", "mirror", "damaged", "complete")


def settle(folder: Path) -> None:
    """Before anything is open: leave one generation, the completed successor if there is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    following, moving = folder / "next", folder / "moving"
    if moving.exists():
        discard(folder, "a move was cut short")
    elif complete_mark(following).exists() and not damage_mark(following).exists():
        clear(folder)
        # A database that was parted from its log is worth nothing, so what is half moved must show.
        following.rename(moving)
        for name in _NAMES:
            if (moving / name).exists():
                (moving / name).rename(folder / name)
    shutil.rmtree(moving, ignore_errors=True)
    shutil.rmtree(following, ignore_errors=True)


def discard(place: Path, reason: str) -> None:
    """Delete an index that is of no use."""
    log(logging.WARNING, "the index is built anew", reason=reason)
    clear(place)


def clear(place: Path) -> None:
    """Delete the index in one of the two places."""
    complete_mark(place).unlink(missing_ok=True)
    for name in _NAMES:
        if (place / name).is_dir():
            shutil.rmtree(place / name, ignore_errors=True)
        else:
            (place / name).unlink(missing_ok=True)


def spare(folder: Path, live: Path) -> Path:
    """The place that is not the live one, emptied."""
    place = folder / "next" if live == folder else folder
    place.mkdir(mode=0o700, exist_ok=True)
    clear(place)
    return place


def damage_mark(place: Path) -> Path:
    """There when damage was found in the index at `place`."""
    return place / "damaged"


def complete_mark(place: Path) -> Path:
    """There when a whole scan was stored at `place`."""
    return place / "complete"


def request_mark(folder: Path) -> Path:
    """There while somebody wants the index to be built anew."""
    return folder / "rebuild"
