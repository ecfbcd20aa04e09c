"""Locks around a write: one per path inside this process, one per folder between processes.

The folder's lock is a flock on the folder itself, so that two servers with different STATE_DIRs, or
one on the vault and one on a subfolder of it, still take turns. It holds on one host only; what
another device does meanwhile is found by comparing contents.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from server.errors import Timeout
from server.vault.hands import OWN, Hands
from server.workers import Deadline


@dataclass(slots=True)
class _Held:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class PathLocks:
    """A lock for each path in use; forgotten when nobody waits for it."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, key: str, deadline: Deadline) -> Iterator[None]:
        """Hold the lock of one path; raises `Timeout` when another writer keeps it too long."""
        with self._lock:
            held = self._held.setdefault(key, _Held())
            held.users += 1
        try:
            if not held.lock.acquire(timeout=deadline.remaining):
                raise _busy()
            try:
                yield
            finally:
                held.lock.release()
        finally:
            with self._lock:
                held.users -= 1
                if held.users == 0:
                    del self._held[key]


@contextmanager
def folder_lock(folder: int, deadline: Deadline, hands: Hands = OWN) -> Iterator[None]:
    """Hold a folder against other processes while a content is compared and replaced."""
    fd = hands.run(_locked, folder, deadline)
    try:
        yield
    finally:
        hands.close(fd)


def _locked(folder: int, deadline: Deadline) -> int:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        _flock(fd, deadline)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _flock(fd: int, deadline: Deadline) -> None:
    pause = 0.0005
    while True:
        try:
            # Never a blocking flock: a thread that waits in the kernel can't keep its deadline.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if deadline.remaining <= 0:
                raise _busy() from None
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        except OSError as error:
            # Some network file systems know no flock; comparing contents is what is left there.
            if error.errno not in (
                errno.ENOTSUP,
                errno.EINVAL,
                errno.EBADF,
                errno.ENOLCK,
                errno.ENOSYS,
            ):
                raise
            return
        else:
            return


def _busy() -> Timeout:
    return Timeout("Another write holds this note; nothing was written.", "Try again in a moment.")
