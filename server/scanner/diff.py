"""What changed between the disk and the index: a pure merge of two sorted lists."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from server.models import Entry, Kind


class Known(Protocol):
    """What the index remembers of a file."""

    @property
    def path(self) -> str: ...
    @property
    def disk(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def md5(self) -> str | None: ...
    @property
    def racy(self) -> bool: ...


@dataclass(slots=True)
class Diff:
    """Paths by what happened to them; `unchanged` is only counted."""

    added: list[Entry] = field(default_factory=list)
    modified: list[Entry] = field(default_factory=list)
    touched: list[Entry] = field(default_factory=list)
    """Only the time differs, and a hash says that the content doesn't."""
    removed: list[Known] = field(default_factory=list)
    unchanged: int = 0
    before: dict[str, Known] = field(default_factory=dict)
    """What was known of the modified, by path."""


def diff(disk: Sequence[Entry], index: Sequence[Known]) -> Diff:
    """Compare two lists sorted by path. Of two entries with one path (two spellings), the first counts."""
    result = Diff()
    entries, known = iter(_distinct(disk)), iter(index)
    entry, row = next(entries, None), next(known, None)
    while entry is not None or row is not None:
        if entry is not None and (row is None or entry.path < row.path):
            result.added.append(entry)
            entry = next(entries, None)
        elif row is not None and (entry is None or row.path < entry.path):
            result.removed.append(row)
            row = next(known, None)
        elif entry is not None and row is not None:
            if not differs(entry, row):
                result.unchanged += 1
            elif is_touched(entry, row):
                result.touched.append(entry)
            else:
                result.modified.append(entry)
                result.before[entry.path] = row
            entry, row = next(entries, None), next(known, None)
    return result


def differs(entry: Entry, row: Known) -> bool:
    """Whether a file must be looked into. Folders differ only in spelling: their times mean nothing."""
    if entry.kind != row.kind or entry.disk != row.disk:
        return True
    if entry.kind == "folder":
        return False
    hashes_differ = entry.md5 is not None and row.md5 is not None and entry.md5 != row.md5
    same = entry.stat.size == row.size and entry.stat.mtime_ns == row.mtime_ns
    return row.racy or hashes_differ or not same


def is_touched(entry: Entry, row: Known) -> bool:
    """Whether a hash says that a file is what it was, whatever its time says."""
    same = entry.kind == row.kind and entry.disk == row.disk
    return same and entry.md5 is not None and entry.md5 == row.md5


def is_racy(mtime_ns: int, looked_at_ns: int) -> bool:
    """Whether a file changed so shortly before it was read that another change could go unseen."""
    return mtime_ns > looked_at_ns - 2_000_000_000


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    return [e for i, e in enumerate(entries) if i == 0 or entries[i - 1].path != e.path]
