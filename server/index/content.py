"""The rows that belong to one note and go with it: tags to tasks, full text, its own links."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from server.index.facts import Facts, Values
from server.index.fulltext import Texts
from server.index.links import Resolver
from server.index.schema import DETAILS, select
from server.index.tallies import count_in
from server.index.values import comparable, created

_COLUMNS = {
    "tags": "tag_lc, tag, direct",
    "props": "n, key_lc, key, listed, type, value, folded, number, moment",
    "aliases": "n, alias_lc, alias",
    "headings": "n, level, text, line, start",
    "blocks": "n, block, line, start",
    "tasks": "n, mark, text, line, done",
}
_COUNTED = ("tags", "props")
"""Tables whose rows are counted when they come: both are replaced, or neither."""
_OTHERS = tuple(table for table in DETAILS if table not in _COUNTED)


def _insert(table: str, columns: str) -> str:
    places = ", ".join("?" * (columns.count(",") + 2))
    return f"INSERT INTO {table}(note, {columns}) VALUES({places})"


_INSERTS = {table: _insert(table, columns) for table, columns in _COLUMNS.items()}
_STORED = {
    table: f"SELECT {columns} FROM {table} WHERE note=? ORDER BY 1"  # noqa: S608 - our own names
    for table, columns in _COLUMNS.items()
}
_DELETES = {table: f"DELETE FROM {table} WHERE note=?" for table in DETAILS}  # noqa: S608
_LINK = (
    "INSERT INTO links(src, dst, n, kind, embed, target, name_lc, sub, alias, line, pos, end) "
    f"VALUES({', '.join('?' * 12)})"
)
_CREATED = "UPDATE notes SET created_ns=? WHERE id=?"
_LINKS = (
    "SELECT n, kind, embed, target, name_lc, sub, alias, line, pos, end FROM links "
    "WHERE src=? ORDER BY n"
)
_PLACED = "UPDATE links SET line=?, pos=?, end=? WHERE src=? AND n=?"
_CLEAR = (
    *_DELETES.values(),
    "DELETE FROM links WHERE src=?",
    "DELETE FROM fulltext WHERE note=?",
)

Content = tuple[int, str, Facts]
"""A note's id and path, and what it says."""


def insert_content(
    db: apsw.Connection,
    notes: Sequence[Content],
    resolver: Resolver,
    texts: Texts,
    used_ns: Mapping[int, int],
) -> None:
    """Store what the notes say; their rows in `notes` are there already."""
    for table in DETAILS:
        rows = [(note, *row) for note, _, facts in notes for row in _rows(facts, table)]
        db.executemany(_INSERTS[table], rows)
    db.executemany(
        _LINK, [row for note, path, facts in notes for row in _links(note, path, facts, resolver)]
    )
    count_in(db, [note for note, _, _ in notes])
    _date_and_hold(db, notes, texts, used_ns)


def replace_content(
    db: apsw.Connection,
    notes: Sequence[Content],
    resolver: Resolver,
    texts: Texts,
    used_ns: Mapping[int, int],
) -> None:
    """`insert_content` for notes that said something else before: what they still say stays."""
    counted = []
    for note, path, facts in notes:
        if any(_differs(db, note, facts, table) for table in _COUNTED):
            counted.append(note)
            for table in _COUNTED:
                _replace_rows(db, note, facts, table)
        for table in _OTHERS:
            if _differs(db, note, facts, table):
                _replace_rows(db, note, facts, table)
        _replace_links(db, note, path, facts, resolver)
    if counted:
        count_in(db, counted)
    db.executemany("DELETE FROM fulltext WHERE note=?", [(note,) for note, _, _ in notes])
    texts.drop(note for note, _, _ in notes)
    _date_and_hold(db, notes, texts, used_ns)


def clear_content(db: apsw.Connection, notes: Iterable[int], texts: Texts) -> None:
    """Delete what the notes say; links of others that lead to them are left to be resolved."""
    bindings = [(note,) for note in notes]
    if bindings:
        for statement in _CLEAR:
            db.executemany(statement, bindings)
        texts.drop(note for (note,) in bindings)


def _date_and_hold(
    db: apsw.Connection, notes: Sequence[Content], texts: Texts, used_ns: Mapping[int, int]
) -> None:
    dated = [(when, note) for note, _, facts in notes if (when := created(facts.props)) is not None]
    db.executemany(_CREATED, dated)
    texts.hold([(note, used_ns[note], facts.text) for note, _, facts in notes if facts.text])


def _rows(facts: Facts, table: str) -> list[Values]:
    """The rows of a note for a table, in the order of its key."""
    rows: tuple[Values, ...] = getattr(facts, table)
    if table == "props":
        return [(*row, *comparable(*row[-2:])) for row in rows]
    return sorted(rows) if table == "tags" else list(rows)


def _differs(db: apsw.Connection, note: int, facts: Facts, table: str) -> bool:
    stored, rows = select(db, _STORED[table], note), _rows(facts, table)
    # 1 and 1.0 are equal, but not the same value of a property.
    return stored != rows or (table == "props" and _kinds(stored) != _kinds(rows))


def _kinds(rows: Iterable[Values]) -> list[list[bool]]:
    return [[isinstance(value, float) for value in row] for row in rows]


def _replace_rows(db: apsw.Connection, note: int, facts: Facts, table: str) -> None:
    db.execute(_DELETES[table], (note,))
    db.executemany(_INSERTS[table], [(note, *row) for row in _rows(facts, table)])


def _links(note: int, path: str, facts: Facts, resolver: Resolver, first: int = 0) -> list[Values]:
    return [(note, resolver.resolve(link[3], path, note), *link) for link in facts.links[first:]]


def _replace_links(
    db: apsw.Connection, note: int, path: str, facts: Facts, resolver: Resolver
) -> None:
    """Links that only moved in the text keep what they lead to: who takes a name sees to that."""
    stored = select(db, _LINKS, note)
    same, moved = 0, []
    for old, new in zip(stored, facts.links, strict=False):
        if old[:-3] != new[:-3]:
            break
        if old[-3:] != new[-3:]:
            moved.append((*new[-3:], note, new[0]))
        same += 1
    db.executemany(_PLACED, moved)
    if same < len(stored):
        db.execute("DELETE FROM links WHERE src=? AND n>=?", (note, same))
    db.executemany(_LINK, _links(note, path, facts, resolver, same))
