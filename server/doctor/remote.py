"""rclone's remote control: who can reach it, what it can do, what it still has to upload.

`config/get` answers with the remote's secrets; all that is kept of it is whether there is a client id.
"""

import os
import re
import stat as st
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from server.doctor.findings import Finding, fail, ok, skip, warn
from server.doctor.places import VaultSeen
from server.settings import Settings
from server.telemetry import redact
from server.vault.rc import Rc, RcError

_OLDEST = (1, 68)
"""The first version with the calls for the queue."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_MODES = ("off", "minimal", "writes", "full")
_WRITES = 2
_FLAGS = "--rc --rc-addr {} --rc-no-auth"
_SKIPPED = ("socket", "hashes", "client-id", "flags", "uploads")


@dataclass(frozen=True, slots=True)
class _Mounted:
    rc: Rc
    fs: str


def check_remote(settings: Settings, seen: VaultSeen | None, seconds: float) -> Iterator[Finding]:
    """Everything about remote control, or why there is nothing to look at."""
    address = settings.rclone_rc
    if address is None:
        yield _unused(seen)
        return
    rc = Rc(address, seconds)
    found = _check_rc(rc, address)
    yield found
    if found.verdict == "fail":
        yield from (skip(name, "rclone has to answer first") for name in _SKIPPED)
        return
    yield _check_socket(address.removeprefix("unix://"))
    try:
        mounted = _Mounted(rc, _fs(rc, seen))
        yield _check_hashes(mounted)
        yield _check_client(mounted)
        yield _check_flags(mounted)
        yield _check_uploads(mounted)
    except RcError as error:
        yield fail(
            "rc",
            f"rclone did not answer {error.command}: {redact(error.reason)[:200]}",
            "Look at rclone's log, and restart it if it hangs.",
        )


def _unused(seen: VaultSeen | None) -> Finding:
    if seen is not None and seen.mount is not None and seen.mount.is_rclone:
        return warn(
            "rc",
            "rclone is used without remote control: an answer to a write comes before its upload.",
            f"Mount with {_FLAGS.format('unix:///run/rclone/rc.sock')} and set RCLONE_RC to that address.",
        )
    return ok("rc", "Not used: the vault is no rclone mount.")


def _check_rc(rc: Rc, address: str) -> Finding:
    try:
        version = rc.version()
    except RcError as error:
        why = "it refused" if error.status else "nobody answers there"
        return fail(
            "rc",
            f"rclone's remote control can't be used at {address}: {why}.",
            f"Start the mount with {_FLAGS.format(address)}, as a user whose socket this one may open.",
        )
    parts = _VERSION.match(version)
    if parts is None or (int(parts[1]), int(parts[2])) < _OLDEST:
        return fail(
            "rc",
            f"rclone is {version}: it can't tell what waits for upload.",
            "Install rclone 1.68 or newer, and mount again with it.",
        )
    return ok("rc", f"rclone {version} answers at {address}.")


def _check_socket(path: str) -> Finding:
    try:
        mode = os.stat(path).st_mode
        above = os.path.dirname(os.path.realpath(path))
        ways = [above]
        while ways[-1] != "/":
            ways.append(os.path.dirname(ways[-1]))
        is_open = bool(mode & st.S_IWOTH) and all(
            os.stat(folder).st_mode & st.S_IXOTH for folder in ways
        )
    except OSError as error:
        return fail(
            "socket",
            f"{path} can't be looked at: {error.strerror}.",
            "Let this user enter the socket's folder.",
        )
    if is_open:
        return fail(
            "socket",
            f"Every user of this machine may open {path}, and read the remote's credentials there.",
            f"Run `chmod 0750 {above}`.",
        )
    return ok("socket", "Only its owner and group reach rclone's socket.")


def _fs(rc: Rc, seen: VaultSeen | None) -> str:
    """What rclone calls that which it has mounted at the vault."""
    names = rc.vfs_list()
    source = seen.mount.source if seen is not None and seen.mount is not None else ""
    return source if source in names or len(names) != 1 else names[0]


def _check_hashes(mounted: _Mounted) -> Finding:
    if not mounted.fs:
        return fail(
            "hashes",
            "This rclone has nothing mounted.",
            "Set RCLONE_RC to the socket of the rclone that mounts the vault.",
        )
    if "md5" not in mounted.rc.hashes(mounted.fs):
        return warn(
            "hashes",
            f"{mounted.fs} keeps no MD5, so a write can't be verified on the remote.",
            "Mount the remote itself instead of a crypt or chunker over it, or live with writes that "
            "are answered before their upload.",
        )
    return ok("hashes", f"{mounted.fs} keeps MD5: a write is verified on the remote.")


def _check_client(mounted: _Mounted) -> Finding:
    name = mounted.fs.partition(":")[0]
    said: dict[str, Any] = mounted.rc.call("config/get", name=name) if name else {}
    kind, has_client = said.get("type"), bool(said.get("client_id"))
    if kind == "drive" and not has_client:
        return warn(
            "client-id",
            f"{name} uses the Drive client_id that all rclone users share, and that ends in 2026.",
            f"Make one of your own in Google's console and enter it with `rclone config update {name} "
            "client_id=… client_secret=…`.",
        )
    if kind == "drive":
        return ok("client-id", f"{name} has a Drive client_id of its own.")
    return ok("client-id", f"Not needed: {mounted.fs} is no Google Drive.")


def _check_flags(mounted: _Mounted) -> Finding:
    said = mounted.rc.call("vfs/stats", fs=mounted.fs)
    options: dict[str, Any] = said.get("opt") or {}
    mode, handles = options.get("CacheMode"), options.get("HandleCaching")
    if isinstance(mode, int) and mode != _WRITES:
        told = _MODES[mode] if 0 <= mode < len(_MODES) else str(mode)
        return warn(
            "flags",
            f"The mount has --vfs-cache-mode {told}, with which a crash of rclone can lose a write.",
            "Mount with --vfs-cache-mode writes.",
        )
    if handles:
        return warn(
            "flags",
            "The mount keeps files open after use, with which a crash of rclone can lose a write.",
            "Mount with --vfs-handle-caching 0s.",
        )
    if (said.get("diskCache") or {}).get("outOfSpace"):
        return fail(
            "flags",
            "rclone's cache has no room left.",
            "Make room on the disk that holds rclone's --cache-dir.",
        )
    return ok("flags", "The mount's cache is set up as it should be.")


def _check_uploads(mounted: _Mounted) -> Finding:
    queue = mounted.rc.queue(mounted.fs)
    failing = [upload for upload in queue if upload.tries > 1]
    if failing:
        why = redact(mounted.rc.stats_last_error())[:200] or "rclone does not say why"
        return fail(
            "uploads",
            f"{len(failing)} of {len(queue)} uploads were tried in vain: {why}",
            "Look at the remote's quota and permissions; rclone goes on trying by itself.",
        )
    return ok("uploads", f"{len(queue)} uploads wait, none of them was tried in vain.")
