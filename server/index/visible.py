"""What of the index somebody may see: worked out once for each revision, before anything is counted.

Access is decided by path. A file is what its folder is, unless a rule names the file itself, so that
whole folders are decided at once and only the exceptions one by one.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import apsw

from server.index.links import Resolver, _Namesakes
from server.index.names import folder_of, key_of
from server.index.reads import Reads
from server.index.schema import select
from server.index.sets import MEMBER, Cache, Sets, blob, members, of, weight

_ENTRY_BYTES = 200
_EXCEPTIONS = "SELECT id FROM notes WHERE key=? AND folder_id=? AND kind<>'folder'"
_DETOUR = "SELECT l.src, l.n, l.target, l.name_lc, s.path FROM json_each(?) j CROSS JOIN links l "
_FROM_SEEN = (
    f"{_DETOUR} ON l.src=j.value CROSS JOIN notes s ON s.id=l.src "
    f"WHERE l.dst IS NOT NULL AND NOT {MEMBER.format(id='l.dst')}"
)
_TO_UNSEEN = (
    f"{_DETOUR} ON l.dst=j.value CROSS JOIN notes s ON s.id=l.src WHERE {MEMBER.format(id='l.src')}"
)


class Sight(Protocol):
    """Which paths may be seen; `named` are the keys of all paths that rules name."""

    @property
    def everything(self) -> bool: ...
    @property
    def named(self) -> frozenset[str]: ...
    def __call__(self, path: str) -> bool: ...


class Detour(NamedTuple):
    """A link whose file may not be seen, and where it leads among those that may (None: nowhere)."""

    src: int
    n: int
    target: str
    name: str | None
    path: str
    dst: int | None


@dataclass(frozen=True, slots=True)
class Visible:
    """What may be seen at one revision."""

    notes: int
    """The set of all rows: notes, attachments, and folders that are open or hold something."""
    marks: bytes
    """The same set as SQLite reads it."""
    folders: frozenset[int]
    """The folders that are open: what is in them may be seen, but for `less`."""
    less: dict[int, int] = field(default_factory=dict)
    more: dict[int, int] = field(default_factory=dict)
    """The exceptions, each with its folder: `less` in open folders, `more` in closed ones."""

    def has(self, note: int) -> bool:
        """Whether a row may be seen."""
        return note <= len(self.marks) and self.marks[note - 1] == 1


class Detours:
    """The links that look different to who may not see everything."""

    def __init__(self, found: Iterable[Detour]) -> None:
        self.all = sorted(found, key=lambda link: (link.path, link.n))
        self.of: dict[int, list[Detour]] = {}
        self.to: dict[int | None, list[Detour]] = {}
        for link in self.all:
            self.of.setdefault(link.src, []).append(link)
            self.to.setdefault(link.dst, []).append(link)


NO_DETOURS = Detours(())


class Visibles(Reads):
    """The part of the index that knows who may see what; None stands for who may see all."""

    @cached_property
    def _sets(self) -> Cache:
        return Cache()

    def _visible(self, sets: Sets, sight: Sight | None) -> Visible | None:
        if sight is None or sight.everything:
            return None
        return sets.get(("visible", sight), lambda: _look(sets, sight), _visible_bytes)

    def _detours(self, sets: Sets, sight: Sight | None) -> Detours:
        seen = self._visible(sets, sight)
        if seen is None:
            return NO_DETOURS
        return sets.get(
            ("detours", sight),
            lambda: Detours(_detours(sets, seen)),
            lambda found: _ENTRY_BYTES * (1 + len(found.all)),
        )


class SeenResolver(Resolver):
    """Resolves links as if what may not be seen were not there."""

    def __init__(self, db: apsw.Connection, seen: Visible | None) -> None:
        super().__init__(db)
        self._seen = seen

    def _namesakes(self, name: str) -> _Namesakes:
        found = self._names.get(name)
        if found is None:
            rows = self._db.execute(
                "SELECT id, path, key, kind FROM notes WHERE name_lc=?", (name,)
            )
            found = self._names[name] = _Namesakes(
                row for row in rows if self._seen is None or self._seen.has(row[0])
            )
        return found


def _look(sets: Sets, sight: Sight) -> Visible:
    named: dict[str, list[str]] = {}
    for key in sight.named:
        named.setdefault(folder_of(key), []).append(key)
    folders: set[int] = set()
    less: dict[int, int] = {}
    more: dict[int, int] = {}
    shown: set[str] = set()
    for folder, path in select(sets.db, "SELECT id, path FROM folders"):
        is_open = sight(path)
        if is_open:
            folders.add(folder)
            shown.add(path)
        for key in named.get(key_of(path), ()):
            if key and sight(key) != is_open:
                found = select(sets.db, _EXCEPTIONS, key, folder)
                (less if is_open else more).update((note, folder) for (note,) in found)
                if found and not is_open:
                    shown.add(path)
    ids = ", ".join(map(str, sorted(folders)))
    files = sets.select(f"id FROM notes WHERE kind<>'folder' AND folder_id IN ({ids})")
    files = files & ~of(less) | of(more)
    notes = files | _folder_rows(sets, sight, shown)
    return Visible(notes, blob(notes), frozenset(folders), less, more)


def _folder_rows(sets: Sets, sight: Sight, shown: set[str]) -> int:
    """The rows of folders that are open, or have something below them that may be seen."""
    rows = select(sets.db, "SELECT id, path FROM notes WHERE kind='folder'")
    above = set(shown) | {path for _, path in rows if sight(path)}
    for path in list(above):
        while path := folder_of(path):
            above.add(path)
    return of(note for note, path in rows if path in above)


def _detours(sets: Sets, seen: Visible) -> list[Detour]:
    unseen = sets.select("id FROM notes") & ~seen.notes
    few, statement = seen.notes, _FROM_SEEN
    if unseen.bit_count() < seen.notes.bit_count():
        few, statement = unseen, _TO_UNSEEN
    rows = select(sets.db, statement, json.dumps(list(members(few))), seen.marks)
    resolver = SeenResolver(sets.db, seen)
    return [
        Detour(src, n, target, name, path, resolver.resolve(target, path, src))
        for src, n, target, name, path in rows
    ]


def _visible_bytes(seen: Visible) -> int:
    return 2 * weight(seen.notes) + _ENTRY_BYTES * (len(seen.less) + len(seen.more) + 1)
