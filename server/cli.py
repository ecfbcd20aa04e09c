"""The command line: `vault-mcp serve`, `stdio`, `config check`, `journal`, `adopt`, `reindex` and the commands.

Thin: reads the settings, opens the app, prints. Web libraries are imported only by the commands
that need them, so that the small ones answer at once.
"""

import argparse
import gc
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from server import __version__
from server.commands import (
    approvals,
    audit,
    backup,
    completion,
    doctor,
    history,
    policy,
    status,
    tokens,
)
from server.commands.progress import Bar
from server.errors import VaultError
from server.settings import Settings, SettingsError, describe, load, supervision
from server.telemetry import Telemetry, configure_logging, log

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from server.app import App

BAD_SETTINGS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return command(arguments)
    except SettingsError as error:
        for problem in error.problems:
            print(f"vault-mcp: {problem}", file=sys.stderr)
        return BAD_SETTINGS
    except VaultError as error:
        print(f"vault-mcp: {error.message} {error.hint}".rstrip(), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"vault-mcp: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vault-mcp",
        description="An Obsidian vault for AI agents, over MCP. Settings come from the environment.",
    )
    parser.add_argument("--version", action="version", version=f"vault-mcp {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    serve = commands.add_parser("serve", help="serve MCP over HTTP")
    serve.add_argument(
        "--sample",
        metavar="FOLDER",
        help="without VAULT_PATH, serve a sample vault copied to FOLDER",
    )
    serve.set_defaults(run=_serve)
    commands.add_parser("stdio", help="serve MCP over stdin and stdout").set_defaults(run=_stdio)
    config = commands.add_parser("config", help="look at the settings").add_subparsers(
        metavar="COMMAND", required=True
    )
    check = config.add_parser(
        "check", help="print the effective settings, or everything that is wrong with them"
    )
    check.add_argument("--json", action="store_true")
    check.set_defaults(run=_config_check)
    journal = commands.add_parser("journal", help="show the writes that are not finished")
    journal.add_argument("--json", action="store_true")
    journal.add_argument("--show", metavar="ID", help="print the content of one entry")
    journal.set_defaults(run=_journal)
    for command in (status, doctor, backup, history, audit, tokens, policy, approvals):
        command.add(commands)
    commands.add_parser(
        "adopt", help="accept the folder at VAULT_PATH as the vault, whatever was known before"
    ).set_defaults(run=_adopt)
    commands.add_parser(
        "reindex", help="build the index anew; running servers do it themselves, and go on serving"
    ).set_defaults(run=_reindex)
    completion.add(commands, parser)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    gc.disable()
    sample = Path(arguments.sample).absolute() if arguments.sample else None
    settings = _configured(sample)
    # All of it before the app is open, whose scanner would have to share the interpreter with it.
    from server.app import http_connections, http_door, open_app  # noqa: PLC0415 - see the docstring
    from server.doors import http, mcp  # noqa: F401, PLC0415
    from server.doors.serve import serve_http  # noqa: PLC0415
    from server.doors.supervisor import Supervisor  # noqa: PLC0415

    with open_app(settings) as app:
        return serve_http(
            http_door(app),
            settings.host,
            settings.port,
            connections=http_connections(app),
            supervisor=Supervisor(supervision(), lambda: _summary(app)),
            on_listening=lambda port: _welcome(settings, port, closed=app.callers.is_closed),
        )


def _summary(app: "App") -> str:
    """How the vault is, in the line that `systemctl status` shows."""
    health = app.guard.health
    if health.ok:
        return f"Serving {app.settings.vault_path}."
    return f"{health.reason} {health.hint} Reads are answered from the mirror."


def _stdio(_arguments: argparse.Namespace) -> int:
    gc.disable()
    settings = _configured(None, door="stdio")
    import asyncio  # noqa: PLC0415

    from server.app import open_app, stdio_door  # noqa: PLC0415
    from server.doors.stdio import serve_stdio  # noqa: PLC0415

    with open_app(settings) as app:
        limit = settings.max_message_bytes
        collect_seldom()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve_stdio(stdio_door(app), max_message_bytes=limit))
    return 0


