"""Making a backup: written beside its place, read again, and only then given its name."""

import os
import tempfile
import time
from pathlib import Path

from server import __version__
from server.backup.archive import Contents, hash_of, read_archive, write_archive
from server.backup.contents import Counter, Progress, parts_of, size_of
from server.databases import damage
from server.errors import Conflict, InvalidRequest, Unavailable
from server.history.database import FILE as HISTORY
from server.settings import Settings
from server.state import sync_folder
from server.vault.identity import IdentityFile

_SOUND_SECONDS = 60.0


def make_backup(
    settings: Settings, config: dict[str, Path], target: Path, *, force: bool, progress: Progress
) -> Contents:
    """Write a backup of STATE_DIR to `target`, mode 0600, and check it.

    Raises `Conflict` when the file exists, `InvalidRequest` when it would lie in the vault,
    `Unavailable` when there is nothing to back up or the history is damaged, `OSError`.
    """
    state = settings.state_dir
    _check_place(settings, target, force=force)
    if not state.is_dir():
        raise Unavailable("There is no STATE_DIR yet.", "Start the server once, then back it up.")
    wrong = damage(state / "history" / HISTORY, _SOUND_SECONDS) if _has_history(state) else None
    if wrong is not None:
        raise Unavailable(
            f"The history is damaged: {wrong}.", "`vault-mcp doctor` says what to do."
        )
    facts = {
        "server": __version__,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "vault": IdentityFile(state / "vault.json").current.id,
    }
    # Written and read again: twice the bytes.
    counted = Counter(2 * size_of(state), progress)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
        temp = Path(folder)
        new = temp / "new"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            parts = parts_of(state, config, temp)
            write_archive(file, parts, facts, counted.add)
            file.flush()
            os.fsync(file.fileno())
        contents = read_archive(new, hash_of, counted.add)
        if force:
            new.replace(target)
        else:
            _name(new, target)
    sync_folder(target.parent)
    counted.finish()
    return contents


def check_backup(path: Path) -> Contents:
    """What a backup holds, after all of it was read. Raises `InvalidRequest`."""
    return read_archive(path, hash_of, lambda _size: None)


def _check_place(settings: Settings, target: Path, *, force: bool) -> None:
    inside = os.path.abspath(settings.vault_path)
    for place in (os.path.abspath(target.parent), os.path.realpath(target.parent)):
        if f"{place}/".startswith(f"{inside}/"):
            raise InvalidRequest(
                "A backup must not lie in the vault: it holds what tokens may do.",
                "Name a file elsewhere.",
            )
    if not force and os.path.lexists(target):
        raise Conflict(f"{target} exists already.", "Name another file, or add --force.")


def _name(new: Path, target: Path) -> None:
    """Give the file its name, unless somebody was quicker."""
    try:
        os.link(new, target)
    except FileExistsError:
        raise Conflict(f"{target} exists already.", "Name another file, or add --force.") from None
    except OSError:
        # No hard links there, as on many mounts.
        new.replace(target)


def _has_history(state: Path) -> bool:
    return (state / "history" / HISTORY).exists()
