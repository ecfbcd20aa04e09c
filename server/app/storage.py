"""What keeps the notes: the vault, its journal, the index, the history, and the pools that reach them."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from server import __version__
from server.audit.audit import FOLDER, Audit
from server.history.store import History
from server.index.store import Index
from server.scanner.scanner import Scanner
from server.service.loading import Loader
from server.settings import Settings
from server.state import Slot, disk_room
from server.telemetry import Telemetry
from server.vault.aliases import Aliases
from server.vault.choice import Writers
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.plans import Plans
from server.vault.recovery import Recovery
from server.vault.uploads import UploadWatch
from server.vault.vault import Vault
from server.workers import Workers

_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pools:
    """Threads that may be left behind: those that wait for the mount, and those that don't."""

    mount: Workers
    local: Workers
    scan: Workers


@dataclass(frozen=True, slots=True)
class Storage:
    """Everything that lies on a disk or on the mount."""

    telemetry: Telemetry
    audit: Audit
    identity: IdentityFile
    guard: Guard
    journal: Journal
    writers: Writers
    vault: Vault
    uploads: UploadWatch
    index: Index
    history: History
    pools: Pools
    scanner: Scanner
    loader: Loader
    recovery: Recovery
    plans: Plans


def open_storage(settings: Settings, slot: Slot, stack: ExitStack) -> Storage:
    """Open it all; `stack` closes it."""
    telemetry = Telemetry()
    audit = _open_audit(settings, telemetry)
    stack.callback(audit.close)
    identity = IdentityFile(settings.state_dir / "vault.json")
    guard = _guard(settings, identity, telemetry)
    stack.callback(guard.close)
    journal = Journal(slot.folder / "journal")
    writers = Writers(
        settings.staging_dir or slot.folder / "staging",
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
    index = Index.open(slot.folder / "index", budget=settings.index_budget_mb * _MB)
    stack.callback(index.close)
    pools = _open_pools(telemetry, stack)
    history = History.open(
        settings.state_dir / "history",
        max_bytes=settings.history_mb * _MB,
        max_age_days=settings.history_days,
    )
    stack.callback(history.close)
    telemetry.state_free.set_function(lambda: disk_room(settings.state_dir).free)
    telemetry.state_size.set_function(lambda: disk_room(settings.state_dir).total)
    patience = min(3.0, settings.mount_timeout)
    loader = Loader(
        vault, index, pools.mount, pools.local,
        patience=patience,
        queues=settings.write_when_down == "queue",
    )  # fmt: skip
    return Storage(
        telemetry=telemetry,
        audit=audit,
        identity=identity,
        guard=guard,
        journal=journal,
        writers=writers,
        vault=vault,
        uploads=UploadWatch(guard, writers.drive, telemetry),
        index=index,
        history=history,
        pools=pools,
        scanner=Scanner(
            vault,
            index,
            pools.scan,
            telemetry,
            interval=settings.scan_interval,
            timeout=max(30.0, settings.mount_timeout),
        ),
        loader=loader,
        recovery=Recovery(vault, journal, telemetry, on_write=loader.store_written),
        plans=Plans(slot.folder / "plans", vault, loader.take_in),
    )


def _guard(settings: Settings, identity: IdentityFile, telemetry: Telemetry) -> Guard:
    # Who names rclone's remote control says that there is a mount, and whose.
    implied = settings.rclone_rc is not None and settings.require_mount == "auto"
    return Guard(
        settings.vault_path,
        marker=settings.vault_marker,
        require_mount="rclone" if implied else settings.require_mount,
        identity=identity,
        telemetry=telemetry,
        timeout=min(5.0, settings.mount_timeout),
    )


def _open_pools(telemetry: Telemetry, stack: ExitStack) -> Pools:
    # Reads from a remote wait for it, not for this machine: the scan has many at once.
    pools = Pools(
        Workers("mount", size=16), Workers("local", size=6, grace=1.0), Workers("scan", size=32)
    )
    for pool in (pools.mount, pools.local, pools.scan):
        stack.callback(pool.close)
        telemetry.workers_stuck.labels(pool.name).set_function(partial(getattr, pool, "stuck"))
    return pools


def _open_audit(settings: Settings, telemetry: Telemetry) -> Audit:
    audit = Audit.open(
        settings.state_dir / FOLDER,
        max_mb=settings.audit_mb,
        max_files=settings.audit_files,
        telemetry=telemetry,
    )
    audit.record("server_started", version=__version__)
    return audit
