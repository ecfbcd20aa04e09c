"""The only constructor: builds every part from the settings, starts the background work, ends it."""

import contextlib
import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from server import __version__
from server.access import Access
from server.catalog.dispatch import Dispatcher
from server.catalog.table import INSTRUCTIONS, LISTED, in_toolsets
from server.errors import Unauthorized, VaultError
from server.history.store import History
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.search.ripgrep import Ripgrep, find_rg
from server.service import Service
from server.service.attachments import Attachments
from server.service.deleting import Deleting
from server.service.editing import Editing
from server.service.finding import Finding
from server.service.freshness import Clock
from server.service.graph import Graph
from server.service.loading import Loader
from server.service.making import Grounds
from server.service.moving import Moving
from server.service.notes import Notes
from server.service.once import Once
from server.service.packing import Packing
from server.service.past import Past
from server.service.searching import Searching
from server.service.status import Status
from server.service.vocabulary import Vocabulary
from server.service.writing import Writing
from server.settings import Settings
from server.state import Slot, abandoned_slots, claim_slot
from server.telemetry import Telemetry, log
from server.vault.choice import Writers
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.obsidian import ObsidianLinks
from server.vault.plans import Plans
from server.vault.recovery import Recovery
from server.vault.vault import Vault
from server.workers import Workers

if TYPE_CHECKING:
    from fastapi import FastAPI
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

_CARE_SECONDS = 2.0
_COMPACT_SECONDS = 600.0
_STOP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class App:
    """Everything that runs, built once by `open_app`."""

    settings: Settings
    telemetry: Telemetry
    guard: Guard
    vault: Vault
    index: Index
    journal: Journal
    recovery: Recovery
    plans: Plans
    history: History
    scanner: Scanner
    service: Service
    dispatcher: Dispatcher

    def authenticate(self, token: str | None) -> Caller:
        """Who a bearer token belongs to. Raises `Unauthorized`."""
        if self.settings.auth == "none":
            return Caller("anyone")
        secret = self.settings.auth_token
        if (
            token
            and secret
            and hmac.compare_digest(token.encode(), secret.get_secret_value().encode())
        ):
            return Caller("token")
        raise Unauthorized(
            "A valid bearer token is needed.", "Send the header 'Authorization: Bearer <token>'."
        )


@contextmanager
def open_app(settings: Settings) -> Iterator[App]:
    """Build the app and run its background work until the block ends."""
    slot = claim_slot(settings.state_dir)
    with contextlib.ExitStack() as stack:
        stack.callback(slot.release)
        app = _build(settings, slot, stack)
        _take_over(settings, slot, app)
        stopping = threading.Event()
        threads = [
            threading.Thread(target=run, name=name, daemon=True, args=(stopping,))
            for name, run in (
                ("guard", app.guard.watch),
                ("scanner", app.scanner.run),
                ("caretaker", lambda stop: _care(app, stop)),
            )
        ]
        for thread in threads:
            thread.start()
        # A healthy vault answers at once; the first callers then need no stale answers.
        app.guard.looked.wait(0.5)
        try:
            yield app
        finally:
            stopping.set()
            app.guard.wake()
            app.scanner.wake()
            # Bounded: a thread that hangs with the mount must not hold up the stop.
            end = time.monotonic() + _STOP_SECONDS
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))


def http_door(app: App) -> "FastAPI":
    """The HTTP listener: `/mcp`, `/healthz`, `/readyz`, `/metrics`."""
    from server.doors.http import build_http, caller_of  # noqa: PLC0415 - stdio does without FastAPI

    own = [name for name in (app.settings.host,) if name not in ("0.0.0.0", "::")]  # noqa: S104
    hosts = ["127.0.0.1", "localhost", "[::1]", *own, *app.settings.allowed_hosts]
    return build_http(
        _mcp_server(app, caller_of),
        version=__version__,
        allowed_hosts=[name for host in hosts for name in (host, f"{host}:*")],
        allowed_origins=[*_own_origins(app.settings), *app.settings.allowed_origins],
        max_body_bytes=app.settings.max_message_bytes,
        session_idle_seconds=60 * app.settings.session_idle_minutes,
        max_sessions=app.settings.max_sessions,
        authenticate=app.authenticate,
        ready=app.service.status.ready,
        telemetry=app.telemetry,
    )


def _own_origins(settings: Settings) -> list[str]:
    # Pages of this very machine, such as an inspector, may call a server that only it can reach.
    local = ("127.0.0.1", "localhost", "[::1]")
    return [
        f"{scheme}://{host}:*"
        for scheme in ("http", "https")
        for host in local
        if settings.is_loopback
    ]


def stdio_door(app: App) -> "Server[Any]":
    """The MCP server for one client over stdin and stdout."""
    caller = Caller("local", door="stdio")
    return _mcp_server(app, lambda _ctx: caller)


def _mcp_server(
    app: App, caller: "Callable[[ServerRequestContext[Any, Any]], Caller]"
) -> "Server[Any]":
    from server.doors.mcp import build_server  # noqa: PLC0415

    return build_server(
        app.dispatcher,
        name="obsidian-vault",
        version=__version__,
        instructions=INSTRUCTIONS,
        caller=caller,
    )


