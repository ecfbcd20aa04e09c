"""What `vault-mcp audit` says. It only looks, and needs no server."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from server.audit.audit import FOLDER
from server.audit.chain import Entry
from server.audit.reading import follow, last
from server.audit.verification import Report, verify
from server.commands import Commands, print_json
from server.settings import load


def add(commands: Commands) -> None:
    """Declare the command."""
    audit = commands.add_parser(
        "audit", help="show who did what, or check that nothing was removed"
    )
    kinds = audit.add_subparsers(metavar="COMMAND", required=True)
    verifying = kinds.add_parser(
        "verify", help="check that no line was removed or changed; 1 if one was"
    )
    verifying.add_argument("--json", action="store_true")
    verifying.set_defaults(run=run_verify)
    tail = kinds.add_parser("tail", help="show the last lines")
    tail.add_argument("-n", metavar="N", type=int, default=20, dest="number")
    tail.add_argument("--caller", metavar="NAME", help="only what one caller did")
    tail.add_argument("--tool", metavar="TOOL", help="only calls of one tool")
    tail.add_argument("--denied", action="store_true", help="only what was refused")
    tail.add_argument("--follow", action="store_true", help="go on with lines as they come")
    tail.add_argument("--json", action="store_true", help="one JSON object a line")
    tail.set_defaults(run=run_tail)


def run_verify(arguments: argparse.Namespace) -> int:
    """Check the chain; 1 when it is broken."""
    report = verify(_folder())
    if arguments.json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        _tell(report)
    return 0 if report.ok else 1


def run_tail(arguments: argparse.Namespace) -> int:
    """Print the last lines, and those to come if that is asked for."""
    wanted = _filter(arguments)
    folder, number = _folder(), max(0, arguments.number)
    newest = last(folder, 1, lambda _: True)
    found = last(folder, number, wanted)
    if not found and not (arguments.follow or arguments.json):
        print("The audit has no such lines.")
    show = _json if arguments.json else _line
    for entry in found:
        print(show(entry))
    if arguments.follow:
        sys.stdout.flush()
        shown = max((entry.seq for entry in [*newest, *found]), default=0)
        for entry in follow(folder, shown, wanted):
            print(show(entry), flush=True)
    return 0


def _folder() -> Path:
    return load().state_dir / FOLDER


def _tell(report: Report) -> None:
    for problem in report.problems:
        print(f"seq {problem.seq}: {problem.what}")
    if report.more_problems:
        print(f"and {report.more_problems} more")
    for note in report.notes:
        print(note)
    if report.last is None and report.ok:
        print("The audit is empty.")
    elif report.ok:
        print(f"{report.lines} lines, {report.oldest} to {report.last}: the chain is whole.")
    else:
        print(f"{report.lines} lines: THE CHAIN IS BROKEN.")


def _filter(arguments: argparse.Namespace) -> Callable[[Entry], bool]:
    def wanted(entry: Entry) -> bool:
        fields = entry.fields
        return (
            arguments.caller in (None, fields.get("caller"))
            and arguments.tool in (None, fields.get("tool"))
            and (not arguments.denied or fields.get("decision") == "deny")
        )

    return wanted


def _json(entry: Entry) -> str:
    return json.dumps(entry.fields)


def _line(entry: Entry) -> str:
    fields = entry.fields
    told = f"{entry.seq:>7}  {fields.get('time', ''):<24}"
    if entry.event == "call":
        paths = " ".join(map(str, fields.get("paths") or ()))
        rule = f"  [{fields['rule']}]" if fields.get("decision") == "deny" else ""
        verdict = "denied" if fields.get("decision") == "deny" else "-"
        told += (
            f"  {fields.get('caller', ''):<12}  {fields.get('tool', ''):<16}  {verdict:<6}"
            f"  {fields.get('outcome', ''):<12}  {fields.get('ms', 0):>8} ms  {paths}{rule}"
        )
    else:
        hidden = ("seq", "time", "event", "prev", "hash")
        facts = (f"{name}={value}" for name, value in fields.items() if name not in hidden)
        told += f"  {entry.event}  {' '.join(facts)}"
    # What callers worded must not steer the terminal.
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in told)
