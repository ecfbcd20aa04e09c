"""One look at the mirror's segments: files that stay, and whose bytes they are.

Rows and files are seen as they were at one moment, so that a note which changes during a search
is found as it was rather than lost.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from server.index.mirror import Mirror
from server.index.rows import Located
from server.index.schema import select

_OWNERS = (
    "SELECT path, offset, length FROM notes WHERE segment=?1 AND offset >= "
    "(SELECT coalesce(max(offset), 0) FROM notes WHERE segment=?1 AND offset<=?2) "
    "ORDER BY offset LIMIT ?3"
)
_PLACES = (
    "SELECT path, segment, offset, length FROM notes WHERE segment IS NOT NULL "
    "AND path > ?1 AND (?2 = '' OR path < ?2) ORDER BY segment, offset"
)
_MOST = 256
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Gathered:
    """The texts of some notes one after another, each with a line end behind it."""

    data: bytearray
    _notes: list[tuple[str, int]]
    _starts: list[int]

    def owner(self, offset: int) -> tuple[str, int] | None:
        """The note that owns a byte, and the byte's offset in it; None for what is between notes."""
        at = bisect_right(self._starts, offset) - 1
        path, length = self._notes[at]
        inside = offset - self._starts[at]
        return (path, inside) if inside < length else None

    def text(self, path: str) -> bytes:
        """The text of one of the notes."""
        at = next(at for at, (name, _) in enumerate(self._notes) if name == path)
        start, length = self._starts[at], self._notes[at][1]
        return bytes(self.data[start : start + length])


class Reading:
    """Belongs to the thread that opened it. `segments` are (number, file)."""

    def __init__(
        self, db: apsw.Connection, mirror: Mirror, segments: list[tuple[int, Path]]
    ) -> None:
        self.segments = segments
        self._db = db
        self._mirror = mirror
        self._segment = 0
        self._begin = self._end = 0
        self._rows: list[tuple[Any, ...]] = []
        self._starts: list[int] = []
        self._ahead = 1

    def locate(self, segment: int, offset: int) -> Located | None:
        """The note that owns a byte of a segment, or None when it belongs to no live note."""
        if segment != self._segment or not self._begin <= offset < self._end:
            self._look(segment, offset)
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return None
        path, start, length = self._rows[at]
        return Located(path, start, length) if offset < start + length else None

    def _look(self, segment: int, offset: int) -> None:
        """Learn who owns the bytes from `offset` on: far ahead while the questions come densely."""
        near = segment == self._segment and offset - self._end <= self._end - self._begin
        self._ahead = min(2 * self._ahead, _MOST) if near else max(self._ahead // 2, 1)
        self._rows = rows = select(self._db, _OWNERS, segment, offset, self._ahead)
        self._starts = [start for _, start, _ in rows]
        self._segment = segment
        self._begin = min([offset, *self._starts[:1]])
        self._end = rows[-1][1] + rows[-1][2] if len(rows) == self._ahead else sys.maxsize

    def gather(self, folder: str, allowed: Callable[[str], bool], most: int) -> Gathered | None:
        """The texts of the allowed notes below a folder ("" is the vault); None beyond `most` bytes."""
        below, end = (f"{folder}/", f"{folder}0") if folder else ("", "")
        rows = [row for row in select(self._db, _PLACES, below, end) if allowed(row[0])]
        if sum(length + 1 for *_, length in rows) > most:
            return None
        data, notes, starts = bytearray(), list[tuple[str, int]](), list[int]()
        for run in _runs(rows):
            _, segment, offset, _ = run[0]
            _, _, last, length = run[-1]
            text = self._mirror.read(segment, offset, last + length - offset)
            if text is None:
                continue
            starts += [len(data) + at - offset for _, _, at, _ in run]
            notes += [(path, size) for path, _, _, size in run]
            data += text + b"\n"
        return Gathered(data, notes, starts)

    def text(self, segment: int, note: Located) -> bytes | None:
        """The bytes of a located note, as the search saw them."""
        return self._mirror.read(segment, note.start, note.length)


def _runs(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows whose texts lie one after another: those of a folder mostly do, and one read takes them."""
    run: list[tuple[Any, ...]] = []
    for row in rows:
        if run and (row[1], row[2]) != (run[-1][1], run[-1][2] + run[-1][3] + 1):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


@contextmanager
def reading(db: apsw.Connection, mirror: Mirror) -> Iterator[Reading]:
    """Hold the segments and the rows of one moment; `db` is borrowed for the whole block."""
    for attempt in range(1, _ATTEMPTS + 1):
        with mirror.reading() as segments, db:
            select(db, "SELECT 1 FROM notes LIMIT 1")
            # Compaction between holding the files and seeing the rows would part them.
            if mirror.numbers() == [number for number, _ in segments] or attempt == _ATTEMPTS:
                yield Reading(db, mirror, segments)
                return
