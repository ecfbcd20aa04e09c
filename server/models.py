"""Plain data that more than one room speaks of. No I/O, no behaviour beyond derivation."""

import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NewType, Protocol

NotePath = NewType("NotePath", str)
"""A validated vault-relative path in NFC with forward slashes; only `vault/paths.py` makes one."""

Kind = Literal["note", "attachment", "folder"]


Action = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Grant:
    """The folders that a credential is for, as path keys: it opens nothing beyond them."""

    read: tuple[str, ...]
    write: tuple[str, ...]


class Trail(Protocol):
    """What one call leaves behind for the audit: who decides or changes something says so here."""

    def decided(self, action: Action, path: str, allowed: bool, rule: str) -> None:
        """An access decision was made."""

    def changed(self, path: str, before: str | None, after: str | None, size: int) -> None:
        """A file got another content: its etags and the bytes that it has now."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the first argument of every public service method."""

    name: str
    session: str | None = None
    door: str = "mcp"
    grant: Grant | None = None
    """None: the credential is for everything that the rules allow its caller."""
    admin: bool = False
    trail: Trail | None = field(default=None, compare=False, repr=False)
    progress: Callable[[float, float, str], None] | None = field(
        default=None, compare=False, repr=False
    )
    """Who waits for the answer hears how far it is; may be called from any thread."""
    approval: str | None = field(default=None, compare=False, repr=False)
    """The approval that a person gave for this very call; only a door that asked sets it."""

    def tell(self, done: float, total: float, what: str) -> None:
        """Say how far a long call is, if anybody listens."""
        if self.progress is not None:
            self.progress(done, total, what)


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a scan compares. No inode and no ctime: on an rclone mount they mean nothing."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a walk saw: `path` in NFC, `disk` spelled as on disk (it may be NFD).

    A remote that was asked itself tells the content's `md5` too, and an `id` that a move keeps.
    """

    path: str
    disk: str
    kind: Kind
    stat: FileStat
    real: str | None = field(default=None, compare=False)
    """The path of the file that a symbolic link leads to."""
    md5: str | None = None
    id: str | None = None


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


def path_key(path: str) -> str:
    """What two spellings of one path have in common: NFC and case folded."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def kind_of(name: str) -> Kind:
    """`note` for markdown files, `attachment` for all others."""
    return "note" if name.lower().endswith(".md") else "attachment"
