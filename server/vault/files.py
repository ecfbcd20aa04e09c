"""Primitive touches of the disk below a pinned root descriptor; every OSError leaves as a domain error.

Nothing here takes an absolute path, so nothing can reach beside or beneath the vault: a mount that
goes away takes the descriptor with it (ENOTCONN), while a path would find the empty folder below.
"""

import errno
import os
import stat as st
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import dropwhile
from typing import NoReturn

from server.errors import (
    Ambiguous,
    InvalidPath,
    NotFound,
    PathNotAllowed,
    TooLarge,
    Unavailable,
    VaultError,
)
from server.models import Content, Entry, FileStat, kind_of, path_key
from server.vault.hands import OWN, Hands
from server.vault.paths import is_hidden

Permit = Callable[[str], None]
"""Asked with a path as symbolic links resolve it; raises to keep everybody away from it."""

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 16
_READ_ATTEMPTS = 5
_GONE = frozenset(
    {
        errno.ENOTCONN,
        errno.ECONNABORTED,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENXIO,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EREMOTEIO,
    }
)


class VaultGone(Unavailable):
    """The mount failed under a call: the guard must look again."""


class OutcomeOpen(VaultGone):
    """The mount failed in the middle of a write: nobody knows yet whether it was made."""

    def __init__(self) -> None:
        super().__init__(
            "The mount failed in the middle of the write; it is not known whether it was made.",
            "Read the note when health_check says ok, before you repeat the write.",
        )


class Denied(Unavailable):
    """The system's permissions forbid it; the rest of the vault may be fine."""


class Unreadable(Unavailable):
    """One file can't be read for now; rclone says so while it changes on the remote."""


