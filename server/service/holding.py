"""A batch that waits for a person: what the vault held when it was made, and whether it still does.

The state of a path is its etag, `absent`, its size when it is too large to be read, or a digest of
what is in a folder.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from server.approvals.records import Approval, Request
from server.errors import Conflict, TooLarge
from server.history.store import Change
from server.models import Caller, NotePath, etag_of, path_key
from server.service.batches import TRASH, Batch, fingerprint, shown, touched
from server.service.trash import free_in_trash
from server.vault.plans import Move, Remove, Replace, Step
from server.vault.steps import written_down
from server.vault.vault import Vault

_DIFF_CHARS = 200_000
_ABSENT = "absent"
_FOLDER = "folder:"
States = Mapping[str, tuple[str, str]]
"""By the key of a path: how it is spelled, and its state."""


def request_of(caller: Caller, tool: str, batch: Batch, vault: Vault) -> Request:
    """A batch as something that can wait."""
    base = _base(batch, vault)
    plan = {
        "kind": batch.kind,
        "base": dict(base.values()),
        "after": dict(_after(base, batch.steps).values()),
        "kept": [_noted(change) for change in batch.kept],
    }
    return Request(
        caller,
        tool,
        tuple(touched(batch.steps)),
        shown(batch.steps, _DIFF_CHARS),
        b"".join(written_down(batch.steps)),
        plan,
        fingerprint(caller, tool, batch),
    )


def is_made(approval: Approval, vault: Vault) -> bool:
    """Whether the vault holds what the batch makes of it."""
    return all(_look(vault, path)[0] == state for path, state in approval.plan["after"].items())


def is_between(approval: Approval, vault: Vault) -> bool:
    """Whether every file is what it was or what it shall be: somebody died amid the batch."""
    base, after = approval.plan["base"], approval.plan["after"]
    expected = {
        path: (base.get(path, _ABSENT), after.get(path, _ABSENT)) for path in {*base, *after}
    }
    return all(_look(vault, path)[0] in states for path, states in expected.items())


def batch_of(approval: Approval, steps: Sequence[Step], vault: Vault) -> Batch:
    """The batch again. Raises `Conflict` unless every file is what it was made from."""
    befores = [step.before for step in steps if not isinstance(step, Move)]
    contents = {etag_of(data): data for data in befores if data is not None}
    for path, state in approval.plan["base"].items():
        now, data = _look(vault, path)
        if now != state:
            raise outdated([path])
        if data is not None:
            contents.setdefault(now, data)
    fitting = [_fitting(step, vault) for step in steps]
    kept = [_change(noted, contents) for noted in approval.plan["kept"]]
    return Batch(approval.plan["kind"], fitting, kept)


def outdated(paths: Sequence[str]) -> Conflict:
    """What to say when a file is no longer what a person was shown."""
    named = f": {', '.join(paths)}" if paths else ""
    return Conflict(
        f"Something changed since this write was shown{named}; nothing was written.",
        "The approval is closed. Read the note again and ask for the write anew.",
        paths=list(paths),
    )


def _base(batch: Batch, vault: Vault) -> States:
    """The states of all that the batch was made from."""
    moves = [step for step in batch.steps if isinstance(step, Move)]
    targets = {path_key(move.new) for move in moves}
    base: dict[str, tuple[str, str]] = {}

    def note(path: str, before: bytes | None) -> None:
        key = path_key(path)
        # What lies where something is moved to was somewhere else before.
        if not any(above in targets for above in _upwards(key)):
            base[key] = path, _ABSENT if before is None else etag_of(before)

    for change in batch.kept:
        if change.other is None:
            note(change.path, change.before)
        elif change.before is not None:
            note(change.other, change.before)
    for move in moves:
        for path in (move.old, move.new):
            if path_key(path) not in base and not path.startswith(TRASH):
                base[path_key(path)] = path, _look(vault, path)[0]
    return base


def _after(base: States, steps: Sequence[Step]) -> States:
    """The states when all steps are made."""
    now = dict(base)
    for step in steps:
        match step:
            case Replace(path, _, after):
                now[path_key(path)] = path, etag_of(after)
            case Remove(path, _):
                now[path_key(path)] = path, _ABSENT
            case Move(old, new):
                _move(now, old, new)
    return now


def _move(now: dict[str, tuple[str, str]], old: str, new: str) -> None:
    key = path_key(old)
    inside = [key] if key in now else []
    if inside and now[key][1].startswith(_FOLDER):
        inside += [other for other in now if other.startswith(f"{key}/")]
    taken = [(other, *now[other]) for other in inside]
    for other, path, _ in taken:
        now[other] = path, _ABSENT
    if not new.startswith(TRASH):
        for other, path, state in taken:
            now[path_key(new) + other[len(key) :]] = new + path[len(old) :], state


def _look(vault: Vault, path: str) -> tuple[str, bytes | None]:
    """The state of a path, and its content where that is known."""
    place = vault.find(path)
    if place is None:
        return _ABSENT, None
    if place.kind == "folder":
        listing = sorted(_listed(vault, place.disk, len(place.disk)))
        return _FOLDER + hashlib.sha256(json.dumps(listing).encode()).hexdigest()[:32], None
    try:
        found = vault.read(NotePath(path))
    except TooLarge:
        return f"size:{place.stat.size}", None
    return (_ABSENT, None) if found is None else (found.content.etag, found.content.data)


def _listed(vault: Vault, folder: str, start: int) -> Iterator[tuple[str, int]]:
    for entry in vault.list_folder(folder):
        if entry.kind == "folder":
            yield from _listed(vault, entry.disk, start)
        else:
            # Notes are compared by what they say.
            yield entry.disk[start:], 0 if entry.kind == "note" else entry.stat.size


def _fitting(step: Step, vault: Vault) -> Step:
    """The step, into a name in the trash that is free now."""
    if isinstance(step, Move) and step.new.startswith(TRASH):
        return Move(step.old, free_in_trash(vault, step.old))
    return step


def _noted(change: Change) -> list[str | None]:
    before = None if change.before is None else etag_of(change.before)
    return [change.kind, change.path, before, change.after_etag, change.other]


def _change(noted: Sequence[Any], contents: Mapping[str, bytes]) -> Change:
    kind, path, before, after, other = noted
    if before is not None and before not in contents:
        raise outdated([other or path])
    return Change(kind, path, None if before is None else contents[before], after, other)


def _upwards(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition("/")[0]
