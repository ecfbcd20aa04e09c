"""Pages of what there is for people and clients to choose from: notes, beginnings of paths, values."""

from typing import Any

from server.index.names import key_of
from server.index.rows import COLUMNS, Row, row_of
from server.index.schema import at_once, select
from server.index.sets import MEMBER, Sets
from server.index.visible import Sight, Visible, Visibles
from server.models import Kind

_END = "char(0x10ffff)"
_LATEST = (1 << 63) - 1
_NEWEST = (
    f"SELECT {COLUMNS} FROM notes n WHERE kind='note' "  # noqa: S608 - our own names
    "AND mtime_ns <= ?1 AND (mtime_ns < ?1 OR path > ?2) {seen} "
    "ORDER BY mtime_ns DESC, path LIMIT ?3"
)
# Two ranges, each by an index of its own: a path, or the last name in it.
_BEGINNING = (
    f"SELECT path, 0 AS by_name FROM notes n WHERE key >= ?1 AND key < ?1 || {_END} "  # noqa: S608
    "AND kind = ?2 {seen} UNION ALL "
    f"SELECT path, 1 FROM notes n WHERE name_lc >= ?1 AND name_lc < ?1 || {_END} "
    f"AND kind = ?2 AND NOT (key >= ?1 AND key < ?1 || {_END}) {{seen}}"
)
_VALUES = (
    "SELECT min(CASE WHEN type='num' THEN folded ELSE value END), count(*) FROM props n "  # noqa: S608
    f"WHERE key_lc=?1 AND folded >= ?2 AND folded < ?2 || {_END} "
    "AND folded <> '' AND type NOT IN ('null', 'json') {seen} GROUP BY folded"
)
_TOP = (
    "SELECT substr(path, 1, instr(path, '/') - 1), count(*) FROM notes n "
    "WHERE kind='note' AND instr(path, '/') > 0 {seen} GROUP BY 1"
)


class Pages(Visibles):
    """Every answer is cut to what `sight` lets be seen before it is counted; None sees all."""

    def newest(
        self, after: tuple[int, str] | None, limit: int, sight: Sight | None = None
    ) -> list[Row]:
        """Notes, the latest modified first; `after` is the time and path of the last one known."""
        time_ns, path = after if after is not None else (_LATEST, "")
        rows = self._seen_rows(_NEWEST, sight, time_ns, path, limit)
        return [row_of(row) for row in rows]

    def beginning(
        self, prefix: str, kind: Kind, limit: int, sight: Sight | None = None
    ) -> tuple[list[str], int]:
        """Paths that begin so, then those whose last name does; and how many there are in all."""
        rows = self._seen_rows(_BEGINNING, sight, key_of(prefix), kind)
        rows.sort(key=lambda row: (row[1], row[0]))
        return [path for path, _ in rows[:limit]], len(rows)

    def values_of(
        self, key: str, prefix: str, limit: int, sight: Sight | None = None
    ) -> tuple[list[str], int]:
        """The values of a property that begin so, the most frequent first, and how many there are."""
        rows = self._seen_rows(_VALUES, sight, key_of(key), key_of(prefix), of="n.note")
        rows.sort(key=lambda row: (-row[1], str(row[0])))
        return [str(value) for value, _ in rows[:limit]], len(rows)

    def top_folders(self, sight: Sight | None = None) -> list[tuple[str, int]]:
        """The folders in the vault's root with how many notes are below each, the fullest first."""
        rows = self._seen_rows(_TOP, sight)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def _seen_rows(
        self, statement: str, sight: Sight | None, *bindings: Any, of: str = "n.id"
    ) -> list[tuple[Any, ...]]:
        with self._read() as db, at_once(db):
            seen: Visible | None = self._visible(Sets(db, self._sets), sight)
            if seen is None:
                return select(db, statement.format(seen=""), *bindings)
            number = f"?{len(bindings) + 1}"
            condition = f"AND {MEMBER.format(id=of).replace('?', number)}"
            return select(db, statement.format(seen=condition), *bindings, seen.marks)
