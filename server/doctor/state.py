"""The state folder: where it lies, what it has room for, and whether what it holds is sound."""

import os
import shutil
import stat as st
import time
from collections.abc import Iterator
from pathlib import Path

from server.audit.audit import FOLDER as AUDIT
from server.audit.verification import verify
from server.databases import damage, missing_feature, sqlite_version
from server.doctor.findings import Finding, fail, ok, skip, warn
from server.doctor.places import Hung, StateSeen, VaultSeen, look_at_state, try_writing, within
from server.history.database import FILE as HISTORY
from server.index.generations import FILE as INDEX
from server.index.generations import damage_mark
from server.settings import Settings
from server.state import RESTORING, held_slots
from server.vault.journal import Item, items_in

_MB = 1024 * 1024
_LITTLE, _TOO_LITTLE = 1024 * _MB, 128 * _MB
_LONG = 600.0
_ELSEWHERE = "Set STATE_DIR to a folder on a local disk, outside the vault."
_LATER = ("disk", "owners", "index", "history", "journal", "audit")


def check_state(
    settings: Settings, vault: VaultSeen | None, *, seconds: float, patience: float
) -> Iterator[Finding]:
    """All about STATE_DIR; `patience` is how long a database may be read to see if it is sound."""
    yield _check_sqlite()
    try:
        seen = within(seconds, look_at_state, str(settings.state_dir))
        place = _check_place(settings, seen, vault, seconds)
    except Hung:
        message = f"STATE_DIR does not answer: {settings.state_dir} is on a mount that hangs."
        place = fail("state", message, _ELSEWHERE)
    except OSError as error:
        message = f"STATE_DIR can't be used: {error.strerror} ({settings.state_dir})."
        place = fail(
            "state", message, "Set STATE_DIR to a folder that this user may make and write."
        )
    yield place
    if place.verdict == "fail":
        yield from (skip(name, "STATE_DIR has to be right first") for name in _LATER)
        return
    yield _check_room(seen)
    if not seen.exists:
        yield from (skip(name, "nothing is kept yet") for name in _LATER[1:])
        return
    folder = settings.state_dir
    yield _check_owners(folder)
    yield _check_index(folder, patience)
    yield _check_history(folder / "history", patience)
    yield _check_journal(folder)
    yield _check_audit(folder / AUDIT)


def _check_sqlite() -> Finding:
    lacking = missing_feature()
    if lacking is not None:
        return fail(
            "sqlite",
            f"SQLite {sqlite_version()} lacks {lacking}.",
            "Install the wheel of apsw that requirements.lock names, which brings its own SQLite.",
        )
    return ok("sqlite", f"SQLite {sqlite_version()} has all that the index needs.")


def _check_place(
    settings: Settings, seen: StateSeen, vault: VaultSeen | None, seconds: float
) -> Finding:
    inside = vault.real if vault is not None else os.path.abspath(settings.vault_path)
    if seen.real == inside or seen.real.startswith(inside.rstrip("/") + "/"):
        return fail("state", f"STATE_DIR lies inside the vault ({seen.real}).", _ELSEWHERE)
    if seen.mount is not None and seen.mount.may_hang:
        kind = seen.mount.fstype
        return fail(
            "state", f"STATE_DIR is on {kind}, not on a local disk ({seen.real}).", _ELSEWHERE
        )
    if (settings.state_dir / RESTORING).exists():
        return fail(
            "state",
            "A restore of STATE_DIR was cut short, and no server starts until it is made again.",
            "Run `vault-mcp restore FILE --force` again.",
        )
    within(seconds, try_writing, seen.real)
    if not seen.exists:
        return ok("state", f"{seen.real} will be made by the first start.")
    if seen.mode & (st.S_IRWXO | st.S_IWGRP):
        return warn(
            "state",
            f"Others of this machine can look into {seen.real}, which holds copies of notes.",
            f"Run `chmod 700 {settings.state_dir}`.",
        )
    return ok("state", f"{seen.real} is on local disk and can be written.")


