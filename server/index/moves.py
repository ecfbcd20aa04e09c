"""What moves mean for links: which would lead elsewhere, and where they would lead. Reads only.

Which file a link means depends on its source's folder and on the files that have the name it asks
for. So only links in moved notes and links that ask for a name that comes or goes are in doubt.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from server.index.links import Resolver, _Namesakes
from server.index.names import key_of, link_name
from server.index.rows import Row
from server.index.schema import at_once, select
from server.index.sets import Sets
from server.index.visible import Detours, Sight, Visible, Visibles
from server.markdown.elements import LinkKind
from server.markdown.forms import Ends, folded, is_stale
from server.models import kind_of

After = Callable[[str, str], str | None]
"""Which file a target means in a note, given by its new path, once the moves are made."""

_Named = Iterable[tuple[int, str, str, str]]

_LINK = "SELECT s.id, s.path, l.n, l.target, l.kind, d.path FROM json_each(?) j "
_ASKING = (
    f"{_LINK} CROSS JOIN links l ON l.name_lc=j.value "
    "CROSS JOIN notes s ON s.id=l.src LEFT JOIN notes d ON d.id=l.dst"
)
_MOVING = (
    f"{_LINK} CROSS JOIN notes s ON s.path=j.value "
    "CROSS JOIN links l ON l.src=s.id LEFT JOIN notes d ON d.id=l.dst WHERE l.name_lc IS NOT NULL"
)
_NAMED = "SELECT id, path, key, kind FROM notes WHERE name_lc=?"
_BELOW = "WHERE path > ? AND path < ? AND kind <> 'folder' ORDER BY path"
_SECTION = (
    "SELECT s.id, s.path, l.n, l.target, l.kind, l.sub FROM links l JOIN notes s ON s.id=l.src "
    "WHERE l.sub IS NOT NULL AND "
)
_REFERENCES = _SECTION + "l.dst=(SELECT id FROM notes WHERE path=?)"  # noqa: S608 - our own words
_REFERENCE = _SECTION + "l.src=? AND l.n=?"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A link that has to be looked at: the `n`th of the note `source`, which is its path now.

    It leads to `now` and ought to lead to `wanted`, the same file at its new path; left as it is,
    it would lead to `after`. Where `now` is None a file takes the name of one that was missing;
    where `wanted` and `after` are the same, the link spells a place where the file no longer is.
    """

    source: str
    n: int
    target: str
    kind: LinkKind
    now: str | None
    wanted: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A link to a section of a note: the `n`th of the note `source`."""

    source: str
    n: int
    target: str
    kind: LinkKind
    section: str


class _Foreseen(Resolver):
    """Resolves links against the names that there will be. `ask` knows those that there are."""

    def __init__(
        self,
        ask: Callable[[str], _Named],
        moves: Mapping[str, str],
        created: Iterable[str],
        removed: Iterable[str],
    ) -> None:
        self._ask = ask
        self._names = {}
        self._paths: dict[int, str] = {}
        arriving = dict.fromkeys((*moves.values(), *created))
        self._gone = {*moves, *removed}
        self._arriving: dict[str | None, list[tuple[int, str, str, str]]] = {}
        for n, path in enumerate(arriving):
            key, kind = key_of(path), kind_of(path)
            self._arriving.setdefault(link_name(key, kind), []).append((-1 - n, path, key, kind))

    def lead(self, target: str, source: str) -> str | None:
        """The path of the file that `target` will mean in the note `source`, or None."""
        if not target:
            return source
        found = self.resolve(target, source, 0)
        return None if found is None else self._paths[found]

    def _namesakes(self, name: str) -> _Namesakes:
        found = self._names.get(name)
        if found is None:
            rows = [row for row in self._ask(name) if row[1] not in self._gone]
            rows += self._arriving.get(name, [])
            self._paths.update((note, path) for note, path, _, _ in rows)
            found = self._names[name] = _Namesakes(rows)
        return found


class Moves(Visibles):
    """Questions about files that are going to have another path; `moves` are old and new ones.

    Moves are of files: `files_below` says which a folder takes along. All are made at once, so
    that two files may change places. What `sight` refuses is neither told nor counted with.
    """

    def files_below(self, folder: str) -> list[Row]:
        """Every note and attachment below a folder, in path order."""
        if not folder:
            return self._rows("WHERE kind <> 'folder' ORDER BY path")
        return self._rows(_BELOW, f"{folder}/", f"{folder}0")

    def links_in_doubt(
        self,
        moves: Mapping[str, str],
        *,
        created: Iterable[str] = (),
        removed: Iterable[str] = (),
        sight: Sight | None = None,
    ) -> list[Doubt]:
        """The links that would lead elsewhere or spell a place that is no more, by source and place."""
        come, go = list(created), list(removed)
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            foreseen = _Foreseen(lambda name: _named(db, name, seen), moves, come, go)
            names = {_name(path) for path in (*moves, *moves.values(), *come, *go)}
            asking = select(db, _ASKING, json.dumps(sorted(filter(None, names))))
            moving = select(db, _MOVING, json.dumps(list(moves)))
            links = _as_seen(db, {*asking, *moving}, seen, detours)
            doubts = list(_doubts(links, foreseen, moves, set(go)))
        return sorted(doubts, key=lambda doubt: (doubt.source, doubt.n))

    def after(
        self,
        moves: Mapping[str, str],
        *,
        created: Iterable[str] = (),
        removed: Iterable[str] = (),
        sight: Sight | None = None,
    ) -> After:
        """A way to ask where targets would lead. It asks the index once for every name."""

        def named(name: str) -> _Named:
            with self._read() as db, at_once(db):
                return _named(db, name, self._visible(Sets(db, self._sets), sight))

        return _Foreseen(named, moves, created, removed).lead

    def references_to(
        self, path: str, headings: Iterable[str] | None = None, *, sight: Sight | None = None
    ) -> list[Reference]:
        """The links to sections of a note, its own among them, by source and place.

        With `headings` only those in whose section one of these names occurs.
        """
        wanted = None if headings is None else {folded(heading) for heading in headings}
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            rows = select(db, _REFERENCES, path)
            for note in select(db, "SELECT id FROM notes WHERE path=?", path):
                for link in detours.to.get(note[0], ()):
                    rows += select(db, _REFERENCE, link.src, link.n)
            rows = [row for row in rows if seen is None or seen.has(row[0])]
        found = sorted((Reference(*row) for _, *row in rows), key=lambda one: (one.source, one.n))
        return [link for link in found if wanted is None or wanted & _names_in(link.section)]


def _named(db: apsw.Connection, name: str, seen: Visible | None) -> _Named:
    return [row for row in select(db, _NAMED, name) if seen is None or seen.has(row[0])]


def _as_seen(
    db: apsw.Connection, links: Iterable[tuple[Any, ...]], seen: Visible | None, detours: Detours
) -> Iterator[tuple[Any, ...]]:
    """The links of notes that may be seen, each with the path where it seems to lead."""
    for src, path, n, target, kind, now in links:
        if seen is not None and not seen.has(src):
            continue
        for link in detours.of.get(src, ()):
            if link.n == n:
                rows = select(db, "SELECT path FROM notes WHERE id=?", link.dst or 0)
                now = rows[0][0] if rows else None  # noqa: PLW2901 - what it looks like
        yield path, n, target, kind, now


def _name(path: str) -> str | None:
    return link_name(key_of(path), kind_of(path))


def _names_in(section: str) -> set[str]:
    return {folded(section), *map(folded, section.split("#"))}


def _doubts(
    links: Iterable[tuple[Any, ...]],
    foreseen: _Foreseen,
    moves: Mapping[str, str],
    removed: set[str],
) -> Iterator[Doubt]:
    for source, n, target, kind, now in links:
        new_source = moves.get(source, source)
        if source in removed or kind_of(new_source) != "note":
            continue
        wanted = None if now is None or now in removed else moves.get(now, now)
        after = foreseen.lead(target, new_source)
        moved = new_source != source or wanted != now
        if after != wanted or (
            moved and is_stale(target, kind, Ends(source, new_source, now, wanted))
        ):
            yield Doubt(source, n, target, kind, now, wanted, after)
