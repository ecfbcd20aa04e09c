"""Sees who touches files, through the system alone: inotify for the moment, a snapshot for the rest.

inotify doesn't tell of a bare `stat` or of a folder that is passed through, but who follows a link
leaves an access time on it.
"""

import ctypes
import hashlib
import os
import stat as st
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

_EVENTS = {
    0x1: "read", 0x2: "written", 0x4: "attributes", 0x8: "closed after writing", 0x10: "closed",
    0x20: "opened", 0x40: "moved away", 0x80: "moved here", 0x100: "created", 0x200: "deleted",
    0x400: "gone", 0x800: "moved", 0x4000: "overflow",
}  # fmt: skip
_MASK = 0xFFF
_DONT_FOLLOW = 0x02000000
_HEAD = struct.Struct("iIII")
_LONG_AGO = 1_000_000_000 * 10**9
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Tells every touch of what is watched, by whomever."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._watched: dict[int, str] = {}

    def close(self) -> None:
        os.close(self._fd)

    def add(self, path: Path) -> None:
        """Watch a file, or a folder and the names in it; only a file itself tells of new hard links."""
        number = _checked(
            _libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK | _DONT_FOLLOW)
        )
        self._watched[number] = str(path)

    def touches(self, expected: Callable[[str], bool] = lambda _: False) -> list[str]:
        """What happened since the last call, without what happens to expected paths."""
        told = []
        while data := self._read():
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                path = os.path.join(self._watched.get(number, "?"), os.fsdecode(name)).rstrip("/")
                what = [word for bit, word in _EVENTS.items() if mask & bit]
                if what and not expected(path):
                    told.append(f"{path}: {', '.join(what)}")
        return told

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return b""


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "inotify failed")
    return result


State = tuple[int, ...]


def known(*folders: Path) -> list[Path]:
    """Some folders and everything in them."""
    return [path for folder in folders for path in (folder, *below(folder))]


def age(paths: Iterable[Path]) -> None:
    """Make every reading leave its mark: a mount with relatime moves an old access time once."""
    for path in paths:
        os.utime(path, ns=(_LONG_AGO, path.lstat().st_mtime_ns), follow_symlinks=False)


def snapshot(paths: Iterable[Path]) -> dict[str, State]:
    """Everything that the system knows of some paths; looking at it changes nothing of it."""
    return {str(path): _state(path) for path in paths}


def contents(*folders: Path) -> dict[str, str]:
    """What the files and links in some folders hold. Reading them leaves marks."""
    return {str(path): held for path in known(*folders) if (held := _held(path)) is not None}


def _state(path: Path) -> State:
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return ()
    return (
        stat.st_mode, stat.st_ino, stat.st_nlink, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns,
        stat.st_atime_ns,
    )  # fmt: skip


def _held(path: Path) -> str | None:
    mode = path.lstat().st_mode
    if st.S_ISLNK(mode):
        return os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if st.S_ISREG(mode) else None


def below(folder: Path, *, but: Sequence[Path] = ()) -> list[Path]:
    """Everything in a folder, outer before inner, without looking into some."""
    found = []
    with os.scandir(folder) as inside:
        # Not `os.walk`: it looks where links lead, and that moves their access time.
        for item in inside:
            path = Path(item.path)
            found.append(path)
            if item.is_dir(follow_symlinks=False) and path not in but:
                found += below(path, but=but)
    return found


def exchange(one: Path, other: Path) -> None:
    """Swap two names in one step, as nothing but the kernel can."""
    both_here = -100
    if _libc.renameat2(both_here, os.fsencode(one), both_here, os.fsencode(other), 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2 failed")
