"""The scanner over real mounts: what other devices do is found, exactly, and read only once."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.index.store import Index
from server.models import NotePath
from server.scanner.scanner import Report, Scanner
from server.vault.vault import Found, Vault
from server.workers import Workers
from tests.contract.beds import Bed, Opened
from tests.contract.conftest import make_bed
from tests.drive.lab import FakeDrive


class Watched(Vault):
    """Counts the notes that are read."""

    reads: list[str]

    def read(self, path: NotePath, **options: object) -> Found | None:
        self.reads.append(path)
        return super().read(path, **options)  # type: ignore[arg-type]


class Scene:
    """A scanner over a bed."""

    def __init__(self, bed: Bed, tmp_path: Path) -> None:
        self.bed = bed
        self.opened: Opened = bed.open()
        self.index = Index.open(tmp_path / "index")
        self.workers = Workers("scan", size=8)
        vault = self.opened.vault
        vault.__class__ = Watched
        assert isinstance(vault, Watched)
        self.vault = vault
        vault.reads = []
        self.scanner = Scanner(
            vault, self.index, self.workers, self.opened.telemetry, interval=1, timeout=30
        )

    def scan(self) -> Report:
        self.vault.reads.clear()
        return self.scanner.scan()

    def text(self, path: str) -> bytes | None:
        row = self.index.get(path)
        return self.index.text(row) if row else None

    def close(self) -> None:
        self.index.close()
        self.workers.close()
        self.opened.guard.close()


@pytest.fixture
def scene(bed: Bed, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(bed, tmp_path)
    yield scene
    scene.close()


@pytest.fixture
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """On a Drive that can be asked itself."""
    scene = Scene(make_bed(request, tmp_path, "drive+rc"), tmp_path)
    yield scene
    scene.close()


def until(scene: Scene, path: str, wanted: bytes | None) -> None:
    """Scan until the index says so; without remote control the mount needs a moment."""
    end = time.monotonic() + 30
    while scene.text(path) != wanted and time.monotonic() < end:
        if scene.bed.name == "rclone" and scene.bed.mount and not scene.bed.rc_address:
            # Nothing tells a mount of a plain folder; then the kernel needs its second.
            scene.bed.mount.look_again()
            time.sleep(1.2)
        scene.scan()
        time.sleep(0.05)
    assert scene.text(path) == wanted


def test_what_others_do_is_found(scene: Scene) -> None:
    for number in range(5):
        scene.bed.elsewhere(f"sub/deep/n{number}.md", b"one")
    until(scene, "sub/deep/n4.md", b"one")
    if scene.bed.name == "rclone" and not scene.bed.rc_address:
        return  # such a mount never learns the new size of a file that it has seen
    scene.bed.elsewhere("sub/deep/n1.md", b"two, longer")
    until(scene, "sub/deep/n1.md", b"two, longer")


@pytest.mark.requirement("mount.scan")
def test_a_quiet_scan_reads_nothing(scene: Scene) -> None:
    for number in range(5):
        scene.bed.elsewhere(f"sub/n{number}.md", b"text")
    until(scene, "sub/n4.md", b"text")
    time.sleep(2.1)  # older than what a time stamp can hide
    scene.scan()
    assert scene.scan().total == 0
    assert scene.vault.reads == []


def test_one_listing_tells_everything_at_once(asked: Scene) -> None:
    asked.bed.elsewhere("a/b/c.md", b"made elsewhere")
    asked.bed.elsewhere("x.png", b"not a note")
    asked.bed.elsewhere(".obsidian/app.json", b"{}")
    report = asked.scan()
    assert (report.added, asked.vault.reads) == (1, ["a/b/c.md"])
    assert asked.text("a/b/c.md") == b"made elsewhere"
    assert {row.path for row in asked.index.snapshot()} == {"a", "a/b", "a/b/c.md", "x.png"}


def test_a_change_is_seen_whatever_its_time_says(asked: Scene, drive: FakeDrive) -> None:
    asked.bed.elsewhere("n.md", b"first!")
    asked.scan()
    before = drive.stat("vault/claude/n.md")
    assert before is not None
    drive.put("vault/claude/n.md", b"second", mtime=before["modifiedTime"])
    asked.scan()
    assert asked.text("n.md") == b"second"


def test_a_touch_is_not_read(asked: Scene, drive: FakeDrive) -> None:
    asked.bed.elsewhere("n.md", b"same")
    asked.scan()
    drive.put("vault/claude/n.md", b"same", mtime="2001-02-03T04:05:06.000Z")
    report = asked.scan()
    assert (report.total, asked.vault.reads) == (0, [])
    row = asked.index.get("n.md")
    assert row is not None
    assert row.mtime_ns == 981173106 * 10**9


@pytest.mark.requirement("mount.scan")
def test_a_rename_is_followed_by_its_id(asked: Scene, drive: FakeDrive) -> None:
    """Even of one among equal notes, and when it was edited as well."""
    for name in ("one", "two"):
        asked.bed.elsewhere(f"{name}.md", b"the same text")
    asked.scan()
    known = {name: asked.index.get(f"{name}.md") for name in ("one", "two")}
    drive.admin("/mv", path="vault/claude/two.md", to="vault/claude/sub/moved.md")
    report = asked.scan()
    row = asked.index.get("sub/moved.md")
    assert row is not None
    assert known["two"] is not None
    assert (report.moved, asked.vault.reads, row.id) == (1, [], known["two"].id)
    assert asked.index.get("two.md") is None
    drive.admin("/mv", path="vault/claude/one.md", to="vault/claude/edited.md")
    drive.put("vault/claude/edited.md", b"and edited")
    report = asked.scan()
    row = asked.index.get("edited.md")
    assert row is not None
    assert known["one"] is not None
    assert (report.moved, row.id) == (1, known["one"].id)
    assert asked.text("edited.md") == b"and edited"


def test_what_waits_for_its_upload_is_no_loss(asked: Scene, drive: FakeDrive) -> None:
    """Another program writes through the mount: the remote does not list it yet."""
    asked.bed.elsewhere("old.md", b"uploaded")
    asked.scan()
    drive.admin("/fault", kind="upload", do="error", code=503, reason="backendError")
    try:
        (asked.bed.folder / "fresh.md").write_bytes(b"waits")
        until(asked, "fresh.md", b"waits")
        assert asked.text("old.md") == b"uploaded"
    finally:
        drive.admin("/fault", clear=1)


def test_a_listing_that_fails_changes_nothing(asked: Scene, drive: FakeDrive) -> None:
    for number in range(3):
        asked.bed.elsewhere(f"n{number}.md", b"text")
    asked.scan()
    drive.admin("/fault", kind="list", do="error", code=500, reason="backendError")
    try:
        assert asked.scanner.scan_safely() is None
    finally:
        drive.admin("/fault", clear=1)
    assert asked.text("n2.md") == b"text"
    until(asked, "n2.md", b"text")
    assert asked.scan().total == 0
