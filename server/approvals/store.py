"""The queue on disk: one folder per write, which several servers and the command line share.

    waiting/ID/   head.json  what is known of it, replaced as a whole
                  steps      what to do; whoever decides holds a lock on it
                  diff       what people look at
    closed/ID/    the same without the steps, kept for a while

A lock ends with its process, so what a server that died was about to decide is free again.
"""

import base64
import fcntl
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from server.approvals.records import Approval, Outcome, Request, closed, opened, read, written
from server.errors import Conflict, NotFound, RateLimited, Unavailable
from server.state import sync_folder
from server.telemetry import log

MOST, MOST_EACH = 1_000, 100
MOST_BYTES = 256 << 20
_KEEP_SECONDS = 7 * 24 * 3600.0
_MOST_CLOSED = 1_000
_PATIENCE = 2.0
_MOST_ASKS = 8
_ID = re.compile(r"[a-z2-7]{16}")


class Claim:
    """One approval in the hands of the one who decides it."""

    def __init__(self, store: "Approvals", approval: Approval, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self.approval = approval

    def steps(self) -> bytes:
        """What is to be done."""
        return (self._folder / "steps").read_bytes()

    def approve(self, by: str) -> None:
        """Said before the vault is touched, so that a crash leaves no doubt that it was approved."""
        self._save(replace(self.approval, state="approved", by=by))

    def reopen(self) -> None:
        """Nothing was written: it waits again."""
        self._save(replace(self.approval, state="waiting", by=None))

    def give(self, answer: str, about: str) -> None:
        """Remember what a client was given to answer with."""
        kept = list(self.approval.asks.items())[-(_MOST_ASKS - 1) :]
        self._save(replace(self.approval, asks={**dict(kept), answer: about}))

    def take(self, answer: str) -> str | None:
        """What belongs to an answer, which is used up by this; None when nobody was given it."""
        asks = dict(self.approval.asks)
        about = asks.pop(answer, None)
        if about is not None:
            self._save(replace(self.approval, asks=asks))
        return about

    def close(self, outcome: Outcome, by: str | None = None, reason: str | None = None) -> Approval:
        """Decide it for good."""
        self._save(closed(self.approval, outcome, self._store.now(), by, reason))
        self._store.put_away(self._folder)
        return self.approval

    def _save(self, approval: Approval) -> None:
        _write(self._folder / "head.json", written(approval))
        self.approval = approval


class Approvals:
    """Safe for many threads and many processes."""

    def __init__(
        self, folder: Path, *, hours: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._waiting, self._closed = folder / "waiting", folder / "closed"
        self._seconds = hours * 3600
        self.now = clock

    def put(self, request: Request) -> Approval:
        """Let a write wait; the same one of the same caller waits once.

        Raises `RateLimited` when too many wait, `Unavailable` when it can't be stored.
        """
        with _told(), self._alone():
            for left in self._waiting.glob(".new-*"):
                shutil.rmtree(left, ignore_errors=True)
            others = [one for one in self.waiting() if one.state == "waiting"]
            same = [one for one in others if one.fingerprint == request.fingerprint]
            if same:
                return same[0]
            self._check_room(request, others)
            now = self.now()
            approval = opened(request, _new_id(), now, now + self._seconds)
            new = self._waiting / f".new-{approval.id}"
            new.mkdir(mode=0o700)
            _write(new / "steps", request.steps)
            _write(new / "diff", request.diff.encode("utf-8", "replace"))
            _write(new / "head.json", written(approval))
            new.rename(self._waiting / approval.id)
            sync_folder(self._waiting)
            return approval

    def waiting(self) -> list[Approval]:
        """What waits and may still be decided, the oldest first."""
        now = self.now()
        found = [one for one in self._heads(self._waiting) if one.state in ("waiting", "approved")]
        return [one for one in found if one.state == "approved" or one.expires > now]

    def decided(self) -> list[Approval]:
        """What was decided lately, the newest first."""
        return sorted(self._heads(self._closed), key=lambda one: -(one.decided or 0))

    def count(self) -> int:
        """How many wait, those among them whose time has just passed."""
        return len(_names(self._waiting))

    def ended(self) -> set[str]:
        """The ids of what was decided lately."""
        return set(_names(self._closed))

    def get(self, id: str) -> Approval:
        """One approval, waiting or decided. Raises `NotFound`."""
        if _ID.fullmatch(id):
            # What is decided between the two looks is found by the third.
            for place in (self._waiting, self._closed, self._closed):
                if (found := _head(place / id)) is not None:
                    return found
        raise _unknown(id)

    def diff(self, id: str) -> str:
        """What a write changes, for people. Raises `NotFound`."""
        if _ID.fullmatch(id):
            for place in (self._waiting, self._closed, self._closed):
                with suppress(FileNotFoundError):
                    return (place / id / "diff").read_text(encoding="utf-8")
        raise _unknown(id)

    @contextmanager
    def claim(self, id: str, *, patience: float = _PATIENCE) -> Iterator[Claim]:
        """Be the only one to decide; raises `NotFound`, or `Conflict` when somebody else is or was."""
        if not _ID.fullmatch(id):
            raise _unknown(id)
        folder = self._waiting / id
        try:
            fd = os.open(folder / "steps", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _decided(self.get(id)) from None
        try:
            _lock(fd, patience)
            head = _head(folder)
            if head is None or head.state not in ("waiting", "approved"):
                raise _decided(head or self.get(id))
            claim = Claim(self, head, folder)
            if head.state == "waiting" and head.expires <= self.now():
                raise _decided(claim.close("expired"))
            yield claim
        finally:
            os.close(fd)

    def sweep(self) -> list[str]:
        """Close what nobody decided in time and forget what is old; the ids of what was left half done."""
        half_done = []
        self._set_damaged_aside()
        for head in self._heads(self._waiting):
            if head.state == "approved":
                half_done.append(head.id)
            elif head.state != "waiting":
                self.put_away(self._waiting / head.id)
            elif head.expires <= self.now():
                with suppress(Conflict, NotFound), self.claim(head.id, patience=0):
                    pass
        for number, head in enumerate(self.decided()):
            if number >= _MOST_CLOSED or self.now() - (head.decided or 0) > _KEEP_SECONDS:
                shutil.rmtree(self._closed / head.id, ignore_errors=True)
        return half_done

    def put_away(self, folder: Path) -> None:
        """Move what was decided out of the queue; what was to be written is not kept."""
        self._closed.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            folder.rename(self._closed / folder.name)
            (self._closed / folder.name / "steps").unlink(missing_ok=True)
            sync_folder(self._waiting)

    def _set_damaged_aside(self) -> None:
        """Keep what the disk has damaged for people to look at, out of everybody's way."""
        for place in (self._waiting, self._closed):
            for folder in (place / name for name in _names(place)):
                if _head(folder) is None and (folder / "head.json").exists():
                    log(logging.ERROR, "an approval on file is damaged", id=folder.name)
                    with suppress(OSError):
                        folder.rename(folder.with_name(f"{folder.name}.damaged"))

    def _check_room(self, request: Request, others: list[Approval]) -> None:
        own = sum(one.caller == request.caller.name for one in others)
        size = len(request.steps) + len(request.diff) + sum(one.size for one in others)
        if own >= MOST_EACH or len(others) >= MOST or size > MOST_BYTES:
            raise RateLimited(
                "Too many writes wait for approval already; this one was not kept.",
                "Ask the user to decide about them with `vault-mcp approvals`, then try again.",
                waiting=own,
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._waiting.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _heads(self, place: Path) -> list[Approval]:
        heads = (_head(place / name) for name in _names(place))
        return sorted((head for head in heads if head is not None), key=lambda one: one.asked)


def _names(place: Path) -> list[str]:
    try:
        return [name for name in os.listdir(place) if _ID.fullmatch(name)]
    except FileNotFoundError:
        return []


def _head(folder: Path) -> Approval | None:
    try:
        return read((folder / "head.json").read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None


def _new_id() -> str:
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def _lock(fd: int, patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise Conflict(
                    "Somebody else decides about this write just now.", "Look again in a moment."
                ) from None
            time.sleep(0.01)
        else:
            return


def _write(file: Path, data: bytes) -> None:
    """Replace a small file as a whole, durably."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    new.rename(file)
    sync_folder(file.parent)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            "The server's state folder can't be written; nothing was changed.",
            "The owner must check the disk that holds STATE_DIR.",
        ) from error


def _unknown(id: str) -> NotFound:
    return NotFound(f"There is no approval {id[:40]!r}.", "`vault-mcp approvals` lists what waits.")


def _decided(approval: Approval) -> Conflict:
    what = {"outdated": "closed, because a file had changed", "expired": "closed: its time is over"}
    said = what.get(approval.state, f"{approval.state} already")
    return Conflict(
        f"The approval was {said}.",
        "An approval is used once; ask for the write again if it is still wanted.",
        approval=approval.id,
        state=approval.state,
    )
