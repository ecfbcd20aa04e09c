"""The state folder: which process owns which part of it.

Several servers may share one STATE_DIR (an HTTP server and a few stdio ones, say). Each claims a
slot of its own for index, mirror and journal, so that none can damage another's; a slot whose owner
died is free again, and what its journal still held is taken over by whoever comes next.
"""

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.errors import Conflict, Unavailable

RESTORING = Path(".restore/swapping")
"""There while a restore changes what lies in the state folder."""
_MOST_SLOTS = 64


@dataclass(slots=True)
class Slot:
    """A claimed part of the state folder; the claim ends with the process or with `release`."""

    folder: Path
    fd: int
    house: int = -1
    """The lock of the whole folder, which all servers share and a restore wants for itself."""

    def release(self) -> None:
        """Let another process have it."""
        for fd in (self.fd, self.house):
            if fd >= 0:
                os.close(fd)
        self.fd = self.house = -1


def claim_slot(state_dir: Path) -> Slot:
    """Claim the first free slot. Raises `Unavailable` when the folder can't be used."""
    house: int | None = None
    try:
        house = _enter(state_dir, fcntl.LOCK_SH)
        slot = None if house is None else _first_free(state_dir)
    except OSError as error:
        raise Unavailable(
            f"STATE_DIR can't be used: {error.strerror}.",
            "Name a folder on local disk that is writable.",
        ) from error
    if house is not None and slot is not None:
        slot.house = house
        return slot
    if house is not None:
        os.close(house)
    if house is None or (state_dir / RESTORING).exists():
        raise Unavailable(
            "STATE_DIR is being restored from a backup.",
            "Wait for it; if it was cut short, run `vault-mcp restore FILE --force` again.",
        )
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


def _first_free(state_dir: Path) -> Slot | None:
    if (state_dir / RESTORING).exists():
        return None
    slots = (_try(state_dir / f"slot-{number}") for number in range(_MOST_SLOTS))
    return next((slot for slot in slots if slot is not None), None)


@contextmanager
def reserved(state_dir: Path) -> Iterator[None]:
    """Keep all servers out of the state folder. Raises `Conflict` while one is in."""
    house = _enter(state_dir, fcntl.LOCK_EX)
    try:
        if house is None or held_slots(state_dir):
            raise Conflict(
                f"A server runs on {state_dir}.",
                "Stop it first, and those that clients have started.",
            )
        yield
    finally:
        if house is not None:
            os.close(house)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe from a loss of power."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
    fd = _enter(folder, fcntl.LOCK_EX)
    return None if fd is None else Slot(folder, fd)


def _enter(folder: Path, how: int) -> int | None:
    """The lock of a folder, which is made if need be; None when somebody has it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
