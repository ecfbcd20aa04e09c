"""What can be asked of the index. Every answer comes from a read-only connection."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from server.errors import Unavailable
from server.index.fulltext import Uses
from server.index.mirror import Mirror
from server.index.pool import Pool
from server.index.reading import Reading, reading
from server.index.rows import COLUMNS, Counts, LinkRow, Located, Row, SnapshotRow, row_of
from server.index.schema import BUDGET, at_once, select
from server.models import Kind

Match = Callable[[str], bool]

_ROW = f"SELECT {COLUMNS} FROM notes"  # noqa: S608 - our own names
_ROW_OF = f"{_ROW} WHERE path=?"
_LINK = (
    "SELECT s.path, d.path, l.kind, l.embed, l.target, l.sub, l.alias, l.line, l.pos, l.end "
    "FROM links l JOIN notes s ON s.id=l.src LEFT JOIN notes d ON d.id=l.dst "
)
_SNAPSHOT = (
    "SELECT path, nullif(disk, path), kind, size, mtime_ns, etag, iif(?, md5, NULL), racy<>0"
    " FROM notes ORDER BY path"
)
_KINDS: Mapping[str, Kind] = {"note": "note", "attachment": "attachment", "folder": "folder"}
_ID = "(SELECT id FROM notes WHERE path=?)"


class Reads:
    """The reading half of the index; any thread may call it at any time."""

    def __init__(self, file: Path, mirror: Mirror, budget: int = BUDGET) -> None:
        self._file = file
        # One reference: who takes rows and texts together must take both of one generation.
        self._parts = (Pool(file, budget=budget), mirror)
        self._uses = Uses()
        self._counted = (-1, Counts(0, 0, 0, 0))

    @property
    def _pool(self) -> Pool:
        return self._parts[0]

    @property
    def _mirror(self) -> Mirror:
        return self._parts[1]

    def get(self, path: str) -> Row | None:
        """The row of exactly this path."""
        return next(iter(self._rows("WHERE path=?", path)), None)

    def get_at_once(self, path: str) -> Row | None:
        """`get` for who may not wait; None, too, while others have to be waited for."""
        with suppress(Unavailable), self._read(wait=False) as db:
            return next(map(row_of, select(db, _ROW_OF, path)), None)
        return None

    def text_at_once(self, row: Row) -> bytes | None:
        """`text` for who may not wait; None, too, when it has just been moved."""
        return self._mirror.text(row.segment, row.offset, row.length, row.etag)

    def text(self, row: Row) -> bytes | None:
        """The note's bytes, or None when the mirror doesn't have them any more."""
        found = self.text_at_once(row)
        if found is not None or row.segment is None:
            return found
        # Compaction may have moved the text since the row was read.
        now = self.get(row.path)
        if now is None or now.etag != row.etag:
            return None
        return self._mirror.text(now.segment, now.offset, now.length, now.etag)

    def use(self, paths: Iterable[str]) -> None:
        """Somebody read or found notes: their full text should be the last to be given up."""
        for path in paths:
            self._uses.add(path)

    def snapshot(self, *, md5: bool = True) -> list[SnapshotRow]:
        """All that is known, in path order, for comparison with the disk.

        Of a large vault that is the most that is in memory at once: rows share what they can, and
        hashes that nothing will be compared with are left out.
        """
        with self._read() as db:
            return [
                SnapshotRow(path, disk or path, _KINDS[kind], *rest)
                for path, disk, kind, *rest in db.execute(_SNAPSHOT, (md5,))
            ]

    def inbound(self, path: str) -> list[LinkRow]:
        """The links that lead here, by source and place."""
        return self._links(f"WHERE l.dst={_ID} ORDER BY s.path, l.n", path)

    def outbound(self, path: str) -> list[LinkRow]:
        """The links of a note, in their order."""
        return self._links(f"WHERE l.src={_ID} ORDER BY l.n", path)

    def locate(self, segment: int, offset: int) -> Located | None:
        """The note that owns a byte of a segment just now; searches use `reading`."""
        with self._read() as db:
            return Reading(db, self._mirror, []).locate(segment, offset)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """The segments, and whose bytes they hold; none of the files goes inside the block."""
        pool, mirror = self._parts
        with self._read(pool) as db, reading(db, mirror) as look:
            yield look

    def counts(self) -> Counts:
        """How much there is of each kind; counted once for each revision."""
        with self._read() as db, at_once(db):
            revision = int(select(db, "SELECT n FROM revision")[0][0])
            known, counts = self._counted
            if known != revision:
                counts = _counts(db)
                self._counted = revision, counts
        return counts

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by part: db, wal, mirror."""
        wal = self._file.with_name(self._file.name + "-wal")
        return {
            "db": self._file.stat().st_size,
            "wal": wal.stat().st_size if wal.exists() else 0,
            "mirror": sum(self._mirror.sizes().values()),
        }

    def fts_count(self, query: str) -> int:
        """How many notes an FTS5 query matches."""
        return int(self._all("SELECT count(*) FROM fts WHERE fts MATCH ?", query)[0][0])

    def _rows(self, where: str, *bindings: Any) -> list[Row]:
        return [row_of(values) for values in self._all(f"{_ROW} {where}", *bindings)]

    def _links(self, where: str, path: str) -> list[LinkRow]:
        return [
            LinkRow(src, dst, kind, bool(embed), *rest)
            for src, dst, kind, embed, *rest in self._all(_LINK + where, path)
        ]

    def _all(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        with self._read() as db:
            return select(db, statement, *bindings)

    def _read(
        self, pool: Pool | None = None, *, wait: bool = True
    ) -> AbstractContextManager[apsw.Connection]:
        return (pool or self._pool).connection(wait=wait)


def _counts(db: apsw.Connection) -> Counts:
    rows = select(db, "SELECT kind, count(*), sum(words) FROM notes GROUP BY kind")
    by_kind = {kind: (count, words) for kind, count, words in rows}
    notes, words = by_kind.get("note", (0, 0))
    attachments, folders = by_kind.get("attachment", (0, 0)), by_kind.get("folder", (0, 0))
    return Counts(notes, attachments[0], folders[0], words)
