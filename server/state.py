"""The state folder: which process owns which part of it.

Several servers may share one STATE_DIR (an HTTP server and a few stdio ones, say). Each claims a
slot of its own for index, mirror and journal, so that none can damage another's; a slot whose owner
died is free again, and what its journal still held is taken over by whoever comes next.
"""

import fcntl
import math
import os
from dataclasses import dataclass
from pathlib import Path

from server.errors import Unavailable

_MOST_SLOTS = 64


@dataclass(slots=True)
class Slot:
    """A claimed part of the state folder; the claim ends with the process or with `release`."""

    folder: Path
    fd: int

    def release(self) -> None:
        """Let another process have it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def claim_slot(state_dir: Path) -> Slot:
    """Claim the first free slot. Raises `Unavailable` when the folder can't be used."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(_MOST_SLOTS):
            slot = _try(state_dir / f"slot-{number}")
            if slot is not None:
                return slot
    except OSError as error:
        raise Unavailable(
            f"STATE_DIR can't be used: {error.strerror}.",
            "Name a folder on local disk that is writable.",
        ) from error
    raise Unavailable("Too many servers share this STATE_DIR.", "Stop some, or use another folder.")


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of a disk: `free` for whom this process runs as, of `total`."""

    free: float
    total: float


def disk_room(folder: Path) -> Room:
    """What is left on the disk of a folder; NaN where nobody can tell."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return Room(math.nan, math.nan)
    return Room(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def abandoned_slots(state_dir: Path, own: Slot) -> list[Slot]:
    """Claim every other slot that nobody holds; the caller releases them."""
    others = (folder for folder in sorted(state_dir.glob("slot-*")) if folder != own.folder)
    return [slot for folder in others if (slot := _try(folder)) is not None]


def held_slots(state_dir: Path) -> list[Path]:
    """The folders of the slots that running servers hold."""
    held = []
    for folder in sorted(state_dir.glob("slot-*")):
        slot = _try(folder)
        if slot is None:
            held.append(folder)
        else:
            slot.release()
    return held


def _try(folder: Path) -> Slot | None:
    folder.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return Slot(folder, fd)