def _loop_factory() -> Callable[[], "AbstractEventLoop"] | None:
    """The loop that uvicorn would take, too; None: Python's own."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:  # Windows has none
        return None
    return uvloop.new_event_loop


def _config_check(arguments: argparse.Namespace) -> int:
    effective = describe(load())
    if arguments.json:
        print(json.dumps(effective, ensure_ascii=False, indent=2))
    else:
        for name, value in effective.items():
            print(
                f"{name}={','.join(value) if isinstance(value, list) else '' if value is None else value}"
            )
    return 0


def _journal(arguments: argparse.Namespace) -> int:
    from server.vault.journal import items_in  # noqa: PLC0415

    folders = sorted(load().state_dir.glob("slot-*/journal"))
    items = [item for folder in folders for item in items_in(folder)]
    if arguments.show:
        for item in items:
            if item.record.id.startswith(arguments.show):
                sys.stdout.buffer.write(item.data())
                return 0
        print(f"vault-mcp: no journal entry {arguments.show}", file=sys.stderr)
        return 1
    rows = [
        {
            "id": item.record.id,
            "state": item.state,
            "path": item.record.path,
            "bytes": item.record.size,
            "protocol": item.record.protocol,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(item.record.created)),
        }
        for item in items
    ]
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
    elif not rows:
        print("The journal is empty: every write is finished.")
    for row in rows if not arguments.json else ():
        print("{id}  {state:<8}  {created}  {bytes:>9} B  {path}".format(**row))
    return 0


def _adopt(_arguments: argparse.Namespace) -> int:
    from server.vault.guard import Guard  # noqa: PLC0415
    from server.vault.identity import IdentityFile  # noqa: PLC0415

    settings = _configured(None)
    guard = Guard(
        settings.vault_path,
        marker=settings.vault_marker,
        require_mount=settings.require_mount,
        identity=IdentityFile(settings.state_dir / "vault.json"),
        telemetry=Telemetry(),
    )
    print(f"The folder is now the vault (marker {guard.adopt()}). Restart running servers.")
    return 0


def _reindex(_arguments: argparse.Namespace) -> int:
    from server.app import open_app  # noqa: PLC0415
    from server.index.generations import request_mark  # noqa: PLC0415
    from server.state import claim_slot, held_slots  # noqa: PLC0415

    settings = _configured(None)
    busy = held_slots(settings.state_dir)
    for folder in busy:
        request_mark(folder / "index").touch(mode=0o600)
        print(f"{folder.name}: its server builds the index anew and goes on serving.")
    if busy:
        print("Follow it with health_check or in the log.")
        return 0
    slot = claim_slot(settings.state_dir)
    (slot.folder / "index").mkdir(mode=0o700, exist_ok=True)
    request_mark(slot.folder / "index").touch(mode=0o600)
    slot.release()
    with open_app(settings) as app:
        return _follow(app)


def _follow(app: "App") -> int:
    """Show how far the index is until it is built; 1 when that failed."""
    bar = Bar("indexing")
    while True:
        progress = app.scanner.progress
        if progress.last_error is not None:
            health = app.guard.health
            why = health.reason or f"The scan failed: {progress.last_error}."
            bar.end()
            print(f"vault-mcp: {why} {health.hint} The old index stays.", file=sys.stderr)
            return 1
        if not app.index.needs_rebuild:
            break
        bar.show(progress.done, progress.total)
        time.sleep(0.1)
    notes = app.index.counts().notes
    bar.complete()
    print(f"The index is new: {notes:,} notes.")
    return 0


def _configured(sample: Path | None, door: Literal["http", "stdio"] = "http") -> Settings:
    settings = load(sample=sample, door=door)
    if sample is not None and settings.vault_path == sample and not sample.exists():
        with as_file(files("server") / "sample") as source:
            shutil.copytree(source, sample)
    configure_logging(settings.log_level, settings.log_format)
    return settings


def collect_seldom() -> None:
    """Look for garbage again, which is a sixth of the time of all imports when they are going on."""
    # What was built by now stays: looking through it would hold up a search for 0.1 s.
    gc.freeze()
    # Indexing makes rows by the thousand, none of them in a cycle.
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def _welcome(settings: Settings, port: int, *, closed: bool) -> None:
    collect_seldom()
    token = "$AUTH_TOKEN" if settings.auth_token else "$TOKEN"
    url, line = tokens.connection(settings, port, token if settings.auth == "token" else None)
    if closed:
        log(logging.WARNING, "there are no tokens, so nobody can come in")
    print(
        f"Serving {settings.vault_path}\n"
        f"  {url}\n"
        + ("Make a token with\n  vault-mcp token create NAME\n" if closed else "")
        + f"Connect Claude Code with\n  {line}",
        flush=True,
    )