def _check_room(seen: StateSeen) -> Finding:
    there = Path(seen.real)
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    told = f"{free / _MB:,.0f} MB are free for STATE_DIR"
    fix = f"Make room on the disk that holds {there}, or lower HISTORY_MB and INDEX_BUDGET_MB."
    if free < _TOO_LITTLE:
        return fail("disk", f"Only {told}: writes will be refused.", fix)
    if free < _LITTLE:
        return warn("disk", f"Only {told}.", fix)
    return ok("disk", f"{told}.")


def _check_owners(folder: Path) -> Finding:
    """What root made in passing, with `sudo vault-mcp token create` say, is closed to the server."""
    owner = folder.stat()
    for file in (*folder.glob("*"), *folder.glob("*/*"), *folder.glob("slot-*/*/*")):
        # A running server makes files and removes them.
        if _uid(file, owner.st_uid) != owner.st_uid:
            return fail(
                "owners",
                f"{file.relative_to(folder)} in STATE_DIR belongs to another user than STATE_DIR itself.",
                f"Run `chown -R {owner.st_uid}:{owner.st_gid} {folder}`, and the commands as that user.",
            )
    return ok("owners", "All of STATE_DIR belongs to one user.")


def _uid(file: Path, default: int) -> int:
    try:
        return file.lstat().st_uid
    except FileNotFoundError:
        return default


def _check_index(folder: Path, patience: float) -> Finding:
    places = [
        place
        for slot in sorted(folder.glob("slot-*"))
        for place in (slot / "index", slot / "index" / "next")
        if (place / INDEX).exists()
    ]
    fix = "Run `vault-mcp reindex`; the vault is not touched by it."
    for place in places:
        name = place.relative_to(folder)
        if damage_mark(place).exists():
            return fail("index", f"The index in {name} was found damaged.", fix)
        if (wrong := damage(place / INDEX, patience)) is not None:
            return fail("index", f"The index in {name} is damaged: {wrong}.", fix)
    if not places:
        return ok("index", "There is none yet; the first start builds it.")
    return ok("index", f"The index is sound ({len(places)} of this STATE_DIR).")


def _check_history(folder: Path, patience: float) -> Finding:
    if not (folder / HISTORY).exists():
        return ok("history", "There is none yet.")
    if (wrong := damage(folder / HISTORY, patience)) is not None:
        return fail(
            "history",
            f"The history is damaged: {wrong}.",
            "Stop the server and bring back STATE_DIR with `vault-mcp restore FILE --force`.",
        )
    aside = sorted(folder.glob(f"{HISTORY}.damaged-*"))
    if aside:
        return warn(
            "history",
            f"A damaged history was set aside as {aside[0].name}.",
            f"Keep {folder / '*.damaged-*'} elsewhere if you need what is in it, and delete it here.",
        )
    return ok("history", "The history is sound.")


def _check_journal(folder: Path) -> Finding:
    items = [item for slot in sorted(folder.glob("slot-*/journal")) for item in items_in(slot)]
    waiting = [item for item in items if item.state != "aside"]
    aside = len(items) - len(waiting)
    longest = max((_age(item) for item in waiting), default=0.0)
    if longest > _LONG:
        told = (
            f"{len(waiting)} writes are not finished, the oldest for {longest / 60:,.0f} minutes."
        )
        if held_slots(folder):
            return fail("journal", told, "Mend the mount; the server then finishes them by itself.")
        return fail("journal", told, "Start the server, which finishes them.")
    if aside:
        return warn(
            "journal",
            f"{aside} writes could not be finished and were set aside.",
            "Read them with `vault-mcp journal --show ID` and enter by hand what is still wanted.",
        )
    return ok("journal", f"{len(waiting)} writes are under way, none of them for long.")


def _age(item: Item) -> float:
    return max(0.0, time.time() - item.record.created)


def _check_audit(folder: Path) -> Finding:
    report = verify(folder)
    if not report.ok:
        first = report.problems[0]
        return fail(
            "audit",
            f"The audit was changed, at line {first.seq}: {first.what}.",
            f"Keep a copy of {folder} and find out who did that; `vault-mcp audit verify` names all lines.",
        )
    return ok("audit", f"The chain of {report.lines} lines is whole.")
