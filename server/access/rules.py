"""Path rules: pure data and one question, which of them decides about a path.

The rule with the longest path that holds the one in question decides; among rules for the same path
a denial beats a permission. Reading and writing are judged apart from each other, and where no rule
decides, the answer is no.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from server.models import path_key

Verb = Literal["read", "write"]
WriteMode = Literal["on", "confirm", "dry-run", "off"]

STRICTNESS: tuple[WriteMode, ...] = ("on", "confirm", "dry-run", "off")
"""From free to forbidden: of several modes the last one counts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be done at `path` and below it. `name` is where the rule stands, for people."""

    name: str
    path: str
    read_allow: bool = False
    read_deny: bool = False
    write_allow: bool = False
    write_deny: bool = False
    write_mode: WriteMode | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something may be done, and the rule that said so."""

    allowed: bool
    rule: str


NO_RULE = Decision(False, "no rule allows it")


class RuleBook:
    """Rules by the keys of their paths, so that a decision takes a look at each folder above."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._verdicts: dict[Verb, dict[str, Decision]] = {"read": {}, "write": {}}
        self._modes: dict[str, tuple[WriteMode, str]] = {}
        for rule in rules:
            key = path_key(rule.path)
            _add(self._verdicts["read"], key, rule, rule.read_allow, rule.read_deny)
            _add(self._verdicts["write"], key, rule, rule.write_allow, rule.write_deny)
            if rule.write_mode is not None:
                known = self._modes.get(key, ("on", ""))[0]
                if not self._modes.get(key) or strictest([known, rule.write_mode]) != known:
                    self._modes[key] = rule.write_mode, rule.name

    @property
    def verdicts(self) -> Mapping[str, Decision]:
        """What is decided about reading, by path key."""
        return self._verdicts["read"]

    def denies_below(self, verb: Verb, folder: str) -> Decision | None:
        """A denial of something at or below a folder, given by its key; None when there is none."""
        return next(
            (
                found
                for key, found in self._verdicts[verb].items()
                if not found.allowed and holds(folder, key)
            ),
            None,
        )

    def decide(self, verb: Verb, key: str) -> Decision:
        """The decision about a path, given by its key."""
        verdicts = self._verdicts[verb]
        for place in upwards(key):
            if (found := verdicts.get(place)) is not None:
                return found
        return NO_RULE

    def mode(self, key: str) -> tuple[WriteMode, str] | None:
        """How writes at a path are to be handled, and the rule that says so; None when none does."""
        if not self._modes:
            return None
        return next((self._modes[at] for at in upwards(key) if at in self._modes), None)


def strictest(modes: Iterable[WriteMode]) -> WriteMode:
    """The mode that allows least; `on` when there are none."""
    return max(modes, key=STRICTNESS.index, default="on")


def upwards(key: str) -> Iterator[str]:
    """A path, the folders above it from the inside out, and the vault itself, which is ''."""
    while key:
        yield key
        key = key.rpartition("/")[0]
    yield ""


def holds(folder: str, key: str) -> bool:
    """Whether a path lies at or below a folder; both are keys."""
    return not folder or key == folder or key.startswith(folder + "/")


def _add(verdicts: dict[str, Decision], key: str, rule: Rule, allow: bool, deny: bool) -> None:
    if deny:
        verdicts[key] = Decision(False, rule.name)
    elif allow and (key not in verdicts or verdicts[key].allowed):
        verdicts.setdefault(key, Decision(True, rule.name))
