"""What the kernel says is mounted where. Reads /proc only, so it never hangs with a mount."""

import os
import select
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from server.vault.paths import is_hidden

RCLONE = "fuse.rclone"
_TABLE = "/proc/self/mountinfo"
_FOREIGN = (
    "fuse", "nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "davfs", "afs", "autofs", "virtiofs",
    "vboxsf", "prl_fs", "lustre", "beegfs", "orangefs", "gfs2", "ocfs2", "coda", "ncp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One line of mountinfo."""

    id: int
    root: str
    path: str
    fstype: str
    source: str

    @property
    def is_rclone(self) -> bool:
        return self.fstype == RCLONE

    @property
    def may_hang(self) -> bool:
        """Whether something else than this kernel answers for it."""
        return self.fstype.startswith(_FOREIGN)


class MountWatch:
    """Tells whether the mount table changed, without reading it: every access to the vault asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._changes = 0
        self._fd: int | None = None
        with suppress(OSError):
            self._fd = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)
            # Not the text, the state of the descriptor: the kernel marks it after every change.
            self._poll.register(self._fd, select.POLLPRI | select.POLLERR)

    def changes(self) -> int | None:
        """How often it was seen changed; None where the kernel doesn't tell."""
        with self._lock:
            if self._fd is None:
                return None
            if self._poll.poll(0):
                self._changes += 1
            return self._changes

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            fd, self._fd = self._fd, None
            if fd is not None:
                os.close(fd)


def mount_of(path: str, mountinfo: str | None = None) -> MountPoint | None:
    """The mount that holds `path` (absolute, real), or None where /proc isn't there."""
    return _holding(path, mountinfo if mountinfo is not None else _read_mountinfo())


@lru_cache(maxsize=4)
def _holding(path: str, mountinfo: str) -> MountPoint | None:
    """Cached, because every access to the vault asks and the table hardly ever changes."""
    best: MountPoint | None = None
    for mount in _parse(mountinfo):
        inside = path == mount.path or path.startswith(mount.path.rstrip("/") + "/")
        # Of mounts stacked on one point, the last line is the one in sight.
        if inside and (best is None or len(mount.path) >= len(best.path)):
            best = mount
    return best


def hangs_below(path: str, mountinfo: str | None = None) -> bool:
    """Whether something that may hang is mounted where agents can get to below `path`."""
    return _hanging(path, mountinfo if mountinfo is not None else _read_mountinfo())


@lru_cache(maxsize=4)
def _hanging(path: str, mountinfo: str) -> bool:
    above = path.rstrip("/") + "/"
    below = [mount for mount in _parse(mountinfo) if mount.path.startswith(above)]
    return any(mount.may_hang and not is_hidden(mount.path[len(above) :]) for mount in below)


def mount_id_of(fd: int) -> int | None:
    """The id of the mount that an open descriptor lives on."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:
            for line in info:
                if line.startswith("mnt_id:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None


def _read_mountinfo() -> str:
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as info:
            return info.read()
    except OSError:
        return ""


def _parse(text: str) -> list[MountPoint]:
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if len(fields) >= 6 and len(tail) >= 2:
            mounts.append(
                MountPoint(
                    int(fields[0]), _unescaped(fields[3]), _unescaped(fields[4]), tail[0],
                    _unescaped(tail[1]),
                )
            )  # fmt: skip
    return mounts


def _unescaped(field: str) -> str:
    # The kernel writes space, tab, newline and backslash as octal.
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def inner_path(path: str, mount: MountPoint) -> str:
    """Where `path` lies inside the mounted remote ('' for its root)."""
    below = os.path.relpath(path, mount.path)
    return (
        os.path.normpath(os.path.join(mount.root.lstrip("/"), below)).removeprefix(".").lstrip("/")
    )
