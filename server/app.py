"""The only constructor: builds every part from the settings, starts the background work, ends it."""

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server import __version__
from server.access.callers import Callers
from server.access.decision import Access
from server.access.limits import Limiter
from server.access.policy import Limits, PolicyError, PolicyFile
from server.access.tokens import TokenStore
from server.approvals.store import Approvals
from server.audit.audit import FOLDER as AUDIT_FOLDER
from server.audit.audit import Audit
from server.catalog.dispatch import Dispatcher
from server.catalog.instructions import instructions
from server.catalog.table import INSTRUCTIONS, LISTED, in_toolsets
from server.errors import VaultError
from server.forge.github import GitHub
from server.history.store import History
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.search.ripgrep import Ripgrep, find_rg
from server.service import Service
from server.service.approving import Approving
from server.service.attachments import Attachments
from server.service.catching_up import CatchingUp
from server.service.completing import Completing
from server.service.decisions import Decisions
from server.service.deleting import Deleting
from server.service.devlogs import Devlogs
from server.service.editing import Editing
from server.service.finding import Finding
from server.service.freshness import Clock
from server.service.graph import Graph
from server.service.layout import Layout
from server.service.loading import Loader
from server.service.making import Grounds
from server.service.moving import Moving
from server.service.notes import Notes
from server.service.once import Once
from server.service.packing import Packing
from server.service.past import Past
from server.service.publishing import Publishing
from server.service.records import Records
from server.service.resources import Resources
from server.service.searching import Searching
from server.service.status import Status
from server.service.syncing import Syncing
from server.service.visits import Visits
from server.service.vocabulary import Vocabulary
from server.service.waiting import Waiting
from server.service.watching import Watching
from server.service.writing import Writing
from server.settings import Settings, SettingsError
from server.state import Slot, abandoned_slots, claim_slot
from server.telemetry import Telemetry, log
from server.vault.aliases import Aliases
from server.vault.choice import Writers
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_folder
from server.vault.plans import Plans
from server.vault.recovery import Recovery
from server.vault.uploads import UploadWatch
from server.vault.vault import Vault
from server.workers import Deadline, Workers

if TYPE_CHECKING:
    from fastapi import FastAPI
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from server.access.jwt import Verifier
    from server.doors.connections import Connections

_CARE_SECONDS = 2.0
_COMPACT_SECONDS = 600.0
_WATCH_SECONDS = 10.0
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
    audit: Audit
    access: Access
    callers: Callers
    uploads: UploadWatch

    def authenticate(self, token: str | None, door: str = "mcp") -> Caller:
        """Who a bearer token belongs to. Raises `Unauthorized`."""
        return self.callers.authenticate(token, door)


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
            app.vault.queued.set()
            # Bounded: a thread that hangs with the mount must not hold up the stop.
            end = time.monotonic() + _STOP_SECONDS
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))


