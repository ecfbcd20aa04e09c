"""Looking at folders that may hang: calls for a child process, which is given up when it does.

Nothing here decides anything. The functions run in the child, so they take and give plain data.
"""

import errno
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from server.vault.hands import ExpendableHands
from server.vault.marker import looks_empty, read_marker
from server.vault.mounts import MountPoint, mount_of

T = TypeVar("T")


class Hung(Exception):
    """No answer in time."""


@dataclass(frozen=True, slots=True)
class VaultSeen:
    """The vault's folder; `marker` is None without one."""

    real: str
    mount: MountPoint | None
    marker: str | None
    empty: bool


@dataclass(frozen=True, slots=True)
class StateSeen:
    """The state folder, or the nearest one above it that is there."""

    real: str
    mount: MountPoint | None
    exists: bool
    mode: int


def within(seconds: float, call: Callable[..., T], *args: Any) -> T:
    """What a call gives, made by a child process. Raises `Hung`, or what the call raises."""
    hands = ExpendableHands(patience=seconds)
    try:
        return hands.run(call, *args)
    except OSError as error:
        # The child says so when it is dead; the kernel says the same of a dead mount.
        if error.errno == errno.ENOTCONN and hands.is_gone:
            raise Hung from None
        raise
    finally:
        hands.abandon()


def look_at_vault(path: str, marker: str) -> VaultSeen:
    """Everything that tells the vault from what isn't it. Raises `OSError`."""
    real = os.path.realpath(path)
    fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return VaultSeen(real, mount_of(real), read_marker(fd, marker), looks_empty(fd))
    finally:
        os.close(fd)


def look_at_state(path: str) -> StateSeen:
    """Where the state is kept, or would be made. Raises `OSError`."""
    real = os.path.realpath(path)
    exists, there = os.path.lexists(real), real
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    return StateSeen(real, mount_of(there), exists, os.stat(there).st_mode)


def try_writing(folder: str) -> None:
    """Make a file and remove it again; its name begins with a dot. Raises `OSError`."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    file = os.path.join(folder, f".doctor-{uuid.uuid4().hex}")
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    os.unlink(file)
