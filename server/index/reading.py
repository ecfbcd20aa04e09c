"""One look at the mirror's segments: files that stay, and whose bytes they are.

Rows and files are seen as they were at one moment, so that a note which changes during a search
is found as it was rather than lost.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from server.index.mirror import Mirror
from server.index.rows import Located
from server.index.schema import select

_OWNER = (
    "SELECT path, offset, length FROM notes WHERE segment=? AND offset<=? "
    "ORDER BY offset DESC LIMIT 1"
)
_ATTEMPTS = 5


class Reading:
    """Belongs to the thread that opened it. `segments` are (number, file)."""

    def __init__(
        self, db: apsw.Connection, mirror: Mirror, segments: list[tuple[int, Path]]
    ) -> None:
        self.segments = segments
        self._db = db
        self._mirror = mirror
        self._last: tuple[int, Located] | None = None

    def locate(self, segment: int, offset: int) -> Located | None:
        """The note that owns a byte of a segment, or None when it belongs to no live note."""
        if self._last and self._last[0] == segment:
            last = self._last[1]
            if last.start <= offset < last.start + last.length:
                return last
        rows = select(self._db, _OWNER, segment, offset)
        if not rows or offset >= rows[0][1] + rows[0][2]:
            return None
        found = Located(*rows[0])
        self._last = segment, found
        return found

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
