"""The state of the server for people and agents: cached values only, so it answers whatever the mount does."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from server import __version__
from server.access import Access
from server.errors import VaultError
from server.history.store import History
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.service.freshness import iso
from server.vault.guard import Guard
from server.vault.journal import Journal
from server.vault.obsidian import ObsidianLinks
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
    ) -> None:
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

    async def health(self, caller: Caller) -> dict[str, Any]:
        """Everything `health_check` says."""
        self._access.require(caller, "read", "")
        index = await self._local.run_async(Deadline.after(5), self._index_part)
        ready, _ = self.ready()
        links = self._obsidian()
        return {
            "status": "ok" if ready else "degraded",
            "mount": self._mount_part(),
            "index": index,
            "history": await self._local.run_async(Deadline.after(5), self._history_part),
            "queue": {"pending_writes": len(self._journal), "stuck_workers": self._mount.stuck},
            "obsidian": {
                "vault": links.vault,
                "prefix": links.prefix,
                "reason": links.reason or None,
            },
            "versions": {"server": __version__, "mcp": _version("mcp"), **self._tools},
        }

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

    def _index_part(self) -> dict[str, Any]:
        counts, usage, progress = self._index.counts(), self._index.usage(), self._scanner.progress
        return {
            "notes": counts.notes,
            "attachments": counts.attachments,
            "last_scan": iso(progress.last_success) if progress.last_success else None,
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
