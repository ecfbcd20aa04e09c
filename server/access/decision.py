"""The one access decision. Every service method asks here before it touches anything.

A caller may do what the rules of the policy and the grant of the credential both allow. Decisions
depend on the path alone, never on what is there: a refusal tells nothing about the vault.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from server.access.policy import SANDBOX, Limits, Policy
from server.access.rules import Decision, Verb, WriteMode, holds, strictest
from server.errors import PermissionDenied
from server.models import Action, Caller, Grant, path_key

__all__ = ["Access", "Decision", "Sight"]

OWNER = "cli"
"""The door of who has a shell on the machine: rules are for agents."""
_MOST_SIGHTS = 1_000
_NO_ALIASES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Sight:
    """Which paths a caller may read; calling it asks about one."""

    reads: Callable[[str], bool]
    named: frozenset[str] = field(default=frozenset())
    """The keys of all paths that rules or grants name: elsewhere a file is what its folder is."""
    everything: bool = False

    def __call__(self, path: str) -> bool:
        return self.everything or self.reads(path)

    def reaches(self, folder: str) -> bool:
        """Whether something at or below a folder may be read."""
        if self(folder):
            return True
        key = path_key(folder)
        return any(holds(key, named) and self.reads(named) for named in self.named)


class Access:
    """Decides; `require` raises, `sees` filters lists before anything is counted."""

    def __init__(
        self,
        policy: Callable[[], Policy] = lambda: SANDBOX,
        *,
        write_mode: WriteMode = "on",
        aliases: Callable[[], Mapping[str, str]] = lambda: _NO_ALIASES,
    ) -> None:
        """`aliases` are files that are links, by key: only who may touch both ends may touch one."""
        self._policy = policy
        self._write_mode: WriteMode = write_mode
        self._aliases = aliases
        self._sights: dict[tuple[str, Grant | None], tuple[Policy, Mapping[str, str], Sight]] = {}

    def decide(self, caller: Caller, action: Action, path: str) -> Decision:
        """The decision for one path ('' is the vault itself)."""
        if action == "admin":
            return self._administers(caller)
        return self._decide(self._policy(), self._aliases(), caller, action, path)

    def require(self, caller: Caller, action: Action, path: str) -> None:
        """Raise `PermissionDenied` unless the caller may do this."""
        decision = self.decide(caller, action, path)
        if caller.trail is not None:
            caller.trail.decided(action, path, decision.allowed, decision.rule)
        if not decision.allowed:
            raise _refusal(action, path)

    def require_whole(self, caller: Caller, verb: Verb, folder: str) -> None:
        """Raise `PermissionDenied` unless the caller may do this to all that may lie below a folder."""
        self.require(caller, verb, folder)
        denial = self._policy().of(caller.name).book.denies_below(verb, path_key(folder))
        if denial is not None:
            if caller.trail is not None:
                caller.trail.decided(verb, folder, False, denial.rule)
            raise _refusal(verb, folder)

    def require_reach(self, caller: Caller, folder: str) -> None:
        """Raise `PermissionDenied` unless something at or below a folder may be read."""
        if not self.sees(caller).reaches(folder):
            self.require(caller, "read", folder)

    def permit(self, caller: Caller, asked: str, *verbs: Verb) -> Callable[[str], None]:
        """A check of where symbolic links lead, which refuses in the name of the path asked for."""

        def check(real: str) -> None:
            for verb in verbs:
                decision = self.decide(caller, verb, real)
                if not decision.allowed:
                    if caller.trail is not None:
                        caller.trail.decided(verb, real, False, decision.rule)
                    raise _refusal(verb, asked)

        return check

    def sees(self, caller: Caller) -> Sight:
        """Which paths a caller may read."""
        policy, aliases, who = self._policy(), self._aliases(), (caller.name, caller.grant)
        known = self._sights.get(who)
        if known is None or known[0] is not policy or known[1] is not aliases:
            if len(self._sights) >= _MOST_SIGHTS:
                self._sights.clear()
            known = self._sights[who] = policy, aliases, self._sight(policy, aliases, caller)
        return known[2]

    def _sight(self, policy: Policy, aliases: Mapping[str, str], caller: Caller) -> Sight:
        grant = caller.grant
        named = frozenset(policy.of(caller.name).book.verdicts) | frozenset(aliases)
        named |= frozenset(grant.read if grant else ())

        def reads(path: str) -> bool:
            return self._decide(policy, aliases, caller, "read", path).allowed

        return Sight(reads, named, everything=all(reads(key) for key in {"", *named}))

    def write_mode(self, caller: Caller, paths: Iterable[str]) -> WriteMode:
        """How a write that touches all of these is to be handled: as the strictest of them.

        A rule goes before the caller's own mode and that before the server's, except that a
        server that is switched off stays off.
        """
        modes = [self.mode_of(caller, path)[0] for path in paths]
        return strictest(modes) if modes else self._rest(caller)[0]

    def mode_of(self, caller: Caller, path: str) -> tuple[WriteMode, str]:
        """How a write at one path is to be handled, and what says so."""
        rest = self._rest(caller)
        if self._write_mode == "off":
            return rest
        mode, why = self._policy().of(caller.name).book.mode(path_key(path)) or rest
        if caller.door == OWNER and mode == "confirm":
            return "on", "the owner at the command line"
        return mode, why

    def _rest(self, caller: Caller) -> tuple[WriteMode, str]:
        own = self._policy().of(caller.name).write_mode
        if own is None or self._write_mode == "off":
            return self._write_mode, "WRITE_MODE"
        return own, f"callers.{caller.name}.write_mode"

    def toolsets(self, caller: Caller) -> frozenset[str] | None:
        """The groups of tools that a caller has; None for all that the server has."""
        return self._policy().of(caller.name).toolsets

    def limits(self, caller: Caller) -> Limits:
        """What the policy lets a caller use."""
        return self._policy().of(caller.name).limits

    @staticmethod
    def _decide(
        policy: Policy, aliases: Mapping[str, str], caller: Caller, verb: Verb, path: str
    ) -> Decision:
        key = path_key(path)
        decision = _judged(policy, caller, verb, key)
        if decision.allowed and key in aliases:
            return _judged(policy, caller, verb, path_key(aliases[key]))
        return decision

    def may(self, caller: Caller, action: Action, path: str) -> bool:
        """Whether the caller may do this, for who has to choose what to do."""
        return self.decide(caller, action, path).allowed

    def _administers(self, caller: Caller) -> Decision:
        if caller.admin or self._policy().of(caller.name).admin:
            return Decision(True, "admin")
        return Decision(False, f"{caller.name} is no admin")


def _refusal(action: Action, path: str) -> PermissionDenied:
    what = f"{action} {path!r}" if path else f"{action} the vault's root"
    return PermissionDenied(
        "You may not administer this server." if action == "admin" else f"You may not {what}.",
        "Ask the owner of the vault for access.",
    )


def _judged(policy: Policy, caller: Caller, verb: Verb, key: str) -> Decision:
    if caller.door == OWNER:
        return Decision(True, "the owner at the command line")
    grant = caller.grant
    if grant is not None:
        folders = grant.read if verb == "read" else grant.write
        if not any(holds(folder, key) for folder in folders):
            return Decision(False, f"the {verb} grant of the token")
    return policy.of(caller.name).book.decide(verb, key)
