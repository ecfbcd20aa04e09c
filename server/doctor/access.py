"""Who may come in: credentials, tokens and path rules."""

import os
import stat as st
import time
from collections.abc import Iterator
from pathlib import Path

from server.access.policy import PolicyError, PolicyFile
from server.access.tokens import RESERVED, Token, TokenStore
from server.doctor.findings import Finding, fail, ok, skip, warn
from server.errors import Unavailable
from server.settings import Settings
from server.vault.paths import parse_folder

_SOON = 7 * 86400.0


def check_access(settings: Settings, secrets: list[Path]) -> Iterator[Finding]:
    """Credentials, tokens, policy; `secrets` are the files that secrets were read from."""
    yield _check_secrets([*secrets, settings.state_dir / "tokens.json"])
    yield _check_auth(settings)
    tokens: list[Token] = []
    try:
        tokens = TokenStore(settings.state_dir, parse_folder).listed()
    except NotADirectoryError:
        yield skip("tokens", "STATE_DIR has to be right first")
    except (Unavailable, OSError) as error:
        message = error.message if isinstance(error, Unavailable) else f"{error.strerror}."
        fix = "Bring tokens.json back with `vault-mcp restore FILE --force`, or remove it and make new tokens."
        yield fail("tokens", message, fix)
    else:
        yield _check_tokens(settings, tokens)
    yield _check_policy(settings, [token for token in tokens if token.is_live(time.time())])


def _check_secrets(files: list[Path]) -> Finding:
    for file in files:
        try:
            mode = os.stat(file).st_mode
        except OSError:
            continue  # what isn't there can't be read; what can't be used was said before
        if mode & (st.S_IROTH | st.S_IWOTH | st.S_IWGRP):
            return fail(
                "secrets",
                f"Others of this machine may read or change {file}.",
                f"Run `chmod 600 {file}`.",
            )
    return ok("secrets", "Settings and tokens are for their owner alone.")


def _check_auth(settings: Settings) -> Finding:
    if settings.auth == "token":
        return ok("auth", "AUTH is token: every request has to bring one.")
    fix = "Set AUTH=token and give each agent a token with `vault-mcp token create NAME`."
    if not settings.is_loopback:
        told = f"AUTH is none and HOST is {settings.host}: whoever reaches it may do everything."
        return fail("auth", told, fix)
    if settings.public_url is not None:
        told = f"AUTH is none: whoever reaches {settings.public_url} may do everything."
        return fail("auth", told, fix)
    return ok("auth", "AUTH is none, and only this machine reaches the server.")


def _check_tokens(settings: Settings, tokens: list[Token]) -> Finding:
    if settings.auth == "none":
        return skip("tokens", "AUTH is none: nobody needs one")
    now = time.time()
    live = [token for token in tokens if token.is_live(now)]
    others = [
        name
        for name, is_set in (
            ("AUTH_TOKEN", settings.auth_token is not None),
            ("JWT_ISSUER", settings.jwt_issuer is not None),
        )
        if is_set
    ]
    if not live and not others:
        return fail(
            "tokens",
            "AUTH is token, but there is no live token: nobody can come in.",
            "Run `vault-mcp token create NAME` for each agent.",
        )
    expired = sorted(token.name for token in tokens if not token.is_live(now))
    if expired:
        return warn(
            "tokens",
            f"Expired: {', '.join(expired)}.",
            f"Make it anew with `vault-mcp token create {expired[0]}`, or remove it with "
            f"`vault-mcp token revoke {expired[0]}`.",
        )
    ending = sorted(token.name for token in live if token.expires and token.expires - now < _SOON)
    if ending:
        fix = f"Revoke {ending[0]} and make it anew with a later --expires before it ends."
        return warn("tokens", f"End within a week: {', '.join(ending)}.", fix)
    return ok(
        "tokens", f"{len(live)} live tokens" + "".join(f", and {name}" for name in others) + "."
    )


def _check_policy(settings: Settings, live: list[Token]) -> Finding:
    file = settings.policy_file
    if file is None:
        return ok("policy", "No POLICY_FILE: who may come in may use the whole vault.")
    try:
        policy = PolicyFile(file, parse_folder).current
    except PolicyError as error:
        return fail(
            "policy",
            f"{file} can't be used: {'; '.join(error.problems[:3])}.",
            "Correct it, and see with `vault-mcp policy check` that it can be used.",
        )
    names = {token.name for token in live}
    # Callers of an identity provider have a colon in their names, and no token here.
    unknown = sorted(name for name in policy.callers - names - RESERVED if ":" not in name)
    if settings.auth == "token" and unknown:
        return warn(
            "policy",
            f"There are rules for {', '.join(unknown)}, but no live token of that name.",
            f"Run `vault-mcp token create {unknown[0]}`, or take the rules out of {file.name}.",
        )
    return ok("policy", f"{file} can be used; it has rules for {len(policy.callers)} callers.")
