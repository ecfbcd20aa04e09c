"""What the conditions of a query mean: FTS5 expressions for texts, sets of notes for the rest."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_

from server.index.names import key_of
from server.index.schema import select
from server.index.sets import Sets, members, of, weight
from server.index.text import phrase
from server.index.values import Asked, asked
from server.query.tree import (
    And,
    FileHas,
    Node,
    Not,
    Or,
    PathHas,
    PropertyTest,
    Scalar,
    TagIs,
    Text,
)

MATCHING = "rowid FROM fts WHERE fts MATCH ?"
_FEW = 5_000
_KEYED = "note FROM props WHERE key_lc=?"
_COMPARED = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the vault: what is at or below `path`, and of that what the glob matches."""

    path: str = ""
    glob: str = ""
    match: Callable[[str], bool] | None = field(default=None, compare=False)


def expression(node: Node) -> str | None:
    """The FTS5 query for a tree of texts; None when FTS5 alone can't answer it."""
    match node:
        case Text(words, prefix):
            found = phrase(words)
            return f"{found} *" if prefix and not found.endswith("*") else found
        case Or(nodes):
            sides = [expression(inner) for inner in nodes]
            return None if None in sides else f"({' OR '.join(map(str, sides))})"
        case And(nodes):
            return _conjunction(nodes)
        case _:
            return None


def _conjunction(nodes: Iterable[Node]) -> str | None:
    wanted: list[str | None] = []
    unwanted: list[str | None] = []
    for node in nodes:
        if isinstance(node, Not):
            unwanted.append(expression(node.node))
        else:
            wanted.append(expression(node))
    if not wanted or None in wanted or None in unwanted:
        return None
    both = f"({' AND '.join(map(str, wanted))})"
    return f"({both} NOT ({' OR '.join(map(str, unwanted))}))" if unwanted else both


class Conditions:
    """Turns nodes into sets of notes. Only notes `among` some matter, if those are given."""

    def __init__(self, sets: Sets, among: int | None = None) -> None:
        self._sets = sets
        self._among = among

    def meet(self, node: Node) -> int:
        """The notes that meet a condition."""
        if (query := expression(node)) is not None:
            return self._sets.select(MATCHING, query)
        match node:
            case Not(inner):
                return self._sets.all & ~self.meet(inner)
            case And(nodes):
                return reduce(and_, map(self.meet, nodes))
            case Or(nodes):
                return reduce(or_, map(self.meet, nodes))
            case PropertyTest():
                return self._property(node)
            case _:
                return self._place(node)

    def inside(self, scopes: Iterable[Scope]) -> int:
        """What is in one of the scopes; attachments too."""
        return reduce(or_, map(self._scope, scopes), 0)

    def _place(self, node: TagIs | PathHas | FileHas | Text) -> int:
        match node:
            case TagIs(tag):
                return self._sets.select("note FROM tags WHERE tag_lc=?", key_of(tag))
            case PathHas(part):
                return self._spelled("notes_key", "instr(notes.key, ?)", part)
            case FileHas(part):
                return self._spelled("notes_name", "instr(name_lc || '.md', ?)", part)
            case Text():
                raise AssertionError("every text has an expression")

    def _spelled(self, index: str, where: str, part: str) -> int:
        """The notes whose path or name contains this; all are looked through unless few matter."""
        if self._among is not None and self._among.bit_count() <= _FEW:
            few = json.dumps(list(members(self._among)))
            source = f"json_each(?) j CROSS JOIN notes ON notes.id=j.value WHERE {where}"
            statement = f"SELECT notes.id FROM {source}"  # noqa: S608 - our own words
            return of(note for (note,) in select(self._sets.db, statement, few, key_of(part)))
        source = f"id FROM notes INDEXED BY {index} WHERE {where}"
        # Attachments have paths and names too.
        return self._sets.all & self._sets.select(source, key_of(part))

    def _scope(self, scope: Scope) -> int:
        key = key_of(scope.path)
        where, bindings = "1", tuple[str, ...]()
        if key:
            where, bindings = "key=? OR (key>? AND key<?)", (key, key + "/", key + "0")
        if scope.match is None:
            return self._sets.select(f"id FROM notes WHERE {where}", *bindings)
        statement = f"SELECT id, path FROM notes WHERE {where}"  # noqa: S608 - our own words
        return self._sets.get(scope, lambda: self._matching(scope, statement, bindings), weight)

    def _matching(self, scope: Scope, statement: str, bindings: tuple[str, ...]) -> int:
        rows = select(self._sets.db, statement, *bindings)
        return of(note for note, path in rows if scope.match is None or scope.match(path))

    def _property(self, test: PropertyTest) -> int:
        key, op, value = key_of(test.key), test.op, test.value
        if op == "exists":
            there = self._sets.select(_KEYED, key)
            return there if value else self._sets.all & ~there
        if op == "in" or isinstance(value, tuple):
            values = value if isinstance(value, tuple) else (value,)
            return reduce(or_, (self._equal(key, item) for item in values), 0)
        if op == "eq":
            return self._equal(key, value)
        if op == "ne":
            return self._sets.all & ~self._equal(key, value)
        if op == "contains":
            return self._containing(key, asked(value))
        return self._ordered(key, op, asked(value))

    def _containing(self, key: str, wanted: Asked) -> int:
        text = wanted.folded[0]
        found = self._sets.select(f"{_KEYED} AND instr(folded, ?)", key, text)
        if wanted.span and " " in text:
            # Date-times are stored with a T, whatever they were written with.
            text = text.replace(" ", "t")
            found |= self._sets.select(f"{_KEYED} AND instr(folded, ?)", key, text)
        return found

    def _equal(self, key: str, value: Scalar) -> int:
        wanted = asked(value)
        spelled = (self._sets.select(f"{_KEYED} AND folded=?", key, text) for text in wanted.folded)
        found = reduce(or_, spelled, 0)
        if wanted.span:
            found |= self._sets.select(f"{_KEYED} AND moment>=? AND moment<?", key, *wanted.span)
        return found

    def _ordered(self, key: str, op: str, wanted: Asked) -> int:
        """Numbers compare with numbers, moments with moments, and texts with what is shown."""
        sign, found = _COMPARED[op], 0
        if wanted.number is not None:
            found |= self._sets.select(f"{_KEYED} AND number{sign}?", key, wanted.number)
        if wanted.span:
            # After a span means after its end; up to a span includes it.
            first, after = wanted.span
            edge = {"gt": ("moment>=?", after), "lte": ("moment<?", after)}
            where, moment = edge.get(op, (f"moment{sign}?", first))
            found |= self._sets.select(f"{_KEYED} AND {where}", key, moment)
        if wanted.number is None and not wanted.span:
            where = f"folded{sign}? AND folded<>'' AND number IS NULL"
            found |= self._sets.select(f"{_KEYED} AND {where}", key, wanted.folded[0])
        return found
