"""What a Drive does behind a mount that has not heard of it yet, with remote control."""

from pathlib import Path

import pytest

from server.errors import Unavailable
from server.models import NotePath
from server.vault.rc import Rc
from server.vault.vault import Written
from server.workers import Deadline
from tests.contract.beds import Bed, Opened
from tests.contract.conftest import make_bed
from tests.drive.lab import FakeDrive
from tests.drive.processes import wait_for


@pytest.fixture
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    return make_bed(request, tmp_path, "drive+rc")


def write(opened: Opened, path: str, data: bytes) -> Written:
    return opened.vault.edit(NotePath(path), lambda _: data, Deadline.after(60))


def test_a_folder_that_another_device_made_is_not_made_again(bed: Bed, drive: FakeDrive) -> None:
    opened = bed.open()
    assert opened.vault.find("new/deeper") is None
    drive.put("vault/claude/new/deeper/theirs.md", b"theirs")
    write(opened, "new/deeper/ours.md", b"ours")
    folders = [
        name for name, is_folder, *_ in drive.admin("/tree", path="vault/claude") if is_folder
    ]
    assert sorted(folders) == ["new", "new/deeper"]
    assert opened.vault.read(NotePath("new/deeper/theirs.md")) is not None


def test_a_listing_that_lags_is_waited_for(bed: Bed, drive: FakeDrive) -> None:
    opened = bed.open()
    drive.lag(1.5)
    for data in (b"one", b"two"):
        written = write(opened, "a.md", data)
        assert written.ack == "drive"
        assert bed.remote("a.md") == data
    assert [name for name, _ in drive.files("vault/claude")].count("a.md") == 1


def test_no_vault_is_begun_where_the_old_one_is_gone(bed: Bed, drive: FakeDrive) -> None:
    opened = bed.open()
    write(opened, "a.md", b"one")
    drive.move("vault/claude", "elsewhere")
    with pytest.raises(Unavailable):
        write(opened, "b.md", b"two")
    assert drive.names("vault") == []


def test_a_mount_that_forgot_its_folders_is_seen_as_it_is(bed: Bed) -> None:
    """rclone then makes its folders anew, and refreshes no more what somebody held open."""
    assert bed.rc_address is not None
    rc = Rc(bed.rc_address, 10)
    (fs,) = rc.vfs_list()
    bed.elsewhere(".vault-mcp", b"known\n")
    rc.refresh(fs, "claude")
    opened = bed.open()
    generation = opened.guard.pin().generation
    rc.call("vfs/forget")
    assert opened.vault.read(NotePath("a.md")) is None
    bed.elsewhere("a.md", b"theirs")
    rc.refresh(fs, "claude")
    wait_for((bed.folder / "a.md").exists, 10, "the new folder")
    assert opened.guard.probe().ok
    assert opened.vault.read(NotePath("a.md")) is not None
    assert opened.guard.pin().generation == generation, "nothing has to be written again for that"
