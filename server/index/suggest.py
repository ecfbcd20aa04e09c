"""Near misses: what somebody who asked for a path that isn't there may have meant."""

import difflib
from collections.abc import Callable, Iterator

import apsw

from server.index.names import bare, folder_of, key_of
from server.index.schema import select

_MOST = 400
_COMPARED = 200
_CLOSE = 0.75


def near_misses(
    db: apsw.Connection, path: str, limit: int, match: Callable[[str], bool] | None
) -> list[str]:
    """Up to `limit` paths, the likeliest first; only those that `match` lets pass."""
    found: dict[str, None] = {}
    for candidate in _candidates(db, path):
        if candidate != path and (match is None or match(candidate)):
            found[candidate] = None
            if len(found) >= limit:
                break
    return list(found)


def _candidates(db: apsw.Connection, path: str) -> Iterator[str]:
    key = key_of(path.strip("/"))
    for same in (key, f"{key}.md"):
        yield from _paths(db, "key=?", (same,))
    file = key.rpartition("/")[2]
    folder = key_of(folder_of(path))
    name = bare(file)
    alike = [
        row for wanted in dict.fromkeys((name, file)) for row in _paths(db, "name_lc=?", (wanted,))
    ]
    yield from sorted(alike, key=lambda row: (-_ratio(key_of(folder_of(row)), folder), len(row)))
    close = [(_score(row, name, folder), row) for row in _similar(db, name)]
    yield from (row for score, row in sorted(close, key=_best_first) if score >= _CLOSE)


def _similar(db: apsw.Connection, name: str) -> list[str]:
    """Paths whose name is spelled much like `name`.

    An edit spoils one piece of a name, seldom two, so SQLite sifts all names by how many pieces
    are intact; only the best are worth Python's exact and slow comparison.
    """
    if len(name) < 3:
        return []
    size = -(-len(name) // 6)
    pieces = [name[at : at + size] for at in range(0, len(name), size)]
    intact = " + ".join(["(instr(name_lc, ?) > 0)"] * len(pieces))
    rows = select(
        db,
        f"SELECT DISTINCT name_lc, {intact} AS intact FROM notes "  # noqa: S608 - our own words
        "WHERE name_lc IS NOT NULL AND length(name_lc) BETWEEN ? AND ? AND intact >= ? "
        "ORDER BY intact DESC, abs(length(name_lc) - ?), name_lc LIMIT ?",
        *pieces,
        len(name) - 3,
        len(name) + 3,
        max(1, len(pieces) - 2),
        len(name),
        _COMPARED,
    )
    best = sorted(((_ratio(name, other), other) for other, _ in rows), key=_best_first)[:20]
    return [path for _, other in best for path in _paths(db, "name_lc=?", (other,))]


def _score(path: str, name: str, folder: str) -> float:
    key = key_of(path)
    near = 0.1 if folder_of(key) == folder else 0.0
    return _ratio(bare(key.rpartition("/")[2]), name) + near


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _best_first(item: tuple[float, str]) -> tuple[float, int, str]:
    return -item[0], len(item[1]), item[1]


def _paths(db: apsw.Connection, condition: str, bindings: tuple[str, ...]) -> list[str]:
    statement = (
        f"SELECT path FROM notes WHERE {condition} ORDER BY length(path), path LIMIT {_MOST}"  # noqa: S608 - our own words
    )
    return [path for (path,) in db.execute(statement, bindings)]
