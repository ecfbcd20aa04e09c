"""The words a vault is ordered by: its tags and properties, counted. And what changed in it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import apsw

from server.index.changes import Changed, collapse
from server.index.names import key_of
from server.index.reads import Match
from server.index.schema import at_once, select
from server.index.sets import MEMBER, Sets
from server.index.tallies import KEYS_OF, TAGS_OF, VALUES_OF
from server.index.visible import Sight, Visibles

Sort = Literal["count", "name"]
Counts = dict[tuple[Any, ...], tuple[int, int]]

_FOLDERS = "SELECT id, path FROM folders"
_SEEN = "(?1 IS NULL OR folder IN (SELECT value FROM json_each(?1)))"
_TAGS = (
    "SELECT tag_lc, sum(n), sum(direct) FROM tag_counts "  # noqa: S608 - our own names
    f"WHERE {_SEEN} AND tag_lc >= ?2 AND tag_lc < ?2 || char(0x10ffff) "
    "GROUP BY tag_lc HAVING sum(n) > 0"
)
_KEYS = (
    "SELECT key_lc, type, sum(n) FROM prop_counts "  # noqa: S608 - our own names
    f"WHERE {_SEEN} AND key_lc >= ?2 AND key_lc < ?2 || char(0x10ffff) "
    "GROUP BY key_lc, type HAVING sum(n) > 0"
)
_MAY_SEE = f"(?2 IS NULL OR {MEMBER.format(id='note').replace('?', '?2')})"
_TAG = f"SELECT tag FROM tags WHERE tag_lc=?1 AND {_MAY_SEE} LIMIT 1"  # noqa: S608 - our own names
_KEY = f"SELECT key FROM props WHERE key_lc=?1 AND {_MAY_SEE} LIMIT 1"  # noqa: S608 - our own names
_VALUES = (
    "SELECT type, value, n FROM value_counts INDEXED BY value_counts_most "  # noqa: S608 - our own names
    f"WHERE key_lc=?2 AND n > 0 AND {_SEEN} ORDER BY n DESC LIMIT 400"
)
# What the first scan found is only new when the file itself is.
_CHANGES = (
    "SELECT at_ns, kind, path, old_path, seq < ?2 AND EXISTS("
    "SELECT 1 FROM notes n WHERE n.path=c.path AND n.mtime_ns < ?1) "
    "FROM changes c WHERE at_ns >= ?1 ORDER BY at_ns DESC, seq DESC"
)
_FIRST_SCAN = "SELECT coalesce(min(seq), 1 << 62) FROM changes WHERE kind <> 'created'"
_LOOKED_AT = 1_000
"""Changes that one answer looks at: more than anybody reads."""


@dataclass(frozen=True, slots=True)
class Tag:
    """`count` notes have the tag or one below it, `direct` of them the tag itself."""

    tag: str
    count: int
    direct: int


@dataclass(frozen=True, slots=True)
class Property:
    """How many notes have a property, of which types, and its most frequent values."""

    key: str
    count: int
    types: Mapping[str, int]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Whose counts make the sum: folders as JSON (None: all), without some notes, with others."""

    folders: str | None
    less: str
    more: str
    seen: bytes | None


