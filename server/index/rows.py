"""What goes into the index and what comes out of it, as plain data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from server.models import FileStat, Kind


@dataclass(frozen=True, slots=True)
class Document:
    """A note to store: its whole content, and the stat that belongs to it.

    `racy` says that the file may have changed again within its timestamp's resolution. `looked_ns`
    is when the content was read: what the index learned later is newer and stays.
    """

    path: str
    disk: str
    data: bytes
    stat: FileStat
    racy: bool = False
    looked_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One file as the index knows it. What only notes have is None for other kinds."""

    id: int
    path: str
    disk: str
    folder_id: int
    kind: Kind
    size: int
    mtime_ns: int
    etag: str | None
    md5: str | None
    title: str | None
    words: int
    warning: str | None
    racy: bool
    indexed_at_ns: int
    segment: int | None
    offset: int | None
    length: int | None


COLUMNS = ", ".join(Row.__slots__)
_RACY = Row.__slots__.index("racy")


def row_of(values: Iterable[Any]) -> Row:
    """The row that a query for `COLUMNS` gave; SQLite has no booleans."""
    fields = list(values)
    fields[_RACY] = bool(fields[_RACY])
    return Row(*fields)


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The part of a row that a scan compares with the disk."""

    path: str
    disk: str
    kind: Kind
    size: int
    mtime_ns: int
    etag: str | None
    md5: str | None
    racy: bool


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link from `src`; `dst` is None while nothing has the name it asks for."""

    src: str
    dst: str | None
    kind: str
    embed: bool
    target: str
    section: str | None
    alias: str | None
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Located:
    """The note whose bytes hold an offset of a segment; `start` and `length` delimit it there."""

    path: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Counts:
    notes: int
    attachments: int
    folders: int
    words: int
