"""A real local vault, a real index and a scanner over them, with places where a test can step in."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from server.index.store import Index
from server.models import Entry, NotePath
from server.scanner.scanner import Scanner
from server.service.loading import Loader
from server.telemetry import Telemetry
from server.vault.files import Permit
from server.vault.guard import Guard, Pin
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.vault import Found, Vault, Written
from server.vault.writers import LocalWriter
from server.workers import Deadline, Workers

LIMIT = 1 << 16


class OpenVault(Vault):
    """A vault that tells a test what is about to be listed, and what was just read."""

    on_list: Callable[[str], None] = staticmethod(lambda _disk: None)
    on_read: Callable[[str], None] = staticmethod(lambda _path: None)

    def list_folder(self, disk: str) -> list[Entry]:
        self.on_list(disk)
        return super().list_folder(disk)

    def read(self, path: NotePath, *, permit: Permit | None = None) -> Found | None:
        found = super().read(path, permit=permit)
        self.on_read(path)
        return found


class RemoteGuard(Guard):
    """A guard whose folder passes for an rclone mount: how it is treated is what is under test."""

    def pin(self) -> Pin:
        pin = super().pin()
        assert pin.mount is not None
        return replace(pin, mount=replace(pin.mount, fstype="fuse.rclone"))


@dataclass
class Scene:
    folder: Path
    vault: OpenVault
    index: Index
    scanner: Scanner
    loader: Loader
    telemetry: Telemetry
    now: list[float] = field(default_factory=lambda: [1000.0])

    @property
    def guard(self) -> Guard:
        return self.vault.guard

    def write(self, path: str, data: str | bytes = "", age: float = 100) -> Path:
        """Somebody else writes a file, `age` seconds ago."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        moment = time.time_ns() - int(age * 1e9)
        os.utime(file, ns=(moment, moment))
        return file

    def save(self, path: str, data: bytes) -> Written:
        """This server writes a note."""
        written = self.vault.edit(NotePath(path), lambda _: data, Deadline.after(30))
        self.loader.store_written(written)
        return written

    def text(self, path: str) -> bytes | None:
        row = self.index.get(path)
        return self.index.text(row) if row is not None else None

    def texts(self) -> dict[str, bytes | None]:
        """What the index believes all notes to say."""
        return {path: self.text(path) for path in self.index.paths()}

    def disk(self) -> dict[str, bytes]:
        """What they say."""
        return {
            str(file.relative_to(self.folder)): file.read_bytes()
            for file in self.folder.rglob("*.md")
            if file.is_file() and not file.name.startswith(".")
        }

    def paths(self, kind: str) -> list[str]:
        return [row.path for row in self.index.snapshot() if row.kind == kind]

    def metric(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def opened(tmp_path: Path, guard_class: type[Guard] = Guard) -> Iterator[Scene]:
    """A scene over `tmp_path / "vault"`; its clock is `scene.now`."""
    folder = tmp_path / "vault"
    folder.mkdir(exist_ok=True)
    telemetry = Telemetry()
    guard = guard_class(
        folder,
        marker=".vault-mcp",
        require_mount="auto",
        identity=IdentityFile(tmp_path / "state" / "vault.json"),
        telemetry=telemetry,
    )
    assert guard.probe().ok
    writer = LocalWriter()
    vault = OpenVault(
        guard,
        Journal(tmp_path / "state" / "journal"),
        lambda _pin: writer,
        telemetry,
        max_bytes=LIMIT,
    )
    index = Index.open(tmp_path / "state" / "index")
    workers = Workers("scan", 4)
    now = [1000.0]
    scanner = Scanner(vault, index, workers, telemetry, interval=15, timeout=20, now=lambda: now[0])
    loader = Loader(vault, index, workers, workers, patience=20)
    try:
        yield Scene(folder, vault, index, scanner, loader, telemetry, now)
    finally:
        workers.close()
        index.close()