@dataclass(slots=True)
class Root:
    """The pinned root: a descriptor that dies with its mount. Closed when the last user lets go."""

    fd: int
    path: str
    """The real path: compared with the targets of absolute symbolic links, and where ripgrep looks for
    names before there is an index. Nothing is ever read or written through it.
    """
    hands: Hands = OWN
    """Who opened it, and so who can use it."""
    holds_foreign: bool = False
    """Whether something that may hang is mounted in one of its folders."""

    def __del__(self) -> None:
        with suppress(OSError):
            self.hands.close(self.fd)
        self.hands.dismiss()


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a path lives on disk: an open folder, the name in it and the path as spelled there."""

    folder: int
    name: str
    disk: str
    exists: bool
    hands: Hands = OWN


def translate(error: OSError, what: str = "The vault") -> VaultError:  # noqa: PLR0911 - a table
    """The one table from errno to a domain error; the text never names a host path."""
    code = error.errno
    if code in _GONE:
        return VaultGone(
            "The vault can't be reached: its mount failed.",
            "Reads still answer from the mirror. Try the write again when health_check says ok.",
        )
    if code == errno.EIO:
        return Unreadable(
            f"{what} can't be read just now: it may be changing on the remote.",
            "Try again in a few seconds.",
        )
    if code == errno.ENOENT:
        return NotFound(f"{what} is not there.", "List the folder to see what is.")
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Denied(
            f"{what} can't be written or read: the system denies it.",
            "The owner must fix the permissions of the vault folder.",
        )
    if code in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable("There is no space left for it.", "The owner must free some space.")
    if code in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
        return InvalidPath(
            f"{what} has a name that the disk refuses.", "Use a shorter, plainer name."
        )
    if code in (errno.ENOTDIR, errno.EISDIR):
        return InvalidPath(
            f"{what} is a folder where a file is meant, or the reverse.", "List the folder."
        )
    if code == errno.ELOOP:
        return PathNotAllowed(f"{what} is a symbolic link that leads away.", "Use the real path.")
    return Unavailable(
        f"{what} can't be reached just now ({errno.errorcode.get(code or 0, 'unknown error')}).",
        "Try again; health_check tells the state of the mount.",
    )


def fail(error: OSError, what: str = "The vault") -> NoReturn:
    raise translate(error, what) from error


@contextmanager
def spot(
    root: Root, path: str, *, make_folders: bool = False, permit: Permit | None = None
) -> Iterator[Spot]:
    """Find `path` below the root whatever its Unicode form or case; follow only links that stay inside.

    A missing last name gives `exists=False`; a missing folder raises `NotFound` unless
    `make_folders`. Raises `PathNotAllowed` for links that leave the vault. `permit` is asked before
    anything can be told of where a link leads, or made there.
    """
    hands, fds = root.hands, list[int]()
    try:
        found, fds = hands.run(enter, root.fd, root.path, path, make_folders, ask=permit)
        yield Spot(*found, hands)
    except OSError as error:
        fail(error, repr(path))
    finally:
        hands.close(*fds)


def enter(
    root: int, real: str, path: str, make_folders: bool, *, ask: Permit | None = None
) -> tuple[tuple[int, str, str, bool], list[int]]:
    """What a `Spot` is made of, and the descriptors to be closed after it."""
    walk = _Walk(os.dup(root), real, make_folders, ask)
    try:
        folder, name, disk, seen = walk.to(path)
    except BaseException:
        OWN.close(*walk.fds)
        raise
    return (folder, name, disk, seen is not None), walk.fds


def glance(root: Root, path: str, *, permit: Permit | None = None) -> Entry | None:
    """What a scan would say of the file at `path`, found as by `spot`; None when there is none.

    Raises `NotFound` for a missing folder.
    """
    try:
        disk, stat = root.hands.run(find, root.fd, root.path, path, ask=permit)
    except OSError as error:
        fail(error, repr(path))
    if stat is None or not st.S_ISREG(stat.st_mode):
        return None
    return Entry(unicodedata.normalize("NFC", disk), disk, kind_of(disk), stat_of(stat))


def find(
    root: int, real: str, path: str, *, ask: Permit | None = None
) -> tuple[str, os.stat_result | None]:
    """How a path is spelled on disk, links followed, and what is there."""
    walk = _Walk(root, real, False, ask)
    try:
        _, _, disk, seen = walk.to(path)
        return disk, seen
    finally:
        OWN.close(*walk.fds[1:])


class _Walk:
    """Steps from the root to a path one name at a time, never trusting the kernel to stay inside."""

    def __init__(self, root: int, real: str, make_folders: bool, permit: Permit | None) -> None:
        self._real = real
        self._make = make_folders
        self._permit = permit
        self.fds: list[int] = [root]
        self._names: list[str] = []
        self._links = 0

    def to(self, path: str) -> tuple[int, str, str, os.stat_result | None]:
        """The folder a path ends in, the name in it, both as spelled there, and what is there."""
        todo = path.split("/")
        while True:
            name = todo.pop(0)
            if name == "..":
                self._up()
                if not todo:
                    # A link to a folder above, which is found like any other from the one it is in.
                    todo.append(self._up())
                continue
            found, seen = _match(self.fds[-1], name)
            if seen is not None and st.S_ISLNK(seen.st_mode):
                todo[:0] = self._link(found)
                self._ask(todo)
                continue
            if not todo:
                self._ask([found])
                return self.fds[-1], found, "/".join([*self._names, found]), seen
            if seen is None:
                self._ask([name, *todo])
                self._make_folder(name, path)
            self._down(found)

    def _ask(self, rest: list[str]) -> None:
        if self._permit is not None and ".." not in rest:
            self._permit(unicodedata.normalize("NFC", "/".join([*self._names, *rest])))

    def _make_folder(self, name: str, path: str) -> None:
        if not self._make:
            raise NotFound(f"{path!r} is not there.", "List the folder above to see what is.")
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self.fds[-1])

    def _down(self, found: str) -> None:
        self.fds.append(os.open(found, FOLDER, dir_fd=self.fds[-1]))
        self._names.append(found)

    def _up(self) -> str:
        if len(self.fds) == 1:
            raise PathNotAllowed("A symbolic link leads out of the vault.", "Use the real path.")
        os.close(self.fds.pop())
        return self._names.pop()

    def _link(self, name: str) -> list[str]:
        """The components a symbolic link stands for."""
        self._links += 1
        target = os.readlink(name, dir_fd=self.fds[-1])
        if target.startswith("/"):
            if not target.startswith(self._real.rstrip("/") + "/"):
                raise PathNotAllowed(
                    "A symbolic link leads out of the vault.", "Use the real path."
                )
            target = target[len(self._real.rstrip("/")) + 1 :]
            while len(self.fds) > 1:
                self._up()
        parts = [part for part in target.split("/") if part not in ("", ".")]
        hidden = any(is_hidden(part) and part != ".." for part in parts)
        # Down and up again: what is to be asked about the first could not be asked in time.
        hidden |= ".." in list(dropwhile(lambda part: part == "..", parts))
        # Bytes that are no text would break every answer that names the file.
        if self._links > _MAX_LINKS or not parts or hidden or not is_text(target):
            raise PathNotAllowed("A symbolic link leads where nobody may go.", "Use the real path.")
        return parts


def is_text(name: str) -> bool:
    """Whether a name can be told: bytes that are no UTF-8 can't."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _match(folder: int, name: str) -> tuple[str, os.stat_result | None]:
    """The entry of a folder that `name` means: as spelled, else in another Unicode form or case.

    The name itself and None when there is no such entry.
    """
    try:
        return name, os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            raise NotFound(f"{name!r} is not there.", "A part of the path is a file.") from None
        raise
    names = _names(folder)
    same = [other for other in names if unicodedata.normalize("NFC", other) == name]
    same = same or [other for other in names if path_key(other) == path_key(name)]
    if len(same) > 1:
        raise Ambiguous(
            f"{name!r} matches several names that differ only in case.",
            "Spell the path exactly.",
            candidates=sorted(unicodedata.normalize("NFC", other) for other in same),
        )
    return (same[0], os.lstat(same[0], dir_fd=folder)) if same else (name, None)


