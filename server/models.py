"""Plain data that more than one room speaks of. No I/O, no behaviour beyond derivation."""

import hashlib
from dataclasses import dataclass
from typing import Literal, NewType

NotePath = NewType("NotePath", str)
"""A validated vault-relative path in NFC with forward slashes; only `vault/paths.py` makes one."""

Kind = Literal["note", "attachment", "folder"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the first argument of every public service method."""

    name: str
    session: str | None = None
    door: str = "mcp"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a scan compares. No inode and no ctime: on an rclone mount they mean nothing."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a walk saw: `path` in NFC, `disk` spelled as on disk (it may be NFD)."""

    path: str
    disk: str
    kind: Kind
    stat: FileStat


@dataclass(frozen=True, slots=True)
class Content:
    """The whole content of a file and the stat that belongs to it."""

    data: bytes
    stat: FileStat

    @property
    def etag(self) -> str:
        return etag_of(self.data)


def etag_of(data: bytes) -> str:
    """The content's etag: 128 bits of SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()[:32]


def kind_of(name: str) -> Kind:
    """`note` for markdown files, `attachment` for all others."""
    return "note" if name.lower().endswith(".md") else "attachment"
