"""What is known of a write that waits, and how it is written down."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from server.models import Caller, Grant

State = Literal["waiting", "approved", "applied", "denied", "outdated", "expired"]
"""`approved` is on the way to `applied`: after a crash it is looked at again."""
Outcome = Literal["applied", "denied", "outdated", "expired"]


@dataclass(frozen=True, slots=True)
class Request:
    """A write as somebody asked for it; `steps` are the bytes that say how to make it."""

    caller: Caller
    tool: str
    paths: tuple[str, ...]
    diff: str
    steps: bytes
    plan: Mapping[str, Any]
    """Plain data that belongs to the steps; this room doesn't look into it."""
    fingerprint: str
    """The same for the same write of the same caller."""


@dataclass(frozen=True, slots=True)
class Approval:
    """One write and what became of it."""

    id: str
    state: State
    caller: str
    session: str | None
    door: str
    grant: Grant | None
    tool: str
    paths: tuple[str, ...]
    asked: float
    expires: float
    fingerprint: str
    size: int
    plan: Mapping[str, Any]
    asks: Mapping[str, str] = field(default_factory=dict)
    """What clients were given to answer with, each with what belongs to it."""
    by: str | None = None
    reason: str | None = None
    decided: float | None = None

    @property
    def asker(self) -> Caller:
        """Who asked, with what the credential was for."""
        return Caller(self.caller, self.session, self.door, self.grant)


def opened(request: Request, id: str, now: float, expires: float) -> Approval:
    """A request that begins to wait."""
    caller = request.caller
    return Approval(
        id=id, state="waiting", caller=caller.name, session=caller.session, door=caller.door,
        grant=caller.grant, tool=request.tool, paths=request.paths, asked=now, expires=expires,
        fingerprint=request.fingerprint, size=len(request.steps) + len(request.diff),
        plan=request.plan,
    )  # fmt: skip


def closed(
    approval: Approval, state: Outcome, now: float, by: str | None, reason: str | None
) -> Approval:
    """The same approval, decided; nobody can answer for it any more."""
    by = by if by is not None else approval.by
    return replace(approval, state=state, by=by, reason=reason, decided=now, asks={}, plan={})


def written(approval: Approval) -> bytes:
    """An approval as the content of a file."""
    text = json.dumps(asdict(approval), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def read(data: bytes) -> Approval:
    """An approval from a file. Raises `ValueError`, `KeyError` or `TypeError` when it is damaged."""
    values = json.loads(data.decode("utf-8", "surrogatepass"))
    grant = values["grant"]
    values["paths"] = tuple(values["paths"])
    if grant is not None:
        values["grant"] = Grant(tuple(grant["read"]), tuple(grant["write"]))
    return Approval(**values)
