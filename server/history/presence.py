"""Which servers live: each holds a lock on a file of its own beside the database.

A lock ends with its process however that ends, so nothing here can be left behind by a crash but an
empty file.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "open-"


class Presence:
    """The sign that this server lives; `token` is what it signs its open entries with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.token = secrets.token_hex(8)
        # Inside `alone`, or another server could sweep the file before it is locked.
        self._fd = os.open(
            folder / (_PREFIX + self.token), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def lives(self, token: str) -> bool:
        """Whether the server that signed with `token` still runs."""
        return token == self.token or _is_locked(self._folder / (_PREFIX + token))

    def close(self) -> None:
        """This server is done."""
        if self._fd >= 0:
            (self._folder / (_PREFIX + self.token)).unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one server at a time is inside the block: one of them opens or replaces the database."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def sweep(folder: Path) -> None:
    """Remove the signs of servers that are gone; only inside `alone`."""
    for file in folder.glob(_PREFIX + "*"):
        if not _is_locked(file):
            file.unlink(missing_ok=True)


def _is_locked(file: Path) -> bool:
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
