"""Which file a link means, by Obsidian's rules, and who must be asked again when names change.

The order: the exact vault path, the source's own folder, then the shortest path that ends in the
target (equal lengths: the first in order). `./` and `../` are relative to the source, a leading
slash means the vault's root; these three match exactly or not at all.
"""

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

import apsw

from server.index.names import bare, folder_of, key_of, target_name


class _Namesakes:
    """The files that share one name, ready to answer many targets."""

    def __init__(self, rows: Iterable[tuple[int, str, str, str]]) -> None:
        found = [
            (len(path), path, bare(key) if kind == "note" else key, note)
            for note, path, key, kind in rows
        ]
        self._ordered = sorted(found)
        self._exact: dict[str, int] = {}
        for _, _, key, note in self._ordered:
            self._exact.setdefault(key, note)
        self._endings: dict[str, int | None] = {}

    def exact(self, key: str) -> int | None:
        return self._exact.get(key)

    def ending(self, key: str) -> int | None:
        if "/" not in key:
            return self._ordered[0][3] if self._ordered else None
        if key not in self._endings:
            tail = "/" + key
            self._endings[key] = next(
                (note for _, _, other, note in self._ordered if other.endswith(tail)), None
            )
        return self._endings[key]


Names = dict[str, _Namesakes]
"""Who has which name; the writer keeps it between transactions and forgets what changed."""


class Resolver:
    """Resolves links against the names as they are in one transaction."""

    def __init__(self, db: apsw.Connection, names: Names | None = None) -> None:
        self._db = db
        self._names: Names = {} if names is None else names

    def resolve(self, target: str, source: str, source_id: int) -> int | None:
        """The id of the file that `target` means in the note `source`, or None."""
        if not target:
            return source_id
        name = target_name(target)
        if name is None:
            return None
        namesakes = self._namesakes(name)
        key, folder = bare(key_of(target).rstrip()), key_of(folder_of(source))
        if key.startswith("/"):
            return namesakes.exact(key.lstrip("/"))
        if key.startswith(("./", "../")) or "/../" in key:
            return namesakes.exact(posixpath.normpath(posixpath.join(folder, key)))
        found = namesakes.exact(key)
        if found is None and folder:
            found = namesakes.exact(f"{folder}/{key}")
        return found if found is not None else namesakes.ending(key)

    def _namesakes(self, name: str) -> _Namesakes:
        found = self._names.get(name)
        if found is None:
            rows = self._db.execute(
                "SELECT id, path, key, kind FROM notes WHERE name_lc=?", (name,)
            )
            found = self._names[name] = _Namesakes(rows)
        return found


class _Asked(NamedTuple):
    src: int
    n: int
    target: str
    dst: int | None
    path: str


def refresh_names(db: apsw.Connection, resolver: Resolver, names: Iterable[str | None]) -> None:
    """Resolve again every link that asks for one of `names`."""
    for name in set(names) - {None}:
        rows = db.execute(
            "SELECT l.src, l.n, l.target, l.dst, s.path FROM links l JOIN notes s ON s.id=l.src "
            "WHERE l.name_lc=?",
            (name,),
        ).fetchall()
        _refresh(db, resolver, map(_Asked._make, rows))


def refresh_source(db: apsw.Connection, resolver: Resolver, source: int) -> None:
    """Resolve again every link of one note: its folder may have changed."""
    rows = db.execute(
        "SELECT l.src, l.n, l.target, l.dst, s.path FROM links l JOIN notes s ON s.id=l.src "
        "WHERE l.src=?",
        (source,),
    ).fetchall()
    _refresh(db, resolver, map(_Asked._make, rows))


def _refresh(db: apsw.Connection, resolver: Resolver, links: Iterable[_Asked]) -> None:
    changed = [
        (found, link.src, link.n)
        for link in links
        if (found := resolver.resolve(link.target, link.path, link.src)) != link.dst
    ]
    db.executemany("UPDATE links SET dst=? WHERE src=? AND n=?", changed)
