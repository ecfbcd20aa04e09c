"""The state of the server for people and agents: cached values only, so it answers whatever the mount does."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from server import __version__
from server.access.decision import Access
from server.errors import VaultError
from server.history.store import History
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.service.freshness import iso
from server.vault.guard import Guard
from server.vault.journal import Journal
from server.vault.obsidian import ObsidianLinks
from server.vault.uploads import Uploads
from server.workers import Deadline, Workers


class Status:
    """What `health_check` and `/readyz` tell."""

    def __init__(
        self,
        guard: Guard,
        index: Index,
        scanner: Scanner,
        journal: Journal,
        history: History,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        mount: Workers,
        *,
        protocol: Callable[[], str],
        tools: Mapping[str, str],
        approvals: Callable[[], int] = lambda: 0,
        policy: Callable[[], str | None] = lambda: None,
        audit: Callable[[], str | None] = lambda: None,
        uploads: Callable[[], Uploads | None] = lambda: None,
    ) -> None:
        """`approvals` tells how many writes wait for a person, `policy` what is wrong with its file.

        `audit` tells why lines of the audit can't be written, `uploads` what rclone still holds.
        """
        self._guard = guard
        self._index = index
        self._scanner = scanner
        self._journal = journal
        self._history = history
        self._access = access
        self._obsidian = obsidian
        self._local = local
        self._mount = mount
        self._protocol = protocol
        self._tools = tools
        self._approvals = approvals
        self._policy = policy
        self._audit = audit
        self._uploads = uploads

    async def health(self, caller: Caller) -> dict[str, Any]:
        """Everything `health_check` says; what counts the whole vault only to who may know that."""
        ready, _ = self.ready()
        problem, unwritten = self._policy(), self._audit()
        links = self._obsidian()
        told: dict[str, Any] = {
            "status": "ok" if ready and not (problem or unwritten) else "degraded",
            "mount": self._mount_part(),
            "index": self._scan_part(),
            "obsidian": {
                "vault": links.vault,
                "prefix": links.prefix,
                "reason": links.reason or None,
            },
            "policy": {"ok": problem is None},
            "audit": {"ok": unwritten is None},
            "versions": {"server": __version__, "mcp": _version("mcp"), **self._tools},
        }
        if self.knows_all(caller):
            told["index"] |= await self._local.run_async(Deadline.after(5), self._index_part)
            told["history"] = await self._local.run_async(Deadline.after(5), self._history_part)
            told["queue"] = {
                "pending_writes": len(self._journal),
                "stuck_workers": self._mount.stuck,
                "approvals": self._approvals() if self._access.may(caller, "admin", "") else None,
            }
            told["uploads"] = self._uploads_part()
            told["oddities"] = self._oddities_part()
            told["policy"]["problem"] = problem
            told["audit"]["problem"] = unwritten
        return told

    def _uploads_part(self) -> dict[str, Any] | None:
        state = self._uploads()
        if state is None:
            return None
        return {
            "pending": state.pending,
            "failing": state.failing,
            "error": state.error or None,
            "as_of": iso(state.at),
        }

    def _oddities_part(self) -> dict[str, Any] | None:
        odd = self._scanner.progress.oddities
        return {
            kind: {"count": count, "first": list(odd.examples[kind])}
            for kind, count in odd.counts.items()
        } or None

    def knows_all(self, caller: Caller) -> bool:
        """Whether a caller may see figures about the whole vault."""
        return self._access.may(caller, "admin", "") or self._access.sees(caller).everything

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether the server can answer and write, with the reasons; never touches disk or mount."""
        progress = self._scanner.progress
        ok = self._guard.health.ok and progress.first_done
        return ok, {
            "ready": ok,
            "mount": self._guard.health.state,
            "first_scan_done": progress.first_done,
            "scan": {"phase": progress.phase, "done": progress.done, "total": progress.total},
            "last_scan": iso(progress.last_success) if progress.last_success else None,
        }

    def _mount_part(self) -> dict[str, Any]:
        health = self._guard.health
        return {
            "state": health.state,
            "since": iso(health.since),
            "reason": health.reason or None,
            "hint": health.hint or None,
            "detail": health.detail or None,
            "protocol": self._protocol(),
        }

    def _history_part(self) -> dict[str, Any]:
        try:
            usage = self._history.usage()
        except VaultError as error:
            return {"error": error.message}
        return {
            "entries": usage.entries,
            "used_mb": _mb(usage.bytes),
            "budget_mb": _mb(usage.max_bytes),
        }

    def _scan_part(self) -> dict[str, Any]:
        done = self._scanner.progress.last_success
        return {"last_scan": iso(done) if done else None}

    def _index_part(self) -> dict[str, Any]:
        counts, usage, progress = self._index.counts(), self._index.usage(), self._scanner.progress
        return {
            "notes": counts.notes,
            "attachments": counts.attachments,
            "scan_seconds": round(progress.last_seconds, 2) if progress.last_seconds else None,
            "scanning": f"{progress.done}/{progress.total}"
            if progress.phase == "reading"
            else None,
            "last_error": progress.last_error,
            "held_removals": progress.held_removals or None,
            "used_mb": _mb(usage.used),
            "budget_mb": _mb(usage.budget),
            "used_percent": round(100 * usage.used / usage.budget, 1),
            "evicted_notes": usage.evicted,
            "disk_mb": _mb(sum(self._index.sizes().values())),
            "memory_mb": _resident_mb(),
        }


def _mb(size: float) -> float:
    return round(size / 1024 / 1024, 1)


def _resident_mb() -> float | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return _mb(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
