"""What `vault-mcp status` says: how the server of this STATE_DIR is doing, in ten lines.

Asks the server's own probes where it runs, and reads the state folder beside it. Never touches the vault.
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from server.commands import Commands, print_json
from server.settings import Settings, load

_SECONDS = 5.0
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Section:
    """One line: `facts` for scripts, `line` for people."""

    name: str
    line: str
    facts: dict[str, Any]


def add(commands: Commands) -> None:
    """Declare the command."""
    status = commands.add_parser(
        "status",
        help="how the server is doing, in ten lines; 1 when none answers or it isn't ready",
    )
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = load()
    found = list(sections(settings))
    if arguments.json:
        print_json({section.name: section.facts for section in found})
    else:
        for section in found:
            print(f"{section.name:<10} {section.line}")
    server = found[0].facts
    return 0 if server["answers"] and server["ready"] is not False else 1


def sections(settings: Settings) -> Iterator[Section]:
    """Everything, the server first."""
    probes = _Probes(settings)
    yield _server(settings, probes)
    yield _vault(settings, probes)
    yield _index(settings, probes)
    yield _journal(settings)
    yield _uploads(settings)
    yield _approvals(settings)
    yield _tokens(settings)
    yield _history(settings)
    yield _audit(settings)
    yield _disk(settings)


class _Probes:
    """What the server says on `/healthz` and, if there is a token for it, on `/readyz`."""

    def __init__(self, settings: Settings) -> None:
        self.health = _get(settings, "/healthz")
        secret = settings.auth_token or settings.caller_token
        bearer = {"Authorization": f"Bearer {secret.get_secret_value()}"} if secret else {}
        self.ready = _get(settings, "/readyz", bearer) if self.health else None
        if self.ready is not None and "ready" not in self.ready:
            self.ready = None


def _get(
    settings: Settings, path: str, headers: dict[str, str] | None = None
) -> dict[str, Any] | None:
    import http.client  # noqa: PLC0415 - a server's start does without

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    connection = http.client.HTTPConnection(host, settings.port, timeout=_SECONDS)
    try:
        connection.request("GET", path, headers=headers or {})
        said = json.loads(connection.getresponse().read(65_536))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return said if isinstance(said, dict) else None


def _server(settings: Settings, probes: _Probes) -> Section:
    from server.state import held_slots  # noqa: PLC0415 - as everywhere here: `--help` does without

    place = f"{settings.host}:{settings.port}"
    processes = len(held_slots(settings.state_dir)) if settings.state_dir.is_dir() else 0
    health, ready = probes.health, probes.ready
    version = health.get("version") if health and health.get("status") == "ok" else None
    facts = {
        "address": place,
        "answers": version is not None,
        "version": version,
        "ready": None if ready is None else bool(ready["ready"]),
        "processes": processes,
    }
    beside = f"; {processes} processes use STATE_DIR" if processes > 1 else ""
    if version is None:
        line = f"none answers on {place}"
    elif ready is None:
        line = f"{version} answers on {place}; set CALLER_TOKEN to learn whether it is ready"
    else:
        line = f"{version} answers on {place}, {'ready' if ready['ready'] else 'NOT READY'}"
    return Section("server", line + beside, facts)


def _vault(settings: Settings, probes: _Probes) -> Section:
    from server.vault.mounts import mount_of  # noqa: PLC0415

    # By the kernel's table alone: the path itself may hang.
    mount = mount_of(os.path.abspath(settings.vault_path))
    kind = mount.fstype if mount is not None else None
    state = probes.ready["mount"] if probes.ready else None
    line = f"{settings.vault_path} on {kind or 'an unknown file system'}"
    line += f", {state}" if state else ""
    return Section(
        "vault", line, {"path": str(settings.vault_path), "fstype": kind, "state": state}
    )


def _index(settings: Settings, probes: _Probes) -> Section:
    from server.index.glance import notes_in  # noqa: PLC0415

    counted = [notes_in(slot / "index") for slot in sorted(settings.state_dir.glob("slot-*"))]
    notes = next((number for number in counted if number is not None), None)
    scan = (probes.ready or {}).get("scan") or {}
    last = (probes.ready or {}).get("last_scan")
    line = "none yet" if notes is None else f"{notes:,} notes"
    if last:
        line += f", last scan {last}"
    if scan.get("phase") == "reading":
        line += f", reading {scan['done']:,} of {scan['total']:,}"
    return Section("index", line, {"notes": notes, "last_scan": last, "scan": scan or None})


def _journal(settings: Settings) -> Section:
    from server.vault.journal import items_in  # noqa: PLC0415

    folders = sorted(settings.state_dir.glob("slot-*/journal"))
    items = [item for folder in folders for item in items_in(folder)]
    waiting = [item.record.created for item in items if item.state != "aside"]
    oldest = round(time.time() - min(waiting)) if waiting else None
    line = f"{len(waiting)} writes wait" + (f", the oldest for {oldest:,} s" if waiting else "")
    aside = len(items) - len(waiting)
    line += f", {aside} set aside" if aside else ""
    facts = {"waiting": len(waiting), "oldest_seconds": oldest, "aside": aside}
    return Section("journal", line, facts)


def _uploads(settings: Settings) -> Section:
    from server.vault.rc import Rc, RcError  # noqa: PLC0415

    if settings.rclone_rc is None:
        return Section("uploads", "not known without RCLONE_RC", {"waiting": None, "failing": None})
    rc = Rc(settings.rclone_rc, _SECONDS)
    try:
        queue = [upload for fs in rc.vfs_list() for upload in rc.queue(fs)]
    except RcError:
        line = "rclone's remote control does not answer"
        return Section("uploads", line, {"waiting": None, "failing": None})
    failing = sum(upload.tries > 1 for upload in queue)
    line = f"{len(queue)} wait, {failing} of them failed before"
    return Section("uploads", line, {"waiting": len(queue), "failing": failing})


def _approvals(settings: Settings) -> Section:
    from server.approvals.store import Approvals  # noqa: PLC0415

    store = Approvals(settings.state_dir / "approvals", hours=settings.approval_hours)
    waiting = len(store.waiting())
    return Section("approvals", f"{waiting} writes wait for you", {"waiting": waiting})


def _tokens(settings: Settings) -> Section:
    from server.access.tokens import TokenStore  # noqa: PLC0415
    from server.errors import Unavailable  # noqa: PLC0415
    from server.vault.paths import parse_folder  # noqa: PLC0415

    store = TokenStore(settings.state_dir, parse_folder)
    try:
        tokens = store.listed()
    except Unavailable as error:
        return Section("tokens", error.message, {"live": None, "expired": None, "last_used": None})
    live = sum(token.is_live(time.time()) for token in tokens)
    used = max(store.last_uses().values(), default=None)
    facts = {"live": live, "expired": len(tokens) - live, "last_used": _moment(used)}
    line = f"{live} live, {len(tokens) - live} expired" + (
        f", used {_moment(used)}" if used else ""
    )
    return Section("tokens", line + (" (AUTH is none)" if settings.auth == "none" else ""), facts)


def _history(settings: Settings) -> Section:
    from server.history.glance import totals_in  # noqa: PLC0415

    found = totals_in(settings.state_dir / "history")
    if found is None:
        return Section("history", "none yet", {"entries": None, "used_mb": None})
    entries, used = found
    line = f"{entries:,} changes, {used / _MB:,.1f} of {settings.history_mb:,} MB"
    return Section("history", line, {"entries": entries, "used_mb": round(used / _MB, 1)})


def _audit(settings: Settings) -> Section:
    from server.audit.audit import FOLDER  # noqa: PLC0415
    from server.audit.reading import last  # noqa: PLC0415

    found = last(settings.state_dir / FOLDER, 1, lambda _entry: True)
    if not found:
        return Section("audit", "empty", {"last": None, "at": None})
    at = found[0].fields.get("time")
    return Section("audit", f"line {found[0].seq:,} at {at}", {"last": found[0].seq, "at": at})


def _disk(settings: Settings) -> Section:
    there = settings.state_dir
    files = (file for file in there.rglob("*") if file.is_file())
    used = sum(_size(file) for file in files)
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    line = f"{free / _MB:,.0f} MB free, STATE_DIR takes {used / _MB:,.0f} MB"
    return Section("disk", line, {"free_mb": round(free / _MB), "used_mb": round(used / _MB, 1)})


def _size(file: Any) -> int:
    try:
        return int(os.stat(file).st_size)
    except FileNotFoundError:
        return 0


def _moment(at: float | None) -> str | None:
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
