"""The Drive emulator itself, through a real rclone: it must lie the way that Drive lies, and no other way."""

import subprocess
from pathlib import Path

import pytest

from tests.drive.fixtures import DriveMounter
from tests.drive.lab import FakeDrive, read_whole
from tests.drive.processes import wait_for, which

BIG = bytes(range(256)) * (4 * 9 << 10)
"""Nine MiB: rclone sends what is larger than eight in chunks."""


def rclone(drive: FakeDrive, *arguments: str, seconds: float = 60) -> str:
    """Run one rclone command against the Drive; what it prints."""
    command = [which("rclone") or "rclone", *arguments, "--drive-pacer-min-sleep=1ms"]
    return subprocess.run(
        command, env=drive.env, check=True, capture_output=True, text=True, timeout=seconds
    ).stdout


def listed(drive: FakeDrive) -> list[str]:
    return rclone(drive, "lsf", "-R", "gd:vault").splitlines()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_big_file_goes_up_in_chunks(drive: FakeDrive, tmp_path: Path, lost: int) -> None:
    (tmp_path / "big.bin").write_bytes(BIG)
    if lost:
        # The session opens, then the first chunk's answer is lost: rclone sends it again.
        drive.admin("/fault", kind="upload", match="upload_id", do="drop", times=lost)
    rclone(drive, "copyto", str(tmp_path / "big.bin"), "gd:vault/big.bin")
    assert drive.get("vault/big.bin") == BIG
    assert drive.admin("/stats")["chunks"] >= 2
    first = drive.stat("vault/big.bin")
    (tmp_path / "big.bin").write_bytes(BIG[::-1])
    rclone(drive, "copyto", "--ignore-times", str(tmp_path / "big.bin"), "gd:vault/big.bin")
    second = drive.stat("vault/big.bin")
    assert first and second
    assert drive.get("vault/big.bin") == BIG[::-1]
    assert second["id"] == first["id"], "an update keeps the file"


def test_a_big_file_goes_up_through_the_mount(drive: FakeDrive, drive_mount: DriveMounter) -> None:
    mount = drive_mount()
    (mount.root / "big.bin").write_bytes(BIG)
    wait_for(lambda: drive.get("vault/big.bin") == BIG, 60, "the upload")


def test_listings_lag_behind_changes(drive: FakeDrive) -> None:
    for name in ("changed.md", "moved.md", "gone.md"):
        drive.put(f"vault/{name}", b"old")
    drive.lag(3600)
    drive.put("vault/changed.md", b"newer")
    drive.put("vault/made.md", b"made")
    drive.move("vault/moved.md", "vault/there.md")
    drive.remove("vault/gone.md")
    assert sorted(listed(drive)) == ["changed.md", "gone.md", "moved.md"]
    assert "3 changed.md" in rclone(drive, "ls", "gd:vault")
    assert drive.get("vault/changed.md") == b"newer", "who asks for the file itself is told"
    drive.lag(0)
    assert sorted(listed(drive)) == ["changed.md", "made.md", "there.md"]
    assert "5 changed.md" in rclone(drive, "ls", "gd:vault")


def test_listings_catch_up_by_themselves(drive: FakeDrive) -> None:
    drive.admin("/mkdir", path="vault")
    drive.lag(1)
    drive.put("vault/made.md", b"made")
    wait_for(lambda: listed(drive) == ["made.md"], 30, "the listing")


def test_listings_come_in_any_order(drive: FakeDrive) -> None:
    names = [f"note{number:03d}.md" for number in range(120)]
    for name in names:
        drive.put(f"vault/{name}", b"x")
    # Unsorted, as the Drive tells them, and over several pages.
    order = ("lsf", "--fast-list", "--files-only", "--drive-list-chunk=50", "gd:vault")
    drive.shuffle(1)
    first, second = (rclone(drive, *order).splitlines() for _ in range(2))
    assert sorted(first) == sorted(second) == names, "nothing twice, nothing left out"
    drive.shuffle(1)
    pages = [drive.admin("/stats")["list"]]
    again = rclone(drive, *order).splitlines()
    assert sorted(again) == names
    assert drive.admin("/stats")["list"] - pages[0] >= 3, "several pages"


def test_duplicates_and_documents_are_there(drive: FakeDrive, drive_mount: DriveMounter) -> None:
    drive.put("vault/twice.md", b"one")
    drive.duplicate("vault/twice.md", b"two")
    drive.document("vault/Document")
    assert listed(drive).count("twice.md") == 2
    mount = drive_mount()
    assert sorted(path.name for path in mount.root.iterdir()) == ["twice.md"]
    assert read_whole(mount.root / "twice.md") in (b"one", b"two")


def test_a_file_that_two_move_at_once_has_one_place(
    drive: FakeDrive, drive_mount: DriveMounter
) -> None:
    for folder in ("from", "theirs", "ours"):
        drive.admin("/mkdir", path=f"vault/{folder}")
    drive.put("vault/from/note.md", b"x")
    mount = drive_mount()
    for folder in ("from", "theirs", "ours"):
        list((mount.root / folder).iterdir())
    drive.move("vault/from/note.md", "vault/theirs/there.md")
    # The mount has not seen that, and names the folder it knows as the one to be left.
    (mount.root / "from/note.md").rename(mount.root / "ours/here.md")
    assert [path for path, _ in drive.files("vault")] == ["ours/here.md"]


def test_faults_come_at_their_rate_and_go(drive: FakeDrive) -> None:
    drive.put("vault/note.md", b"x")
    drive.fail(rate=0.3)
    for _ in range(3):
        assert listed(drive) == ["note.md"], "rclone tries again"
    assert 0 < drive.admin("/stats")["fault_error"] < drive.admin("/stats")["total"]
    drive.calm()
    drive.admin("/stats", zero=1)
    drive.throttle(0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        rclone(drive, "cat", "gd:vault/note.md", seconds=5)
    assert drive.admin("/stats")["ratelimited"] > 0
    drive.calm()
    drive.hang()
    with pytest.raises(subprocess.TimeoutExpired):
        rclone(drive, "cat", "gd:vault/note.md", seconds=2)
    drive.calm()
    assert rclone(drive, "cat", "gd:vault/note.md") == "x"