def _names(folder: int) -> list[str]:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def stat_of(result: os.stat_result) -> FileStat:
    return FileStat(result.st_size, result.st_mtime_ns)


def read(at: Spot, max_bytes: int) -> Content | None:
    """The whole file, or None when it isn't there. Raises `TooLarge`, `InvalidPath` for a folder."""
    return at.hands.run(_read, at.folder, at.name, max_bytes)


def _read(folder: int, name: str, max_bytes: int) -> Content | None:
    for attempt in range(_READ_ATTEMPTS):
        try:
            return _read_once(folder, name, max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            # rclone fails a read this way while a file changes on the remote; it passes.
            if error.errno != errno.EIO or attempt == _READ_ATTEMPTS - 1:
                fail(error, "The file")
            time.sleep(0.1)
    raise AssertionError  # the last attempt returns or raises


def _read_once(folder: int, name: str, max_bytes: int) -> Content:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    try:
        content = _read_all(fd, max_bytes)
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    # Not suppressed: rclone tells only at the end that what it handed out was not the file.
    os.close(fd)
    return content


def _read_all(fd: int, max_bytes: int) -> Content:
    before = os.fstat(fd)
    if not st.S_ISREG(before.st_mode):
        raise InvalidPath("That is a folder or a device, not a file.", "List it instead.")
    if before.st_size > max_bytes:
        raise _too_large(before.st_size, max_bytes)
    data = b""
    for _ in range(_READ_ATTEMPTS):
        data = _pread(fd, max_bytes + 1)
        if len(data) > max_bytes:
            raise _too_large(len(data), max_bytes)
        # On a mount the kernel cuts a grown file at the size it remembers; after a read it asks anew.
        after = os.fstat(fd)
        if after.st_size == len(data):
            return Content(data, stat_of(after))
    raise OSError(errno.EIO, "the file keeps changing")


def _pread(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    while total < limit and (chunk := os.pread(fd, min(1 << 20, limit - total), total)):
        parts.append(chunk)
        total += len(chunk)
    return b"".join(parts)


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"The file has {size:,} bytes; {limit:,} is the most that is served.",
        "Open it in Obsidian and split it; MAX_NOTE_MB or MAX_ATTACHMENT_MB sets the limit.",
        size=size,
        limit=limit,
    )
