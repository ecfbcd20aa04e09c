"""The one access decision. Every service method asks here before it touches anything.

Without path rules the sandbox folder itself is the grant: whoever may speak to the server may read
and write in it. Rules narrow that down in this one place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from server.errors import PermissionDenied
from server.models import Caller

Action = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something may be done, and the rule that said so."""

    allowed: bool
    rule: str


class Access:
    """Decides; `require` raises, `sees` filters lists before anything is counted."""

    def decide(self, caller: Caller, action: Action, path: str) -> Decision:
        """The decision for one path ('' is the vault itself)."""
        del caller, action, path
        return Decision(True, "sandbox")

    def require(self, caller: Caller, action: Action, path: str) -> None:
        """Raise `PermissionDenied` unless the caller may do this."""
        if not self.decide(caller, action, path).allowed:
            raise PermissionDenied(
                f"You may not {action} {path!r}.", "Ask the owner of the vault for access."
            )

    def sees(self, caller: Caller) -> Callable[[str], bool]:
        """A predicate for the paths that a caller may read."""
        return lambda path: self.decide(caller, "read", path).allowed
