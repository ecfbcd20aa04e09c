"""What a note is made of. Lines count from 1 and offsets from 0, both in the whole file."""

from dataclasses import dataclass
from typing import Literal

LinkKind = Literal["wiki", "markdown", "property"]


@dataclass(frozen=True, slots=True)
class Heading:
    """`start` is where its line starts, `end` where the text below it starts."""

    level: int
    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a file of the vault; `text[start:end]` is its source, embed mark included.

    `target` is empty for a link into the note itself; `section` has no leading `#`, and a block's
    section keeps its `^`.
    """

    target: str
    section: str | None
    alias: str | None
    embed: bool
    kind: LinkKind
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block's id, without its `^`; `start` is where the `^` stands."""

    id: str
    line: int
    start: int


@dataclass(frozen=True, slots=True)
class Task:
    """A list item with a box; a mark other than a space or an x is neither open nor done."""

    mark: str
    text: str
    line: int
    done: bool
