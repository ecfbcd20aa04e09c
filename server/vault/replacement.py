"""What is to be put in the place of what, and what a way to do that has to offer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from server.models import Content, FileStat
from server.vault import files
from server.vault.guard import Pin
from server.workers import Deadline


class BaseChanged(Exception):
    """Somebody else changed the note between reading and replacing it."""


Ready = Callable[[Callable[[], None]], None]
"""Does all that must be done before a content is put in place, and beside it what it is given."""


def at_once(beside: Callable[[], None]) -> None:
    """Nothing else has to be done."""
    beside()


def nothing() -> None:
    """Nothing to do beside it."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is to be put where, and what must be there until then."""

    pin: Pin
    at: files.Spot
    base: Content | None
    data: bytes
    temp: str
    ready: Ready = at_once
    """Called when it is staged and not yet there; may raise."""


class Writer(Protocol):
    """A way to replace a content."""

    name: str
    on_remote: bool
    """Whether an answer means that the remote has it."""

    def needs_journal(self, pin: Pin, /) -> bool:
        """Whether a commit that SIGKILL or a power cut ends may leave a vault that has to be mended."""
        ...

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat: ...

    def refresh(self, pin: Pin, disk: str, /) -> bool:
        """Have the mount look at the remote again; False when nobody can tell it to."""
        ...
