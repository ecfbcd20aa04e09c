"""Search: what meets a query, exactly counted, one page at a time.

Whatever narrows a search (conditions, scopes, what may be seen) does so before anything is
counted or ranked. As long as the index doesn't change, all pages belong to one order without ties.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import apsw

from server.index.conditions import MATCHING, Conditions, Scope, expression
from server.index.ranking import Ranking, Sort, ordered
from server.index.rows import COLUMNS, Row, row_of
from server.index.schema import at_once, select
from server.index.sets import Sets
from server.index.visible import Sight, Visible, Visibles
from server.query.tree import And, Node, Not, Or, Text, both, either, wanted_texts

__all__ = ["Finds", "Found", "FoundNote", "Scope", "Sort"]

_ROWS = f"SELECT {COLUMNS} FROM notes WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
_TAGS = (
    "SELECT note, tag FROM json_each(?) CROSS JOIN tags ON note=value WHERE direct ORDER BY tag_lc"
)
_PROPERTIES = (
    "SELECT p.note, p.key, p.listed, p.type, "
    "iif(typeof(p.value)='text', substr(p.value, 1, 300), p.value) "
    "FROM json_each(?) j CROSS JOIN props p ON p.note=j.value WHERE p.n < 60 ORDER BY p.note, p.n"
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


class Finds(Visibles):
    """The part of the index that answers queries."""

    def find(
        self,
        node: Node | None,
        *,
        scopes: Sequence[Scope] = (),
        sight: Sight | None = None,
        sort: Sort = "relevance",
        limit: int = 20,
        offset: int = 0,
    ) -> Found:
        """The notes that meet `node` (None: all) in one of the scopes and may be seen.

        No scopes mean the whole vault; None for the sight means all of it. `created` has the
        newest first, by the property `created` or `date`, or else by when the note was modified.
        """
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            search = _Search(sets, node, scopes, self._visible(sets, sight))
            page = search.page(sort, limit, offset)
            return Found(search.total, _found(db, page))


class _Search:
    """One query at one moment: all hits as a set, and pages of them."""

    def __init__(
        self,
        sets: Sets,
        node: Node | None,
        scopes: Sequence[Scope],
        seen: Visible | None,
    ) -> None:
        self._sets = sets
        self._texts = list(wanted_texts(node))
        self._text, others = _parted(node)
        found = None if self._text is None else sets.select(MATCHING, self._text)
        conditions = Conditions(sets, found)
        narrowed = [conditions.meet(inner) for inner in others]
        if scopes:
            narrowed.append(conditions.inside(scopes))
        if seen is not None:
            narrowed.append(seen.notes)
        self._within = reduce(and_, narrowed) if narrowed else None
        given = [notes for notes in (found, self._within) if notes is not None]
        # Conditions are met by notes alone; scopes and what may be seen hold other files too.
        self._hits = reduce(and_, given if node is not None else [*given, sets.all])
        self.total = self._hits.bit_count()

    def page(self, sort: Sort, limit: int, offset: int) -> list[tuple[int, float | None]]:
        """The ids and scores of one page."""
        if not limit or offset >= self.total:
            return []
        if sort == "relevance" and self._texts:
            query = self._text or str(expression(either(list(self._texts))))
            ranking = Ranking(self._sets, self._hits, query, self._texts, self._within)
            return [*ranking.page(limit, offset)]
        score = 1.0 if sort == "relevance" else None
        return [(note, score) for note in ordered(self._sets, self._hits, sort, limit, offset)]


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


def _found(db: apsw.Connection, page: list[tuple[int, float | None]]) -> list[FoundNote]:
    ids = json.dumps([note for note, _ in page])
    rows = {row.id: row for row in map(row_of, select(db, _ROWS, ids))}
    tags: dict[int, list[str]] = {}
    for note, tag in select(db, _TAGS, ids):
        tags.setdefault(note, []).append(tag)
    properties: dict[int, dict[str, Any]] = {}
    for note, key, listed, kind, stored in select(db, _PROPERTIES, ids):
        value = bool(stored) if kind == "bool" else stored
        values = properties.setdefault(note, {})
        values[key] = [*values.get(key, []), value] if listed else value
    return [
        FoundNote(rows[note], tuple(tags.get(note, ())), properties.get(note, {}), score)
        for note, score in page
    ]
