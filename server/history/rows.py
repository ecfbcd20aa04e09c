"""What goes into the history and what comes out of it, as plain data."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Author:
    """Whose change it is. All entries of one call share its `operation`, and are undone as one."""

    caller: str
    session: str | None
    tool: str
    operation: str


@dataclass(frozen=True, slots=True)
class Change:
    """One change about to be made: what the file at `path` holds now, and what it shall hold.

    None stands for no file. `other` is given for a move only: the path that the note leaves for
    `path`; `before` is then what the moved note holds, None for an attachment.
    """

    kind: str
    path: str
    before: bytes | None
    after_etag: str | None
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One change that was made; `id` is the version an agent names, `size` that of `before`."""

    id: int
    at_ns: int
    caller: str
    session: str | None
    tool: str
    kind: str
    path: str
    other: str | None
    before: str | None
    after: str | None
    operation: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of an idempotency key.

    new    this call may go on
    done   an earlier one succeeded with `result`
    open   an earlier one began; `path` and `after` say what it was about to write, if it came that
           far, and `running` whether the server that began it still lives
    """

    state: Literal["new", "done", "open"]
    result: Mapping[str, Any] | None = None
    path: str | None = None
    after: str | None = None
    operation: str | None = None
    running: bool = False
    at_ns: int = field(default=0, compare=False)
    """When the key was claimed."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """How many entries went, and how many bytes of content with them."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """How much is kept: `bytes` counts contents as they are stored, most of them compressed."""

    entries: int
    bytes: int
    max_bytes: int


def key_of(path: str) -> str:
    """What two spellings of one path have in common, by the rule that the vault has too."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
