"""The packed local copy of every note's bytes: append-only segment files for ripgrep and reads.

A note's bytes are followed by a newline, so that no line spans two notes. What a crash leaves
behind a segment's last row is dead weight, never wrong: a row's text counts only when it has the
row's etag. Appending belongs to the index's one writer; reading is free.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from server.models import etag_of

SEGMENT_BYTES = 32 * 1024 * 1024

_NAME = re.compile(r"(\d{8,})\.seg")


class Mirror:
    """Segments by number. A number is never used twice within the life of the index's rows."""

    def __init__(self, folder: Path, after: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`after`: the highest number that any row still names."""
        self._folder = folder
        self._place = str(folder)
        self._limit = segment_bytes
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()
        self._retired: set[int] = set()
        folder.mkdir(mode=0o700, exist_ok=True)
        self._live = set(_numbers(folder))
        self._current = max(self._live, default=0)
        self._last = max(self._current, after)
        self._fd: int | None = None
        self._end = 0

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def segment_bytes(self) -> int:
        """The size at which a segment ends."""
        return self._limit

    @property
    def current(self) -> int:
        """The segment that is being appended to; 0 when the next append begins one."""
        return self._current

    def path(self, segment: int) -> Path:
        return self._folder / _name(segment)

    def read(self, segment: int, offset: int, length: int) -> bytes | None:
        """The bytes at a place, or None when the segment doesn't have them any more."""
        try:
            fd = os.open(f"{self._place}/{_name(segment)}", os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            data = os.pread(fd, length, offset)
        finally:
            os.close(fd)
        return data if len(data) == length else None

    def text(
        self, segment: int | None, offset: int | None, length: int | None, etag: str | None
    ) -> bytes | None:
        """The text of a row, or None when what is at its place doesn't have its etag."""
        if segment is None or offset is None or length is None:
            return None
        data = self.read(segment, offset, length)
        return data if data is not None and etag_of(data) == etag else None

    def append(self, texts: Iterable[bytes]) -> list[tuple[int, int]]:
        """Write the texts; the (segment, offset) of each. A failed write leaves only dead bytes."""
        places: list[tuple[int, int]] = []
        batch = bytearray()
        self._ready()
        for text in texts:
            used = self._end + len(batch)
            if used and used + len(text) >= self._limit:
                self._flush(batch)
                batch.clear()
                self.rotate()
                self._ready()
            places.append((self._current, self._end + len(batch)))
            batch += text
            batch += b"\n"
        self._flush(batch)
        return places

    def rotate(self) -> None:
        """End the current segment; the next append begins another."""
        self.close()
        self._current = 0

    def sync(self) -> None:
        """Put on disk what was appended, so that rows which survive a power cut find their text."""
        if (fd := self._fd) is not None:
            with suppress(OSError):
                os.fsync(fd)

    def numbers(self) -> list[int]:
        """The live segments."""
        with self._lock:
            return sorted(self._live)

    def sizes(self) -> dict[int, int]:
        """The size of every live segment whose file is there."""
        found = {}
        for segment in self.numbers():
            with suppress(FileNotFoundError):
                found[segment] = self.path(segment).stat().st_size
        return found

    @contextmanager
    def reading(self) -> Iterator[list[tuple[int, Path]]]:
        """The live segments; their files stay until the block ends."""
        with self._lock:
            live = sorted(self._live)
            self._held.update(live)
        try:
            yield [(segment, self.path(segment)) for segment in live]
        finally:
            with self._lock:
                self._held.subtract(live)
                self._sweep()

    def retire(self, segments: Iterable[int]) -> None:
        """Forget segments that no row names; their files go when nobody reads them."""
        with self._lock:
            self._retired.update(segments)
            self._live -= self._retired
            if self._current in self._retired:
                self.rotate()
            self._sweep()

    def _sweep(self) -> None:
        for segment in [number for number in self._retired if not self._held[number]]:
            self.path(segment).unlink(missing_ok=True)
            self._retired.discard(segment)
            del self._held[segment]

    def _ready(self) -> None:
        """Have a segment to append to: the open one, the newest of an earlier run, or a new one."""
        if self._fd is not None:
            if os.fstat(self._fd).st_nlink:
                return
            self.rotate()
        if self.sizes().get(self._current, self._limit) >= self._limit:
            self._last += 1
            self._current = self._last
            with self._lock:
                self._live.add(self._current)
        self._fd = os.open(self.path(self._current), os.O_RDWR | os.O_CREAT, 0o600)
        self._end = os.fstat(self._fd).st_size
        if self._end and os.pread(self._fd, 1, self._end - 1) != b"\n":
            # A crash cut a text off; the next one must not share its last line.
            try:
                self._flush(b"\n")
            except OSError:
                self.close()
                raise

    def _flush(self, batch: bytes | bytearray) -> None:
        assert self._fd is not None  # noqa: S101 - `_ready` opened it
        view = memoryview(batch)
        done = 0
        while done < len(view):
            done += os.pwrite(self._fd, view[done:], self._end + done)
        view.release()
        self._end += done


def _name(segment: int) -> str:
    return f"{segment:08d}.seg"


def _numbers(folder: Path) -> list[int]:
    return [int(found[1]) for name in os.listdir(folder) if (found := _NAME.fullmatch(name))]
