"""Appending to the chain: one line after the other, from several threads and processes at once.

Every append holds the folder's flock, reads the head to see what others wrote, adds its lines and
moves the head. A process that dies in between, or a disk that is full, leaves bytes behind the head:
whoever comes next takes over the whole lines among them and closes the rest with a line that says so.
Nothing that was written is ever changed.
"""

import errno
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server.audit.chain import follows, parse, seal
from server.audit.head import BYTES, FILE, Head, beginning, files_in, name_of, rebuilt, start_of

Fields = Mapping[str, Any]

ROTATED = "audit_rotated"
"""First line of every file but the first: `oldest` is the oldest line that is kept from then on."""
REPAIRED = "audit_repaired"
"""After bytes that are no line, left by a writer that died: their number and their SHA-256."""
GAP = "audit_gap"
"""Lines were gone from the end when the next one was to be written."""
HEAD_LOST = "audit_head_lost"
"""The head was gone, so nobody knows whether lines are."""

_PATIENCE = 0.25


class Log:
    """The lines in one folder. Opens it when the first line comes, again when it was replaced."""

    def __init__(self, folder: Path, *, max_bytes: int, max_files: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._lock = threading.Lock()
        self._fds: dict[str, int] = {}
        """`folder`, `head` and `lines`, while they are open."""
        self._head: Head | None = None
        self._seen = b""
        """The head's file as this process knows it."""
        self._syncing: threading.Thread | None = None

    def append(self, *lines: Fields, now: Mapping[str, Any], patience: float = _PATIENCE) -> int:
        """Add lines, after whatever has to be said first; the last one's number.

        `now` is what the lines of the log itself carry. Raises `OSError`.
        """
        with self._lock:
            for _ in range(3):
                try:
                    with self._turn(patience):
                        if self._is_replaced():
                            self._close()
                            continue
                        head = self._current(now)
                        for fields in lines:
                            head = self._add(head, fields, now)
                        return head.seq
                except BaseException:
                    # What this process believes may be half of the truth; the files know.
                    self._close()
                    raise
            raise OSError(errno.EBUSY, "The folder is replaced again and again")

    def close(self) -> None:
        """Put everything on the disk and let the files go."""
        with self._lock:
            for name in ("lines", "head"):
                if name in self._fds:
                    os.fsync(self._fds[name])
            self._close()
            if self._syncing is not None:
                self._syncing.join()

    @contextmanager
    def _turn(self, patience: float) -> Iterator[None]:
        if "folder" not in self._fds:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fds["folder"] = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fd = self._fds["folder"]
        _flock(fd, patience)
        try:
            yield
        finally:
            if self._fds.get("folder") == fd:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def _is_replaced(self) -> bool:
        """Whether somebody deleted or replaced what is open."""
        files = [fd for name, fd in self._fds.items() if name != "folder" or len(self._fds) == 1]
        return any(os.fstat(fd).st_nlink == 0 for fd in files)

    def _close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])
        self._seen = b""

    def _current(self, now: Fields) -> Head:
        """The head after whatever others wrote or left."""
        lost = False
        if "head" not in self._fds:
            lost = self._open_head()
        data = os.pread(self._fds["head"], BYTES, 0)
        head = self._head
        if data != self._seen or head is None:
            head, self._seen = Head.parse(data), data
            if head is None:
                lost, head = True, self._renew_head()
            self._open_lines(head.file)
            self._head = head
        if lost:
            head = self._add(self._mended(head, now), {**now, "event": HEAD_LOST}, now)
        return self._mended(head, now)

    def _open_head(self) -> bool:
        """Open the head, made anew when it is not there; whether it should have been."""
        lost = False
        if not (self._folder / FILE).exists():
            lost = self._head is not None or bool(files_in(self._folder))
            self._renew_head()
        self._fds["head"] = os.open(self._folder / FILE, os.O_RDWR | os.O_CLOEXEC)
        return lost

    def _renew_head(self) -> Head:
        known = self._head
        head = rebuilt(self._folder)
        if head is None:
            head = beginning(known.seq, known.hash) if known else beginning()
        if "head" in self._fds:
            self._save(head)
            return head
        temporary = self._folder / f"{FILE}.new"
        temporary.write_bytes(head.encode())
        temporary.chmod(0o600)
        os.replace(temporary, self._folder / FILE)
        return head

    def _open_lines(self, name: str) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(self._folder / name, flags, 0o600)
        if "lines" in self._fds:
            os.close(self._fds["lines"])
        self._fds["lines"] = fd

    def _mended(self, head: Head, now: Fields) -> Head:
        """The head after what others left behind it, or took away before it, has been told."""
        size = os.fstat(self._fds["lines"]).st_size
        if size == head.size:
            return head
        if size < head.size:
            missing = {"event": GAP, "after": head.seq, "bytes": size, "expected": head.size}
            cut = size > 0 and os.pread(self._fds["lines"], 1, size - 1) != b"\n"
            head = _at(head, size)
            return self._put(head, {**now, **missing}, b"\n" if cut else b"")
        rest = os.pread(self._fds["lines"], size - head.size, head.size)
        head, rest = self._adopt(head, rest)
        if not rest:
            return head
        torn = rest.rstrip(b"\n")
        told = {"event": REPAIRED, "torn_bytes": len(torn), "torn": hash_of(torn)}
        prefix = b"" if rest.endswith(b"\n") else b"\n"
        return self._put(_at(head, head.size + len(rest)), {**now, **told}, prefix)

    def _adopt(self, head: Head, rest: bytes) -> tuple[Head, bytes]:
        """Take over whole lines that a dead writer had no time to tell the head of."""
        while rest:
            line, end, after = rest.partition(b"\n")
            entry = parse(line)
            if entry is None or not follows(entry, head.seq, head.hash):
                break
            if not end:
                os.write(self._fds["lines"], b"\n")
            head = Head(
                entry.seq, entry.hash, head.file, head.size + len(line) + 1,
                head.oldest, head.oldest_prev,
            )  # fmt: skip
            rest = after
            self._save(head)
        return head, rest

    def _add(self, head: Head, fields: Fields, now: Fields) -> Head:
        if head.size >= self._max_bytes:
            head = self._rotate(head)
        if head.size == 0 and head.seq > 0:
            head = self._put(head, {**now, "event": ROTATED, "oldest": head.oldest})
        return self._put(head, fields)

    def _put(self, head: Head, fields: Fields, prefix: bytes = b"") -> Head:
        line, digest = seal(fields, head.seq + 1, head.hash)
        data = prefix + line
        if os.write(self._fds["lines"], data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        head = Head(
            head.seq + 1, digest, head.file, head.size + len(data), head.oldest, head.oldest_prev
        )
        self._save(head)
        return head

    def _save(self, head: Head) -> None:
        data = head.encode()
        os.pwrite(self._fds["head"], data, 0)
        self._head, self._seen = head, data

    def _rotate(self, head: Head) -> Head:
        """Go on in a new file; the head tells of it, and of what is kept, before anything goes."""
        new = name_of(head.seq + 1)
        full = self._fds.pop("lines")
        self._sync(full)
        # A file beyond the head was made by a rotation that somebody else finished in another one.
        found = [name for name in files_in(self._folder) if name != new]
        names = [name for name in found if name <= head.file]
        cut = max(0, len(names) + 1 - self._max_files)
        kept = [*names[cut:], new]
        oldest = head.oldest, head.oldest_prev
        if cut:
            start = (
                (head.seq + 1, head.hash) if kept[0] == new else start_of(self._folder / kept[0])
            )
            oldest = start or oldest
        self._open_lines(new)
        head = Head(head.seq, head.hash, new, 0, *oldest)
        self._save(head)
        _remove(self._folder, names[:cut])
        _remove(
            self._folder, [name for name in found[len(names) :] if _is_empty(self._folder / name)]
        )
        return head

    def _sync(self, fd: int) -> None:
        """In a thread: megabytes take a slow disk longer than a call may wait."""

        def sync() -> None:
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

        if self._syncing is not None:
            self._syncing.join()
        self._syncing = threading.Thread(target=sync, name="audit-sync", daemon=True)
        self._syncing.start()


def hash_of(data: bytes) -> str:
    """By what a repair knows the bytes that it closed."""
    return hashlib.sha256(data).hexdigest()


def _at(head: Head, size: int) -> Head:
    return Head(head.seq, head.hash, head.file, size, head.oldest, head.oldest_prev)


def _remove(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _is_empty(file: Path) -> bool:
    return file.exists() and file.stat().st_size == 0


def _flock(fd: int, patience: float) -> None:
    # Never a blocking flock: a server that was stopped in the middle would stop all others.
    end, pause = time.monotonic() + patience, 0.00005
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 0.002)
        else:
            return