class Vocabulary(Visibles):
    """Counts come by folder; the exceptions to what may be seen are counted one by one."""

    def tags(
        self,
        prefix: str,
        sight: Sight | None = None,
        scope: Collection[str] = (),
        *,
        sort: Sort,
        limit: int,
        offset: int,
    ) -> tuple[list[Tag], int]:
        """A page of the tags that begin with `prefix` below the folders of `scope`, and how many."""
        with self._read() as db, at_once(db):
            of, begin = self._counted_in(db, sight, scope), key_of(prefix)
            counts: Counts = {}
            _add(counts, select(db, _TAGS, of.folders, begin))
            _add(counts, select(db, TAGS_OF, of.less, begin), -1)
            _add(counts, select(db, TAGS_OF, of.more, begin))
            rows = [(tag, *numbers) for (tag,), numbers in counts.items() if numbers[0] > 0]
            rows.sort(key=lambda row: row[0] if sort == "name" else (-row[1], row[0]))
            page = rows[offset : offset + limit]
            tags = [Tag(_spelled(db, _TAG, tag, of.seen), count, own) for tag, count, own in page]
            return tags, len(rows)

    def properties(
        self,
        prefix: str,
        sight: Sight | None = None,
        scope: Collection[str] = (),
        *,
        sort: Sort,
        limit: int,
        offset: int,
        values: int,
    ) -> tuple[list[Property], int]:
        """A page of the properties that begin with `prefix` in `scope`, and how many there are.

        Each comes with its `values` most frequent values.
        """
        with self._read() as db, at_once(db):
            of, begin = self._counted_in(db, sight, scope), key_of(prefix)
            counts: Counts = {}
            _add(counts, ((*row, 0) for row in select(db, _KEYS, of.folders, begin)))
            _add(counts, ((*row, 0) for row in select(db, KEYS_OF, of.less, begin)), -1)
            _add(counts, ((*row, 0) for row in select(db, KEYS_OF, of.more, begin)))
            keys: dict[str, dict[str, int]] = {}
            for (key, kind), (count, _) in counts.items():
                if count > 0:
                    keys.setdefault(key, {})[kind] = count
            counted = [(key, sum(types.values()), types) for key, types in keys.items()]
            counted.sort(key=lambda row: row[0] if sort == "name" else (-row[1], row[0]))
            page = [
                Property(
                    _spelled(db, _KEY, key, of.seen),
                    count,
                    dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
                    _frequent(_values(db, key, of), values),
                )
                for key, count, types in counted[offset : offset + limit]
            ]
            return page, len(counted)

    def _counted_in(
        self, db: apsw.Connection, sight: Sight | None, scope: Collection[str]
    ) -> _Counted:
        seen, below = self._visible(Sets(db, self._sets), sight), in_scope(scope)
        if seen is None and not scope:
            return _Counted(None, "[]", "[]", None)
        inside = {folder for folder, path in select(db, _FOLDERS) if below(path)}
        if seen is None:
            return _Counted(json.dumps(sorted(inside)), "[]", "[]", None)
        less, more = (
            json.dumps([note for note, folder in notes.items() if folder in inside])
            for notes in (seen.less, seen.more)
        )
        return _Counted(json.dumps(sorted(inside & seen.folders)), less, more, seen.marks)

    def changes(
        self, since_ns: int, sight: Sight | None = None
    ) -> tuple[list[Changed], int | None]:
        """What became of each note since then, the latest first, and since when that is complete.

        None when nothing was ever recorded.
        """
        with self._read() as db, at_once(db):
            end = select(db, _FIRST_SCAN)[0][0]
            # What may not be seen takes no room: then it could be told from what is left out.
            log = (row for row in db.execute(_CHANGES, (since_ns, end)) if _is_seen(row, sight))
            rows = list(islice(log, _LOOKED_AT + 1))
            oldest = select(db, "SELECT min(at_ns) FROM changes")[0][0]
        if len(rows) > _LOOKED_AT:
            oldest = rows.pop()[0]
        told = (change for *change, is_old in reversed(rows) if not is_old)
        return collapse(told, sight or _everything), oldest

    def titles(self, paths: Iterable[str]) -> dict[str, str]:
        """The titles of notes by path; those that are gone are left out."""
        found = self._all(
            "SELECT n.path, n.title FROM json_each(?) j CROSS JOIN notes n ON n.path=j.value "
            "WHERE n.title IS NOT NULL",
            json.dumps(list(paths)),
        )
        return {row[0]: row[1] for row in found}


def in_scope(scope: Collection[str]) -> Match:
    """A predicate for paths in one of the folders, or the folders themselves; all without any."""
    keys = [key_of(folder) for folder in scope]
    if not keys or "" in keys:
        return lambda _path: True
    return lambda path: any(f"{key_of(path)}/".startswith(f"{key}/") for key in keys)


def _everything(_path: str) -> bool:
    return True


def _is_seen(row: Sequence[Any], sight: Sight | None) -> bool:
    _, _, path, old_path, _ = row
    return sight is None or sight(path) or (old_path is not None and sight(old_path))


def _add(counts: Counts, rows: Iterable[Sequence[Any]], sign: int = 1) -> None:
    """Sum up: the last numbers of a row are counts, what comes before is what they are of."""
    for *what, count, own in rows:
        key = tuple(what)
        known = counts.get(key, (0, 0))
        counts[key] = known[0] + sign * count, known[1] + sign * own


def _spelled(db: apsw.Connection, statement: str, key: str, seen: bytes | None) -> str:
    """A tag or a key as the first note writes it, of those that may be seen."""
    return str(db.execute(statement, (key, seen)).get)


def _values(db: apsw.Connection, key: str, of: _Counted) -> list[tuple[Any, ...]]:
    counts: Counts = {}
    _add(counts, ((*row, 0) for row in select(db, _VALUES, of.folders, key)))
    _add(counts, ((*row, 0) for row in select(db, VALUES_OF, of.less, key)), -1)
    _add(counts, ((*row, 0) for row in select(db, VALUES_OF, of.more, key)))
    return [(kind, value, count) for (kind, value), (count, _) in counts.items() if count > 0]


def _frequent(rows: Sequence[tuple[Any, ...]], most: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, value, count in rows:
        text = str(bool(value)).lower() if kind == "bool" else str(value)
        counts[text] = counts.get(text, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])
