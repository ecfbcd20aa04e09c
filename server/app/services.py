"""The use cases, each with the parts that it needs."""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from server.app.admission import Admission
from server.app.storage import Storage
from server.forge.github import GitHub
from server.history.store import History
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
from server.service.first_look import FirstLook
from server.service.freshness import Clock
from server.service.graph import Graph
from server.service.keeping import Keeping
from server.service.layout import Layout
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
from server.settings import Settings
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.obsidian import ObsidianLinks
from server.vault.uploads import UploadWatch
from server.workers import Deadline, Workers


def build_service(
    settings: Settings, storage: Storage, admission: Admission, stack: ExitStack
) -> Service:
    """Tie the use cases together; `stack` ends what some of them run."""
    vault, index, history = storage.vault, storage.index, storage.history
    guard, scanner, loader, uploads = (
        storage.guard, storage.scanner, storage.loader, storage.uploads,
    )  # fmt: skip
    mount, local = storage.pools.mount, storage.pools.local
    access, approvals = admission.access, admission.approvals
    obsidian = _obsidian(settings, storage.identity)
    asked = (access, Clock(guard, scanner), obsidian, local)
    notes = Notes(
        index, loader, access, obsidian, local,
        copies=lambda path: scanner.progress.oddities.copies.get(path, ()),
    )  # fmt: skip
    editing = Editing(
        vault, storage.plans, _keeping(history, stack), loader, access, mount,
        Waiting(approvals, vault),
        timeout=3 * settings.mount_timeout,
        queues=lambda: _queues(settings, guard, scanner),
        queues_failed=settings.write_when_down == "queue",
    )  # fmt: skip
    grounds, once = Grounds(index, history, access), Once(history, loader, local)
    ripgrep = Ripgrep(find_rg())
    finding = Finding(index, ripgrep, *asked, storage.telemetry)
    first_look = FirstLook(guard, index, loader, scanner, ripgrep)
    attachments = Attachments(
        vault, index, editing, access, obsidian, mount, local,
        check_new=grounds.check_new,
        max_bytes=settings.max_attachment_bytes,
        timeout=settings.mount_timeout,
    )  # fmt: skip
    layout = Layout(per_project=settings.project_layout == "per-project")
    conventions = (*asked, layout, settings.now)
    decisions = Decisions(editing, vault, Records(index, layout), loader, grounds, *conventions)
    return Service(
        notes=notes,
        finding=finding,
        searching=Searching(index, *asked, hurry=first_look.take),
        packing=Packing(index, *asked),
        graph=Graph(index, notes, editing, *asked),
        vocabulary=Vocabulary(index, *asked),
        status=_status(storage, admission, obsidian),
        editing=editing,
        writing=Writing(
            editing, once, vault, grounds, access, obsidian, _uploading(uploads, mount),
            max_bytes=settings.max_note_bytes,
        ),
        deleting=Deleting(editing, vault, index, access),
        attachments=attachments,
        moving=Moving(editing, vault, index, loader, grounds, access, obsidian),
        past=Past(history, editing, vault, index, access, obsidian, local, mount),
        syncing=Syncing(vault, index, scanner, uploads, access, mount),
        approving=Approving(
            approvals, editing, access, local, mount, storage.telemetry, storage.audit,
            admission.stands,
        ),
        resources=Resources(index, notes, attachments, finding, access, local),
        completing=Completing(index, access, local),
        catching_up=CatchingUp(index, access, Visits(settings.state_dir / "visits.json"), local),
        watching=_watching(storage, admission, stack),
        devlogs=Devlogs(editing, once, index, grounds, *conventions),
        decisions=decisions,
        publishing=Publishing(
            decisions, editing, loader, access, _forge(stack), GitHub(), settings.publish_repos
        ),
    )  # fmt: skip


def _status(
    storage: Storage, admission: Admission, obsidian: Callable[[], ObsidianLinks]
) -> Status:
    return Status(
        storage.guard, storage.index, storage.scanner, storage.journal, storage.history,
        admission.access, obsidian, storage.pools.local, storage.pools.mount,
        protocol=lambda: storage.writers.current(storage.guard),
        tools={},
        policy=admission.policies.check,
        audit=lambda: storage.audit.problem,
        approvals=admission.approvals.count,
        uploads=lambda: storage.uploads.state,
    )  # fmt: skip


def _watching(storage: Storage, admission: Admission, stack: ExitStack) -> Watching:
    watching = Watching(admission.access)
    stack.callback(watching.end)
    storage.index.on_change = watching.changed
    storage.scanner.is_watched = watching.is_asked
    return watching


def _keeping(history: History, stack: ExitStack) -> Keeping:
    # As many as write at once: who prepares a write must not wait for a thread.
    keep = Workers("keep", size=16)
    stack.callback(keep.close)
    return Keeping(history, keep)


def _forge(stack: ExitStack) -> Workers:
    forge = Workers("forge", size=2)
    stack.callback(forge.close)
    return forge


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
