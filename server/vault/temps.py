"""Temp files beside the notes: their names, and how one that a dead writer left is told from one in use.

On a disk of this machine a writer keeps its temp file locked until it is in place. The kernel lets go
of the lock when the writer dies, however that comes about: whoever gets the lock may clear away.
"""

import errno
import fcntl
import os
import uuid
from contextlib import suppress

_SUFFIX = ".vault-mcp.tmp"


def new_name() -> str:
    """A name that nobody else has, hidden from everybody who lists the folder."""
    return f".{uuid.uuid4().hex[:12]}{_SUFFIX}"


def is_temp(name: str) -> bool:
    """Whether a file is one of ours."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def claim(fd: int) -> None:
    """Lock a temp file that was just made. Raises `FileNotFoundError` when it passed for a leftover."""
    taken = FileNotFoundError(errno.ENOENT, "it was cleared away")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise taken from None
    except OSError as error:
        # Where there are no locks, nobody gets one to clear away with.
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOLCK, errno.ENOSYS):
            raise
    if not os.fstat(fd).st_nlink:
        raise taken


def clear(folder: int, name: str) -> None:
    """Remove a temp file unless its writer lives. What can't be removed now is left for the next time."""
    with suppress(OSError):
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(fd)
