"""What an operation is: a frozen declaration that every door can serve."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Access = Literal["read", "write", "admin"]
Toolset = Literal["core", "find", "edit", "graph", "devlog", "admin"]

_COUNTABLE = AfterValidator(lambda number: max(-(2**62), min(number, 2**62)))
Whole = Annotated[int, _COUNTABLE]
"""A number of any size, cut to what databases can count to: beyond the end there is nothing."""
Offset = Annotated[int, Field(ge=0), _COUNTABLE]
Patience = Annotated[
    float, AfterValidator(lambda seconds: min(seconds, 300.0) if seconds > 0 else 0.0)
]
"""Seconds to wait; more than five minutes, or what is no number, is cut to what makes sense."""


class Input(BaseModel):
    """An operation's arguments. Unknown ones are refused, so that a typo is never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Media:
    """Something to be looked at that goes beside a result, not into it."""

    data: bytes
    type: str


class Output(BaseModel):
    """An operation's result. Fields that are None are left out: small answers."""

    model_config = ConfigDict(frozen=True)

    @property
    def media(self) -> Media | None:
        """What a door shows beside the data, once."""
        return None


class IndexOutput(Output):
    """A result that comes from the index, and how far it can be trusted: see `Freshness`."""

    stale: bool | None = None
    as_of: str | None = None
    incomplete: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One capability: what agents read about it, what it takes and gives, and how it runs."""

    name: str
    title: str
    description: str
    toolset: Toolset
    access: Access
    input: type[Input]
    output: type[Output]
    run: Callable[[Any, Any, Any], Awaitable[Output]]
    """`run(service, caller, input)`; typed at the declaration by `operation()`."""
    destructive: bool = False
    idempotent: bool = False
    subject: str | None = None
    """The input field that a log line names (a path or a query)."""
