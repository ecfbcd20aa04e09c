"""A small file in STATE_DIR that several processes share: read whole, replaced whole, never torn."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from server.state import sync_folder

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file, mode 0600, and the lock beside it that every writer takes."""

    path: Path

    @property
    def stamp(self) -> Stamp | None:
        """What is different after every change; None without a file."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self) -> bytes | None:
        """The content; None without a file."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out, of this process or another, and wait for the one that is in."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file of its own: the one it is about is another one after each change.
        lock = self.path.with_suffix(".lock")
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def replace(self, data: bytes, *, durable: bool = True) -> None:
        """Put another content in place at once; only under the lock."""
        before = self.stamp
        fd, temp = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=self.path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                # The clock of a file system is coarse, and an inode may come back: the time of
                # each change must be later than that of the one before, or it could go unseen.
                changed = max(time.time_ns(), before[0] + 1 if before else 0)
                os.utime(file.fileno(), ns=(changed, changed))
                if durable:
                    os.fsync(file.fileno())
            os.replace(temp, self.path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temp)
            raise
        if durable:
            sync_folder(self.path.parent)
