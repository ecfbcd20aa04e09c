"""The words a vault is ordered by: its tags and properties, counted. And what changed in it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from server.index.changes import Changed, collapse
from server.index.names import key_of
from server.index.reads import Match, Reads
from server.index.schema import at_once, select

Sort = Literal["count", "name"]

# One note stands for its folder: access is a matter of folders.
_FOLDERS = (
    "SELECT f.id, f.path, (SELECT path FROM notes n WHERE n.folder_id=f.id AND n.kind='note' LIMIT 1) "
    "FROM folders f"
)
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
_TAG = "SELECT tag FROM tags WHERE tag_lc=? LIMIT 1"
_KEY = "SELECT key FROM props WHERE key_lc=? LIMIT 1"
_VALUES = (
    "SELECT type, value, n FROM value_counts INDEXED BY value_counts_most "  # noqa: S608 - our own names
    f"WHERE key_lc=?2 AND n > 0 AND {_SEEN} ORDER BY n DESC LIMIT 400"
)
# What the first scan found is only new when the file itself is.
_CHANGES = (
    "SELECT at_ns, kind, path, old_path, seq < ?2 AND EXISTS("
    "SELECT 1 FROM notes n WHERE n.path=c.path AND n.mtime_ns < ?1) "
    "FROM changes c WHERE at_ns >= ?1 ORDER BY at_ns DESC, seq DESC LIMIT ?3"
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


class Vocabulary(Reads):
    """Counts come by folder: `folders` are the ids of those that count, None for all."""

    def folders(self, sees: Match, scope: Collection[str] = ()) -> frozenset[int] | None:
        """The folders whose notes may be seen and lie in `scope`; None when that is every one."""
        below = in_scope(scope)
        rows = [(folder, path, note) for folder, path, note in self._all(_FOLDERS) if note]
        chosen = frozenset(note_id for note_id, path, note in rows if below(path) and sees(note))
        return None if len(chosen) == len(rows) else chosen

    def tags(
        self, prefix: str, folders: Collection[int] | None, *, sort: Sort, limit: int, offset: int
    ) -> tuple[list[Tag], int]:
        """A page of the tags that begin with `prefix`, and how many there are."""
        chosen = _chosen(folders)
        with self._read() as db, at_once(db):
            rows = select(db, _TAGS, chosen, key_of(prefix))
            rows.sort(key=lambda row: row[0] if sort == "name" else (-row[1], row[0]))
            page = rows[offset : offset + limit]
            tags = [Tag(_spelled(db, _TAG, tag), count, own) for tag, count, own in page]
            return tags, len(rows)

    def properties(
        self,
        prefix: str,
        folders: Collection[int] | None,
        *,
        sort: Sort,
        limit: int,
        offset: int,
        values: int,
    ) -> tuple[list[Property], int]:
        """A page of the properties that begin with `prefix`, and how many there are.

        Each comes with its `values` most frequent values.
        """
        chosen = _chosen(folders)
        with self._read() as db, at_once(db):
            keys: dict[str, dict[str, int]] = {}
            for key, kind, count in select(db, _KEYS, chosen, key_of(prefix)):
                keys.setdefault(key, {})[kind] = count
            counted = [(key, sum(types.values()), types) for key, types in keys.items()]
            counted.sort(key=lambda row: row[0] if sort == "name" else (-row[1], row[0]))
            page = [
                Property(
                    _spelled(db, _KEY, key),
                    count,
                    dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
                    _frequent(select(db, _VALUES, chosen, key), values),
                )
                for key, count, types in counted[offset : offset + limit]
            ]
            return page, len(counted)

    def changes(self, since_ns: int, sees: Match) -> tuple[list[Changed], int | None]:
        """What became of each note since then, the latest first, and since when that is complete.

        None when nothing was ever recorded.
        """
        with self._read() as db, at_once(db):
            end = select(db, _FIRST_SCAN)[0][0]
            rows = select(db, _CHANGES, since_ns, end, _LOOKED_AT + 1)
            oldest = select(db, "SELECT min(at_ns) FROM changes")[0][0]
        if len(rows) > _LOOKED_AT:
            oldest = rows.pop()[0]
        log = (change for *change, is_old in reversed(rows) if not is_old)
        return collapse(log, sees), oldest

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


def _chosen(folders: Collection[int] | None) -> str | None:
    return None if folders is None else json.dumps(sorted(folders))


def _spelled(db: apsw.Connection, statement: str, key: str) -> str:
    """A tag or a key as the first note writes it."""
    return str(db.execute(statement, (key,)).get)


def _frequent(rows: Sequence[tuple[Any, ...]], most: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, value, count in rows:
        text = str(bool(value)).lower() if kind == "bool" else str(value)
        counts[text] = counts.get(text, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])
