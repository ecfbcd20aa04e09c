"""Search: what meets a query, exactly counted, one page at a time.

Whatever narrows a search (conditions, scopes, folders that may be seen) does so before anything is
counted or ranked. As long as the index doesn't change, all pages belong to one order without ties.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

import apsw

from server.index.conditions import Conditions, Scope, expression
from server.index.ranking import Ranking, Sort, matching, ordered
from server.index.reads import Reads
from server.index.rows import COLUMNS, Row, row_of
from server.index.schema import at_once, select
from server.index.sets import Cache, Sets
from server.query.tree import And, Node, Not, Or, Text, both, either, wanted_texts

__all__ = ["Finds", "Found", "FoundNote", "Scope", "Sort"]

_ROW = f"SELECT {COLUMNS} FROM notes WHERE id=?"  # noqa: S608 - our own names
_TAGS = "SELECT tag FROM tags WHERE note=? AND direct ORDER BY tag_lc"
_PROPERTIES = (
    "SELECT key, listed, type, iif(typeof(value)='text', substr(value, 1, 300), value) "
    "FROM props WHERE note=? ORDER BY n LIMIT 60"
)


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A hit: its row, its own tags, its properties (long ones cut), and how well it fits in 0..1.

    The score is None unless the order is that of relevance; without a text to match it is 1.
    """

    row: Row
    tags: tuple[str, ...]
    properties: dict[str, Any]
    score: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """One page of hits; `total` counts all of them."""

    total: int
    hits: list[FoundNote]


class Finds(Reads):
    """The part of the index that answers queries."""

    @cached_property
    def _sets(self) -> Cache:
        return Cache()

    def find(
        self,
        node: Node | None,
        *,
        scopes: Sequence[Scope] = (),
        folders: Collection[int] | None = None,
        sort: Sort = "relevance",
        limit: int = 20,
        offset: int = 0,
    ) -> Found:
        """The notes that meet `node` (None: all) in one of the scopes and in one of the folders.

        No scopes mean the whole vault; None for the folders means all of them. `created` has the
        newest first, by the property `created` or `date`, or else by when the note was modified.
        """
        with self._read() as db, at_once(db):
            search = _Search(Sets(db, self._sets), node, scopes, folders)
            page = search.page(sort, limit, offset)
            return Found(search.total, [_found(db, note, score) for note, score in page])


class _Search:
    """One query at one moment: the notes that match `text` (FTS5) and are in the set `within`."""

    def __init__(
        self,
        sets: Sets,
        node: Node | None,
        scopes: Sequence[Scope],
        folders: Collection[int] | None,
    ) -> None:
        self._sets = sets
        self._texts = list(wanted_texts(node))
        conditions = Conditions(sets)
        self._text, others = _parted(node)
        narrowed = [conditions.meet(inner) for inner in others]
        if scopes:
            narrowed.append(conditions.inside(scopes))
        if folders is not None:
            narrowed.append(conditions.seen(folders))
        self._within = reduce(and_, narrowed) if narrowed else None
        self.total = self._count()

    def page(self, sort: Sort, limit: int, offset: int) -> list[tuple[int, float | None]]:
        """The ids and scores of one page."""
        if not limit or offset >= self.total:
            return []
        if sort != "relevance" or not self._texts:
            score = 1.0 if sort == "relevance" else None
            page = ordered(self._sets, self._notes(), sort, limit, offset)
            return [(note, score) for note in page]
        query = self._text or str(expression(either(list(self._texts))))
        ranking = Ranking(self._sets, query, self._texts, self._within)
        best, ranked = ranking.best(self.total, offset + limit)
        found: list[tuple[int, float | None]] = [*best[offset:]]
        missing = limit - len(found)
        if missing and ranked.bit_count() < self.total:
            skipped = max(0, offset - ranked.bit_count())
            rest = self._notes() & ~ranked
            found += [(n, 0.0) for n in ordered(self._sets, rest, sort, missing, skipped)]
        return found

    def _count(self) -> int:
        if self._text is None:
            return self._notes().bit_count()
        source, bindings = matching(self._text, self._within)
        return int(select(self._sets.db, f"SELECT count(*) FROM {source}", *bindings)[0][0])  # noqa: S608

    def _notes(self) -> int:
        """All hits."""
        if self._text is not None:
            source, bindings = matching(self._text, self._within)
            return self._sets.fresh(f"rowid FROM {source}", *bindings)
        return self._sets.all if self._within is None else self._within


def _parted(node: Node | None) -> tuple[str | None, list[Node]]:
    """The FTS5 query for as much as FTS5 can answer, and the conditions to be met besides."""
    if node is None:
        return None, []
    parts = node.nodes if isinstance(node, And) else (node,)
    texts = [part for part in parts if _is_text(part)]
    query = expression(both(texts)) if texts else None
    if query is None:
        return None, list(parts)
    return query, [part for part in parts if not _is_text(part)]


def _is_text(node: Node) -> bool:
    match node:
        case Not(inner):
            return _is_text(inner)
        case And(nodes) | Or(nodes):
            return all(map(_is_text, nodes))
        case _:
            return isinstance(node, Text)


def _found(db: apsw.Connection, note: int, score: float | None) -> FoundNote:
    properties: dict[str, Any] = {}
    for key, listed, kind, stored in select(db, _PROPERTIES, note):
        value = bool(stored) if kind == "bool" else stored
        if listed:
            properties.setdefault(key, []).append(value)
        else:
            properties[key] = value
    tags = tuple(tag for (tag,) in select(db, _TAGS, note))
    return FoundNote(row_of(select(db, _ROW, note)[0]), tags, properties, score)
