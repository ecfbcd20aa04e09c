"""Deciding about writes that wait: by an administrator, or by the user of the client that asked.

Knows no protocol: a door that can put a question to a person gets the question and brings the answer.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from server.access.decision import Access
from server.approvals.records import Approval
from server.approvals.store import Approvals
from server.approvals.telling import summed
from server.audit.audit import Audit
from server.errors import Conflict, NotFound, PermissionDenied
from server.models import Caller
from server.service.editing import Editing
from server.telemetry import Telemetry
from server.workers import Deadline, Workers

_TIMEOUT = 30.0
_APPLY_SECONDS = 1800.0
_SWEEP_SECONDS = 10.0
_DIFF_CHARS = 2_000
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What to put to a person, and what an answer to it has to bring."""

    message: str
    answer: str


class Approving:
    """The queue for those who decide. The caller comes first."""

    def __init__(
        self,
        approvals: Approvals,
        editing: Editing,
        access: Access,
        local: Workers,
        mount: Workers,
        telemetry: Telemetry,
        audit: Audit,
        stands: Callable[[str], bool] = lambda _caller: True,
    ) -> None:
        """`stands` tells whether a caller of this name could still come in."""
        self._approvals = approvals
        self._editing = editing
        self._access = access
        self._local = local
        self._mount = mount
        self._telemetry = telemetry
        self._audit = audit
        self._stands = stands
        self._swept = -_SWEEP_SECONDS
        self._ended: set[str] | None = None

    async def listed(self, caller: Caller) -> list[dict[str, Any]]:
        """What waits, the oldest first, and then what was decided lately."""
        self._access.require(caller, "admin", "")

        def run() -> list[dict[str, Any]]:
            return [summed(one) for one in (*self._approvals.waiting(), *self._approvals.decided())]

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def show(self, caller: Caller, id: str) -> dict[str, Any]:
        """One of them with its diff. Raises `NotFound`."""
        self._access.require(caller, "admin", "")

        def run() -> dict[str, Any]:
            told = summed(self._approvals.get(id))
            return {**told, "diff": self._approvals.diff(id)}

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def approve(self, caller: Caller, id: str) -> dict[str, Any]:
        """Make the write, if every file is still what the diff was made from.

        Raises `Conflict` when one is not or when somebody decided before, `PermissionDenied` when
        who asked may not write there any more.
        """
        self._access.require(caller, "admin", "")

        def run() -> Approval:
            with self._approvals.claim(id) as claim:
                if claim.approval.state == "approved":
                    self._editing.resume(claim)
                    return claim.approval
                asker = claim.approval.caller
                if not self._stands(asker):
                    raise PermissionDenied(
                        f"{asker!r} has no valid token any more.",
                        "Deny the write, or give the caller a token again.",
                    )
                return self._editing.release(claim, caller)

        return summed(await self._decide(caller, id, "approve", run))

    async def deny(self, caller: Caller, id: str, reason: str | None = None) -> dict[str, Any]:
        """Close it: nothing is written. Raises `Conflict` when somebody decided before."""
        self._access.require(caller, "admin", "")

        def run() -> Approval:
            with self._approvals.claim(id) as claim:
                if claim.approval.state == "approved":
                    raise Conflict(
                        f"{claim.approval.by} approved it already; it is being written.",
                        "Look again in a moment.",
                    )
                return claim.close("denied", caller.name, reason)

        return summed(await self._decide(caller, id, "deny", run))

    async def question(
        self, caller: Caller, tool: str, arguments: Mapping[str, Any], id: str
    ) -> Question:
        """What to ask the user of the client that sent a call whose write waits now."""
        answer = secrets.token_urlsafe(16)

        def run() -> Question:
            with self._approvals.claim(id) as claim:
                self._check_own(claim.approval, caller, tool)
                claim.give(_digest(answer), _about(tool, arguments))
                message = self._message(caller, claim.approval, arguments.get("path"))
                return Question(message, f"{id}.{answer}")

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def answered(
        self, caller: Caller, tool: str, arguments: Mapping[str, Any], answer: str
    ) -> str:
        """The approval that an answer belongs to. An answer counts once, and only for its question.

        Raises `PermissionDenied` for any other.
        """
        id, _, rest = answer.partition(".")

        def run() -> str:
            with self._approvals.claim(id) as claim:
                self._check_own(claim.approval, caller, tool)
                if claim.take(_digest(rest)) != _about(tool, arguments):
                    raise _no_answer()
                return id

        try:
            return await self._local.run_async(Deadline.after(_TIMEOUT), run)
        except NotFound:
            raise _no_answer() from None

    async def judged(self, caller: Caller, id: str, *, accepted: bool) -> str:
        """What the user of the client said: the approval that the call may be made with now.

        Raises `PermissionDenied` when the user declined, and closes it.
        """
        said = "approve" if accepted else "deny"
        self._audit.record("approval", id=id, by=caller.name, decision=said, outcome="client")
        if accepted:
            return id

        def run() -> None:
            with suppress(Conflict), self._approvals.claim(id) as claim:
                claim.close("denied", caller.name, "declined in the client")

        await self._local.run_async(Deadline.after(_TIMEOUT), run)
        raise PermissionDenied(
            "The user declined.", "Nothing was written. Ask the user what they want instead."
        )

    def waiting(self) -> int:
        """How many writes wait."""
        return self._approvals.count()

    def settle(self) -> None:
        """Finish what a server that died was about to decide, and close what is too old; seldom."""
        self._publish()
        if time.monotonic() - self._swept < _SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        for id in self._approvals.sweep():
            with suppress(Conflict, NotFound), self._approvals.claim(id, patience=0) as claim:
                self._editing.resume(claim)

    def _publish(self) -> None:
        """Count what was decided since the last look, here or elsewhere."""
        self._telemetry.approvals_waiting.set(self._approvals.count())
        ended = self._approvals.ended()
        for id in ended - self._ended if self._ended is not None else ():
            with suppress(NotFound):
                self._telemetry.approvals.labels(self._approvals.get(id).state).inc()
        self._ended = ended

    async def _decide(
        self, caller: Caller, id: str, decision: str, run: Callable[[], Approval]
    ) -> Approval:
        outcome = "failed"
        try:
            approval = await self._mount.run_async(Deadline.after(_APPLY_SECONDS), run)
            outcome = approval.state
        except Conflict:
            outcome = "conflict"
            raise
        finally:
            self._audit.record(
                "approval", id=id[:16], by=caller.name, decision=decision, outcome=outcome
            )
        return approval

    @staticmethod
    def _check_own(approval: Approval, caller: Caller, tool: str) -> None:
        if (approval.caller, approval.tool) != (caller.name, tool):
            raise _no_answer()

    def _message(self, caller: Caller, approval: Approval, given: Any) -> str:
        sees = self._access.sees(caller)
        if not all(map(sees, approval.paths)):
            # It goes to the caller's own side, which may not even know how a name is spelled.
            return (
                f"{approval.tool} wants to change {str(given)[:200]!r}.\n\n"
                "The caller may not read what is there, so no diff is shown."
            )
        named = ", ".join(approval.paths[:_NAMED])
        more = len(approval.paths) - _NAMED
        text = f"{approval.tool} wants to change {named}{f' and {more} more' if more > 0 else ''}."
        diff = self._approvals.diff(approval.id)
        cut = diff if len(diff) <= _DIFF_CHARS else f"{diff[:_DIFF_CHARS]}\n… (cut)"
        return f"{text}\n\n{cut}"


def _about(tool: str, arguments: Mapping[str, Any]) -> str:
    return _digest(json.dumps([tool, arguments], sort_keys=True, default=str))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _no_answer() -> PermissionDenied:
    return PermissionDenied(
        "This answer belongs to no open question of this call, or was used before.",
        "Send the call without it: then the user is asked.",
    )
