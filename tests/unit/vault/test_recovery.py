"""After a crash: what the vault holds decides what becomes of each journalled write."""

import errno
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from server.models import Content, FileStat, NotePath, etag_of
from server.telemetry import Telemetry
from server.vault.guard import Guard, Pin
from server.vault.journal import Journal, Record
from server.vault.plans import Move, Plans
from server.vault.recovery import Recovery
from server.vault.steps import written_down
from server.vault.vault import Unsettled, Vault, Written
from server.vault.writers import LocalWriter, MountWriter
from server.workers import Deadline

BASE, OURS, THEIRS = b"base", b"base\nours", b"theirs"


class RemoteGuard(Guard):
    """A guard whose folder passes for an rclone mount: the protocol is what is under test."""

    def pin(self) -> Pin:
        pin = super().pin()
        assert pin.mount is not None
        return replace(pin, mount=replace(pin.mount, fstype="fuse.rclone"))


@pytest.fixture
def remote_guard(guard: Guard) -> Guard:
    guard.__class__ = RemoteGuard
    return guard


@pytest.fixture
def written() -> list[Written]:
    return []


@pytest.fixture
def recovery(
    remote_guard: Guard, journal: Journal, telemetry: Telemetry, written: list[Written]
) -> Recovery:
    writer = MountWriter()
    vault = Vault(remote_guard, journal, lambda _pin: writer, telemetry, max_bytes=1 << 20)
    return Recovery(vault, journal, telemetry, on_write=written.append, grace=120)


def entry(
    journal: Journal,
    data: bytes,
    base: bytes | None,
    *,
    applied: bool,
    age: float = 0,
    temp: str = ".x.tmp",
) -> Record:
    stat = FileStat(len(data), 0)
    record = Record(
        id=f"{int(1e6 * age):016x}", path="a.md", disk="a.md", base=etag_of(base) if base is not None else None,
        etag=Content(data, stat).etag, md5="", size=len(data), protocol="mount", temp=temp,
        created=time.time() - age,
    )  # fmt: skip
    journal.prepare(record, data)
    if applied:
        journal.applied(record)
    return record


def moved_away(recovery: Recovery, journal: Journal, vault_folder: Path) -> Vault:
    """A note was edited and then moved to `b.md`, before the remote can have had the edit."""
    (vault_folder / "a.md").write_bytes(OURS)
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    vault, deadline = recovery._vault, Deadline.after(10)
    with vault.hold(["a.md"], deadline):
        vault.move_held("a.md", "b.md", deadline)
    return vault


def states(journal: Journal) -> list[str]:
    return [item.state for item in journal.items()]


def test_an_unacknowledged_write_that_was_not_made_is_set_aside(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(BASE)
    (vault_folder / ".x.tmp").write_bytes(b"half")
    entry(journal, OURS, BASE, applied=False)
    assert recovery.settle() == 0
    assert (vault_folder / "a.md").read_bytes() == BASE
    assert not (vault_folder / ".x.tmp").exists()
    assert states(journal) == ["aside"]


def test_an_unacknowledged_write_that_was_made_is_kept_until_it_is_safe(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(OURS)
    made = entry(journal, OURS, BASE, applied=False)
    assert recovery.settle() == 1
    assert states(journal) == ["applied"]
    # Whoever read it meanwhile may rely on it, whatever becomes of this mount.
    recovery._vault.generations[made.id] -= 1
    (vault_folder / "a.md").write_bytes(BASE)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == OURS
    recovery.settle()
    recovery._ticks = lambda: time.monotonic() + 300
    assert recovery.settle() == 0


def test_an_unacknowledged_write_that_was_made_in_a_plain_folder_is_done(
    guard: Guard, journal: Journal, telemetry: Telemetry, vault_folder: Path
) -> None:
    vault = Vault(guard, journal, lambda _pin: LocalWriter(), telemetry, max_bytes=1 << 20)
    (vault_folder / "a.md").write_bytes(OURS)
    entry(journal, OURS, BASE, applied=False)
    assert Recovery(vault, journal, telemetry, on_write=lambda _: None).settle() == 0
    assert states(journal) == []


@pytest.mark.parametrize(
    "shown",
    [BASE, OURS, OURS[:5], b"", OURS + b"\0\0\0"],
    ids=["base", "ours", "cut", "empty", "filled up"],
)
def test_an_acknowledged_write_is_made_again_on_a_new_mount(
    recovery: Recovery, journal: Journal, vault_folder: Path, written: list[Written], shown: bytes
) -> None:
    (vault_folder / "a.md").write_bytes(shown)
    entry(journal, OURS, BASE, applied=True)
    assert recovery.settle() == 1
    assert (vault_folder / "a.md").read_bytes() == OURS
    assert [w.content.data for w in written] == [OURS]
    assert states(journal) == ["applied"], "the rewrite must prove itself, too"


@pytest.mark.parametrize("shown", [OURS[:6], OURS + b"\0\0\0"], ids=["cut", "filled up"])
def test_an_earlier_write_that_a_new_mount_shows_torn_is_not_taken_for_somebody_elses(
    recovery: Recovery, journal: Journal, vault_folder: Path, shown: bytes
) -> None:
    newest = b"overwritten"
    (vault_folder / "a.md").write_bytes(shown)
    entry(journal, OURS, BASE, applied=True, age=2)
    entry(journal, newest, OURS, applied=True, age=1)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == newest
    assert list(vault_folder.glob("a.conflict-*.md")) == []


def test_a_lost_new_note_is_written_again(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    entry(journal, OURS, None, applied=True)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == OURS


def test_a_chain_ends_with_its_newest_content(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    newest = OURS + b"\nmore"
    (vault_folder / "a.md").write_bytes(BASE)
    entry(journal, OURS, BASE, applied=True, age=2)
    entry(journal, newest, OURS, applied=True, age=1)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == newest
    assert states(journal) == ["applied"]


def test_a_note_changed_elsewhere_is_never_overwritten(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(THEIRS)
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == THEIRS
    copies = list(vault_folder.glob("a.conflict-*.md"))
    assert [copy.read_bytes() for copy in copies] == [OURS]


def test_theirs_that_was_built_on_ours_needs_no_copy(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(b"a title\n" + OURS + b"\nand theirs")
    entry(journal, OURS, BASE, applied=True)
    assert recovery.settle() == 0
    assert list(vault_folder.glob("a.conflict-*.md")) == []


def test_an_edit_on_top_of_a_safe_write_is_nobodys_conflict(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """The mount stayed up, so ours was uploaded; what a person did to it later is theirs."""
    (vault_folder / "a.md").write_bytes(THEIRS)
    old = entry(journal, OURS, BASE, applied=True, age=300)
    recovery._vault.generations[old.id] = recovery._vault.guard.pin().generation
    recovery.settle()
    recovery._ticks = lambda: time.monotonic() + 300
    assert recovery.settle() == 0
    assert (vault_folder / "a.md").read_bytes() == THEIRS
    assert list(vault_folder.glob("a.conflict-*.md")) == []


def test_a_write_is_safe_when_its_mount_stayed_up(
    recovery: Recovery,
    journal: Journal,
    vault_folder: Path,
    written: list[Written],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (vault_folder / "a.md").write_bytes(OURS)
    young = entry(journal, OURS, BASE, applied=True, age=10)
    recovery._vault.generations[young.id] = recovery._vault.guard.pin().generation
    assert recovery.settle() == 1, "too young to be believed"
    ahead = time.time() + 300
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert recovery.settle() == 1, "a clock that is put forward makes nothing safer"
    recovery._ticks = lambda: time.monotonic() + 300
    assert recovery.settle() == 0
    assert written == []


def test_a_write_in_progress_is_left_alone(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(BASE)
    (vault_folder / ".x.tmp").write_bytes(b"being written")
    busy = entry(journal, OURS, BASE, applied=False)
    recovery._vault.generations[busy.id] = recovery._vault.guard.pin().generation
    assert recovery.settle() == 1
    assert (vault_folder / ".x.tmp").exists()
    assert states(journal) == ["prepared"]


def test_nothing_is_settled_while_the_vault_is_away(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    from server.errors import Unavailable

    entry(journal, OURS, BASE, applied=True)
    recovery._vault.guard._lost("dead")
    with pytest.raises(Unavailable):
        recovery.settle()
    assert states(journal) == ["applied"]


def test_local_writes_leave_nothing_to_settle(vault: Vault, journal: Journal) -> None:
    from server.models import NotePath
    from server.workers import Deadline

    assert isinstance(vault.choose_writer(vault.guard.pin()), LocalWriter)
    vault.edit(NotePath("a.md"), lambda _: b"x", Deadline.after(30))
    assert journal.items() == []


def test_a_note_that_is_removed_after_a_recovery_leaves_no_ghost(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """What the remote held before may come back, even if it was written over twice since."""
    (vault_folder / "a.md").write_bytes(OURS)
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    vault, deadline = recovery._vault, Deadline.after(10)
    with vault.hold(["a.md"], deadline):
        vault.remove_held("a.md", etag_of(OURS), deadline)
    assert {etag for ghost in journal.ghosts for etag in ghost.etags} >= {etag_of(BASE)}
    (vault_folder / "a.md").write_bytes(BASE)
    recovery.settle()
    assert not (vault_folder / "a.md").exists()


def test_the_index_hears_what_others_wrote_when_both_are_kept(
    recovery: Recovery, journal: Journal, vault_folder: Path, written: list[Written]
) -> None:
    (vault_folder / "a.md").write_bytes(THEIRS)
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    assert [(w.path == "a.md", w.content.data) for w in written] == [(False, OURS), (True, THEIRS)]


def test_an_older_content_of_ours_is_not_taken_for_somebody_elses(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """rclone may bring back what was there two writes ago, after a recovery in between."""
    (vault_folder / "a.md").write_bytes(b"")
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    recovery._vault.generations.clear()
    (vault_folder / "a.md").write_bytes(BASE)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == OURS
    assert list(vault_folder.glob("a.conflict-*.md")) == []


def test_a_new_note_that_was_never_uploaded_is_not_taken_for_one_that_somebody_deleted(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """rclone is killed again after it was written again: the remote never heard of it."""
    note = vault_folder / "a.md"
    note.write_bytes(OURS)
    entry(journal, OURS, None, applied=True)
    recovery.settle()
    note.unlink()
    recovery._vault.generations.clear()
    recovery.settle()
    assert note.read_bytes() == OURS
    assert list(vault_folder.glob("a.conflict-*.md")) == []


def test_a_write_that_meets_a_new_mount_is_built_on_what_the_old_one_may_have_lost(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """rclone was restarted between two calls, and the second is the first to notice."""
    vault, path, note = recovery._vault, NotePath("a.md"), vault_folder / "a.md"
    note.write_bytes(BASE)
    vault.edit(path, lambda _: OURS, Deadline.after(10))
    met: list[bytes] = []

    def change(current: Content | None) -> bytes:
        assert current is not None
        met.append(current.data)
        if len(met) == 1:
            note.write_bytes(BASE)
            raise OSError(errno.ENOTCONN, "gone")
        return current.data + b"\nmore"

    vault.edit(path, change, Deadline.after(10))
    recovery.settle()
    assert note.read_bytes() == OURS + b"\nmore"
    assert list(vault_folder.glob("a.conflict-*.md")) == []
    with vault.hold(["a.md"], Deadline.after(10)):
        vault.move_held("a.md", "b.md", Deadline.after(10))
    assert etag_of(BASE) in {etag for ghost in journal.ghosts for etag in ghost.etags}


def test_who_holds_a_note_does_not_write_over_what_waits(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(BASE)
    entry(journal, OURS, BASE, applied=True)
    vault, deadline = recovery._vault, Deadline.after(10)
    with vault.hold(["a.md"], deadline), pytest.raises(Unsettled):
        vault.edit_held(NotePath("a.md"), lambda _: THEIRS, deadline)
    assert (vault_folder / "a.md").read_bytes() == BASE


def test_a_note_that_vanished_while_it_was_replaced_is_written(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """The caller has no answer, but rclone may have removed the old content for the new one."""
    entry(journal, OURS, BASE, applied=False)
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == OURS
    assert states(journal) == ["applied"]


def test_a_new_note_that_was_never_acknowledged_is_not_made(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    entry(journal, OURS, None, applied=False)
    recovery.settle()
    assert not (vault_folder / "a.md").exists()
    assert states(journal) == ["aside"]


def test_a_write_is_not_built_on_what_came_back(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """A remote that had not heard of an edit yet shows the older note where the edited one was deleted."""
    vault = moved_away(recovery, journal, vault_folder)
    (vault_folder / "a.md").write_bytes(BASE)
    written = vault.edit(
        NotePath("a.md"), lambda now: (now.data if now else b"") + b"new", Deadline.after(10)
    )
    assert (written.created, (vault_folder / "a.md").read_bytes()) == (True, b"new")
    (thrown,) = (vault_folder / ".trash").iterdir()
    assert thrown.read_bytes() == BASE


def test_a_lost_note_is_written_over_what_came_back(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    """rclone died before it uploaded a note that was made where an edited one was moved away."""
    vault = moved_away(recovery, journal, vault_folder)
    vault.edit(NotePath("a.md"), lambda _: b"new", Deadline.after(10))
    (vault_folder / "a.md").write_bytes(BASE)
    vault.guard._lost("dead")
    assert vault.guard.probe().ok
    recovery.settle()
    assert (vault_folder / "a.md").read_bytes() == b"new"
    assert list(vault_folder.glob("*.conflict-*")) == []


def test_what_was_moved_before_a_crash_is_not_lost_at_its_old_place(
    recovery: Recovery, journal: Journal, vault_folder: Path, tmp_path: Path
) -> None:
    """The server died after the rename of a deletion, before its journal knew of it."""
    entry(journal, OURS, BASE, applied=True)
    (vault_folder / ".trash").mkdir()
    (vault_folder / ".trash/1 a.md").write_bytes(OURS)
    folder = tmp_path / "plans"
    folder.mkdir()
    parts = written_down([Move("a.md", ".trash/1 a.md")])
    (folder / "1.plan").write_bytes(b"".join(parts))
    plans = Plans(folder, recovery._vault, lambda _: None)
    recovery.settle()
    assert plans.settle() == 0
    assert list(vault_folder.glob("*.md")) == []
    (vault_folder / "a.md").write_bytes(BASE)
    recovery.settle()
    assert not (vault_folder / "a.md").exists(), "what the remote had of it went to the trash"
    assert (vault_folder / ".trash/1 a.md").read_bytes() == OURS


def test_a_clock_that_is_put_forward_lays_no_ghost(
    recovery: Recovery, journal: Journal, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_away(recovery, journal, vault_folder)
    ahead = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: ahead)
    recovery.settle()
    (vault_folder / "a.md").write_bytes(BASE)
    recovery.settle()
    assert not (vault_folder / "a.md").exists()
    recovery._ticks = lambda: time.monotonic() + 1000
    recovery.settle()
    assert journal.ghosts == [], "but it is not expected for ever"


class Remote:
    """A remote that can be asked, and holds something of its own."""

    def __init__(self, data: bytes | None, listed: Callable[[], object] = lambda: None) -> None:
        self.data = data
        self._listed = listed

    def look_again(self, _pin: Pin, folders: Sequence[str], _timeout: float) -> None:
        assert list(folders) == [""]
        self._listed()

    def is_queued(self, _pin: Pin, _disk: str) -> bool:
        return False

    def remote_md5(self, _pin: Pin, _disk: str) -> str | None:
        return None if self.data is None else hashlib.md5(self.data).hexdigest()

    def holds(self, _pin: Pin, disk: str, base: Content | None, _timeout: float) -> bool:
        there = self.data if disk == "a.md" else None
        return (base.data if base else None) == there


@pytest.mark.parametrize("shown", [None, THEIRS], ids=["nothing", "an older content"])
def test_a_mount_that_shows_what_its_remote_hasnt_is_not_believed_at_once(
    recovery: Recovery, journal: Journal, vault_folder: Path, shown: bytes | None
) -> None:
    remote, seconds = Remote(BASE), [0.0]
    recovery._vault.drive = lambda _pin: remote  # type: ignore[assignment,return-value]
    recovery._ticks = lambda: seconds[0]
    entry(journal, OURS, BASE, applied=True)
    note = vault_folder / "a.md"
    if shown is not None:
        note.write_bytes(shown)
    recovery.settle()
    assert states(journal) == ["applied"]
    assert list(vault_folder.glob("*.conflict-*")) == []
    seconds[0] = 200.0
    recovery.settle()
    # Not for ever, or nobody could write the note any more: both are kept then.
    assert "a.md" not in [item.record.path for item in journal.items()]
    assert [copy.read_bytes() for copy in vault_folder.glob("*.conflict-*")] == [OURS]


def test_a_change_that_mount_and_remote_agree_on_is_somebody_elses(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    recovery._vault.drive = lambda _pin: Remote(THEIRS)  # type: ignore[assignment,return-value]
    entry(journal, OURS, BASE, applied=True)
    (vault_folder / "a.md").write_bytes(THEIRS)
    recovery.settle()
    assert [copy.read_bytes() for copy in vault_folder.glob("*.conflict-*")] == [OURS]


def test_a_restarted_mount_lists_the_folder_before_anything_is_opened(
    recovery: Recovery, journal: Journal, vault_folder: Path
) -> None:
    note = vault_folder / "a.md"
    remote = Remote(BASE, listed=lambda: note.exists() or note.write_bytes(BASE))
    recovery._vault.drive = lambda _pin: remote  # type: ignore[assignment,return-value]
    entry(journal, OURS, BASE, applied=True)
    recovery.settle()
    assert note.read_bytes() == OURS
    assert list(vault_folder.glob("*.conflict-*")) == []
