"""What the kernel says is mounted where. Reads /proc only, so it never hangs with a mount."""

import os
from dataclasses import dataclass
from functools import lru_cache

RCLONE = "fuse.rclone"
_FOREIGN = ("fuse", "nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "davfs")


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
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as info:
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
