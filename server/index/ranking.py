"""The order of hits: BM25 with the names of a note above its body, and recency between equals.

A match in the title or an alias weighs most, then tags and headings, then the body. What was
modified lately gains up to 5 %, half of it for every 90 days that it lies behind the newest note.
The score is the share of what a note could reach at best for the same words, so it keeps the order
and says how much a note is about them: about 0.4 for one mention in a note of usual length, 0.9 for
one in a title.

When very many notes match, ranking them all takes long and says little. Of more than 2,000 only the
newest are ranked, and those with a word in their names unless they too are many; the others follow
by date. What matches more than 20,000 notes of the vault (2,000 by the beginning of a word, which
takes longest) is not ranked: names first, then by date.
"""

import json
import math
from collections.abc import Sequence
from typing import Literal

from server.index.conditions import MATCHING, expression
from server.index.schema import select
from server.index.sets import MEMBER, Sets, blob, members, of, weight
from server.query.tree import Text, either

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
_RANKED, _VAST = 2_000, 20_000
_NEWEST, _NAMED = 1_000, 1_000
_BY_NAME = 0.9
"""The score of a note that was found by its name and not ranked."""
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
    """The order of some hits by how well they match the texts of their query."""

    def __init__(
        self, sets: Sets, hits: int, query: str, texts: Sequence[Text], within: int | None
    ) -> None:
        """`query` is the FTS5 expression that says how well a note matches; hits are `within`."""
        self._sets = sets
        self._hits = hits
        self._total = hits.bit_count()
        self._query = query
        self._texts = texts
        self._notes = self._count("fts_docsize")
        # As though the notes that may be seen and were asked for were like all others.
        among = self._notes if within is None else within.bit_count()
        self._matching = self._total * self._notes / max(1, self._total, among)

    def page(self, limit: int, offset: int) -> Scored:
        """One page of hits with their scores."""
        begins = any(str(expression(text)).endswith("*") for text in self._texts)
        if self._matching > (_RANKED if begins else _VAST):
            first = self._named()
            best = ordered(self._sets, first, "modified_desc", limit, offset)
            page = [(note, _BY_NAME) for note in best]
        else:
            found = self._scored()
            first = of(note for note, _ in found)
            page = self._best(found, offset + limit)[offset:]
        skipped = max(0, offset - first.bit_count())
        if len(page) < limit and first != self._hits:
            others = self._hits & ~first
            rest = ordered(self._sets, others, "modified_desc", limit - len(page), skipped)
            page += [(note, 0.0) for note in rest]
        return page

    def _scored(self) -> Scored:
        """The hits that are to be ranked and match one of the texts, with BM25's raw values.

        The best come first.
        """
        chosen = self._hits if self._total <= _RANKED else self._newest() | self._named()
        # To match a phrase again for every page takes longer than all the rest.
        return self._sets.get(
            ("scores", self._query, chosen),
            lambda: self._score(chosen),
            lambda found: weight(chosen) + 100 * len(found),
        )

    def _score(self, chosen: int) -> Scored:
        where = f"fts MATCH ? AND {MEMBER.format(id='rowid')}"
        statement = f"SELECT rowid, {_BM25} FROM fts WHERE {where}"  # noqa: S608 - our own words
        rows = select(self._sets.db, statement, self._query, blob(chosen))
        return sorted(((note, -rank) for note, rank in rows), key=lambda hit: -hit[1])

    def _newest(self) -> int:
        """Some hundred of the newest hits, by sets of the newest notes that other queries share."""
        notes = self._notes
        count = 1 << (_NEWEST * notes // self._total).bit_length()
        while True:
            source = "notes WHERE kind='note' ORDER BY mtime_ns DESC LIMIT ?"
            recent = self._sets.select(f"id FROM (SELECT id FROM {source})", count)  # noqa: S608
            found = self._hits & recent
            if found.bit_count() >= _NEWEST // 2 or count >= notes:
                return found
            count *= 4

    def _named(self) -> int:
        """The hits with one of the texts in their names, unless they are many."""
        names = expression(either(list(self._texts)))
        query = f"{{title aliases}} : ({names})"
        named = self._hits & self._sets.select(MATCHING, query)
        return named if named.bit_count() <= _NAMED else 0

    def _best(self, found: Scored, count: int) -> Scored:
        """The first `count` of them with final scores, the best first and equals by path."""
        if len(found) > count:
            # Recency can't lift a hit over the last one of the page from further below.
            least = found[count - 1][1] / (1 + _GAIN)
            found = [hit for hit in found if hit[1] >= least]
        raw = dict(found)
        newest = select(self._sets.db, "SELECT max(mtime_ns) FROM notes WHERE kind='note'")[0][0]
        rows = select(
            self._sets.db,
            "SELECT n.id, n.mtime_ns, n.path FROM json_each(?) j JOIN notes n ON n.id=j.value",
            json.dumps(list(raw)),
        )
        settled = []
        for note, mtime_ns, path in rows:
            gain = 1 + _GAIN * 0.5 ** ((newest - mtime_ns) / _HALF_LIFE_NS)
            settled.append((-raw[note] * gain, path, note))
        ideal = self._ideal()
        settled.sort()
        return [(note, min(1.0, -worth / ideal)) for worth, _, note in settled[:count]]

    def _ideal(self) -> float:
        """What a note would get that is about nothing but the texts."""
        notes, counts = self._notes, [self._matching]
        if len(self._texts) > 1:
            queries = map(expression, self._texts[:_COUNTED])
            counts = [self._count("fts WHERE fts MATCH ?", str(query)) for query in queries]
        rarity = (max(1e-6, math.log((notes - n + 0.5) / (n + 0.5))) for n in counts)
        return sum(rarity) * _REACH * len(self._texts) / len(counts)

    def _count(self, source: str, *bindings: str) -> int:
        statement = f"SELECT count(*) FROM {source}"  # noqa: S608 - our own words
        return self._sets.get(
            (statement, bindings),
            lambda: int(select(self._sets.db, statement, *bindings)[0][0]),
            lambda _: 64,
        )
