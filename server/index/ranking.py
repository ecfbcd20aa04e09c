"""The order of hits: BM25 with the names of a note above its body, and recency between equals.

A match in the title or an alias weighs most, then tags and headings, then the body. What was
modified lately gains up to 5 %, half of it for every 90 days that it lies behind the newest note.
The score is the share of what a note could reach at best for the same words, so it keeps the order
and says how much a note is about them: about 0.4 for one mention in a note of usual length, 0.9 for
one in a title.

When very many notes match, ranking them all takes long and says little. Then only the newest of
them are ranked, and those with a word in their names unless they too are many; the others follow by
date.
"""

import json
import math
from collections.abc import Sequence
from typing import Literal

from server.index.conditions import expression
from server.index.schema import select
from server.index.sets import MEMBER, Sets, blob, members, of
from server.query.tree import Node, Text, either

Sort = Literal["relevance", "modified_desc", "path_asc", "created", "title"]
Scored = list[tuple[int, float]]

_ORDERS: dict[Sort, tuple[str, str]] = {
    "relevance": ("notes_modified", "n.mtime_ns DESC, n.path"),
    "modified_desc": ("notes_modified", "n.mtime_ns DESC, n.path"),
    "created": ("notes_created", "coalesce(n.created_ns, n.mtime_ns) DESC, n.path"),
    "title": ("notes_title", "n.title COLLATE NOCASE, n.path"),
    "path_asc": ("sqlite_autoindex_notes_1", "n.path"),
}
_BM25 = "bm25(fts, 10, 8, 3, 4, 1)"
_GAIN, _HALF_LIFE_NS = 0.05, 90 * 86_400 * 1_000_000_000
_REACH = 2.2 * (1 + _GAIN)
"""What BM25 gives at most for a word, in units of its rarity (k1 is 1.2), and recency on top."""
_COUNTED = 8
_RANKED, _NEWEST, _NAMED = 2_000, 1_000, 1_000
"""Up to how many hits all are ranked; of more, how many of the newest and of those by name."""
_WALK_COST = 0.13
"""What a step along an index costs, measured in rows that are fetched and sorted."""


def ordered(sets: Sets, notes: int, sort: Sort, limit: int, offset: int = 0) -> list[int]:
    """One page of a set in an order: along its index when the set is dense, else by sorting."""
    index, order = _ORDERS[sort]
    count = notes.bit_count()
    if not count:
        return []
    steps = (offset + limit) * (notes.bit_length() / 8) / count
    if count < steps * _WALK_COST:
        source = "json_each(?) j CROSS JOIN notes n ON n.id=j.value"
        chosen: str | bytes = json.dumps(list(members(notes)))
    else:
        source = f"notes n INDEXED BY {index} WHERE n.kind='note' AND {MEMBER.format(id='n.id')}"
        chosen = blob(notes)
    statement = f"SELECT n.id FROM {source} ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608
    return [note for (note,) in select(sets.db, statement, chosen, limit, offset)]


class Ranking:
    """The hits of a query that match one of its texts, the best first."""

    def __init__(self, sets: Sets, query: str, texts: Sequence[Text], within: int | None) -> None:
        """`query` is the FTS5 expression that hits match or are ranked by."""
        self._sets = sets
        self._query = query
        self._texts = texts
        self._within = within
        self._notes = self._count("fts_docsize")

    def best(self, total: int, count: int) -> tuple[Scored, int]:
        """The first `count` ranked hits of `total`, with scores, and the set of all ranked ones."""
        chosen = self._within if total <= _RANKED else self._chosen(total)
        found = self._scored(chosen)
        ranked = of(note for note, _ in found)
        if len(found) > count:
            # Recency can't lift a hit over the last one of the page from further below.
            found.sort(key=lambda hit: -hit[1])
            least = found[count - 1][1] / (1 + _GAIN)
            found = [hit for hit in found if hit[1] >= least]
        return self._settled(found, self._ideal(total))[:count], ranked

    def _scored(self, within: int | None) -> Scored:
        source, bindings = matching(self._query, within)
        statement = f"SELECT rowid, {_BM25} FROM {source}"  # noqa: S608 - our own words
        return [(note, -rank) for note, rank in select(self._sets.db, statement, *bindings)]

    def _chosen(self, total: int) -> int:
        """The notes to be ranked: all hits by name, and so many recent notes that some hundred match."""
        among = self._notes if self._within is None else self._within.bit_count()
        recent = self._recent(1 << (_NEWEST * among // total).bit_length() - 1)
        names: Node = either(list(self._texts))
        source, bindings = matching(f"{{title aliases}} : ({expression(names)})", self._within)
        named = self._sets.fresh(f"rowid FROM {source}", *bindings)
        return recent | named if named.bit_count() <= _NAMED else recent

    def _recent(self, count: int) -> int:
        within = self._within
        if within is None:
            source = "notes WHERE kind='note' ORDER BY mtime_ns DESC, path LIMIT ?"
            return self._sets.select(f"id FROM (SELECT id FROM {source})", count)
        return self._sets.get(
            ("newest", count, within), lambda: of(ordered(self._sets, within, "relevance", count))
        )

    def _ideal(self, total: int) -> float:
        """What a note would get that is about nothing but the texts."""
        notes, counts = self._notes, list[float]()
        if len(self._texts) == 1 and total:
            # As though the notes that one may see and asked for were like all others.
            within = notes if self._within is None else self._within.bit_count()
            counts.append(total * notes / max(total, within))
        else:
            queries = map(expression, self._texts[:_COUNTED])
            counts += [self._count("fts WHERE fts MATCH ?", str(query)) for query in queries]
        rarity = (max(1e-6, math.log((notes - n + 0.5) / (n + 0.5))) for n in counts)
        return sum(rarity) * _REACH * len(self._texts) / len(counts)

    def _count(self, source: str, *bindings: str) -> int:
        return int(select(self._sets.db, f"SELECT count(*) FROM {source}", *bindings)[0][0])  # noqa: S608

    def _settled(self, found: Scored, ideal: float) -> Scored:
        """Hits with final scores, the best first and equals by path."""
        newest = select(self._sets.db, "SELECT max(mtime_ns) FROM notes WHERE kind='note'")[0][0]
        raw = dict(found)
        rows = select(
            self._sets.db,
            "SELECT n.id, n.mtime_ns, n.path FROM json_each(?) j JOIN notes n ON n.id=j.value",
            json.dumps(list(raw)),
        )
        settled = []
        for note, mtime_ns, path in rows:
            gain = 1 + _GAIN * 0.5 ** ((newest - mtime_ns) / _HALF_LIFE_NS)
            settled.append((-raw[note] * gain, path, note))
        return [(note, min(1.0, -worth / ideal)) for worth, _, note in sorted(settled)]


def matching(query: str, within: int | None) -> tuple[str, tuple[str | bytes, ...]]:
    """What to select from, and its bindings: notes that match a query and are in a set."""
    if within is None:
        return "fts WHERE fts MATCH ?", (query,)
    return f"fts WHERE fts MATCH ? AND {MEMBER.format(id='rowid')}", (query, blob(within))
