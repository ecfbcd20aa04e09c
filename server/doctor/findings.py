"""What a check found: a verdict, a sentence about it, and what to do if it isn't well."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` is one sentence that says what to do; every `warn` and `fail` has one."""

    check: str
    verdict: Verdict
    message: str
    fix: str = ""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, fix: str) -> Finding:
    """It works, but not as well as it could, or not for long."""
    return Finding(check, "warn", message, fix)


def fail(check: str, message: str, fix: str) -> Finding:
    """It doesn't work, or isn't safe."""
    return Finding(check, "fail", message, fix)


def skip(check: str, message: str) -> Finding:
    """It could not be looked at, or there is nothing to look at."""
    return Finding(check, "skip", message)
