"""What one call leaves behind: the decisions that were made for it and the files that it changed.

Bounded, whatever a call does: of a thousand paths a line names a few and counts the others.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from server.models import Action
from server.telemetry import DENIALS

MOST_PATHS = 20
MOST_CHANGES = 50
LONGEST = 300
"""Characters of a path, or of anything else that others worded."""


class CallRecord:
    """The `Trail` of one call. Threads of the call may still write when its caller has gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: dict[str, None] = {}
        self._more_paths = 0
        self._first: tuple[Action, str] | None = None
        self._denial: tuple[Action, str, str] | None = None
        self._changes: list[dict[str, str | None]] = []
        self._more_changes = 0
        self._bytes = 0
        self._late: Callable[[Mapping[str, Any]], None] | None = None

    @property
    def denied(self) -> bool:
        """Whether something was refused."""
        return self._denial is not None

    def decided(self, action: Action, path: str, allowed: bool, rule: str) -> None:
        """Note an access decision."""
        with self._lock:
            if self._first is None:
                self._first = action, rule
            if not allowed and self._denial is None:
                self._denial = action, rule, path
            if path in self._paths:
                return
            if len(self._paths) < MOST_PATHS:
                self._paths[path] = None
            else:
                self._more_paths += 1

    def changed(self, path: str, before: str | None, after: str | None, size: int) -> None:
        """Note a change of a file; when the call's line is written already, it gets one of its own."""
        change = {"path": path[:LONGEST], "before": before, "after": after}
        with self._lock:
            late = self._late
            if late is None:
                self._bytes += size
                if len(self._changes) < MOST_CHANGES:
                    self._changes.append(change)
                else:
                    self._more_changes += 1
        if late is not None:
            late({"bytes": size, "changes": [change]})

    def end(self, outcome: str, late: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
        """The call is over: what its line says of it. What its threads still do goes to `late`."""
        with self._lock:
            self._late = late
            return self._told(outcome)

    def _told(self, outcome: str) -> dict[str, Any]:
        decision, rule, action = self._verdict(outcome)
        paths = list(self._paths)
        if self._denial is not None:
            # What was refused is what a reader looks for: first, even if it was the hundredth.
            path = self._denial[2]
            paths = [path, *(other for other in paths if other != path)]
        told: dict[str, Any] = {
            "action": action,
            "paths": [path[:LONGEST] for path in paths[:MOST_PATHS]],
            "more_paths": self._more_paths or None,
            "decision": decision,
            "rule": rule[:LONGEST] if rule else None,
            "outcome": outcome,
        }
        if self._changes:
            told["bytes"] = self._bytes
            told["changes"] = self._changes
            told["more_changes"] = self._more_changes or None
        return told

    def _verdict(self, outcome: str) -> tuple[str | None, str | None, Action | None]:
        if self._denial is not None:
            return "deny", self._denial[1], self._denial[0]
        action = self._first[0] if self._first is not None else None
        if outcome in DENIALS:
            # Not by a rule: nobody may go there, or nothing may be written just now.
            return "deny", outcome, action
        if self._first is not None:
            return "allow", self._first[1], action
        return None, None, None
