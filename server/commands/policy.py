"""What `vault-mcp policy` says: whether the rules can be used, and which of them decides. Reads only."""

import argparse
import time
from pathlib import Path
from typing import Any

from server.access.decision import Access
from server.access.policy import PolicyError, PolicyFile
from server.commands import Commands, print_json
from server.models import Caller
from server.settings import Settings, SettingsError, load
from server.vault.paths import parse_folder


def add(commands: Commands) -> None:
    """Declare the command."""
    policy = commands.add_parser(
        "policy", help="check the path rules, and see which of them decides"
    )
    actions = policy.add_subparsers(metavar="COMMAND", required=True)
    explain = actions.add_parser("explain", help="who may do what with a path, and by which rule")
    explain.add_argument("caller", metavar="CALLER")
    explain.add_argument("path", metavar="PATH", help="a note or a folder; / is the vault")
    explain.add_argument("--json", action="store_true")
    explain.set_defaults(run=_explain)
    check = actions.add_parser("check", help="say whether a policy file can be used")
    check.add_argument("file", metavar="FILE", nargs="?", type=Path, help="default: POLICY_FILE")
    check.set_defaults(run=_check)


def _explain(arguments: argparse.Namespace) -> int:
    found = explain(load(), arguments.caller, arguments.path)
    if arguments.json:
        print_json(found)
        return 0
    for verb in ("read", "write"):
        said = found[verb]
        print(f"{verb:<6} {'yes' if said['allowed'] else 'no':<4} {said['rule']}")
    print(f"mode   {found['write_mode']['mode']:<4} {found['write_mode']['from']}")
    print(f"token  {found['token']}")
    return 0


def explain(settings: Settings, name: str, raw_path: str) -> dict[str, Any]:
    """Which rule decides about a path for a caller. Raises `InvalidPath`, `SettingsError`."""
    policies = _opened(settings.policy_file)
    access = Access(lambda: policies.current, write_mode=settings.write_mode)
    caller, token = _caller(settings, name)
    path = parse_folder(raw_path)
    told: dict[str, Any] = {"caller": name, "path": path or "/"}
    for verb in ("read", "write"):
        decision = access.decide(caller, "read" if verb == "read" else "write", path)
        told[verb] = {"allowed": decision.allowed, "rule": decision.rule}
    mode, source = access.mode_of(caller, path)
    told["write_mode"] = {"mode": mode, "from": source}
    toolsets = access.toolsets(caller)
    told["toolsets"] = None if toolsets is None else sorted(toolsets)
    return {**told, "admin": access.may(caller, "admin", ""), "token": token}


def _caller(settings: Settings, name: str) -> tuple[Caller, str]:
    """The caller as its token makes it, and what is said of that."""
    from server.access.tokens import TokenStore  # noqa: PLC0415 - `check` does without

    store = TokenStore(settings.state_dir, parse_folder)
    token = next((token for token in store.listed() if token.name == name), None)
    if token is None:
        return Caller(name), "none of this name"
    said = "live" if token.is_live(time.time()) else "expired"
    grant = token.grant
    if grant is not None:
        reads, writes = (", ".join(f"/{key}" for key in keys) for keys in (grant.read, grant.write))
        said += f"; reads {reads or 'nothing'}; writes {writes or 'nothing'}"
    return Caller(name, grant=grant, admin=token.admin), said


def _check(arguments: argparse.Namespace) -> int:
    file = arguments.file or load().policy_file
    if file is None:
        print("No POLICY_FILE is set: the vault folder is the grant.")
        return 0
    policies = _opened(file)
    callers = sorted(policies.current.callers)
    print(f"{file} is fine; it has rules for {', '.join(callers) or 'everyone alike'}.")
    return 0


def _opened(file: Path | None) -> PolicyFile:
    try:
        return PolicyFile(file, parse_folder)
    except PolicyError as error:
        raise SettingsError([f"{file}: {problem}" for problem in error.problems]) from None
