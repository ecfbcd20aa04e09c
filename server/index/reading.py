"""One look at the mirror's segments: files that stay, and whose bytes they are.

Rows and files are seen as they were at one moment, so that a note which changes during a search
is found as it was rather than lost.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
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
_MOST = 256
_ATTEMPTS = 5


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

    def text(self, segment: int, note: Located) -> bytes | None:
        """The bytes of a located note, as the search saw them."""
        return self._mirror.read(segment, note.start, note.length)


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
