"""A plain vault with a mount in one of its folders: what hangs there holds nobody up elsewhere."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.models import NotePath
from server.telemetry import Telemetry
from server.vault.files import VaultGone
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal
from server.vault.vault import Vault
from server.vault.writers import LocalWriter
from server.workers import Deadline
from tests.drive.lab import LocalMount
from tests.drive.processes import require, wait_for
from tests.real.houses import House
from tests.real.servers import Server


@pytest.fixture
def nested(tmp_path: Path) -> LocalMount:
    """A mount for the folder `drive` of a vault, not mounted yet."""
    require("rclone", "fusermount3", "/dev/fuse")
    vault, remote, work = (tmp_path / name for name in ("vault", "remote", "rclone"))
    for folder in (vault / "drive", remote, work):
        folder.mkdir(parents=True)
    for note, text in (
        (vault / "here.md", "needle here"),
        (remote / "there.md", "needle there"),
    ):
        note.write_text(text)
        # What changed just now is looked at in another way.
        os.utime(note, (1e9, 1e9))
    mount = LocalMount(remote, work)
    mount.root = vault / "drive"
    return mount


def test_a_folder_that_hangs_holds_nobody_up(nested: LocalMount, tmp_path: Path) -> None:
    with nested, Server(tmp_path / "vault", tmp_path / "state", MOUNT_TIMEOUT="2") as server:
        assert server.call("vault_search", query="^needle")["total"] == 2
        nested.pause()
        try:
            # The kernel answers from what it remembers, for a second.
            there = wait_for(
                lambda: (
                    (read := server.call("note_read", path="drive/there.md", timeout=30)).get(
                        "stale"
                    )
                    and read
                ),
                30,
                "the copy",
            )
            assert there["content"] == "needle there"
            assert server.get("/healthz", timeout=4)[0] == 200
            here = server.call("note_read", path="here.md", timeout=30)
            assert here["content"] == "needle here"
            assert server.call("vault_search", query="^needle", timeout=10)["total"] == 2
        finally:
            nested.resume()
        assert server.stop() == 0


def test_the_doctor_warns_of_it(nested: LocalMount, tmp_path: Path) -> None:
    house = House(tmp_path)

    def verdict() -> str:
        return str(house.found(VAULT_PATH=str(tmp_path / "vault"))["mount"]["verdict"])

    assert verdict() == "ok"
    with nested:
        assert verdict() == "warn"


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    identity = IdentityFile(tmp_path / "state" / "vault.json")
    found = Guard(
        tmp_path / "vault",
        marker=".vault-mcp",
        require_mount="auto",
        identity=identity,
        telemetry=Telemetry(),
    )
    yield found
    found.close()


def test_a_mount_that_comes_and_goes_is_noticed(nested: LocalMount, guard: Guard) -> None:
    assert guard.probe().ok
    pin = guard.pin()
    seen = [pin.may_hang]
    with nested:
        seen.append(guard.pin().may_hang)
    seen.append(guard.pin().may_hang)
    assert seen == [False, True, False]
    assert guard.probe().ok
    assert guard.pin() is pin, "the vault is the same, whatever is mounted in it"


def test_what_is_dead_in_a_folder_says_nothing_about_the_vault(
    nested: LocalMount, guard: Guard, tmp_path: Path
) -> None:
    vault = Vault(
        guard, Journal(tmp_path / "journal"), lambda _: LocalWriter(), Telemetry(), max_bytes=1000
    )
    assert guard.probe().ok
    with nested:
        nested.kill9()
        with pytest.raises(VaultGone):
            vault.read(NotePath("drive/there.md"))
        assert guard.health.ok
        written = vault.edit(NotePath("here.md"), lambda _: b"new", Deadline.after(10))
        assert (written.ack, (tmp_path / "vault/here.md").read_bytes()) == ("disk", b"new")
