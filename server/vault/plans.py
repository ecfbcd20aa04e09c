"""Several changes of the vault that happen all or not at all.

A plan is on local disk, fsynced, before its first step, with what every step needs to be made and to
be taken back. One file per plan; its suffix is its state:

    plan   being carried out: after a crash the rest of it is carried out
    back   a step failed: what was done is taken back, after a crash too

A finished plan has no file. What somebody else changed meanwhile is theirs: a step that finds
neither its before nor its after leaves the file alone.
"""

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.errors import Conflict, NotFound, TooLarge, Unavailable, VaultError
from server.models import Content, NotePath, etag_of
from server.telemetry import log
from server.vault import files
from server.vault.relocation import Place
from server.vault.vault import Moved, Vault, Written
from server.workers import Deadline

MAX_BYTES = 512 << 20
_STEP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Replace:
    """A file's content becomes another; None before: the file is new."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Move:
    """A file or folder gets another path, at which nothing is."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A file goes for good."""

    path: str
    before: bytes


Step = Replace | Move | Remove
Outcome = Written | Moved | Place
"""What a step did; a `Place` is one that is gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order."""

    id: str
    steps: tuple[Step, ...]
    file: Path
    taken_back: bool = False


class Plans:
    """Carries plans out, one thread each; a process owns its folder."""

    def __init__(self, folder: Path, vault: Vault, on_outcome: Callable[[Outcome], None]) -> None:
        self._folder = folder
        self._vault = vault
        self._on_outcome = on_outcome
        self._lock = threading.Lock()
        self._running: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def carry_out(self, steps: Sequence[Step], deadline: Deadline) -> None:
        """Make every step. Raises what the first failed one raised, with all steps taken back.

        Raises `OutcomeOpen` when the mount failed on the way: it is settled when that is back.
        """
        plan = self._store(steps)
        with self._lock:
            self._running.add(plan.id)
        try:
            with self._vault.hold(_paths(steps), deadline):
                self._run(plan, deadline)
        finally:
            with self._lock:
                self._running.discard(plan.id)

    def _run(self, plan: Plan, deadline: Deadline) -> None:
        done: list[Step] = []
        try:
            for step in plan.steps:
                deadline.check()
                self._make(step, deadline)
                done.append(step)
        except VaultError as error:
            if isinstance(error, files.OutcomeOpen):
                raise
            back = self._turn_back(plan)
            try:
                for step in reversed(done):
                    self._make(_inverse(step), Deadline.after(_STEP_SECONDS))
            except VaultError as second:
                log(logging.ERROR, "a batch could not be taken back yet", why=second.code)
                raise files.OutcomeOpen from error
            self._drop(back)
            raise
        self._drop(plan)

    def settle(self) -> int:
        """Finish what a crash or a lost mount left; how many plans are still open."""
        left = 0
        for plan in self._open():
            try:
                steps = [_inverse(step) for step in reversed(plan.steps)]
                with self._vault.hold(_paths(plan.steps), Deadline.after(_STEP_SECONDS)):
                    for step in steps if plan.taken_back else plan.steps:
                        self._make_if_ours(step)
                self._drop(plan)
                log(
                    logging.WARNING, "settled a batch that was cut short", id=plan.id,
                    steps=len(steps), outcome="taken back" if plan.taken_back else "carried out",
                )  # fmt: skip
            except VaultError as error:
                self._vault.guard.suspect(error)
                left += 1
        return left

    def take_over(self, folder: Path) -> int:
        """Adopt the plans of a server that died; returns how many."""
        taken = 0
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.suffix in (".plan", ".back"):
                file.rename(self._folder / file.name)
                taken += 1
        return taken

    def __len__(self) -> int:
        return sum(file.suffix in (".plan", ".back") for file in self._folder.iterdir())

    def _make_if_ours(self, step: Step) -> None:
        try:
            self._make(step, Deadline.after(_STEP_SECONDS))
        except (Conflict, NotFound) as error:
            # Somebody changed it since the crash: the rest is still worth finishing.
            log(logging.WARNING, "a step of a batch no longer fits", why=error.message)

    def _make(self, step: Step, deadline: Deadline) -> None:
        """Make a step unless it was made already."""
        match step:
            case Replace(path, before, after):
                self._replace(path, before, after, deadline)
            case Move(old, new):
                self._move(old, new, deadline)
            case Remove(path, before):
                found = self._vault.read_held(NotePath(path))
                if found is not None:
                    if found.content.data != before:
                        raise _changed(path, found.content)
                    self._on_outcome(self._vault.remove_held(path, etag_of(before), deadline))

    def _replace(self, path: str, before: bytes | None, after: bytes, deadline: Deadline) -> None:
        def change(current: Content | None) -> bytes:
            now = current.data if current else None
            if current is not None and now == after:
                raise _MadeError
            if now != before:
                raise _changed(path, current)
            return after

        with suppress(_MadeError):
            self._on_outcome(self._vault.edit_held(NotePath(path), change, deadline))

    def _move(self, old: str, new: str, deadline: Deadline) -> None:
        source, target = self._vault.find(old), self._vault.find(new)
        if source is None and target is not None:
            return
        if source is not None and target is not None and source.disk != target.disk:
            if not self._is_half_moved(old, new):
                raise Conflict(f"{new!r} is there already.", "Choose another name.")
            data = self._vault.read_held(NotePath(old))
            if data is not None:
                self._on_outcome(self._vault.remove_held(old, data.content.etag, deadline))
            return
        self._on_outcome(self._vault.move_held(old, new, deadline))

    def _is_half_moved(self, old: str, new: str) -> bool:
        """Whether a crash came between the new name and the end of the old one."""
        try:
            first, second = (self._vault.read_held(NotePath(path)) for path in (old, new))
        except VaultError:
            return False
        return bool(first and second and first.content == second.content)

    def _store(self, steps: Sequence[Step]) -> Plan:
        blobs: list[bytes] = []
        header = json.dumps([_described(step, blobs) for step in steps], ensure_ascii=False).encode(
            "utf-8", "surrogateescape"
        )
        if sum(map(len, blobs)) > MAX_BYTES:
            raise TooLarge("That is too much for one batch.", "Do it in several parts.")
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"
        file = self._folder / f"{name}.plan"
        new = self._folder / f"{name}.new"
        try:
            with new.open("xb") as out:
                out.write(header + b"\n")
                out.writelines(blobs)
                out.flush()
                os.fsync(out.fileno())
            new.rename(file)
            self._sync()
        except OSError as error:
            new.unlink(missing_ok=True)
            raise Unavailable(
                "The server's state folder can't be written; nothing was changed.",
                "The owner must check the disk that holds STATE_DIR.",
            ) from error
        return Plan(name, tuple(steps), file)

    def _turn_back(self, plan: Plan) -> Plan:
        file = plan.file.with_suffix(".back")
        plan.file.rename(file)
        self._sync()
        return Plan(plan.id, plan.steps, file, taken_back=True)

    def _drop(self, plan: Plan) -> None:
        plan.file.unlink(missing_ok=True)
        self._sync()

    def _sync(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _open(self) -> list[Plan]:
        """The plans that nobody is carrying out, the oldest first."""
        with self._lock:
            running = set(self._running)
        found = []
        for file in sorted(self._folder.iterdir()):
            if file.suffix == ".new" and file.stem not in running:
                # Never complete, so never begun.
                file.unlink(missing_ok=True)
            elif file.suffix in (".plan", ".back") and file.stem not in running:
                steps = tuple(_read(file.read_bytes()))
                found.append(Plan(file.stem, steps, file, file.suffix == ".back"))
        return found


class _MadeError(Exception):
    """The step was made before."""


def _changed(path: str, current: Content | None) -> Conflict:
    return Conflict(
        f"{path!r} was changed by somebody else meanwhile; nothing was changed.",
        "Read it and try again.",
        path=path,
        etag=current.etag if current else None,
    )


def _inverse(step: Step) -> Step:
    match step:
        case Replace(path, None, after):
            return Remove(path, after)
        case Replace(path, bytes() as before, after):
            return Replace(path, after, before)
        case Move(old, new):
            return Move(new, old)
        case Remove(path, before):
            return Replace(path, None, before)
    raise AssertionError


def _paths(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Move):
            yield step.old
            yield step.new
        else:
            yield step.path


def _described(step: Step, blobs: list[bytes]) -> dict[str, Any]:
    """A step as JSON; contents go to `blobs` in their order, and only their sizes stay."""
    match step:
        case Replace(path, before, after):
            blobs += [before or b"", after]
            size = None if before is None else len(before)
            return {"replace": path, "before": size, "after": len(after)}
        case Move(old, new):
            return {"move": old, "to": new}
        case Remove(path, before):
            blobs.append(before)
            return {"remove": path, "before": len(before)}


def _read(data: bytes) -> Iterator[Step]:
    header, _, rest = data.partition(b"\n")
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return rest[at - size : at]

    for item in json.loads(header.decode("utf-8", "surrogateescape")):
        if "replace" in item:
            size = item["before"]
            before = take(size or 0)
            yield Replace(item["replace"], None if size is None else before, take(item["after"]))
        elif "move" in item:
            yield Move(item["move"], item["to"])
        else:
            yield Remove(item["remove"], take(item["before"]))
