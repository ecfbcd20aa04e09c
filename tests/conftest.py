"""What every test may use."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from server.telemetry import Telemetry
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.vault import Vault
from server.vault.writers import LocalWriter

pytest_plugins = ["tests.drive.fixtures", "tests.real.houses"]

if not os.environ.get("CI"):
    # No example fails for the time it took: machines are slow at times. With CI set this is so anyway.
    settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("here")


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def vault_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def guard(vault_folder: Path, tmp_path: Path, telemetry: Telemetry) -> Iterator[Guard]:
    """A guard over a plain folder that has already looked at it."""
    guard = Guard(
        vault_folder,
        marker=".vault-mcp",
        require_mount="auto",
        identity=IdentityFile(tmp_path / "state" / "vault.json"),
        telemetry=telemetry,
    )
    assert guard.probe().ok
    yield guard
    guard.close()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "state" / "journal")


@pytest.fixture
def vault(guard: Guard, journal: Journal, telemetry: Telemetry) -> Vault:
    writer = LocalWriter()
    return Vault(guard, journal, lambda _pin: writer, telemetry, max_bytes=1 << 20)


@pytest.fixture
def open_descriptors() -> Iterator[None]:
    """Fails a test that leaks file descriptors."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 1
