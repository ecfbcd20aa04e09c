"""The vault as a graph: what is near a note, what stands alone, what is asked for and missing."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

from server.index.backlinks import Backlinks
from server.index.links import Resolver
from server.index.reads import Match
from server.index.rows import Row
from server.index.schema import at_once, select

Direction = Literal["in", "out", "both"]

# `CROSS JOIN` keeps the planner from beginning with the larger side.
_OUT = (
    "SELECT d.id, d.path, d.title, count(*) FROM json_each(?) j CROSS JOIN links l ON l.src=j.value "
    "CROSS JOIN notes d ON d.id=l.dst WHERE l.dst<>l.src GROUP BY d.id"
)
_IN = (
    "SELECT s.id, s.path, s.title, count(*) FROM json_each(?) j CROSS JOIN links l ON l.dst=j.value "
    "CROSS JOIN notes s ON s.id=l.src WHERE l.dst<>l.src GROUP BY s.id"
)
_BETWEEN = (
    "SELECT l.src, l.dst, count(*) FROM json_each(?1) j CROSS JOIN links l ON l.src=j.value "
    "WHERE l.dst<>l.src AND +l.dst IN (SELECT value FROM json_each(?1)) GROUP BY l.src, l.dst"
)
_TAGS = (
    "SELECT t.note, t.tag_lc, t.tag FROM json_each(?) j CROSS JOIN tags t ON t.note=j.value "
    "WHERE t.direct ORDER BY j.key, t.tag_lc"
)
_ALONE = (
    "SELECT n.id FROM notes n WHERE n.kind='note' AND (?1 IS NULL OR n.folder_id IN "
    "(SELECT value FROM json_each(?1))) "
    "AND NOT EXISTS(SELECT 1 FROM links l WHERE l.src=n.id AND l.dst IS NOT l.src) "
    "AND NOT EXISTS(SELECT 1 FROM links l JOIN notes s ON s.id=l.src "
    "WHERE l.dst=n.id AND l.src<>n.id AND (?1 IS NULL OR s.folder_id IN "
    "(SELECT value FROM json_each(?1)))) ORDER BY n.path"
)
_WANTED = (
    "SELECT l.name_lc, count(*) AS wanted {links} WHERE l.dst IS NULL AND l.name_lc IS NOT NULL "
    "GROUP BY l.name_lc ORDER BY wanted DESC, l.name_lc"
)
_WANTED_AT_ALL = _WANTED.format(links="FROM links l INDEXED BY links_open")
_WANTED_IN_FOLDERS = _WANTED.format(
    links="FROM links l INDEXED BY links_open CROSS JOIN notes s ON s.id=l.src "
    "AND s.folder_id IN (SELECT value FROM json_each(?))"
)
_WANTED_BY_NOTES = _WANTED.format(links="FROM json_each(?) j CROSS JOIN links l ON l.src=j.value")
_ASKING = (
    "SELECT s.path, l.target, l.src FROM links l INDEXED BY links_open "
    "CROSS JOIN notes s ON s.id=l.src WHERE l.dst IS NULL AND l.name_lc=? ORDER BY s.path, l.n"
)
_NAMESAKES = "SELECT count(*) FROM notes WHERE name_lc=(SELECT name_lc FROM notes WHERE id=?)"
_EXAMPLES = 3
_EDGES = 3


@dataclass(frozen=True, slots=True)
class Node:
    """A file, or a tag whose `path` begins with `#`, some links away from the start."""

    id: int
    path: str
    title: str | None
    distance: int


@dataclass(frozen=True, slots=True)
class Edge:
    """How many links lead from one node to another."""

    source: str
    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The nearest nodes and the links among them; `truncated` when there was more within reach."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """A name that links ask for and nobody has, with some of the notes that ask."""

    name: str
    count: int
    examples: Sequence[str]


class Graph(Backlinks):
    """Questions about links. Whom `sees` refuses is not walked through, counted or named.

    `folders` are the ids of those whose notes may be seen, None for all of them.
    """

    _alone: tuple[tuple[int, str | None], Sequence[int]] = (-1, None), ()

    def neighbours(
        self,
        start: Row,
        sees: Match,
        *,
        depth: int,
        direction: Direction,
        limit: int,
        tags: bool = False,
    ) -> Neighbourhood:
        """The `limit` nearest nodes, breadth first: at one distance by links, then by path."""
        nodes = {start.id: Node(start.id, start.path, start.title, 0)}
        with self._read() as db, at_once(db):
            edge, truncated = [start.id], False
            for distance in range(1, depth + 1):
                found = [
                    (-count, path, note, title)
                    for (note, path, title), count in _around(db, edge, direction).items()
                    if note not in nodes and sees(path)
                ]
                room = limit + 1 - len(nodes)
                truncated = len(found) > room
                edge = []
                for _, path, note, title in sorted(found)[:room]:
                    nodes[note] = Node(note, path, title, distance)
                    edge.append(note)
                if truncated or not edge:
                    break
            edges = _between(db, nodes.values())
            shown = list(nodes.values())
            if tags:
                _add_tags(db, shown, edges)
        most = _EDGES * (limit + 1)
        return Neighbourhood(shown, edges[:most], truncated or len(edges) > most)

    def orphans(
        self, folders: Collection[int] | None, sees: Match, *, limit: int, offset: int
    ) -> tuple[list[Row], int]:
        """A page of the notes that have no links to or from others, in path order, and how many."""
        chosen = None if folders is None else json.dumps(sorted(folders))
        with self._read() as db, at_once(db):
            revision = select(db, "SELECT n FROM revision")[0][0]
            state, ids = self._alone
            if state != (revision, chosen):
                # Every note has to be looked at: worth keeping until something changes.
                ids = [note for (note,) in select(db, _ALONE, chosen)]
                self._alone = (revision, chosen), ids
        rows = (row for note in ids[offset:] for row in self._rows("WHERE id=?", note))
        visible = (row for row in rows if sees(row.path))
        return [row for row, _ in zip(visible, range(limit), strict=False)], len(ids)

    def unresolved(
        self,
        folders: Collection[int] | None,
        sees: Match,
        *,
        limit: int,
        offset: int,
        within: Iterable[int] | None = None,
    ) -> tuple[list[Missing], int]:
        """A page of the names that nobody has, the most wanted first, and how many there are.

        `within` are the notes whose links count; all that may be seen when it is left out.
        """
        of = None if within is None else set(within)
        with self._read() as db, at_once(db):
            rows = _wanted(db, folders, of)
            missing = []
            for name, count in rows[offset : offset + limit]:
                asking: dict[str, str] = {}
                for path, target, src in db.execute(_ASKING, (name,)):
                    if (of is None or src in of) and sees(path):
                        asking.setdefault(path, target)
                        if len(asking) == _EXAMPLES:
                            break
                if asking:
                    spelled = next(iter(asking.values()))
                    missing.append(Missing(spelled, count, list(asking)))
        return missing, len(rows)

    def resolve(self, source: Row, targets: Iterable[str]) -> list[int | None]:
        """The ids of the files that the targets of links mean in a note."""
        with self._read() as db, at_once(db):
            resolver = Resolver(db)
            return [resolver.resolve(target, source.path, source.id) for target in targets]

    def is_unique(self, row: Row) -> bool:
        """Whether no other file has the name by which a link would ask for this one."""
        return self._all(_NAMESAKES, row.id) == [(1,)]


def _around(
    db: apsw.Connection, notes: Sequence[int], direction: Direction
) -> dict[tuple[int, str, str | None], int]:
    found: dict[tuple[int, str, str | None], int] = {}
    for way, statement in (("out", _OUT), ("in", _IN)):
        if direction in (way, "both"):
            for *node, count in select(db, statement, json.dumps(notes)):
                key = (node[0], node[1], node[2])
                found[key] = found.get(key, 0) + count
    return found


def _between(db: apsw.Connection, nodes: Iterable[Node]) -> list[Edge]:
    order = {node.id: (n, node.path) for n, node in enumerate(nodes)}
    rows = select(db, _BETWEEN, json.dumps(list(order)))
    rows.sort(key=lambda row: (order[row[0]][0] + order[row[1]][0], order[row[0]][0]))
    return [Edge(order[src][1], order[dst][1], count) for src, dst, count in rows]


def _add_tags(db: apsw.Connection, nodes: list[Node], edges: list[Edge]) -> None:
    known = {node.id: node for node in nodes}
    spelled: dict[str, str] = {}
    for note, folded, tag in select(db, _TAGS, json.dumps(list(known))):
        if folded not in spelled:
            spelled[folded] = f"#{tag}"
            nodes.append(Node(0, spelled[folded], None, known[note].distance + 1))
        edges.append(Edge(known[note].path, spelled[folded], 1))


def _wanted(
    db: apsw.Connection, folders: Collection[int] | None, of: set[int] | None
) -> list[tuple[str, int]]:
    if of is not None:
        rows = select(db, _WANTED_BY_NOTES, json.dumps(sorted(of)))
    elif folders is not None:
        rows = select(db, _WANTED_IN_FOLDERS, json.dumps(sorted(folders)))
    else:
        rows = select(db, _WANTED_AT_ALL)
    return [(name, count) for name, count in rows]
