"""What `vault-mcp history` says and does. Looking makes nothing and needs no server."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.audit.calls import CallRecord
from server.commands import Commands, configured, print_json
from server.errors import NotFound, Unavailable, VaultError
from server.history.database import FILE
from server.history.store import Entry, History
from server.history.telling import told
from server.models import Caller
from server.settings import Settings, load
from server.vault.paths import parse_path

if TYPE_CHECKING:
    from server.app import App
    from server.service.past import Restored

_ALL = 1 << 30
_OWNER = Caller("owner", door="cli")


def add(commands: Commands) -> None:
    """Declare the command."""
    history = commands.add_parser(
        "history",
        help="show what was changed, by whom, and what was there before",
        usage="vault-mcp history [PATH] [--caller NAME] [--limit N] [--json]\n"
        "       vault-mcp history show VERSION\n"
        "       vault-mcp history restore PATH VERSION",
    )
    history.add_argument("what", nargs="*", help="a note, or one of the commands above")
    history.add_argument("--caller", metavar="NAME", help="only what one caller changed")
    history.add_argument("--limit", metavar="N", type=int, default=20)
    history.add_argument("--json", action="store_true")
    history.set_defaults(run=run, wrong=history.error)


def run(arguments: argparse.Namespace) -> int:
    """List, show or restore."""
    what: list[str] = arguments.what
    match what:
        case ["show", version] if version.isdecimal():
            sys.stdout.buffer.write(content(load(), int(version)))
            return 0
        case ["restore", path, version] if version.isdecimal():
            print(restore(configured(), path, int(version)))
            return 0
        case [] | [_]:
            note = what[0] if what else None
            found = rows(load(), note, arguments.caller, max(1, arguments.limit))
        case _:
            arguments.wrong("that is neither a path nor a command with its arguments")
    if arguments.json:
        print_json(found)
    elif not found:
        print("The history is empty: nothing was changed.")
    for row in found if not arguments.json else ():
        print("{version:>6}  {at}  {by:<12}  {tool:<12}  {change:<9}  {path}".format(**row))
    return 0


def rows(
    settings: Settings, path: str | None, caller: str | None, limit: int
) -> list[dict[str, Any]]:
    """The last changes, newest first: of all notes or of one, wherever that was before."""
    with _opened(settings) as history:
        if history is None:
            return []
        if path is None:
            return [_row(entry) for entry in history.recent(limit, caller=caller)]
        found, _ = history.of(parse_path(path), limit=_ALL)
        return [_row(entry) for entry in found if caller in (None, entry.caller)][:limit]


def content(settings: Settings, version: int) -> bytes:
    """What a file held before a change. Raises `NotFound`."""
    with _opened(settings) as history:
        entry = history.entry(version) if history else None
        if history is None or entry is None:
            raise NotFound(f"There is no version {version}.", "`vault-mcp history` lists them.")
        data = history.content(entry.before) if entry.before is not None else None
        if data is None:
            raise NotFound(
                f"Nothing is kept of {entry.path!r} before version {version}.",
                "It was created then, or moved without its content.",
            )
        return data


def restore(settings: Settings, path: str, version: int) -> str:
    """Put back what a note held before a change, as note_restore does; a sentence about it."""
    # Most of the server comes with it, and looking does without.
    from server.app import open_app  # noqa: PLC0415

    with open_app(settings) as app:
        app.guard.looked.wait(settings.mount_timeout)
        health = app.guard.health
        if not health.ok:
            raise Unavailable(health.reason, health.hint)
        restored = _restore(app, path, version)
    if not restored.changed:
        return f"{restored.path} says that already."
    if restored.dry_run:
        return f"{restored.path} would become\n{restored.diff}"
    return f"{restored.path} is what it was before version {version}."


def _restore(app: "App", path: str, version: int) -> "Restored":
    """Restore, with a line in the audit as if an agent had asked."""
    record, began, outcome = CallRecord(), time.monotonic(), "ok"
    owner = replace(_OWNER, trail=record)
    try:
        return asyncio.run(app.service.past.restore(owner, path, version, None))
    except VaultError as error:
        outcome = error.code
        raise
    finally:
        app.audit.call("note_restore", owner, record, outcome, time.monotonic() - began)


@contextmanager
def _opened(settings: Settings) -> Iterator[History | None]:
    folder = settings.state_dir / "history"
    if not (folder / FILE).exists():
        yield None
        return
    history = History.open(
        folder,
        max_bytes=settings.history_mb * 1024 * 1024,
        max_age_days=settings.history_days,
    )
    try:
        yield history
    finally:
        history.close()


def _row(entry: Entry) -> dict[str, Any]:
    shown = {name: value for name, value in told(entry).items() if value is not None}
    return {**shown, "path": entry.path}
