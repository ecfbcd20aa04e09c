"""Several changes of the vault that happen all or not at all.

A plan is on local disk, fsynced, before its first step, with what every step needs to be made and to
be taken back. One file per plan; its suffix is its state:

    plan   being carried out: after a crash the rest of it is carried out
    back   a step failed: what was done is taken back, after a crash too

A finished plan has no file. What somebody else changed meanwhile is theirs: a step that finds
neither its before nor its after leaves the file alone.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from server.errors import (
    Conflict,
    InvalidPath,
    PermissionDenied,
    Timeout,
    TooLarge,
    Unavailable,
    VaultError,
)
from server.models import Content, NotePath, etag_of, path_key
from server.telemetry import log
from server.vault import files
from server.vault.files import Permit
from server.vault.relocation import Place
from server.vault.steps import (
    Move,
    Remove,
    Replace,
    Step,
    inverse,
    paths_of,
    read_steps,
    written_down,
)
from server.vault.turns import overlap
from server.vault.vault import Moved, Unsettled, Vault, Written
from server.workers import Deadline

__all__ = ["Move", "Outcome", "Plan", "Plans", "Remove", "Replace", "Step"]

MAX_BYTES = 512 << 20
_STEP_SECONDS = 120.0
_STATES = (".plan", ".back")
TRASH = ".trash/"


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
        self._settling = threading.Lock()
        self._left: dict[str, frozenset[str]] = {}
        """Which paths the plans name that were cut short."""
        folder.mkdir(parents=True, exist_ok=True)
        self._look()
        vault.leftovers = self

    def carry_out(
        self,
        steps: Sequence[Step],
        deadline: Deadline,
        *,
        permit: Permit | None = None,
        on_step: Callable[[int], None] = lambda _done: None,
    ) -> None:
        """Make every step; `on_step` learns before each how many are made.

        Raises what the first failed one raised, with all steps taken back.

        `permit` is asked with the path that each step really touches; the trash is everybody's.

        Raises `OutcomeOpen` when the mount failed on the way: it is settled when that is back.
        """
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"
        self._vault.settle_first(paths_of(steps))
        # On file only when it can begin: one that had to wait too long must not be settled later.
        with self._vault.hold(paths_of(steps), deadline), self._own(name):
            self._vault.check_unplanned(paths_of(steps))
            self._run(self._store(steps, name), deadline, _outside_trash(permit), on_step)

    @contextmanager
    def _own(self, name: str) -> Iterator[None]:
        """Keep `settle` away from a plan, from before its first byte to its end."""
        with self._lock:
            self._running.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(name)

    def _run(
        self,
        plan: Plan,
        deadline: Deadline,
        permit: Permit | None,
        on_step: Callable[[int], None],
    ) -> None:
        done: list[Step] = []
        tried: Step | None = None
        try:
            for number, step in enumerate(plan.steps):
                deadline.check()
                on_step(number)
                tried = step
                if self._make(step, deadline, permit=permit):
                    done.append(step)
                tried = None
        except files.OutcomeOpen:
            self._leave(plan)
            raise
        except VaultError as error:
            if isinstance(tried, Replace) and not isinstance(error, PermissionDenied | Unsettled):
                # A write that failed may have put its content there all the same.
                done.append(tried)
            self._take_back(plan, done, error)
            raise
        self._drop(plan)

    def _take_back(self, plan: Plan, done: Sequence[Step], error: VaultError) -> None:
        try:
            back = self._turn_back(plan)
            for step in reversed(done):
                self._make_if_ours(inverse(step))
        except (VaultError, OSError) as second:
            log(logging.ERROR, "a batch could not be taken back yet", why=repr(second))
            self._leave(plan)
            raise files.OutcomeOpen from error
        self._drop(back)

    def _leave(self, plan: Plan) -> None:
        """Have it settled before anybody changes what it names."""
        self._left[plan.id] = frozenset(map(path_key, paths_of(plan.steps)))

    def _look(self) -> None:
        for plan in self._open():
            self._leave(plan)

    def touch(self, paths: Iterable[str]) -> bool:
        """Whether a plan that was cut short is yet to change one of the paths, above or below it."""
        if not self._left:
            return False
        keys = frozenset(map(path_key, paths))
        return any(overlap(keys, left) for left in list(self._left.values()))

    def settle(self) -> int:
        """Finish what a crash or a lost mount left; how many plans are still open."""
        with self._settling:
            left = 0
            for plan in self._open():
                try:
                    self._settle(plan)
                except VaultError as error:
                    self._vault.guard.suspect(error)
                    self._leave(plan)
                    left += 1
            for name in list(self._left):
                # Settled, or set aside as damaged.
                if not any((self._folder / f"{name}{state}").exists() for state in _STATES):
                    self._left.pop(name, None)
            return left

    def follow(self) -> None:
        """Have the journal know of the moves that were made before the cut.

        It goes first, and would take what was moved for lost at its old place.
        """
        for plan in self._open() if self._left else ():
            moves = [step for step in plan.steps if isinstance(step, Move) and not plan.taken_back]
            with self._vault.hold(paths_of(plan.steps), Deadline.after(_STEP_SECONDS)):
                for step in moves if plan.file.exists() else ():
                    try:
                        self._follow(step.old, step.new)
                    except (Unavailable, Timeout):
                        raise
                    except VaultError:
                        continue  # nobody can tell: settling it will say why

    def _follow(self, old: str, new: str) -> bool:
        """Have writes that wait follow a move: the crash may have come first. False when it was not made."""
        target = self._vault.find(new)
        if target is None or self._vault.find(old) is not None:
            return False
        self._vault.redirect(old, target.disk)
        return True

    def _settle(self, plan: Plan) -> None:
        steps = [inverse(step) for step in reversed(plan.steps)]
        with self._vault.hold(paths_of(plan.steps), Deadline.after(_STEP_SECONDS)):
            for step in steps if plan.taken_back else plan.steps:
                self._make_if_ours(step)
            self._drop(plan)
        log(
            logging.WARNING, "settled a batch that was cut short", id=plan.id,
            steps=len(steps), outcome="taken back" if plan.taken_back else "carried out",
        )  # fmt: skip

    def take_over(self, folder: Path) -> int:
        """Adopt the plans of a server that died; returns how many."""
        taken = 0
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.suffix in _STATES:
                file.rename(self._folder / file.name)
                taken += 1
        self._look()
        return taken

    def __len__(self) -> int:
        return sum(file.suffix in _STATES for file in self._folder.iterdir())

    def _make_if_ours(self, step: Step) -> None:
        try:
            self._make(step, Deadline.after(_STEP_SECONDS), again=True)
        except (Unavailable, Timeout):
            raise
        except VaultError as error:
            # Somebody changed it since: the rest is still worth finishing.
            log(logging.WARNING, "a step of a batch no longer fits", why=error.message)

    def _make(
        self,
        step: Step,
        deadline: Deadline,
        *,
        again: bool = False,
        permit: Permit | None = None,
    ) -> bool:
        """Make a step; False when it was made already."""
        match step:
            case Replace(path, before, after):
                return self._replace(path, before, after, deadline, permit)
            case Move(old, new):
                return self._move(old, new, deadline, again, permit)
            case Remove(path, before):
                found = self._vault.read_held(NotePath(path), permit=permit)
                if found is None:
                    return False
                if found.content.data != before:
                    raise _changed(path, found.content)
                gone = self._vault.remove_held(path, etag_of(before), deadline, permit=permit)
                self._on_outcome(gone)
                return True

    def _replace(
        self,
        path: str,
        before: bytes | None,
        after: bytes,
        deadline: Deadline,
        permit: Permit | None,
    ) -> bool:
        def change(current: Content | None) -> bytes:
            now = current.data if current else None
            if current is not None and now == after:
                raise _MadeError
            if now != before:
                raise _changed(path, current)
            return after

        try:
            held = self._vault.edit_held(NotePath(path), change, deadline, permit=permit)
            self._on_outcome(held)
        except _MadeError:
            return False
        return True

    def _move(
        self, old: str, new: str, deadline: Deadline, again: bool, permit: Permit | None
    ) -> bool:
        if self._follow(old, new):
            return False
        source, target = self._vault.find(old), self._vault.find(new)
        if again and source and target and source.disk != target.disk:
            etag = self._half_moved(old, new)
            if etag is not None:
                self._on_outcome(self._vault.remove_held(old, etag, deadline))
                return True
        self._on_outcome(self._vault.move_held(old, new, deadline, permit=permit))
        return True

    def _half_moved(self, old: str, new: str) -> str | None:
        """The etag of a file that a remote has at both places, because it copies what it moves."""
        if not self._vault.guard.pin().is_rclone:
            return None
        try:
            first, second = (self._vault.read_held(NotePath(path)) for path in (old, new))
        except (InvalidPath, TooLarge):
            return None
        same = first and second and first.content.data == second.content.data
        return first.content.etag if first and same else None

    def _store(self, steps: Sequence[Step], name: str) -> Plan:
        parts = written_down(steps)
        if sum(map(len, parts)) > MAX_BYTES:
            raise TooLarge("That is too much for one batch.", "Do it in several parts.")
        file = self._folder / f"{name}.plan"
        new = self._folder / f"{name}.new"
        try:
            with new.open("xb") as out:
                out.writelines(parts)
                out.flush()
                os.fsync(out.fileno())
            new.rename(file)
            self._sync()
        except OSError as error:
            for left in (new, file):
                with suppress(OSError):
                    left.unlink()
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
        try:
            plan.file.unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            # It ended well; settling it once more finds every step made.
            self._leave(plan)
            log(logging.ERROR, "a finished batch can't be forgotten", id=plan.id, why=repr(error))

    def _sync(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _open(self) -> list[Plan]:
        """The plans that nobody is carrying out, the oldest first."""
        # In this order: what is on file and nobody's is either left over or gone by now.
        on_file = sorted(self._folder.iterdir())
        with self._lock:
            running = set(self._running)
        found = []
        for file in on_file:
            if file.stem in running:
                continue
            if file.suffix == ".new":
                # Never complete, so never begun.
                file.unlink(missing_ok=True)
            elif file.suffix in _STATES and (steps := _load(file)) is not None:
                found.append(Plan(file.stem, steps, file, file.suffix == ".back"))
        return found


def _outside_trash(permit: Permit | None) -> Permit | None:
    if permit is None:
        return None
    return lambda path: None if path.startswith(TRASH) else permit(path)


class _MadeError(Exception):
    """The step was made before."""


def _changed(path: str, current: Content | None) -> Conflict:
    return Conflict(
        f"{path!r} was changed by somebody else meanwhile; nothing was changed.",
        "Read it and try again.",
        path=path,
        etag=current.etag if current else None,
    )


def _load(file: Path) -> tuple[Step, ...] | None:
    """The steps of a plan; one that the disk has damaged is set aside for people to look at."""
    try:
        return tuple(read_steps(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        log(logging.ERROR, "a batch on file is damaged and can't be settled", id=file.stem)
        file.rename(file.with_suffix(".damaged"))
        return None
