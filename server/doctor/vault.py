"""The vault's folder: is it there, is it the right one, can it be written."""

import errno
import os
import time
from dataclasses import dataclass

from server.doctor.findings import Finding, fail, ok, skip, warn
from server.doctor.places import Hung, VaultSeen, look_at_vault, try_writing, within
from server.settings import Settings
from server.vault.guard import Health, State
from server.vault.identity import Identity, IdentityFile
from server.vault.mounts import hangs_below

_FIRST = "the vault has to be there first"
_DEAD = (errno.ENOTCONN, errno.ECONNABORTED)


@dataclass(frozen=True, slots=True)
class VaultChecked:
    """`seen` is None when the vault can't be looked at."""

    seen: VaultSeen | None
    findings: list[Finding]


def check_vault(settings: Settings, seconds: float) -> VaultChecked:
    """Mount, marker and writing; each look has `seconds`."""
    try:
        seen = within(seconds, look_at_vault, str(settings.vault_path), settings.vault_marker)
    except Hung:
        return _lost(settings, "hung")
    except FileNotFoundError:
        return _lost(settings, "missing")
    except NotADirectoryError:
        finding = fail(
            "mount",
            f"{settings.vault_path} is a file.",
            "Set VAULT_PATH to the folder that holds the notes.",
        )
        return VaultChecked(None, [finding, *_skipped()])
    except OSError as error:
        return _lost(settings, "dead" if error.errno in _DEAD else "error", error.strerror or "")
    known = IdentityFile(settings.state_dir / "vault.json").current
    mount = _check_mount(settings, known, seen)
    if mount.verdict == "fail":
        return VaultChecked(None, [mount, *_skipped()])
    marker, writing = _check_marker(settings, known, seen), _check_writing(settings, seen, seconds)
    return VaultChecked(seen, [mount, marker, writing])


def _lost(settings: Settings, state: State, detail: str = "") -> VaultChecked:
    health = Health(state, time.time())
    message = f"{health.reason} ({detail or settings.vault_path})"
    return VaultChecked(None, [fail("mount", message, health.hint), *_skipped()])


def _skipped() -> list[Finding]:
    return [skip("marker", _FIRST), skip("writing", _FIRST)]


def _check_mount(settings: Settings, known: Identity, seen: VaultSeen) -> Finding:
    mount = seen.mount
    asked = settings.require_mount == "true" or (
        settings.rclone_rc is not None and settings.require_mount == "auto"
    )
    remembered = settings.require_mount == "auto" and known.mounted and known.populated
    is_own = mount is not None and mount.path != "/"
    is_rclone = mount is not None and mount.is_rclone
    if (asked and not is_own) or ((remembered or settings.rclone_rc) and not is_rclone):
        health = Health("not_mounted", time.time())
        kind = mount.fstype if mount else "an unknown file system"
        return fail("mount", f"{health.reason} ({settings.vault_path} is on {kind})", health.hint)
    if hangs_below(seen.real):
        return warn(
            "mount",
            f"Something is mounted below {settings.vault_path}: nobody can tell when that is gone, and"
            " while it fails, nothing new is found in all of the vault.",
            "Serve it by a server of its own, with VAULT_PATH at the mount or in it.",
        )
    if mount is None or not mount.may_hang:
        return ok("mount", f"{settings.vault_path} is a plain folder on this machine.")
    return ok("mount", f"{mount.source} is mounted at {mount.path} ({mount.fstype}).")


def _check_marker(settings: Settings, known: Identity, seen: VaultSeen) -> Finding:
    state: State = "ok"
    if known.populated and known.id is not None and seen.marker is None:
        state = "no_marker"
    elif known.populated and seen.marker and known.id not in (None, seen.marker):
        state = "wrong_vault"
    elif known.populated and seen.empty:
        state = "empty"
    if state != "ok":
        health = Health(state, time.time())
        return fail("marker", health.reason, health.hint)
    if seen.marker is None:
        return ok("marker", "No server has served this vault yet; the first start marks it.")
    return ok("marker", f"{settings.vault_marker} is there, and it is the known one.")


def _check_writing(settings: Settings, seen: VaultSeen, seconds: float) -> Finding:
    if settings.write_mode == "off":
        return ok("writing", "WRITE_MODE is off: nothing is to be written.")
    try:
        within(seconds, try_writing, seen.real)
    except Hung:
        return fail(
            "writing",
            "A file can't be made in the vault: the mount does not answer.",
            "Restart rclone, and look at its log for what it waits for.",
        )
    except OSError as error:
        return _unwritable(error, seen)
    return ok("writing", "The vault can be written.")


def _unwritable(error: OSError, seen: VaultSeen) -> Finding:
    said = f"The vault can't be written: {error.strerror}."
    if error.errno == errno.EROFS:
        fix = "Mount it without --read-only, or set WRITE_MODE=off."
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = "Make room on the disk that holds it; with rclone that is the disk of --cache-dir."
    elif seen.mount is not None and seen.mount.is_rclone:
        fix = f"Mount with --uid {os.getuid()} --gid {os.getgid()}, or set WRITE_MODE=off."
    else:
        fix = f"Let user {os.getuid()} write in {seen.real}, or set WRITE_MODE=off."
    return fail("writing", said, fix)
