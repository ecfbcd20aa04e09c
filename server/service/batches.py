"""What shall change, what the history keeps of it, how people see it, and what became of it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from server.history.store import Change
from server.markdown.differences import unified_all
from server.models import Caller, etag_of
from server.vault.plans import Move, Remove, Replace, Step
from server.vault.steps import written_down

TRASH = ".trash/"
_NAMED = 200


@dataclass(slots=True)
class Batch:
    """Steps to be made together, and what the history shall keep of them."""

    kind: str
    steps: list[Step] = field(default_factory=list)
    kept: list[Change] = field(default_factory=list)

    def replace(self, path: str, before: bytes | None, after: bytes) -> None:
        """A file's content becomes another."""
        self.steps.append(Replace(path, before, after))
        self.kept.append(Change(self.kind, path, before, etag_of(after)))

    def remove(self, path: str, before: bytes) -> None:
        """A file goes for good."""
        self.steps.append(Remove(path, before))
        self.kept.append(Change(self.kind, path, before, None))

    def move(self, old: str, new: str) -> None:
        """A file or folder gets another path; who calls keeps what is in it by `moved`."""
        self.steps.append(Move(old, new))

    def gone(self, path: str, before: bytes) -> None:
        """The history keeps a file that a move takes out of sight."""
        self.kept.append(Change(self.kind, path, before, None))

    def moved(self, old: str, new: str, data: bytes | None) -> None:
        """The history knows that a file moved; `data` is None for an attachment."""
        after = None if data is None else etag_of(data)
        self.kept.append(Change("move", new, data, after, other=old))


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one file: made, or only shown when `dry_run`. `after` is None for no file."""

    path: str
    before: bytes | None
    after: bytes | None
    dry_run: bool = False
    uploaded: bool = True
    version: int | None = None
    """The entry of the history that holds what was there before."""
    pending: dict[str, Any] | None = None
    """The approval that it waits for."""
    ack: str | None = None
    """Where it is for certain: in the journal, in the mount's cache, on the drive, on this disk."""

    @property
    def created(self) -> bool:
        return self.before is None

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def etag(self) -> str:
        return etag_of(self.after or b"")


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a batch: done, only shown, or waiting for an approval."""

    done: bool
    pending: dict[str, Any] | None = None

    @property
    def marks(self) -> dict[str, Any]:
        """What an answer says about it."""
        return {} if self.done else {"dry_run": True, "pending": self.pending}


def touched(steps: Sequence[Step]) -> list[str]:
    """The paths that steps change, each once."""
    found: list[str] = []
    for step in steps:
        found += [step.old, step.new] if isinstance(step, Move) else [step.path]
    # The trash is nobody's to write in, and everybody's to throw into.
    return [path for path in dict.fromkeys(found) if not path.startswith(TRASH)]


def fingerprint(caller: Caller, tool: str, batch: Batch) -> str:
    """The same for the same change that the same caller asks for, and for no other."""
    # Which name a file gets in the trash depends on what else was thrown away.
    steps = [
        Move(step.old, TRASH) if isinstance(step, Move) and step.new.startswith(TRASH) else step
        for step in batch.steps
    ]
    grant = None if caller.grant is None else [caller.grant.read, caller.grant.write]
    made = hashlib.sha256(json.dumps([caller.name, grant, tool, batch.kind]).encode())
    for part in written_down(steps):
        made.update(hashlib.sha256(part).digest())
    return made.hexdigest()


def shown(steps: Sequence[Step], most: int) -> str:
    """What steps change, as people read it."""
    moves = [step for step in steps if isinstance(step, Move)]
    lines = [f"{move.old} -> {move.new}" for move in moves[:_NAMED]]
    if len(moves) > _NAMED:
        lines.append(f"… {len(moves) - _NAMED} more moves")
    changes = [
        (step.path, _text(step.before), _text(step.after if isinstance(step, Replace) else None))
        for step in steps
        if not isinstance(step, Move)
    ]
    told = "\n".join(lines)
    diff = unified_all(changes, max(0, most - len(told))) if changes else ""
    return "\n".join(part for part in (told, diff) if part)


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    if b"\0" in data:
        return f"(binary, {len(data):,} bytes, {etag_of(data)})\n"
    return data.decode("utf-8", "replace")