def _build(settings: Settings, slot: Slot, stack: contextlib.ExitStack) -> App:
    telemetry = Telemetry()
    identity = IdentityFile(settings.state_dir / "vault.json")
    guard = Guard(
        settings.vault_path,
        marker=settings.vault_marker,
        require_mount="true"
        if settings.rclone_rc and settings.require_mount == "auto"
        else settings.require_mount,
        identity=identity,
        telemetry=telemetry,
        timeout=min(5.0, settings.mount_timeout),
    )
    stack.callback(guard.close)
    journal = Journal(slot.folder / "journal")
    writers = Writers(
        slot.folder / "staging",
        settings.rclone_rc,
        timeout=settings.mount_timeout,
    )
    vault = Vault(
        guard,
        journal,
        writers.choose,
        telemetry,
        max_bytes=settings.max_note_bytes,
        max_attachment_bytes=settings.max_attachment_bytes,
    )
    index = Index.open(slot.folder / "index", budget=settings.index_budget_mb * 1024 * 1024)
    stack.callback(index.close)
    mount, local = Workers("mount", size=16), Workers("local", size=6)
    stack.callback(mount.close)
    stack.callback(local.close)
    scan_workers = Workers("scan", size=8)
    stack.callback(scan_workers.close)
    scanner = Scanner(
        vault,
        index,
        scan_workers,
        telemetry,
        interval=settings.scan_interval,
        timeout=max(30.0, settings.mount_timeout),
    )
    loader = Loader(vault, index, mount, local, patience=min(3.0, settings.mount_timeout))
    recovery = Recovery(vault, journal, telemetry, on_write=loader.store_written)
    plans = Plans(slot.folder / "plans", vault, loader.take_in)
    history = History.open(
        settings.state_dir / "history",
        max_bytes=settings.history_mb * 1024 * 1024,
        max_age_days=settings.history_days,
    )
    stack.callback(history.close)
    access = Access()
    rg = find_rg()
    obsidian = _obsidian(settings, identity)
    clock = Clock(guard, scanner)
    notes = Notes(index, loader, access, obsidian, local)
    editing = Editing(
        vault,
        plans,
        history,
        loader,
        access,
        mount,
        mode=settings.write_mode,
        timeout=3 * settings.mount_timeout,
    )
    grounds = Grounds(index, history, access)
    writing = Writing(
        editing,
        Once(history, loader, local),
        vault,
        grounds,
        access,
        obsidian,
        max_bytes=settings.max_note_bytes,
    )
    asked = (access, clock, obsidian, local)
    service = Service(
        notes=notes,
        finding=Finding(index, Ripgrep(rg), *asked, telemetry),
        searching=Searching(index, *asked),
        packing=Packing(index, *asked),
        graph=Graph(index, notes, editing, *asked),
        vocabulary=Vocabulary(index, *asked),
        status=Status(
            guard,
            index,
            scanner,
            journal,
            history,
            access,
            obsidian,
            local,
            mount,
            protocol=lambda: writers.current(guard),
            tools={},
        ),
        editing=editing,
        writing=writing,
        deleting=Deleting(editing, vault, index, access),
        attachments=Attachments(
            vault,
            index,
            editing,
            access,
            obsidian,
            mount,
            local,
            check_new=grounds.check_new,
            max_bytes=settings.max_attachment_bytes,
            timeout=settings.mount_timeout,
        ),
        moving=Moving(editing, vault, index, loader, grounds, access, obsidian),
        past=Past(history, editing, vault, index, access, obsidian, local, mount),
    )
    chosen = settings.toolsets
    dispatcher = Dispatcher(
        in_toolsets(chosen), service, telemetry, in_toolsets(LISTED if chosen is None else chosen)
    )
    return App(
        settings, telemetry, guard, vault, index, journal, recovery, plans, history, scanner, service,
        dispatcher,
    )  # fmt: skip


def _obsidian(settings: Settings, identity: IdentityFile) -> Callable[[], ObsidianLinks]:
    def links() -> ObsidianLinks:
        known = identity.current
        vault = settings.obsidian_vault or known.obsidian_vault
        prefix = (
            settings.obsidian_prefix
            if settings.obsidian_prefix is not None
            else known.obsidian_prefix
        )
        if vault is None:
            return ObsidianLinks(
                reason="No folder above the vault holds .obsidian; set OBSIDIAN_VAULT and OBSIDIAN_PREFIX."
            )
        return ObsidianLinks(vault, (prefix or "").strip("/"))

    return links


def _take_over(settings: Settings, slot: Slot, app: App) -> None:
    for other in abandoned_slots(settings.state_dir, slot):
        try:
            taken = app.journal.take_over(other.folder / "journal")
            taken += app.plans.take_over(other.folder / "plans")
            if taken:
                log(logging.WARNING, "took over the journal of a server that died", entries=taken)
        finally:
            other.release()


def _publish_history(app: App) -> None:
    with contextlib.suppress(VaultError):
        usage = app.history.usage()
        app.telemetry.history_entries.set(usage.entries)
        app.telemetry.history_bytes.set(usage.bytes)


def _care(app: App, stopping: threading.Event) -> None:
    """Settle the journal and keep the index tidy, while nobody waits for it."""
    app.guard.looked.wait(_CARE_SECONDS)
    compacted = time.monotonic()
    while not stopping.is_set():
        try:
            with contextlib.suppress(VaultError):
                app.recovery.settle()
                if not app.plans.settle():
                    app.service.editing.settle()
            if app.index.needs_rebuild and not app.scanner.progress.rebuilding:
                app.scanner.wake()
            app.index.tend()
            app.scanner.publish_usage()
            _publish_history(app)
            app.index.checkpoint()
            if time.monotonic() - compacted > _COMPACT_SECONDS:
                app.index.compact()
                app.history.tidy()
                compacted = time.monotonic()
        except Exception as error:  # noqa: BLE001 - tidying must never take the server down
            log(logging.ERROR, "what is left to tidy could not be", why=repr(error))
        stopping.wait(_CARE_SECONDS)
