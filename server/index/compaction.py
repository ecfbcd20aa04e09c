"""Keeps rows and segments in step: what is lost is marked, what is mostly dead is rewritten."""

import apsw

from server.index.mirror import Mirror
from server.index.schema import select

_LOST = "UPDATE notes SET segment=NULL, offset=NULL, length=NULL, etag=NULL, racy=1 WHERE "


class Compaction:
    """Works for the one writer, which holds its lock and opens the transaction."""

    def __init__(self, db: apsw.Connection, mirror: Mirror) -> None:
        self._db = db
        self._mirror = mirror

    def reconcile(self) -> None:
        """After opening: doubt rows whose text is gone, delete segments that no row names.

        Without the first, bytes appended later could be taken for those of a lost text.
        """
        live, sizes = self._live(), self._mirror.sizes()
        with self._db:
            for segment in live:
                self._db.execute(
                    _LOST + "segment=? AND offset+length>?", (segment, sizes.get(segment, -1))
                )
        self._mirror.retire(set(sizes) - set(live))

    def candidates(self, max_dead_ratio: float) -> list[int]:
        """The segments of which more than this part is dead."""
        live = self._live()
        return [
            segment
            for segment, size in self._mirror.sizes().items()
            if size and (size - live.get(segment, 0)) / size > max_dead_ratio
        ]

    def rewrite(self, segment: int) -> int:
        """Copy a segment's live texts to the end of the mirror; the bytes that are dead now."""
        rows = select(
            self._db,
            "SELECT id, segment, offset, length, etag FROM notes WHERE segment=? ORDER BY offset",
            segment,
        )
        if self._mirror.current == segment:
            self._mirror.rotate()
        texts = [(row[0], self._mirror.text(*row[1:])) for row in rows]
        lost = [(note,) for note, text in texts if text is None]
        self._db.executemany(_LOST + "id=?", lost)
        found = [(note, text) for note, text in texts if text is not None]
        places = self._mirror.append(text for _, text in found) if found else []
        self._db.executemany(
            "UPDATE notes SET segment=?, offset=? WHERE id=?",
            [(*place, note) for place, (note, _) in zip(places, found, strict=True)],
        )
        return self._mirror.sizes().get(segment, 0) - sum(len(text) + 1 for _, text in found)

    def _live(self) -> dict[int, int]:
        rows = select(
            self._db,
            "SELECT segment, sum(length + 1) FROM notes WHERE segment IS NOT NULL GROUP BY segment",
        )
        return {row[0]: row[1] for row in rows}
