"""The guard over a plain folder: what it believes, what it refuses, how it recovers.

Real mounts are in tests/real; here the states that a folder alone can be in.
"""

import os
import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest

from server.errors import Unavailable
from server.telemetry import Telemetry
from server.vault.files import VaultGone
from server.vault.guard import STATES, Guard
from server.vault.identity import IdentityFile


def guard_of(
    folder: Path, state: Path, require: Literal["auto", "true", "false", "rclone"] = "auto"
) -> Guard:
    identity = IdentityFile(state / "vault.json")
    return Guard(
        folder, marker=".vault-mcp", require_mount=require, identity=identity, telemetry=Telemetry()
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def known(vault_folder: Path, state: Path) -> Guard:
    """A guard that has seen the vault with notes in it."""
    (vault_folder / "a.md").write_text("a")
    guard = guard_of(vault_folder, state)
    assert guard.probe().ok
    guard.remember(populated=True)
    return guard


def test_nothing_is_pinned_before_the_first_look(vault_folder: Path, state: Path) -> None:
    guard = guard_of(vault_folder, state)
    assert guard.health.state == "starting"
    with pytest.raises(Unavailable):
        guard.pin()


def test_a_mount_of_something_else_is_not_rclones(state: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        assert guard_of(Path(folder), state, "true").probe().ok
        health = guard_of(Path(folder), state / "other", "rclone").probe()
        assert health.state == "not_mounted"
        assert os.listdir(folder) == [".vault-mcp"], "of the first one alone"


def test_a_new_vault_gets_a_marker_and_keeps_it(vault_folder: Path, state: Path) -> None:
    assert guard_of(vault_folder, state).probe().ok
    marker = (vault_folder / ".vault-mcp").read_text()
    assert len(marker.strip()) == 32
    assert guard_of(vault_folder, state).probe().ok
    assert (vault_folder / ".vault-mcp").read_text() == marker


def test_two_servers_that_start_at_once_agree_on_the_marker(
    vault_folder: Path, tmp_path: Path
) -> None:
    guards = [guard_of(vault_folder, tmp_path / f"state{n}") for n in range(8)]
    threads = [threading.Thread(target=guard.probe) for guard in guards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {IdentityFile(tmp_path / f"state{n}" / "vault.json").current.id for n in range(8)}
    assert ids == {(vault_folder / ".vault-mcp").read_text().strip()}


def test_a_missing_folder(tmp_path: Path, state: Path) -> None:
    guard = guard_of(tmp_path / "nowhere", state)
    assert guard.probe().state == "missing"
    (tmp_path / "nowhere").mkdir()
    assert guard.probe().ok


def test_a_vault_that_is_suddenly_an_empty_folder(
    known: Guard, vault_folder: Path, state: Path
) -> None:
    aside = vault_folder.with_name("aside")
    vault_folder.rename(aside)
    vault_folder.mkdir()
    fresh = guard_of(vault_folder, state)
    assert fresh.probe().state == "no_marker"
    assert list(vault_folder.iterdir()) == [], "nothing may be written beneath"
    vault_folder.rmdir()
    aside.rename(vault_folder)
    assert fresh.probe().ok


def test_a_vault_that_lost_all_its_notes_but_not_its_marker(
    known: Guard, vault_folder: Path
) -> None:
    (vault_folder / "a.md").unlink()
    assert known.probe().state == "empty"
    with pytest.raises(Unavailable):
        known.pin()
    (vault_folder / "b.md").write_text("b")
    assert known.probe().ok


def test_another_vault_in_its_place(known: Guard, vault_folder: Path, state: Path) -> None:
    (vault_folder / ".vault-mcp").write_text("0" * 32)
    fresh = guard_of(vault_folder, state)
    assert fresh.probe().state == "wrong_vault"
    assert fresh.adopt() == "0" * 32
    assert fresh.probe().ok


def test_a_marker_that_vanishes_under_a_pinned_root(known: Guard, vault_folder: Path) -> None:
    (vault_folder / ".vault-mcp").unlink()
    assert known.probe().state == "no_marker"


def test_a_vault_adopted_while_empty_does_not_bind(vault_folder: Path, state: Path) -> None:
    guard = guard_of(vault_folder, state)
    assert guard.probe().ok
    guard.remember(populated=False)
    shutil.rmtree(vault_folder)
    vault_folder.mkdir()
    (vault_folder / "a.md").write_text("the real vault arrives")
    assert guard_of(vault_folder, state).probe().ok


def test_a_required_mount_is_required(vault_folder: Path, state: Path) -> None:
    (vault_folder / "a.md").write_text("a")
    guard = guard_of(vault_folder, state, require="true")
    assert guard.probe().state == "not_mounted"
    assert not (vault_folder / ".vault-mcp").exists()
    assert guard_of(vault_folder, state, require="false").probe().ok


def test_what_was_an_rclone_mount_must_be_one_again(
    known: Guard, vault_folder: Path, state: Path
) -> None:
    IdentityFile(state / "vault.json").update(mounted=True)
    assert guard_of(vault_folder, state).probe().state == "not_mounted"
    assert guard_of(vault_folder, state, require="false").probe().ok


def test_a_read_only_vault_is_served_without_a_marker(
    vault_folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, so the refusal is made where the kernel would make it.
    import os

    real = os.open

    def refusing(path: object, flags: int, *args: object, **kwargs: object) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "read-only")
        return real(path, flags, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    assert guard_of(vault_folder, state).probe().ok


def test_every_bad_state_says_what_to_do(known: Guard) -> None:
    for bad in STATES:
        if bad == "ok":
            continue
        known._become(bad)
        assert known.health.reason
        assert known.health.hint


def test_a_failed_call_ends_the_trust_at_once_and_a_probe_restores_it(known: Guard) -> None:
    known.suspect(VaultGone("gone"))
    with pytest.raises(Unavailable):
        known.pin()
    before = known._generation
    assert known.probe().ok
    assert known.pin().generation == before + 1


def test_state_changes_are_counted(known: Guard, vault_folder: Path) -> None:
    telemetry = known._telemetry
    (vault_folder / "a.md").unlink()
    known.probe()
    known.probe()
    sample = telemetry.registry.get_sample_value
    assert sample("vault_mount_state_changes_total", {"state": "empty"}) == 1
    assert sample("vault_mount_up") == 0
    assert sample("vault_mount_state", {"state": "empty"}) == 1
    (vault_folder / "b.md").write_text("b")
    known.probe()
    assert sample("vault_mount_up") == 1


def test_the_watch_ends_when_told(known: Guard) -> None:
    stopping = threading.Event()
    thread = threading.Thread(target=known.watch, args=(stopping,), daemon=True)
    thread.start()
    stopping.set()
    known.wake()
    thread.join(30)
    assert not thread.is_alive()
