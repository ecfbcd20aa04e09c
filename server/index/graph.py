"""The vault as a graph: what is near a note, what stands alone, what is asked for and missing."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

from server.index.backlinks import Backlinks
from server.index.rows import COLUMNS, Row, row_of
from server.index.schema import at_once, select
from server.index.sets import MEMBER, Sets
from server.index.visible import Detour, Detours, SeenResolver, Sight, Visible

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
_MAY_SEE = "(?1 IS NULL OR {})".format(MEMBER.replace("?", "?1"))
_ALONE = (
    f"SELECT n.id FROM notes n WHERE n.kind='note' AND {_MAY_SEE.format(id='n.id')} "  # noqa: S608
    "AND NOT EXISTS(SELECT 1 FROM links l WHERE l.src=n.id AND l.dst IS NOT l.src "
    "AND NOT (?2 AND (l.src || ' ' || l.n) IN (SELECT value FROM json_each(?3)))) "
    "AND NOT EXISTS(SELECT 1 FROM links l WHERE l.dst=n.id AND l.src<>n.id "
    f"AND {_MAY_SEE.format(id='l.src')}) ORDER BY n.path"
)
_WANTED = (
    "SELECT l.name_lc, count(*) {links} WHERE l.dst IS NULL AND l.name_lc IS NOT NULL AND {seen} "
    "GROUP BY l.name_lc"
)
_WANTED_AT_ALL = _WANTED.format(
    links="FROM links l INDEXED BY links_open", seen=_MAY_SEE.format(id="l.src")
)
_WANTED_BY_NOTES = _WANTED.format(
    links="FROM json_each(?) j CROSS JOIN links l ON l.src=j.value", seen="1"
)
_ASKING = (
    "SELECT s.path, l.n, l.target, l.src FROM links l INDEXED BY links_open "
    "CROSS JOIN notes s ON s.id=l.src WHERE l.dst IS NULL AND l.name_lc=? ORDER BY s.path, l.n"
)
_NODE = "SELECT id, path, title FROM notes WHERE id=?"
_ROW = f"SELECT {COLUMNS} FROM notes WHERE id=?"  # noqa: S608 - our own names
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
    """Questions about links. What `sight` refuses is not walked through, counted or named: links to
    it lead nowhere, or to another file that has the name. None sees all.
    """

    def neighbours(
        self,
        start: Row,
        sight: Sight | None = None,
        *,
        depth: int,
        direction: Direction,
        limit: int,
        tags: bool = False,
    ) -> Neighbourhood:
        """The `limit` nearest nodes, breadth first: at one distance by links, then by path."""
        nodes = {start.id: Node(start.id, start.path, start.title, 0)}
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            edge, truncated = [start.id], False
            for distance in range(1, depth + 1):
                found = [
                    (-count, path, note, title)
                    for (note, path, title), count in _around(db, edge, direction, detours).items()
                    if note not in nodes and (seen is None or seen.has(note))
                ]
                room = limit + 1 - len(nodes)
                truncated = len(found) > room
                edge = []
                for _, path, note, title in sorted(found)[:room]:
                    nodes[note] = Node(note, path, title, distance)
                    edge.append(note)
                if truncated or not edge:
                    break
            edges = _between(db, nodes.values(), detours)
            shown = list(nodes.values())
            if tags:
                _add_tags(db, shown, edges)
        most = _EDGES * (limit + 1)
        return Neighbourhood(shown, edges[:most], truncated or len(edges) > most)

    def orphans(
        self, sight: Sight | None = None, *, limit: int, offset: int
    ) -> tuple[list[Row], int]:
        """A page of the notes that have no links to or from others, in path order, and how many."""
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            # Every note has to be looked at: worth keeping until something changes.
            ids = sets.get(
                ("alone", None if seen is None else sight),
                lambda: _alone(db, seen, detours),
                lambda found: 64 + 8 * len(found),
            )
            page = [select(db, _ROW, note)[0] for note in ids[offset : offset + limit]]
        return [row_of(row) for row in page], len(ids)

    def unresolved(
        self,
        sight: Sight | None = None,
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
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            lost = [link for link in detours.to.get(None, ()) if of is None or link.src in of]
            rows = _wanted(db, seen, of, lost)
            missing = []
            for name, count in rows[offset : offset + limit]:
                asking = _asking(db, name, seen, of, lost)
                spelled = next(iter(asking.values()))
                missing.append(Missing(spelled, count, list(asking)))
        return missing, len(rows)

    def resolve(
        self, source: Row, targets: Iterable[str], sight: Sight | None = None
    ) -> list[int | None]:
        """The ids of the files that the targets of links mean in a note."""
        with self._read() as db, at_once(db):
            resolver = SeenResolver(db, self._visible(Sets(db, self._sets), sight))
            return [resolver.resolve(target, source.path, source.id) for target in targets]

    def is_unique(self, row: Row) -> bool:
        """Whether no other file has the name by which a link would ask for this one."""
        return self._all(_NAMESAKES, row.id) == [(1,)]


def _around(
    db: apsw.Connection, notes: Sequence[int], direction: Direction, detours: Detours
) -> dict[tuple[int, str, str | None], int]:
    found: dict[tuple[int, str, str | None], int] = {}

    def add(note: int, path: str, title: str | None, count: int) -> None:
        found[note, path, title] = found.get((note, path, title), 0) + count

    for way, statement in (("out", _OUT), ("in", _IN)):
        if direction in (way, "both"):
            for row in select(db, statement, json.dumps(notes)):
                add(*row)
            known = detours.of if way == "out" else detours.to
            for link in (link for note in notes for link in known.get(note, ())):
                other = link.dst if way == "out" else link.src
                if other is not None and link.src != link.dst:
                    note, path, title = select(db, _NODE, other)[0]
                    add(note, path, title, 1)
    return found


def _between(db: apsw.Connection, nodes: Iterable[Node], detours: Detours) -> list[Edge]:
    order = {node.id: (n, node.path) for n, node in enumerate(nodes)}
    counts = {(src, dst): n for src, dst, n in select(db, _BETWEEN, json.dumps(list(order)))}
    for link in (link for note in order for link in detours.of.get(note, ())):
        if link.dst in order and link.dst != link.src:
            counts[link.src, link.dst] = counts.get((link.src, link.dst), 0) + 1
    rows = [(src, dst, count) for (src, dst), count in counts.items()]
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


def _alone(db: apsw.Connection, seen: Visible | None, detours: Detours) -> list[int]:
    # A link that only seems to lead to its own note is no link to another.
    own = json.dumps([f"{link.src} {link.n}" for link in detours.all if link.dst == link.src])
    marks = None if seen is None else seen.marks
    found = [note for (note,) in select(db, _ALONE, marks, own != "[]", own)]
    return [note for note in found if all(link.src == note for link in detours.to.get(note, ()))]


def _wanted(
    db: apsw.Connection, seen: Visible | None, of: set[int] | None, lost: Iterable[Detour]
) -> list[tuple[str, int]]:
    if of is not None:
        rows = select(db, _WANTED_BY_NOTES, json.dumps(sorted(of)))
    else:
        rows = select(db, _WANTED_AT_ALL, None if seen is None else seen.marks)
    counts: dict[str, int] = dict(rows)
    for link in lost:
        if link.name is not None:
            counts[link.name] = counts.get(link.name, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _asking(
    db: apsw.Connection,
    name: str,
    seen: Visible | None,
    of: set[int] | None,
    lost: Iterable[Detour],
) -> dict[str, str]:
    """The first notes that ask for a name, each with how it spells it."""
    found = [(link.path, link.n, link.target) for link in lost if link.name == name]
    others: set[str] = set()
    for path, n, target, src in db.execute(_ASKING, (name,)):
        if (of is None or src in of) and (seen is None or seen.has(src)):
            found.append((path, n, target))
            others.add(path)
            if len(others) == _EXAMPLES:
                break
    asking: dict[str, str] = {}
    for path, _, target in sorted(found):
        if len(asking) < _EXAMPLES:
            asking.setdefault(path, target)
    return asking