def http_door(app: App) -> "FastAPI":
    """The HTTP listener: `/mcp`, `/healthz`, `/readyz`, `/metrics`."""
    from server.admin import approvals  # noqa: PLC0415 - stdio does without FastAPI
    from server.doors.http import build_http, caller_of  # noqa: PLC0415
    from server.doors.identity import Administrators, Resource  # noqa: PLC0415
    from server.doors.pages import admitted  # noqa: PLC0415
    from server.doors.streams import Responses  # noqa: PLC0415

    own = [name for name in (app.settings.host,) if name not in ("0.0.0.0", "::")]  # noqa: S104
    hosts = ["127.0.0.1", "localhost", "[::1]", *own, *app.settings.allowed_hosts]
    public = app.settings.public_base
    if public is not None:
        hosts.append(public.partition("://")[2])
    door = build_http(
        _mcp_server(app, caller_of),
        version=__version__,
        allowed_hosts=[name for host in hosts for name in (host, f"{host}:*")],
        allowed_origins=[
            *_own_origins(app.settings),
            *app.settings.allowed_origins,
            *([public] if public else []),
        ],
        max_body_bytes=app.settings.max_message_bytes,
        session_idle_seconds=60 * app.settings.session_idle_minutes,
        max_sessions=app.settings.max_sessions,
        # Without credentials all are one caller.
        max_sessions_of_one_caller=None
        if app.settings.auth == "none"
        else (app.settings.max_sessions + 1) // 2,
        responses=Responses(app.settings.max_connections // 2, app.settings.max_streams),
        charge=app.dispatcher.limiter.request,
        authenticate=app.authenticate,
        may_wait=app.callers.may_wait,
        resource=Resource("obsidian-vault", public, app.settings.jwt_issuer)
        if app.settings.auth == "token"
        else None,
        refused=app.audit.refused,
        ready=app.service.status.ready,
        knows_all=app.service.status.knows_all,
        telemetry=app.telemetry,
    )
    proxy = app.settings.trusted_proxy
    door.state.administrators = Administrators(
        door.state.reception,
        lambda caller: app.access.decide(caller, "admin", "").allowed,
        proxy=str(proxy) if proxy else None,
        logins=frozenset(login.lower() for login in app.settings.admins),
    )
    door.router.routes.extend(
        approvals.routes(app.service.approving, admitted(door.state.administrators))
    )
    return door


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
    secret = app.settings.caller_token
    token = secret.get_secret_value() if secret else None
    # Anew for every call: a token that was revoked meanwhile is good for nothing more.
    return _mcp_server(app, lambda _ctx: app.authenticate(token, "stdio"))


def _mcp_server(
    app: App, caller: "Callable[[ServerRequestContext[Any, Any]], Caller]"
) -> "Server[Any]":
    from server.doors.asking import Asking  # noqa: PLC0415
    from server.doors.charges import charging  # noqa: PLC0415
    from server.doors.introductions import introducing  # noqa: PLC0415
    from server.doors.logs import Logs  # noqa: PLC0415
    from server.doors.mcp import build_server  # noqa: PLC0415
    from server.doors.prompts import offer_prompts  # noqa: PLC0415
    from server.doors.resources import offer_resources  # noqa: PLC0415
    from server.doors.subscriptions import Subscriptions  # noqa: PLC0415

    async def introduced(who: Caller) -> str:
        folders = await app.service.resources.top_folders(who)
        return instructions(folders, app.access.write_mode(who, ()))

    logs = Logs()
    server = build_server(
        app.dispatcher,
        name="obsidian-vault",
        version=__version__,
        instructions=INSTRUCTIONS,
        caller=caller,
        asking=Asking(
            app.service.approving,
            seconds=app.settings.approval_seconds,
            by_client=app.settings.confirm_by == "client",
        ),
        logs=logs,
    )
    logs.offer(server)
    offer_resources(server, app.dispatcher, app.service, caller)
    offer_prompts(server, app.dispatcher, app.service, caller)
    Subscriptions(app.service.watching, caller).offer(server)
    server.middleware.append(introducing(caller, introduced))
    server.middleware.insert(0, charging(caller, app.dispatcher.limiter.question))
    return server


def http_connections(app: App) -> "Connections":
    """How the clients of the HTTP listener are to be treated."""
    from server.doors.connections import Connections  # noqa: PLC0415

    return Connections(
        app.settings.max_connections,
        app.settings.client_timeout,
        lambda why: app.telemetry.connections_ended.labels(why).inc(),
    )


def _build(settings: Settings, slot: Slot, stack: contextlib.ExitStack) -> App:  # noqa: PLR0915 - a list
    telemetry = Telemetry()
    audit = _audit(settings, telemetry)
    stack.callback(audit.close)
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
        ack=settings.write_ack,
    )
    vault = Vault(
        guard,
        journal,
        writers.choose,
        telemetry,
        max_bytes=settings.max_note_bytes,
        max_attachment_bytes=settings.max_attachment_bytes,
        aliases=Aliases(slot.folder / "aliases.json"),
        drive=writers.drive,
    )
    uploads = UploadWatch(guard, writers.drive, telemetry)
    index = Index.open(slot.folder / "index", budget=settings.index_budget_mb * 1024 * 1024)
    stack.callback(index.close)
    mount, local = Workers("mount", size=16), Workers("local", size=6, grace=1.0)
    stack.callback(mount.close)
    stack.callback(local.close)
    # Reads from a remote wait for it, not for this machine.
    scan_workers = Workers("scan", size=32)
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
    policies = _policies(settings, audit)
    telemetry.policy_ok.set_function(lambda: float(policies.check() is None))
    access = Access(
        lambda: policies.current,
        write_mode=settings.write_mode,
        aliases=lambda: vault.aliases.current,
    )
    callers = _callers(settings)
    stack.callback(callers.tidy)
    rg = find_rg()
    obsidian = _obsidian(settings, identity)
    clock = Clock(guard, scanner)
    notes = Notes(
        index, loader, access, obsidian, local,
        copies=lambda path: scanner.progress.oddities.copies.get(path, ()),
    )  # fmt: skip
    approvals = Approvals(settings.state_dir / "approvals", hours=settings.approval_hours)
    editing = Editing(
        vault,
        plans,
        history,
        loader,
        access,
        mount,
        Waiting(approvals, vault),
        timeout=3 * settings.mount_timeout,
        queues=lambda: _queues(settings, guard, scanner),
        queues_failed=settings.write_when_down == "queue",
    )
    grounds = Grounds(index, history, access)
    once = Once(history, loader, local)
    writing = Writing(
        editing,
        once,
        vault,
        grounds,
        access,
        obsidian,
        _uploading(uploads, mount),
        max_bytes=settings.max_note_bytes,
    )
    asked = (access, clock, obsidian, local)
    finding = Finding(index, Ripgrep(rg), *asked, telemetry)
    attachments = Attachments(
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
    )
    watching = Watching(access)
    stack.callback(watching.end)
    index.on_change, scanner.is_watched = watching.changed, watching.is_asked
    layout = Layout(per_project=settings.project_layout == "per-project")
    conventions = (*asked, layout, settings.now)
    decisions = Decisions(editing, vault, Records(index, layout), loader, grounds, *conventions)
    forge = Workers("forge", size=2)
    stack.callback(forge.close)
    service = Service(
        notes=notes,
        finding=finding,
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
            policy=policies.check,
            audit=lambda: audit.problem,
            approvals=approvals.count,
            uploads=lambda: uploads.state,
        ),
        editing=editing,
        writing=writing,
        deleting=Deleting(editing, vault, index, access),
        attachments=attachments,
        moving=Moving(editing, vault, index, loader, grounds, access, obsidian),
        past=Past(history, editing, vault, index, access, obsidian, local, mount),
        syncing=Syncing(vault, index, scanner, uploads, access, mount),
        approving=Approving(
            approvals, editing, access, local, mount, telemetry, audit, _stands(settings)
        ),
        resources=Resources(index, notes, attachments, finding, access, local),
        completing=Completing(index, access, local),
        catching_up=CatchingUp(index, access, Visits(settings.state_dir / "visits.json"), local),
        watching=watching,
        devlogs=Devlogs(editing, once, index, grounds, *conventions),
        decisions=decisions,
        publishing=Publishing(
            decisions, editing, loader, access, forge, GitHub(), settings.publish_repos
        ),
    )
    chosen = settings.toolsets
    dispatcher = Dispatcher(
        in_toolsets(chosen),
        service,
        telemetry,
        in_toolsets(LISTED if chosen is None else chosen),
        limiter=Limiter(_limits(settings), access.limits),
        audit=audit,
        toolsets=access.toolsets,
    )
    return App(
        settings, telemetry, guard, vault, index, journal, recovery, plans, history, scanner, service,
        dispatcher, audit, access, callers, uploads,
    )  # fmt: skip


