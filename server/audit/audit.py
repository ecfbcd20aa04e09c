"""The audit as the server uses it: a line for every call, every refusal, every act of an owner.

It never fails a call: what can't be written is counted, said once a minute, and told by the first line
that can be written again.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from server.audit.calls import LONGEST, CallRecord
from server.audit.log import Log
from server.models import Caller
from server.telemetry import Telemetry, log, redact

FOLDER = "audit"
LOST = "audit_lost"
"""Lines could not be written before this one: `more` says how many."""

FLOODS = ("refused", "limited")
"""Those who are turned away: a flood of such lines must not wash the others out."""
_A_SECOND = 10
_COMPLAIN_SECONDS = 60.0
_MOST_ITEMS = 50
_RESERVED = frozenset(("seq", "time", "event", "prev", "hash"))


class Audit:
    """Writes lines; any thread may call it."""

    def __init__(self, log_: Log, telemetry: Telemetry | None = None) -> None:
        self._log = log_
        self._telemetry = telemetry
        self._lock = threading.Lock()
        self._counts = {LOST: _Count(0), **{event: _Count(_A_SECOND) for event in FLOODS}}
        self._complained = -_COMPLAIN_SECONDS
        self.problem: str | None = None
        """Why lines can't be written just now."""

    @classmethod
    def open(
        cls, folder: Path, *, max_mb: float, max_files: int, telemetry: Telemetry | None = None
    ) -> Self:
        """The audit in a folder, which the first line makes."""
        size = int(max_mb * 1024 * 1024)
        return cls(Log(folder, max_bytes=size, max_files=max_files), telemetry)

    def call(
        self, tool: str, caller: Caller, record: CallRecord, outcome: str, seconds: float
    ) -> None:
        """One call is over; of a flood of calls beyond the limits a few are told."""
        if outcome == "rate_limited" and not self._admits("limited"):
            return
        who = {
            "caller": caller.name[:LONGEST],
            "session": short(caller.session),
            "door": caller.door,
            "tool": tool[:LONGEST],
        }
        seq: list[int | None] = [None]

        def late(told: Mapping[str, Any]) -> None:
            self._write({"event": "late", "call": seq[0], **who, **told})

        told = record.end(outcome, late)
        seq[0] = self._write({"event": "call", **who, **told, "ms": round(seconds * 1000, 2)})

    def refused(self, door: str, reason: str, peer: str | None) -> None:
        """Somebody was not let in; of a flood a few are told and the others counted."""
        if self._telemetry is not None:
            self._telemetry.logins_refused.inc()
        if not self._admits("refused"):
            return
        self._write(
            {
                "event": "refused",
                "door": door,
                "decision": "deny",
                "reason": reason[:LONGEST],
                "peer": peer[:LONGEST] if peer else None,
            }
        )

    def record(self, event: str, **fields: Any) -> None:
        """Something else that an owner wants to find later: a token, an approval, other rules.

        Names and numbers only: no contents and no secrets.
        """
        told = {name: _bounded(value) for name, value in fields.items() if name not in _RESERVED}
        self._write({"event": event, **told})

    def close(self) -> None:
        """Tell what was only counted so far, and put everything on the disk."""
        try:
            self._catch_up()
            self._log.close()
        except OSError as error:
            self._complain(error)

    def _admits(self, event: str) -> bool:
        with self._lock:
            return self._counts[event].admits(time.monotonic())

    def _write(self, fields: Mapping[str, Any]) -> int | None:
        """Write a line, after those about what was only counted; its number."""
        try:
            if any(self._counts.values()):
                self._catch_up(time.monotonic())
            seq = self._append(fields)
        except OSError as error:
            with self._lock:
                self._counts[LOST].missed += 1
            self._complain(error)
            return None
        self.problem = None
        return seq

    def _catch_up(self, now: float | None = None) -> None:
        for event, count in self._counts.items():
            with self._lock:
                missed = count.take(None if event == LOST else now)
            if not missed:
                continue
            try:
                self._append({"event": event, "more": missed})
            except OSError:
                with self._lock:
                    count.missed += missed
                raise

    def _append(self, fields: Mapping[str, Any]) -> int:
        now = {"time": _iso(time.time())}
        line = {**now, **{name: value for name, value in fields.items() if value is not None}}
        # A lock that somebody keeps must not hold up call after call.
        seq = self._log.append(line, now=now, patience=0.25 if self.problem is None else 0.01)
        if self._telemetry is not None:
            self._telemetry.audit_lines.inc()
        return seq

    def _complain(self, error: OSError) -> None:
        self.problem = f"The audit can't be written: {error.strerror or type(error).__name__}."
        if self._telemetry is not None:
            self._telemetry.audit_errors.inc()
        now = time.monotonic()
        if now - self._complained >= _COMPLAIN_SECONDS:
            self._complained = now
            log(logging.ERROR, "the audit can't be written; calls go on", why=error.strerror)


class _Count:
    """Admits a few a second and counts the others, until somebody takes the count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._start = float("-inf")
        self._admitted = 0
        self._before = 0
        """Those that were missed before this second."""
        self.missed = 0

    def __bool__(self) -> bool:
        return bool(self.missed or self._before)

    def admits(self, now: float) -> bool:
        self._roll(now)
        if self._admitted < self._most:
            self._admitted += 1
            return True
        self.missed += 1
        return False

    def take(self, now: float | None = None) -> int:
        """How many were missed before this second, which may go on; without a time, all."""
        if now is not None:
            self._roll(now)
            taken, self._before = self._before, 0
        else:
            taken, self._before, self.missed = self._before + self.missed, 0, 0
        return taken

    def _roll(self, now: float) -> None:
        if now - self._start >= 1:
            self._before += self.missed
            self._start, self._admitted, self.missed = now, 0, 0


@lru_cache(maxsize=1024)
def short(session: str | None) -> str | None:
    """A session's name for people: whoever reads it can't use the session."""
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:12] if session else None


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value[:LONGEST])
    if isinstance(value, Mapping):
        return {str(name)[:LONGEST]: _bounded(item) for name, item in _first(value.items())}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_bounded(item) for item in _first(value)]
    return value if value is None or isinstance(value, (int, float)) else str(value)[:LONGEST]


def _first(items: Iterable[Any]) -> list[Any]:
    return [item for item, _ in zip(items, range(_MOST_ITEMS), strict=False)]


def _iso(now: float) -> str:
    whole, milliseconds = divmod(int(now * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"
