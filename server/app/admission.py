"""Who may come in and do what: tokens, path rules, approvals, limits."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from server.access.callers import Callers
from server.access.decision import Access
from server.access.limits import Limiter
from server.access.policy import Limits, PolicyError, PolicyFile
from server.access.tokens import TokenStore
from server.app.storage import Storage
from server.approvals.store import Approvals
from server.audit.audit import Audit
from server.settings import Settings, SettingsError
from server.vault.paths import parse_folder

if TYPE_CHECKING:
    from server.access.jwt import Verifier


@dataclass(frozen=True, slots=True)
class Admission:
    """Everything that decides about callers."""

    policies: PolicyFile
    access: Access
    callers: Callers
    approvals: Approvals
    limiter: Limiter
    stands: Callable[[str], bool]
    """Whether a caller's name is one that could still come in."""


def open_admission(settings: Settings, storage: Storage, stack: ExitStack) -> Admission:
    """Read tokens and rules. Raises `SettingsError` when they can't be used."""
    policies = _policies(settings, storage.audit)
    storage.telemetry.policy_ok.set_function(lambda: float(policies.check() is None))
    access = Access(
        lambda: policies.current,
        write_mode=settings.write_mode,
        aliases=lambda: storage.vault.aliases.current,
    )
    callers = _callers(settings)
    stack.callback(callers.tidy)
    return Admission(
        policies=policies,
        access=access,
        callers=callers,
        approvals=Approvals(settings.state_dir / "approvals", hours=settings.approval_hours),
        limiter=Limiter(_limits(settings), access.limits),
        stands=_stands(settings),
    )


def _policies(settings: Settings, audit: Audit) -> PolicyFile:
    def read(problem: str | None) -> None:
        audit.record("policy_read" if problem is None else "policy_refused", reason=problem)

    try:
        return PolicyFile(settings.policy_file, parse_folder, read)
    except PolicyError as error:
        raise SettingsError([f"POLICY_FILE: {problem}" for problem in error.problems]) from None


def _callers(settings: Settings) -> Callers:
    fixed = settings.auth_token
    return Callers(
        settings.auth,
        TokenStore(settings.state_dir, parse_folder),
        fixed=fixed.get_secret_value() if fixed else None,
        verifier=_verifier(settings),
    )


def _stands(settings: Settings) -> Callable[[str], bool]:
    """Whether a caller's name is one that could still come in: tokens are revoked, too."""
    tokens = TokenStore(settings.state_dir, parse_folder)

    def stands(name: str) -> bool:
        # Names of the settings, of stdio and of identity providers are no names of tokens.
        if settings.auth == "none" or name in ("token", "local") or ":" in name:
            return True
        now = time.time()
        return any(token.name == name and token.is_live(now) for token in tokens.listed())

    return stands


def _verifier(settings: Settings) -> "Verifier | None":
    issuer, audience, jwks = settings.jwt_issuer, settings.jwt_audience, settings.jwt_jwks
    if settings.auth == "none" or not (issuer and audience and jwks):
        return None
    from server.access.jwt import KeyFile, KeyUrl, Verifier  # noqa: PLC0415 - slow to load

    try:
        is_url = jwks.startswith("https://")
        keys = KeyUrl(jwks) if is_url else KeyFile(Path(jwks).expanduser())
    except (OSError, ValueError) as error:
        raise SettingsError([f"JWT_JWKS: can't be used: {error}"]) from None
    return Verifier(issuer, audience, keys, settings.jwt_caller_claim)


def _limits(settings: Settings) -> Limits:
    return Limits(
        calls_per_second=settings.calls_per_second,
        burst=settings.calls_burst,
        concurrent_calls=settings.concurrent_calls,
        write_mb_per_hour=settings.write_mb_per_hour,
        answer_kb=settings.answer_kb,
    )
