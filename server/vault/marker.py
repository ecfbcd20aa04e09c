"""The marker file in the vault's root that tells the vault from an empty folder or another one.

Plain calls below a root descriptor; `guard.py` decides what to make of the answers.
"""

import os
import time


def read_marker(root: int, name: str) -> str | None:
    """What the marker says; "" when it stays empty, None when there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return None
    try:
        # Empty while another server that starts at this moment is still writing it.
        for _ in range(50):
            if found := os.pread(fd, 200, 0).decode("ascii", "replace").strip():
                return found
            time.sleep(0.02)
        return ""
    finally:
        os.close(fd)


def make_marker(root: int, name: str, marker_id: str) -> str | None:
    """Write the marker; what it says if somebody else was quicker."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(name, flags, 0o644, dir_fd=root)
    except FileExistsError:
        return read_marker(root, name)
    try:
        os.write(fd, marker_id.encode("ascii") + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    return marker_id


def has_marker(root: int, name: str) -> bool:
    """Whether the marker is there, whatever it says."""
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def looks_empty(root: int) -> bool:
    """Whether the vault shows nothing but dot-files."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        with os.scandir(fd) as entries:
            return all(entry.name.startswith(".") for entry in entries)
    finally:
        os.close(fd)


def share_device(one: str, other: str) -> bool:
    """Whether two folders lie on one file system."""
    return os.stat(one).st_dev == os.stat(other).st_dev
