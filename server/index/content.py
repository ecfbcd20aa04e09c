"""The rows that belong to one note and go with it: tags to tasks, full text, its own links."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from server.index.facts import Facts
from server.index.fulltext import Texts
from server.index.links import Resolver
from server.index.schema import DETAILS
from server.index.tallies import count_in
from server.index.values import comparable, created

_INSERTS = {
    "tags": "INSERT INTO tags(note, tag_lc, tag, direct) VALUES(?,?,?,?)",
    "props": (
        "INSERT INTO props(note, n, key_lc, key, listed, type, value, folded, number, moment) "
        f"VALUES({', '.join('?' * 10)})"
    ),
    "aliases": "INSERT INTO aliases(note, n, alias_lc, alias) VALUES(?,?,?,?)",
    "headings": "INSERT INTO headings(note, n, level, text, line, start) VALUES(?,?,?,?,?,?)",
    "blocks": "INSERT INTO blocks(note, n, block, line, start) VALUES(?,?,?,?,?)",
    "tasks": "INSERT INTO tasks(note, n, mark, text, line, done) VALUES(?,?,?,?,?,?)",
}
_LINK = (
    "INSERT INTO links(src, dst, n, kind, embed, target, name_lc, sub, alias, line, pos, end) "
    f"VALUES({', '.join('?' * 12)})"
)
_CREATED = "UPDATE notes SET created_ns=? WHERE id=?"
_CLEAR = (
    *(f"DELETE FROM {table} WHERE note=?" for table in DETAILS),  # noqa: S608 - our own names
    "DELETE FROM links WHERE src=?",
    "DELETE FROM fulltext WHERE note=?",
)


def insert_content(
    db: apsw.Connection,
    notes: Sequence[tuple[int, str, Facts]],
    resolver: Resolver,
    texts: Texts,
    used_ns: Mapping[int, int],
) -> None:
    """Store what the notes (id, path, facts) say; their rows in `notes` are there already."""
    for table, statement in _INSERTS.items():
        rows = [(note, *row) for note, _, facts in notes for row in getattr(facts, table)]
        if table == "props":
            rows = [(*row, *comparable(*row[-2:])) for row in rows]
        db.executemany(statement, rows)
    dated = [(when, note) for note, _, facts in notes if (when := created(facts.props)) is not None]
    db.executemany(_CREATED, dated)
    links = [
        (note, resolver.resolve(link[3], path, note), *link)
        for note, path, facts in notes
        for link in facts.links
    ]
    db.executemany(_LINK, links)
    count_in(db, [note for note, _, _ in notes])
    texts.hold([(note, used_ns[note], facts.text) for note, _, facts in notes if facts.text])


def clear_content(db: apsw.Connection, notes: Iterable[int], texts: Texts) -> None:
    """Delete what the notes say; links of others that lead to them are left to be resolved."""
    bindings = [(note,) for note in notes]
    if bindings:
        for statement in _CLEAR:
            db.executemany(statement, bindings)
        texts.drop(note for (note,) in bindings)
