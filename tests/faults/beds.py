"""What the vault lies on, how it can break, and what is really there.

Each bed has a sandbox: the vault, and beside it things that nobody may touch.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from tests.drive.lab import DriveMount, FakeDrive, LocalMount, Mount, is_mounted
from tests.faults.model import Truth

LIFETIME = 1800.0
PRIVATE = b"nobody's business\n"
Fault = Callable[[], None]
_PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")


class Bed:
    """A vault and its truth. Faults last until `heal`, unless they pass by themselves."""

    round_seconds = 0.1
    """How long all must be well before it stays so."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.environ: dict[str, str] = {}
        self.is_lagging = False
        """Whether changes made elsewhere may go unseen for a while."""

    @property
    def vault(self) -> Path:
        """What VAULT_PATH is."""
        raise NotImplementedError

    @property
    def is_away(self) -> bool:
        """Whether even those who are elsewhere can't reach it."""
        return False

    def faults(self) -> dict[str, Fault]:
        """What can go wrong with this bed."""
        raise NotImplementedError

    def heal(self) -> None:
        """End every fault."""
        raise NotImplementedError

    def truth(self) -> Truth:
        """Every file where it finally lives."""
        raise NotImplementedError

    def put(self, path: str, data: bytes) -> None:
        """Somebody else writes a file."""
        raise NotImplementedError

    def move(self, path: str, to: str) -> None:
        """Somebody else renames a file."""
        raise NotImplementedError

    def remove(self, path: str) -> None:
        """Somebody else deletes a file."""
        raise NotImplementedError

    def trespasses(self) -> list[str]:
        """What was touched outside the vault."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Have what waits for another try be tried now."""

    def look_again(self) -> None:
        """Have a mount forget what it remembers, as it does by itself after a while."""

    def caught_up(self) -> None:
        """No change made elsewhere is unseen any more."""

    def is_idle(self) -> bool:
        """Whether nothing is on its way to where it finally lives."""
        return True

    @property
    def has_forgotten(self) -> bool:
        """Whether nobody can tell which of the last writes came to where they finally live."""
        return False

    def is_entangled(self, _path: str) -> bool:
        """Whether rclone itself would mix up what others do to a file now with what it has of it."""
        return False

    def close(self) -> None:
        """Leave nothing behind."""


class Folder:
    """A vault in a folder on disk, with something beside it and something hidden in it."""

    def __init__(self, home: Path) -> None:
        self.home, self.vault = home, home / "claude"
        (self.vault / ".obsidian").mkdir(parents=True)
        self._guarded = {home / "private.md": PRIVATE, self.vault / ".obsidian/app.json": b"{}\n"}
        for path, data in self._guarded.items():
            path.write_bytes(data)

    def truth(self, vault: Path | None = None) -> Truth:
        vault = vault or self.vault
        found = {}
        for at, _, names in os.walk(vault):
            for name in names:
                path = Path(at) / name
                try:
                    found[str(path.relative_to(vault))] = path.read_bytes()
                except FileNotFoundError:
                    continue  # a temp file that had its time
        return found

    def put(self, path: str, data: bytes) -> None:
        target = self.vault / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = self.home / ".elsewhere"
        beside.write_bytes(data)
        beside.replace(target)

    def move(self, path: str, to: str) -> None:
        (self.vault / to).parent.mkdir(parents=True, exist_ok=True)
        (self.vault / path).rename(self.vault / to)

    def remove(self, path: str) -> None:
        (self.vault / path).unlink()

    def trespasses(self) -> list[str]:
        found = [str(path) for path, data in self._guarded.items() if path.read_bytes() != data]
        known = {"claude", "private.md"}
        return found + [path.name for path in self.home.iterdir() if path.name not in known]


class OnFolder(Bed):
    """What lies in the end in a folder on disk, where others change it."""

    folder: Folder

    def put(self, path: str, data: bytes) -> None:
        self.folder.put(path, data)

    def move(self, path: str, to: str) -> None:
        self.folder.move(path, to)

    def remove(self, path: str) -> None:
        self.folder.remove(path)


class PlainBed(OnFolder):
    """A folder on local disk, which somebody may take away for a while."""

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self.folder = Folder(work / "home")
        self._away = work / "away"

    @property
    def vault(self) -> Path:
        return self.folder.vault

    def faults(self) -> dict[str, Fault]:
        return {"vault taken away": self._take_away, "vault emptied": self._empty}

    def _take_away(self) -> None:
        self.folder.vault.rename(self._away)

    def _empty(self) -> None:
        self.folder.vault.rename(self._away)
        self.folder.vault.mkdir()

    def heal(self) -> None:
        if self._away.exists():
            if self.folder.vault.exists():
                self.folder.vault.rmdir()
            self._away.rename(self.folder.vault)

    def truth(self) -> Truth:
        # Who is in the middle of a write follows the folder; what it answered for is in there.
        return self.folder.truth(self._away if self._away.exists() else None)

    @property
    def is_away(self) -> bool:
        return self._away.exists()

    def trespasses(self) -> list[str]:
        return [] if self._away.exists() else self.folder.trespasses()


class MountBed(Bed):
    """An rclone mount, with or without remote control."""

    round_seconds = 2.6

    def __init__(self, work: Path, mount: Mount) -> None:
        super().__init__(work)
        self.mount = mount
        self.is_lagging = mount.socket is None
        self.environ = {"REQUIRE_MOUNT": "true"}
        if mount.socket is not None:
            self.environ["RCLONE_RC"] = mount.address
        self._lost = self._paused = self._unclean = False
        mount.start()

    @property
    def vault(self) -> Path:
        return self.mount.root / "claude"

    def faults(self) -> dict[str, Fault]:
        return {
            "rclone killed": self.kill,
            "rclone stopped": self._pause,
            "rclone restarted": self._restart,
            "unmounted": self._detach,
        }

    def kill(self) -> None:
        """End rclone in the middle of whatever it does."""
        self.mount.kill9()
        self._lost = self._unclean = True

    def _pause(self) -> None:
        if not self._lost:
            self.mount.pause()
            self._paused = True

    def _restart(self) -> None:
        self._lost = self._unclean = True
        MountBed.heal(self)

    def hurry(self) -> None:
        """Begin anew with uploads that failed: rclone waits longer after every try."""
        self._restart()

    def _detach(self) -> None:
        self.mount.detach()
        self._lost = self._unclean = True

    def heal(self) -> None:
        if self._paused and not self._lost:
            self.mount.resume()
        if self._lost:
            self.mount.start()
        self._lost = self._paused = False

    def look_again(self) -> None:
        self.mount.look_again()

    def is_idle(self) -> bool:
        # rclone rewrites these in place: one that is empty for a moment says nothing yet.
        metas = (self.mount.cache / "vfsMeta").rglob("*")
        return all('"Dirty": false' in _text(meta) for meta in metas if meta.is_file())

    @property
    def has_forgotten(self) -> bool:
        # The journal keeps a write until its mount stayed up for two minutes. That is in the docs.
        return self._unclean and self.mount.socket is None

    def is_entangled(self, path: str) -> bool:
        # Of a file that it had not uploaded when it was ended, rclone believes its own cache: it puts
        # the end of that behind what others wrote, or shows nothing at all. That is in the docs.
        metas = (self.mount.cache / "vfsMeta").rglob(path.rpartition("/")[2])
        mine = [meta for meta in metas if str(meta).endswith(f"/claude/{path}")]
        return self._unclean and any('"Dirty": false' not in _text(meta) for meta in mine)

    def caught_up(self) -> None:
        self._unclean = False

    def trespasses(self) -> list[str]:
        """What lies beneath the mount; to be seen only while it is away."""
        root = self.mount.root
        return [] if is_mounted(root) else [f"beneath: {path.name}" for path in root.iterdir()]

    def close(self) -> None:
        self.mount.stop()


class LocalMountBed(OnFolder, MountBed):
    """A mount of a folder on disk: the FUSE layer without a Drive behind it."""

    def __init__(self, work: Path, *, rc: bool) -> None:
        self.folder = Folder(work / "home")
        (work / "rclone").mkdir()
        super().__init__(
            work, LocalMount(self.folder.home, work / "rclone", rc=rc, lifetime=LIFETIME)
        )

    def truth(self) -> Truth:
        # What rclone was copying into a folder when it was killed stays there; a Drive has no such.
        found = self.folder.truth()
        return {path: text for path, text in found.items() if not _PARTIAL.search(path)}

    def trespasses(self) -> list[str]:
        return self.folder.trespasses() + super().trespasses()


class DriveBed(MountBed):
    """A mount of the Drive emulator."""

    def __init__(self, work: Path, drive: FakeDrive, *, rc: bool) -> None:
        self.drive = drive
        drive.admin("/reset")
        self._guarded = {"vault/private.md": PRIVATE, "vault/claude/.obsidian/app.json": b"{}\n"}
        for path, data in self._guarded.items():
            drive.put(path, data)
        (work / "rclone").mkdir()
        super().__init__(work, DriveMount(drive, work / "rclone", rc=rc, lifetime=LIFETIME))
        self._blind = self.is_lagging

    def faults(self) -> dict[str, Fault]:
        drive = self.drive
        return {
            **super().faults(),
            "backend down": drive.fail,
            "backend erring": lambda: drive.fail(rate=0.3),
            "backend dropping": lambda: drive.drop(rate=0.3),
            "backend hanging": drive.hang,
            "backend slow": lambda: drive.slow(300),
            "backend throttled": lambda: drive.throttle(5),
            "uploads failing": lambda: drive.fail(kind="upload"),
            "listings shuffled": lambda: drive.shuffle(1),
            "listings lagging": self._lag,
        }

    def _lag(self) -> None:
        self.drive.lag(2)
        self.is_lagging = True

    def heal(self) -> None:
        self.drive.calm()
        super().heal()

    def caught_up(self) -> None:
        super().caught_up()
        self.is_lagging = self._blind

    def truth(self) -> Truth:
        found: dict[str, bytes] = {}
        for path, data in self.drive.files("vault/claude"):
            # Two files of one name: neither may hide the other.
            found[f"{path} (again)" if path in found else path] = data
        return found

    def put(self, path: str, data: bytes) -> None:
        self.drive.put(f"vault/claude/{path}", data)

    def move(self, path: str, to: str) -> None:
        self.drive.move(f"vault/claude/{path}", f"vault/claude/{to}")

    def remove(self, path: str) -> None:
        self.drive.remove(f"vault/claude/{path}")

    def trespasses(self) -> list[str]:
        changed = [path for path, data in self._guarded.items() if self.drive.get(path) != data]
        return changed + super().trespasses()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return '"Dirty": false'
