"""How often tags, property keys and values occur in each folder.

Counting rows when somebody asks takes longer the larger the vault is; these tables are as large as
its vocabulary. They are counted by folder, so that access and scope are applied before any sum.

What comes is counted many notes at a time; what goes, or moves to another folder, by triggers. A note
is there while its rows come and go, and its properties are deleted in their order: the items of one
list stand side by side, and only one of them counts.
"""

import json
from collections.abc import Sequence

import apsw

SHORT_VALUE = 80
"""Longer values are told from each other nowhere; they are not counted."""

_SHAPE = (
    "CASE WHEN {row}.listed OR ({row}.type='json' AND {row}.value='[]') THEN 'list' "
    "WHEN {row}.type='date' AND instr({row}.value, 'T') THEN 'datetime' ELSE {row}.type END"
)
_BESIDE = (
    "({row}.listed AND EXISTS(SELECT 1 FROM props o WHERE o.note={row}.note AND o.n={row}.n{step} "
    "AND o.key_lc={row}.key_lc AND o.listed))"
)
_COUNTED = f"{{row}}.type NOT IN ('null', 'json') AND length({{row}}.value) <= {SHORT_VALUE}"
_FOLDER = "(SELECT folder_id FROM notes WHERE id={row}.note)"


def _sql(part: str, row: str, step: str = "-1") -> str:
    return part.format(row=row, step=step)


_PLUS_TAG = "ON CONFLICT DO UPDATE SET n=n+excluded.n, direct=direct+excluded.direct"
_PLUS = "ON CONFLICT DO UPDATE SET n=n+excluded.n"
_BOTH = "(SELECT OLD.folder_id AS folder, -1 AS n UNION ALL SELECT NEW.folder_id, 1) s"

TALLIES = f"""
CREATE TABLE tag_counts(
    tag_lc TEXT, folder INTEGER, n INTEGER, direct INTEGER,
    PRIMARY KEY(tag_lc, folder)) WITHOUT ROWID;
CREATE TABLE prop_counts(
    key_lc TEXT, type TEXT, folder INTEGER, n INTEGER,
    PRIMARY KEY(key_lc, type, folder)) WITHOUT ROWID;
CREATE TABLE value_counts(
    key_lc TEXT, type TEXT, value, folder INTEGER, n INTEGER,
    PRIMARY KEY(key_lc, type, value, folder)) WITHOUT ROWID;
CREATE INDEX value_counts_most ON value_counts(key_lc, n DESC);

CREATE TRIGGER tags_go AFTER DELETE ON tags BEGIN
    UPDATE tag_counts SET n=n-1, direct=direct-OLD.direct
    WHERE tag_lc=OLD.tag_lc AND folder={_sql(_FOLDER, "OLD")};
    DELETE FROM tag_counts
    WHERE tag_lc=OLD.tag_lc AND folder={_sql(_FOLDER, "OLD")} AND n=0;
END;
CREATE TRIGGER props_go AFTER DELETE ON props WHEN NOT {_sql(_BESIDE, "OLD", "+1")} BEGIN
    UPDATE prop_counts SET n=n-1
    WHERE key_lc=OLD.key_lc AND type={_sql(_SHAPE, "OLD")} AND folder={_sql(_FOLDER, "OLD")};
    DELETE FROM prop_counts
    WHERE key_lc=OLD.key_lc AND type={_sql(_SHAPE, "OLD")} AND folder={_sql(_FOLDER, "OLD")}
    AND n=0;
END;
CREATE TRIGGER values_go AFTER DELETE ON props WHEN {_sql(_COUNTED, "OLD")} BEGIN
    UPDATE value_counts SET n=n-1
    WHERE key_lc=OLD.key_lc AND type=OLD.type AND value=OLD.value
    AND folder={_sql(_FOLDER, "OLD")};
    DELETE FROM value_counts
    WHERE key_lc=OLD.key_lc AND type=OLD.type AND value=OLD.value
    AND folder={_sql(_FOLDER, "OLD")} AND n=0;
END;
CREATE TRIGGER notes_move AFTER UPDATE OF folder_id ON notes
WHEN NEW.folder_id IS NOT OLD.folder_id BEGIN
    INSERT INTO tag_counts SELECT tag_lc, s.folder, s.n, s.n * direct
    FROM tags JOIN {_BOTH} WHERE note=NEW.id {_PLUS_TAG};
    INSERT INTO prop_counts SELECT p.key_lc, {_sql(_SHAPE, "p")}, s.folder, s.n
    FROM props p JOIN {_BOTH} WHERE p.note=NEW.id AND NOT {_sql(_BESIDE, "p", "-1")} {_PLUS};
    INSERT INTO value_counts SELECT p.key_lc, p.type, p.value, s.folder, s.n
    FROM props p JOIN {_BOTH} WHERE p.note=NEW.id AND {_sql(_COUNTED, "p")} {_PLUS};
END;
"""  # noqa: S608 - our own names

_NOTES = "JOIN notes o ON o.id=p.note WHERE p.note IN (SELECT value FROM json_each(?1))"
_COME = (
    "INSERT INTO tag_counts SELECT p.tag_lc, o.folder_id, count(*), sum(p.direct) "  # noqa: S608
    f"FROM tags p {_NOTES} GROUP BY 1, 2 {_PLUS_TAG}",
    f"INSERT INTO prop_counts SELECT p.key_lc, {_sql(_SHAPE, 'p')}, o.folder_id, count(*) "  # noqa: S608
    f"FROM props p {_NOTES} AND NOT {_sql(_BESIDE, 'p')} GROUP BY 1, 2, 3 {_PLUS}",
    "INSERT INTO value_counts SELECT p.key_lc, p.type, p.value, o.folder_id, count(*) "  # noqa: S608
    f"FROM props p {_NOTES} AND {_sql(_COUNTED, 'p')} GROUP BY 1, 2, 3, 4 {_PLUS}",
)

# `CROSS JOIN` and `+` keep the planner from going through all tags or keys that begin so.
_OF = "FROM json_each(?1) j CROSS JOIN {table} p ON p.note=j.value WHERE"
_BEGINS = "+p.{key} >= ?2 AND +p.{key} < ?2 || char(0x10ffff)"
TAGS_OF = (
    f"SELECT p.tag_lc, count(*), sum(p.direct) {_OF.format(table='tags')} "
    f"{_BEGINS.format(key='tag_lc')} GROUP BY 1"
)
"""Counts of a few notes, as the tables have them of folders: their ids, and what a tag begins with."""
KEYS_OF = (
    f"SELECT p.key_lc, {_sql(_SHAPE, 'p')}, count(*) {_OF.format(table='props')} "
    f"{_BEGINS.format(key='key_lc')} AND NOT {_sql(_BESIDE, 'p')} GROUP BY 1, 2"
)
VALUES_OF = (
    f"SELECT p.type, p.value, count(*) {_OF.format(table='props')} "
    f"+p.key_lc=?2 AND {_sql(_COUNTED, 'p')} GROUP BY 1, 2"
)


def count_in(db: apsw.Connection, notes: Sequence[int]) -> None:
    """Count the rows of notes that were just stored."""
    for statement in _COME:
        db.execute(statement, (json.dumps(notes),))