def _queues(settings: Settings, guard: Guard, scanner: Scanner) -> bool:
    """Whether a write shall be put on record instead of being made at once."""
    last = guard.last
    if settings.write_ack == "journal":
        return last is None or last.is_rclone
    # A mount may look well while nobody can reach the remote behind it; a scan finds that out.
    is_down = not guard.health.ok or scanner.progress.last_error is not None
    return settings.write_when_down == "queue" and is_down


def _uploading(
    uploads: UploadWatch, mount: Workers
) -> Callable[[str, bytes, float], Awaitable[bool]]:
    async def wait(path: str, data: bytes, seconds: float) -> bool:
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        deadline = Deadline.after(seconds)
        return await mount.run_async(
            Deadline.after(seconds + 30), uploads.wait, path, md5, deadline
        )

    return wait


def _limits(settings: Settings) -> Limits:
    return Limits(
        calls_per_second=settings.calls_per_second,
        burst=settings.calls_burst,
        concurrent_calls=settings.concurrent_calls,
        write_mb_per_hour=settings.write_mb_per_hour,
        answer_kb=settings.answer_kb,
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


def _audit(settings: Settings, telemetry: Telemetry) -> Audit:
    audit = Audit.open(
        settings.state_dir / AUDIT_FOLDER,
        max_mb=settings.audit_mb,
        max_files=settings.audit_files,
        telemetry=telemetry,
    )
    audit.record("server_started", version=__version__)
    return audit


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
    compacted = watched = time.monotonic()
    while not stopping.is_set():
        try:
            with contextlib.suppress(VaultError):
                app.recovery.settle()
                if not app.plans.settle():
                    app.service.editing.settle()
                    app.service.approving.settle()
            if app.index.needs_rebuild and not app.scanner.progress.rebuilding:
                app.scanner.wake()
            app.callers.tidy()
            if time.monotonic() - watched > _WATCH_SECONDS:
                app.uploads.look()
                watched = time.monotonic()
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
        app.vault.queued.wait(_CARE_SECONDS)
        app.vault.queued.clear()
