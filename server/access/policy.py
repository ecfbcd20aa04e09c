"""The policy: rules for everyone and for each caller, read from `policy.yaml` whenever it changes.

A file that makes no sense changes nothing: the rules that were in force stay, and `problem` says why.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from server.access.rules import Rule, RuleBook, WriteMode
from server.errors import VaultError
from server.settings import Toolset
from server.telemetry import log

_LOOK_SECONDS = 1.0
"""How long a change of the file may go unnoticed."""


class PolicyError(Exception):
    """All that is wrong with a policy file, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _moded(value: Any) -> Any:
    # YAML reads `on` and `off` as booleans.
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


_Amount = Annotated[float, Field(ge=0, strict=False)]
_Mode = Annotated[Literal["on", "confirm", "dry-run", "off"], BeforeValidator(_moded)]


class _RuleSpec(_Strict):
    path: str
    read_allow: bool = False
    read_deny: bool = False
    write_allow: bool = False
    write_deny: bool = False
    write_mode: _Mode | None = None


class Limits(_Strict):
    """What one caller may use; 0 is no limit, None takes the server's own."""

    calls_per_second: _Amount | None = None
    burst: Annotated[int, Field(ge=1)] | None = None
    concurrent_calls: Annotated[int, Field(ge=0)] | None = None
    write_mb_per_hour: _Amount | None = None
    answer_kb: Annotated[int, Field(ge=0)] | None = None


class _CallerSpec(_Strict):
    rules: list[_RuleSpec] = []
    write_mode: _Mode | None = None
    toolsets: list[Toolset] | None = None
    admin: bool = False
    limits: Limits = Limits()


class _PolicySpec(_Strict):
    rules: list[_RuleSpec] = []
    callers: dict[str, _CallerSpec] = {}


@dataclass(frozen=True, slots=True)
class CallerPolicy:
    """What the policy says about one caller, the rules for everyone among it."""

    book: RuleBook
    write_mode: WriteMode | None = None
    toolsets: frozenset[str] | None = None
    admin: bool = False
    limits: Limits = field(default_factory=Limits)


class Policy:
    """One reading of the file."""

    def __init__(self, rules: list[Rule], callers: Mapping[str, CallerPolicy]) -> None:
        self._rules = rules
        self._callers = callers

    def of(self, caller: str) -> CallerPolicy:
        """What holds for a caller, named in the policy or not."""
        return self._callers.get(caller) or self._everyone

    @property
    def callers(self) -> frozenset[str]:
        """Who has rules of their own."""
        return frozenset(self._callers)

    @cached_property
    def _everyone(self) -> CallerPolicy:
        return CallerPolicy(RuleBook(self._rules))


SANDBOX = Policy([Rule("sandbox", "", read_allow=True, write_allow=True)], {})
"""Without a policy file: the folder that is served is itself the grant."""


def parse_policy(text: str, parse_folder: Callable[[str], str]) -> Policy:
    """A policy from YAML; `parse_folder` checks a rule's path. Raises `PolicyError`."""
    try:
        spec = _PolicySpec.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise PolicyError([f"not valid YAML{where}"]) from None
    except ValidationError as error:
        raise PolicyError([_told(item) for item in error.errors(include_url=False)]) from None
    except RecursionError:
        raise PolicyError(["nested too deeply"]) from None
    problems: list[str] = []
    rules = _rules("rules", spec.rules, parse_folder, problems)
    callers = {
        name: CallerPolicy(
            RuleBook([*rules, *_rules(f"callers.{name}.rules", own.rules, parse_folder, problems)]),
            own.write_mode,
            None if own.toolsets is None else frozenset(own.toolsets),
            own.admin,
            own.limits,
        )
        for name, own in spec.callers.items()
    }
    if problems:
        raise PolicyError(problems)
    return Policy(rules, callers)


def _rules(
    place: str, specs: list[_RuleSpec], parse_folder: Callable[[str], str], problems: list[str]
) -> list[Rule]:
    rules = []
    for number, spec in enumerate(specs):
        try:
            path = parse_folder(spec.path)
        except VaultError as error:
            problems.append(f"{place}[{number}].path: {error.message}")
            continue
        name = f"{place}[{number}] ({path or '/'})"
        rules.append(Rule(name, path, **spec.model_dump(exclude={"path"})))
    return rules


def _told(item: Any) -> str:
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]
    ).lstrip(".")
    what = "no such key" if item["type"] == "extra_forbidden" else item["msg"].lower()
    return f"{where or 'the file'}: {what}"


class PolicyFile:
    """The policy in force: that of the file's last good reading, or the sandbox without a file."""

    def __init__(
        self,
        path: Path | None,
        parse_folder: Callable[[str], str],
        on_change: Callable[[str | None], None] = lambda _problem: None,
    ) -> None:
        """`on_change` hears of every further reading, and what is wrong with the file if anything is.

        Raises `PolicyError` when the file can't be used: a server must not start without it.
        """
        self._path = path
        self._parse_folder = parse_folder
        self._on_change = on_change
        self._lock = threading.Lock()
        self._looked = 0.0
        self._stamp: tuple[int, ...] | None = None
        self.problem: str | None = None
        self._policy = SANDBOX
        if path is not None:
            self._stamp = _stamp(path)
            self._policy = self._read(path)

    @property
    def current(self) -> Policy:
        """The rules to go by now."""
        if self._path is not None and time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look(self._path)
        return self._policy

    def check(self) -> str | None:
        """What is wrong with the file as it is now; then the rules in force are older ones."""
        _ = self.current
        return self.problem

    def _look(self, path: Path) -> None:
        if not self._lock.acquire(blocking=False):
            return  # somebody else looks just now
        try:
            self._looked = time.monotonic()
            stamp = _stamp(path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._policy, self.problem = self._read(path), None
            log(logging.INFO, "the policy was read again")
            self._on_change(None)
        except PolicyError as error:
            self.problem = str(error)
            log(logging.ERROR, "the policy can't be used; the old rules stay", why=self.problem)
            self._on_change(self.problem)
        finally:
            self._lock.release()

    def _read(self, path: Path) -> Policy:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            raise PolicyError([f"can't be read: {why}"]) from None
        return parse_policy(text, self._parse_folder)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # The last one tells of a file that could not be read until somebody changed its mode.
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns
