"""The vault: retries, outcomes and the journal around a write, with writers that fail on purpose."""

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from server.errors import Conflict, Timeout, TooLarge, Unavailable, VaultError
from server.models import Content, FileStat, NotePath, etag_of
from server.telemetry import Telemetry
from server.vault import files
from server.vault import vault as module
from server.vault.guard import Guard, Pin
from server.vault.journal import Journal
from server.vault.replacement import BaseChanged, Replacement
from server.vault.vault import Vault
from server.vault.writers import LocalWriter
from server.workers import Deadline

A = NotePath("a.md")


@dataclass
class Stubborn:
    """A writer that fails as it is told before it does its work."""

    name: str = "stubborn"
    on_remote: bool = True
    journalled: bool = True
    fails: list[BaseException] = field(default_factory=list)
    seen: list[bytes | None] = field(default_factory=list)
    refreshed: Callable[[], bool] = field(default=lambda: False)

    def needs_journal(self, _pin: Pin) -> bool:
        return self.journalled

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat:
        self.seen.append(what.base.data if what.base else None)
        if self.fails:
            raise self.fails.pop(0)
        return LocalWriter().commit(what, deadline)

    def refresh(self, _pin: Pin, _disk: str) -> bool:
        return self.refreshed()


@pytest.fixture
def writer() -> Stubborn:
    return Stubborn()


@pytest.fixture
def stubborn(guard: Guard, journal: Journal, telemetry: Telemetry, writer: Stubborn) -> Vault:
    return Vault(guard, journal, lambda _pin: writer, telemetry, max_bytes=1000)


def put(vault: Vault, data: bytes, path: NotePath = A, seconds: float = 30) -> None:
    vault.edit(path, lambda _: data, Deadline.after(seconds))


def states(journal: Journal) -> list[str]:
    return [item.state for item in journal.items()]


def written(telemetry: Telemetry, outcome: str) -> float:
    labels = {"protocol": "stubborn", "outcome": outcome}
    return telemetry.registry.get_sample_value("vault_writes_total", labels) or 0.0


def test_a_changed_base_is_read_anew(
    stubborn: Vault, writer: Stubborn, journal: Journal, telemetry: Telemetry
) -> None:
    writer.fails = [BaseChanged(), BaseChanged()]
    calls: list[Content | None] = []

    def change(current: Content | None) -> bytes:
        calls.append(current)
        return b"x"

    result = stubborn.edit(A, change, Deadline.after(30))
    assert (result.created, result.path, result.protocol) == (True, "a.md", "stubborn")
    assert len(calls) == 3
    assert states(journal) == []
    assert (written(telemetry, "changed"), written(telemetry, "ok")) == (2, 1)


def test_a_note_that_keeps_changing_is_a_conflict(
    stubborn: Vault, writer: Stubborn, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ATTEMPTS", 4)
    writer.fails = [BaseChanged() for _ in range(9)]
    with pytest.raises(Conflict):
        put(stubborn, b"x")
    assert len(writer.seen) == 4
    assert stubborn.guard._wake.is_set(), "the guard looks whether the mount is seen as it is"
    assert states(journal) == []
    assert stubborn.generations == {}


def test_the_deadline_ends_the_retries(
    stubborn: Vault, writer: Stubborn, vault_folder: Path
) -> None:
    writer.fails = [BaseChanged() for _ in range(1000)]
    with pytest.raises(Timeout):
        put(stubborn, b"x", seconds=0.05)
    assert not (vault_folder / "a.md").exists()


@pytest.mark.parametrize("journalled", [True, False])
def test_the_journal_is_on_the_disk_first_where_a_write_needs_it(
    stubborn: Vault, writer: Stubborn, monkeypatch: pytest.MonkeyPatch, journalled: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("server.vault.journal.os.fsync", synced.append)
    writer.journalled = journalled
    put(stubborn, b"x")
    # The note and its folder always; the journal's entry and its folder where there is one.
    assert len(synced) == (4 if journalled else 2)


def test_a_write_without_a_journal_that_is_cut_short_is_open(
    stubborn: Vault, writer: Stubborn, journal: Journal
) -> None:
    writer.journalled, writer.fails = False, [OSError(errno.ENODEV, "the disk was pulled")]
    with pytest.raises(files.OutcomeOpen):
        put(stubborn, b"x")
    assert states(journal) == []


def test_nothing_is_in_place_before_the_caller_is_ready(
    stubborn: Vault, journal: Journal, vault_folder: Path
) -> None:
    asked: list[list[str]] = []

    def ready(_beside: Callable[[], None]) -> None:
        asked.append(sorted(entry.name for entry in vault_folder.glob("*.md")))
        raise Unavailable("Not yet.")

    with pytest.raises(Unavailable, match="Not yet"):
        stubborn.edit(A, lambda _: b"x", Deadline.after(30), ready=ready)
    assert asked == [[]]
    assert sorted(entry.name for entry in vault_folder.iterdir()) == [".vault-mcp"]
    assert states(journal) == []


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE])
def test_a_mount_lost_in_the_middle_leaves_the_write_to_the_journal(
    stubborn: Vault, writer: Stubborn, journal: Journal, guard: Guard, code: int
) -> None:
    writer.fails = [OSError(code, "gone")]
    with pytest.raises(files.OutcomeOpen) as caught:
        put(stubborn, b"x")
    assert caught.value.code == "unavailable"
    assert "not known" in caught.value.message
    assert states(journal) == ["prepared"]
    assert len(writer.seen) == 1, "never tried twice: the first may have been made"
    assert guard.health.state == "dead"


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failure_that_wrote_nothing_leaves_nothing(
    stubborn: Vault,
    writer: Stubborn,
    journal: Journal,
    guard: Guard,
    telemetry: Telemetry,
    code: int,
) -> None:
    writer.fails = [OSError(code, "no")]
    with pytest.raises(Unavailable):
        put(stubborn, b"x")
    assert states(journal) == []
    assert stubborn.generations == {}
    assert guard.health.ok
    assert written(telemetry, "failed") == 1
    put(stubborn, b"x")
    assert states(journal) == []


def test_a_write_that_is_not_on_the_remote_yet_is_watched(
    stubborn: Vault, writer: Stubborn, journal: Journal, guard: Guard
) -> None:
    writer.on_remote = False
    result = stubborn.edit(A, lambda _: b"x", Deadline.after(30))
    assert result.uploaded is False
    (item,) = journal.items()
    assert (item.state, item.record.etag, item.record.base) == ("applied", etag_of(b"x"), None)
    assert stubborn.generations == {item.record.id: guard.pin().generation}


def test_a_mount_that_is_back_at_once_is_tried_once_more(
    stubborn: Vault, guard: Guard, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(b"x")
    tried: list[int] = []

    def fails_once(pin: Pin) -> str:
        tried.append(pin.generation)
        if len(tried) == 1:
            raise OSError(errno.ENOTCONN, "gone")
        return "answer"

    assert stubborn._guarded(fails_once) == "answer"
    assert len(tried) == 2
    assert tried[1] > tried[0], "through a new pin"
    assert guard.health.ok


def test_a_mount_that_stays_away_is_not_tried_for_ever(stubborn: Vault, vault_folder: Path) -> None:
    tried: list[int] = []

    def fails(pin: Pin) -> None:
        tried.append(pin.generation)
        raise OSError(errno.ENOTCONN, "gone")

    with pytest.raises(files.VaultGone):
        stubborn._guarded(fails)
    assert len(tried) == 2
    (vault_folder / ".vault-mcp").unlink()
    vault_folder.rename(vault_folder.with_name("away"))
    with pytest.raises(VaultError):
        stubborn._guarded(fails)
    assert len(tried) == 2


def test_limits(stubborn: Vault, journal: Journal, vault_folder: Path) -> None:
    put(stubborn, b"x" * 1000)
    with pytest.raises(TooLarge):
        put(stubborn, b"x" * 1001)
    assert (vault_folder / "a.md").read_bytes() == b"x" * 1000
    (vault_folder / "big.md").write_bytes(b"x" * 1001)
    with pytest.raises(TooLarge):
        stubborn.read(NotePath("big.md"))
    with pytest.raises(TooLarge):
        put(stubborn, b"small", NotePath("big.md"))
    assert states(journal) == []


def test_a_full_journal_refuses_before_the_vault_is_touched(
    guard: Guard, telemetry: Telemetry, writer: Stubborn, tmp_path: Path, vault_folder: Path
) -> None:
    vault = Vault(
        guard,
        Journal(tmp_path / "j", max_entries=0),
        lambda _pin: writer,
        telemetry,
        max_bytes=1000,
    )
    with pytest.raises(Unavailable, match="nothing was written"):
        put(vault, b"x")
    assert writer.seen == []
    assert not (vault_folder / "a.md").exists()


def test_an_error_of_the_change_writes_nothing(
    stubborn: Vault, writer: Stubborn, journal: Journal, vault_folder: Path
) -> None:
    def refuse(_current: Content | None) -> bytes:
        raise Conflict("no")

    with pytest.raises(Conflict):
        stubborn.edit(NotePath("new/a.md"), refuse, Deadline.after(30))
    assert writer.seen == []
    assert states(journal) == []
    assert not (vault_folder / "new").exists()


def test_writers_of_one_note_in_other_spellings_take_turns(
    stubborn: Vault, vault_folder: Path
) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(_current: Content | None) -> bytes:
        inside.set()
        release.wait(20)
        return b"first"

    thread = threading.Thread(target=lambda: stubborn.edit(A, slow, Deadline.after(20)))
    thread.start()
    assert inside.wait(20)
    with pytest.raises(Timeout):
        put(stubborn, b"second", NotePath("A.MD"), seconds=0.02)
    put(stubborn, b"other", NotePath("b.md"))
    release.set()
    thread.join(20)
    assert (vault_folder / "a.md").read_bytes() == b"first"


class RemoteGuard(Guard):
    def pin(self) -> Pin:
        pin = super().pin()
        assert pin.mount is not None
        return replace(pin, mount=replace(pin.mount, fstype="fuse.rclone"))


def test_on_a_mount_a_reader_waits_for_the_writer(
    stubborn: Vault, guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.__class__ = RemoteGuard
    monkeypatch.setattr(module, "_READ_PATIENCE", 0.02)
    (vault_folder / "a.md").write_bytes(b"x")
    with stubborn._locks.hold("a.md", Deadline.after(1)):
        with pytest.raises(Timeout):
            stubborn.read(A)
        assert stubborn.stat(A) is not None, "a look at the size waits for nobody"
    assert stubborn.read(A) is not None


def test_a_file_that_can_not_be_read_is_read_again_when_the_mount_can_be_told(
    stubborn: Vault, writer: Stubborn, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vault_folder / "a.md").write_bytes(b"x")
    real, broken = files.read, [True]

    def read(at: files.Spot, limit: int) -> Content | None:
        if broken[0]:
            raise files.Unreadable("changing")
        return real(at, limit)

    def refresh() -> bool:
        broken[0] = False
        return True

    monkeypatch.setattr(files, "read", read)
    with pytest.raises(files.Unreadable):
        stubborn.read(A)
    writer.refreshed = refresh
    found = stubborn.read(A)
    assert found is not None
    assert found.content.data == b"x"


def test_a_vault_that_was_moved_aside_is_not_written_any_more(
    stubborn: Vault, guard: Guard, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(b"x")
    guard.remember(populated=True)
    away = vault_folder.with_name("away")
    vault_folder.rename(away)
    assert guard.probe().state == "missing"
    vault_folder.mkdir()
    assert guard.probe().state == "no_marker"
    with pytest.raises(Unavailable):
        put(stubborn, b"y")
    assert (away / "a.md").read_bytes() == b"x"
    assert os.listdir(vault_folder) == []
    vault_folder.rmdir()
    generation = guard._generation
    away.rename(vault_folder)
    assert guard.probe().ok
    assert guard.pin().generation == generation + 1
    put(stubborn, b"y")


def test_looking_again_at_an_unmoved_folder_keeps_the_pin(guard: Guard) -> None:
    generation = guard.pin().generation
    for _ in range(3):
        assert guard.probe().ok
    assert guard.pin().generation == generation


def test_times_of_a_write_are_those_on_disk(stubborn: Vault, vault_folder: Path) -> None:
    before = time.time_ns()
    result = stubborn.edit(A, lambda _: b"x", Deadline.after(30))
    assert result.content.stat == files.stat_of((vault_folder / "a.md").stat())
    assert result.content.stat.mtime_ns > before - 10**9
