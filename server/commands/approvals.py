"""What `vault-mcp approvals` says and does. Looking makes nothing and needs no server."""

import argparse
import asyncio
from typing import Any

from server.approvals.store import Approvals
from server.approvals.telling import summed
from server.audit.audit import FOLDER, Audit
from server.commands import Commands, configured, print_json
from server.errors import Conflict, Unavailable
from server.models import Caller
from server.settings import Settings, load

_OWNER = Caller("owner", door="cli", admin=True)


def add(commands: Commands) -> None:
    """Declare the command."""
    approvals = commands.add_parser(
        "approvals", help="show the writes that wait for you, and decide about them"
    )
    approvals.set_defaults(run=run_list, all=False)
    actions = approvals.add_subparsers(metavar="COMMAND")
    listing = actions.add_parser("list", help="show what waits (the default)")
    listing.add_argument("--all", action="store_true", help="also what was decided lately")
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="show one of them with its diff")
    show.set_defaults(run=run_show)
    approve = actions.add_parser("approve", help="write it, if nothing has changed since")
    approve.set_defaults(run=run_approve)
    deny = actions.add_parser("deny", help="close it; nothing is written")
    deny.add_argument("--reason", metavar="TEXT", help="why, for the record")
    deny.set_defaults(run=run_deny)
    for action in (show, approve, deny):
        action.add_argument("id", metavar="ID")
    approvals.add_argument("--json", action="store_true")
    for action in (listing, show, approve, deny):
        # Without a default, or theirs would undo what the outer one read.
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run_list(arguments: argparse.Namespace) -> int:
    """What waits, the oldest first."""
    store = _store(load())
    found = [*store.waiting(), *(store.decided() if arguments.all else ())]
    rows = [summed(one) for one in found]
    if arguments.json:
        print_json(rows)
    elif not rows:
        print("Nothing waits for approval.")
    for row in rows if not arguments.json else ():
        paths = ", ".join(row["paths"][:3]) + (" …" if len(row["paths"]) > 3 else "")
        line = "{id}  {state:<8}  {asked}  {caller:<12}  {tool:<14}  ".format(**row)
        print(_visible(line + paths))
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """One approval with its diff."""
    store = _store(load())
    told = summed(store.get(arguments.id))
    diff = store.diff(arguments.id)
    if arguments.json:
        print_json({**told, "diff": diff})
        return 0
    for name, value in told.items():
        print(_visible(f"{name}: {', '.join(value) if isinstance(value, list) else value}"))
    print(f"\n{_visible(diff)}")
    return 0


def run_approve(arguments: argparse.Namespace) -> int:
    """Make the write, beside a running server or without one."""
    settings = configured()
    # Most of the server comes with it, and looking does without.
    from server.app import open_app  # noqa: PLC0415

    _store(settings).get(arguments.id)
    with open_app(settings) as app:
        app.guard.looked.wait(settings.mount_timeout)
        health = app.guard.health
        if not health.ok:
            raise Unavailable(health.reason, health.hint)
        told = asyncio.run(app.service.approving.approve(_OWNER, arguments.id))
    return _tell(told, arguments.json)


def run_deny(arguments: argparse.Namespace) -> int:
    """Close it."""
    settings = configured()
    with _store(settings).claim(arguments.id) as claim:
        if claim.approval.state == "approved":
            raise Conflict("It was approved already and is being written.", "Look again soon.")
        told = summed(claim.close("denied", _OWNER.name, arguments.reason))
    audit = Audit.open(
        settings.state_dir / FOLDER, max_mb=settings.audit_mb, max_files=settings.audit_files
    )
    audit.record(
        "approval", id=arguments.id, by=_OWNER.name, decision="deny", outcome=told["state"]
    )
    audit.close()
    return _tell(told, arguments.json)


def _store(settings: Settings) -> Approvals:
    return Approvals(settings.state_dir / "approvals", hours=settings.approval_hours)


def _tell(told: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_json(told)
    else:
        what = {"applied": "Written", "denied": "Denied; nothing was written"}
        print(_visible(f"{what.get(told['state'], told['state'])}: {', '.join(told['paths'][:5])}"))
    return 0 if told["state"] in ("applied", "denied") else 1


def _visible(text: str) -> str:
    """What agents wrote must not steer the terminal of whoever decides about it."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )
