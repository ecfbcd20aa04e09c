"""What the vault contract runs on: a plain folder, and real rclone mounts with and without rc."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server.telemetry import Telemetry
from server.vault.choice import Writers
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.recovery import Recovery
from server.vault.vault import Vault
from tests.drive.lab import FakeDrive, Mount


@dataclass(frozen=True)
class Bed:
    """A vault on one kind of storage, and the truth behind it."""

    name: str
    folder: Path
    """What VAULT_PATH would be: a subfolder of the mount."""
    state: Path
    protocol: str
    remote: Callable[[str], bytes | None]
    """A file's content where it finally lives, past every cache."""
    elsewhere: Callable[[str, bytes], object]
    """Another device writes a file."""
    rc_address: str | None = None
    mount: Mount | None = None

    def open(self, state: str = "state") -> "Opened":
        return Opened.of(self, self.state / state)


@dataclass(frozen=True)
class Opened:
    """The rooms of the vault over a bed, as a server process would hold them."""

    vault: Vault
    guard: Guard
    journal: Journal
    recovery: Recovery
    telemetry: Telemetry

    @classmethod
    def of(cls, bed: Bed, state: Path) -> "Opened":
        telemetry = Telemetry()
        guard = Guard(
            bed.folder,
            marker=".vault-mcp",
            require_mount="auto" if bed.mount is None else "true",
            identity=IdentityFile(state / "vault.json"),
            telemetry=telemetry,
        )
        journal = Journal(state / "journal")
        writers = Writers(state / "staging", bed.rc_address, timeout=10)
        vault = Vault(guard, journal, writers.choose, telemetry, max_bytes=1 << 20)
        recovery = Recovery(vault, journal, telemetry, on_write=lambda _: None)
        guard.probe()
        return cls(vault, guard, journal, recovery, telemetry)


def plain_bed(tmp_path: Path) -> Bed:
    folder = tmp_path / "vault"
    folder.mkdir()

    def elsewhere(path: str, data: bytes) -> None:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temp = target.with_name(".elsewhere")
        temp.write_bytes(data)
        os.replace(temp, target)

    return Bed("local", folder, tmp_path, "local", lambda path: _bytes(folder / path), elsewhere)


def local_mount_bed(tmp_path: Path, source: Path, mount: Mount) -> Bed:
    def elsewhere(path: str, data: bytes) -> None:
        target = source / "claude" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    rc = mount.address if mount.socket else None
    return Bed(
        "rclone", mount.root / "claude", tmp_path, "drive" if rc else "mount",
        lambda path: _bytes(source / "claude" / path), elsewhere, rc, mount,
    )  # fmt: skip


def drive_bed(tmp_path: Path, drive: FakeDrive, mount: Mount) -> Bed:
    rc = mount.address if mount.socket else None
    return Bed(
        "drive", mount.root / "claude", tmp_path, "drive" if rc else "mount",
        lambda path: drive.get(f"vault/claude/{path}"),
        lambda path, data: drive.put(f"vault/claude/{path}", data), rc, mount,
    )  # fmt: skip


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
