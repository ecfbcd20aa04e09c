"""Bringing a backup back: all of it or nothing, and only while no server uses STATE_DIR.

Everything is put into `STATE_DIR/.restore` and compared with its hashes first. Then what is there
changes places with it, entry by entry: STATE_DIR itself may be a mount or lie in a folder of somebody
else, so that it can't be renamed. While they change places a mark tells every server to keep off; who
finds it, because a restore was cut short, takes it back and begins anew.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server.backup.archive import Contents, extracting, read_archive
from server.backup.contents import CONFIG, PLACES, STATE, Counter, Progress
from server.databases import damage
from server.errors import Conflict, InvalidRequest
from server.history.database import FILE as HISTORY
from server.state import RESTORING, reserved, sync_folder

_SOUND_SECONDS = 60.0


def restore_backup(path: Path, state: Path, *, force: bool, progress: Progress) -> Contents:
    """Replace what STATE_DIR holds by a backup; the vault is not touched.

    Raises `Conflict` while a server runs or something would be overwritten without `force`,
    `InvalidRequest` when the file can't be used, `OSError`; in each case nothing has changed.
    """
    # Compressed it is less than what will be read.
    size = path.stat().st_size if path.is_file() else 0
    with reserved(state), _workshop(state) as work:
        if not force and _present(state):
            raise Conflict(
                f"{state} holds something already.",
                "Add --force to replace it; `vault-mcp backup FILE` keeps it.",
            )
        new = work / "new"
        contents = read_archive(path, extracting(new), Counter(3 * size, progress).add)
        _check(new)
        _own(new, state)
        _swap(state, new / STATE, work)
        return contents


@contextmanager
def _workshop(state: Path) -> Iterator[Path]:
    """An empty folder for the work, gone afterwards; what a restore that was cut short did is undone."""
    work = state / RESTORING.parent
    if (state / RESTORING).exists():
        _take_back(state, work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        if not (state / RESTORING).exists():
            shutil.rmtree(work, ignore_errors=True)


def _present(state: Path) -> list[Path]:
    return [found for place in PLACES for found in sorted(state.glob(place))]


def _check(new: Path) -> None:
    database = new / STATE / "history" / HISTORY
    wrong = damage(database, _SOUND_SECONDS) if database.exists() else None
    if wrong is not None:
        raise InvalidRequest(f"The history in the backup is damaged: {wrong}.", "Take another one.")
    if (new / CONFIG).exists():
        (new / STATE).mkdir(mode=0o700, exist_ok=True)
        (new / CONFIG).rename(new / STATE / CONFIG)


def _own(new: Path, state: Path) -> None:
    """What root restores belongs to whom the folder belongs to."""
    if os.geteuid() != 0:
        return
    owner = state.stat()
    os.chown(state / "lock", owner.st_uid, owner.st_gid)
    for folder, folders, files in os.walk(new):
        for name in (".", *folders, *files):
            os.chown(os.path.join(folder, name), owner.st_uid, owner.st_gid, follow_symlinks=False)


def _swap(state: Path, new: Path, work: Path) -> None:
    (work / "old").mkdir(mode=0o700)
    (state / RESTORING).touch(mode=0o600)
    sync_folder(work)
    try:
        for entry in _present(state):
            entry.rename(work / "old" / entry.name)
        _coming(work).touch(mode=0o600)
        sync_folder(work)
        for entry in sorted(new.iterdir()) if new.exists() else ():
            entry.rename(state / entry.name)
    except OSError:
        _take_back(state, work)
        raise
    sync_folder(state)
    (state / RESTORING).unlink()
    sync_folder(work)


def _take_back(state: Path, work: Path) -> None:
    """Put back what was moved away; this too may be cut short, and is then done again."""
    if _coming(work).exists():
        for entry in _present(state):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        # From here on, what is in place is the old again.
        _coming(work).unlink()
        sync_folder(work)
    for entry in sorted((work / "old").iterdir()):
        entry.rename(state / entry.name)
    sync_folder(state)
    (state / RESTORING).unlink()


def _coming(work: Path) -> Path:
    """There while what is in place has come from the backup."""
    return work / "coming"
