"""What `vault-mcp doctor` says: a line for each check, with the fix for what isn't well. It only looks."""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from server import __version__
from server.commands import Commands, print_json
from server.doctor.findings import Finding
from server.settings import SettingsError, load, secret_files

_WORDS = {"ok": "ok", "warn": "warn", "fail": "FAIL", "skip": "-"}


def add(commands: Commands) -> None:
    """Declare the command."""
    doctor = commands.add_parser(
        "doctor", help="check the whole set-up, and say how to mend what is wrong; 1 if anything is"
    )
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found as it is found; 1 when something has failed."""
    found: list[Finding] = []
    for finding in _found():
        found.append(finding)
        if not arguments.json:
            print(line(finding), flush=True)
    counted = Counter(finding.verdict for finding in found)
    if arguments.json:
        told = [asdict(finding) for finding in found]
        print_json({"ok": not counted["fail"], "version": __version__, "checks": told})
    else:
        print(
            f"\n{counted['ok']} ok, {counted['warn']} to look at, {counted['fail']} failed, "
            f"{counted['skip']} not looked at."
        )
    return 1 if counted["fail"] else 0


def line(finding: Finding) -> str:
    """One finding for people."""
    fix = f" → {finding.fix}" if finding.fix else ""
    said = f"{_WORDS[finding.verdict]:<5} {finding.check:<9} {finding.message}{fix}"
    # What others worded must not steer the terminal.
    return "".join(sign if sign.isprintable() else "?" for sign in said)


def _found() -> Iterator[Finding]:
    # Most of it is needed by no other command.
    from server.doctor.examination import examine, examine_problems  # noqa: PLC0415

    try:
        settings = load()
    except SettingsError as error:
        yield from examine_problems(error.problems)
        return
    yield from examine(settings, secret_files())
