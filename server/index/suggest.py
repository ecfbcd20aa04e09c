"""Near misses: what somebody who asked for a path that isn't there may have meant."""

import difflib
from collections.abc import Iterator
from typing import Any

import apsw

from server.index.names import bare, folder_of, key_of
from server.index.schema import select
from server.index.sets import MEMBER

_MOST = 400
_COMPARED = 200
_CLOSE = 0.75


def near_misses(db: apsw.Connection, path: str, limit: int, seen: bytes | None) -> list[str]:
    """Up to `limit` paths, the likeliest first; only those in the set `seen`, if that is given."""
    found: dict[str, None] = {}
    for candidate in _candidates(_Among(db, seen), path):
        if candidate != path:
            found[candidate] = None
            if len(found) >= limit:
                break
    return list(found)


class _Among:
    """The files that count: all of them, or those of a set."""

    def __init__(self, db: apsw.Connection, seen: bytes | None) -> None:
        self._db = db
        self._seen = seen

    def select(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        """All rows of a query; `{seen}` in it stands for the condition that a file counts."""
        if self._seen is None:
            return select(self._db, statement.replace("{seen}", "1"), *bindings)
        at = statement[: statement.index("{seen}")].count("?")
        whole = statement.replace("{seen}", MEMBER.format(id="notes.id"))
        return select(self._db, whole, *bindings[:at], self._seen, *bindings[at:])

    def paths(self, condition: str, binding: str) -> list[str]:
        """Some paths, the shortest first."""
        statement = (
            f"SELECT path FROM notes WHERE {condition} AND {{seen}} "  # noqa: S608 - our own words
            f"ORDER BY length(path), path LIMIT {_MOST}"
        )
        return [path for (path,) in self.select(statement, binding)]


def _candidates(db: "_Among", path: str) -> Iterator[str]:
    key = key_of(path.strip("/"))
    for same in (key, f"{key}.md"):
        yield from db.paths("key=?", same)
    file = key.rpartition("/")[2]
    folder = key_of(folder_of(path))
    name = bare(file)
    alike = [row for wanted in dict.fromkeys((name, file)) for row in db.paths("name_lc=?", wanted)]
    yield from sorted(alike, key=lambda row: (-_ratio(key_of(folder_of(row)), folder), len(row)))
    close = [(_score(row, name, folder), row) for row in _similar(db, name)]
    yield from (row for score, row in sorted(close, key=_best_first) if score >= _CLOSE)


def _similar(db: "_Among", name: str) -> list[str]:
    """Paths whose name is spelled much like `name`.

    An edit spoils one piece of a name, seldom two, so SQLite sifts all names by how many pieces
    are intact; only the best are worth Python's exact and slow comparison.
    """
    if len(name) < 3:
        return []
    size = -(-len(name) // 6)
    pieces = [name[at : at + size] for at in range(0, len(name), size)]
    intact = " + ".join(["(instr(name_lc, ?) > 0)"] * len(pieces))
    rows = db.select(
        f"SELECT DISTINCT name_lc, {intact} AS intact FROM notes "  # noqa: S608 - our own words
        "WHERE {seen} AND name_lc IS NOT NULL AND length(name_lc) BETWEEN ? AND ? AND intact >= ? "
        "ORDER BY intact DESC, abs(length(name_lc) - ?), name_lc LIMIT ?",
        *pieces,
        len(name) - 3,
        len(name) + 3,
        max(1, len(pieces) - 2),
        len(name),
        _COMPARED,
    )
    best = sorted(((_ratio(name, other), other) for other, _ in rows), key=_best_first)[:20]
    return [path for _, other in best for path in db.paths("name_lc=?", other)]


def _score(path: str, name: str, folder: str) -> float:
    key = key_of(path)
    near = 0.1 if folder_of(key) == folder else 0.0
    return _ratio(bare(key.rpartition("/")[2]), name) + near


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _best_first(item: tuple[float, str]) -> tuple[float, int, str]:
    return -item[0], len(item[1]), item[1]
