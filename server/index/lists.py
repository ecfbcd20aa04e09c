"""Lists of what is there, as far as it may be seen: below a folder, under a name, beside a note."""

from collections.abc import Sequence
from typing import Any

from server.index.names import key_of
from server.index.reads import Match
from server.index.rows import COLUMNS, Row, row_of
from server.index.schema import at_once, select
from server.index.sets import MEMBER, Sets
from server.index.suggest import near_misses
from server.index.visible import Sight, Visible, Visibles
from server.models import Kind

_ROW = f"SELECT {COLUMNS} FROM notes"  # noqa: S608 - our own names
_MEMBER = MEMBER.format(id="id")
_TO = "SELECT src FROM links WHERE dst=?1 AND src<>?1"
_OUT = "SELECT count(*) FROM links WHERE src=?1 AND src IS NOT dst"
_NEAR_OUT = "SELECT d.id, d.path FROM links l JOIN notes d ON d.id=l.dst WHERE l.src=? ORDER BY l.n"
_NEAR_IN = (
    "SELECT s.id, s.path FROM links l JOIN notes s ON s.id=l.src WHERE l.dst=? ORDER BY s.path, l.n"
)


class Lists(Visibles):
    """Every answer is cut to what `sight` lets be seen before it is counted; None sees all."""

    def match(self, path: str, sight: Sight | None = None) -> list[Row]:
        """Every row whose path is this one whatever its case and Unicode form."""
        with self._read() as db, at_once(db):
            seen = self._visible(Sets(db, self._sets), sight)
            rows = map(row_of, select(db, f"{_ROW} WHERE key=? ORDER BY path", key_of(path)))
            return [row for row in rows if seen is None or seen.has(row.id)]

    def suggest(self, path: str, limit: int = 3, sight: Sight | None = None) -> list[str]:
        """Paths that may have been meant by one that isn't there, the likeliest first."""
        with self._read() as db, at_once(db):
            seen = self._visible(Sets(db, self._sets), sight)
            return near_misses(db, path, limit, None if seen is None else seen.marks)

    def children(
        self,
        folder: str = "",
        depth: int | None = None,
        kind: Kind | None = None,
        match: Match | None = None,
        *,
        sight: Sight | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[list[Row], int]:
        """One page of what is below a folder, in path order, and how much there is in all."""
        with self._read() as db, at_once(db):
            seen = self._visible(Sets(db, self._sets), sight)
            where, bindings = _below(folder, depth, kind, seen)
            if match is None:
                total = select(db, f"SELECT count(*) FROM notes {where}", *bindings)[0][0]  # noqa: S608
                page = f"{_ROW} {where} ORDER BY path LIMIT ? OFFSET ?"
                return [row_of(row) for row in select(db, page, *bindings, limit, offset)], total
            rows = select(db, f"SELECT id, path FROM notes {where} ORDER BY path", *bindings)  # noqa: S608
            ids = [note for note, path in rows if match(path)]
            chosen = [
                select(db, f"{_ROW} WHERE id=?", note) for note in ids[offset : offset + limit]
            ]
            return [row_of(found[0]) for found in chosen], len(ids)

    def paths(
        self,
        match: Match | None = None,
        limit: int | None = None,
        kind: Kind | None = "note",
        *,
        sight: Sight | None = None,
    ) -> list[str]:
        """Paths in order, of notes unless told otherwise."""
        with self._read() as db, at_once(db):
            seen = self._visible(Sets(db, self._sets), sight)
            where, bindings = _below("", None, kind, seen)
            rows = select(db, f"SELECT path FROM notes {where} ORDER BY path", *bindings)  # noqa: S608
        found: list[str] = []
        for (path,) in rows:
            if limit is not None and len(found) >= limit:
                break
            if match is None or match(path):
                found.append(path)
        return found

    def count(self, sight: Sight | None = None) -> int:
        """How many notes there are."""
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen = self._visible(sets, sight)
            return (sets.all if seen is None else sets.all & seen.notes).bit_count()

    def evicted(self, sight: Sight | None = None) -> int:
        """How many notes are not in the full-text index."""
        with self._read() as db, at_once(db):
            seen = self._visible(Sets(db, self._sets), sight)
            if seen is None:
                return int(select(db, "SELECT evicted FROM fulltext_sum")[0][0])
            gone = select(db, "SELECT note FROM fulltext WHERE held=0")
            return sum(seen.has(note) for (note,) in gone)

    def link_counts(self, path: str, sight: Sight | None = None) -> tuple[int, int]:
        """How many links of other notes lead here, and how many lead from here to elsewhere."""
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            ids = select(db, "SELECT id FROM notes WHERE path=?", path)
            if not ids:
                return 0, 0
            note = ids[0][0]
            inward = sum(seen is None or seen.has(src) for (src,) in select(db, _TO, note))
            inward += sum(link.src != note for link in detours.to.get(note, ()))
            outward = select(db, _OUT, note)[0][0]
            outward -= sum(link.dst == note for link in detours.of.get(note, ()))
            return inward, outward

    def linked(self, path: str, sight: Sight | None = None) -> tuple[list[str], list[str]]:
        """The files that a note links to, and the notes that link to it, in the links' order."""
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            ids = select(db, "SELECT id FROM notes WHERE path=?", path)
            if not ids:
                return [], []
            note = ids[0][0]
            out = _seen_paths(select(db, _NEAR_OUT, note), seen)
            inward = _seen_paths(select(db, _NEAR_IN, note), seen)
            inward += [link.path for link in detours.to.get(note, ())]
            for link in detours.of.get(note, ()):
                if link.dst is not None:
                    out += [
                        row[0] for row in select(db, "SELECT path FROM notes WHERE id=?", link.dst)
                    ]
            return list(dict.fromkeys(out)), sorted(dict.fromkeys(inward))


def _seen_paths(rows: Sequence[tuple[Any, ...]], seen: Visible | None) -> list[str]:
    return [path for note, path in rows if seen is None or seen.has(note)]


def _below(
    folder: str, depth: int | None, kind: Kind | None, seen: Visible | None
) -> tuple[str, list[Any]]:
    conditions, bindings = ["1"], list[Any]()
    if depth == 1:
        conditions.append("folder_id = (SELECT id FROM folders WHERE path = ?)")
        bindings.append(folder)
    elif folder:
        conditions.append("path > ? AND path < ?")
        bindings += [folder + "/", folder + "0"]
    if depth is not None and depth > 1:
        conditions.append("length(path) - length(replace(path, '/', '')) < ?")
        bindings.append(depth + (folder.count("/") + 1 if folder else 0))
    if kind is not None:
        conditions.append("kind = ?")
        bindings.append(kind)
    if seen is not None:
        conditions.append(_MEMBER)
        bindings.append(seen.marks)
    return "WHERE " + " AND ".join(conditions), bindings
