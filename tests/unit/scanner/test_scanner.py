"""The scanner over a real folder and a real index: what it sees, what it never believes."""

import os
import shutil
import threading
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.errors import NotFound, Timeout, Unavailable, VaultError
from server.index.store import Document, Index
from server.models import FileStat
from server.scanner.scanner import Report
from tests.drive.processes import wait_for

from .scene import LIMIT, RemoteGuard, Scene, opened


def scan(scene: Scene) -> Report:
    return scene.scanner.scan()


def counts(report: Report) -> tuple[int, int, int, int]:
    return report.added, report.modified, report.moved, report.removed


# -- what changes elsewhere ---------------------------------------------------------------------


def test_the_first_scan_learns_everything(scene: Scene) -> None:
    scene.write("a.md", "# One\n[[b]]")
    scene.write("sub/b.md", "two")
    scene.write("sub/pic.png", b"\x89PNG")
    (scene.folder / "empty").mkdir()
    assert not scene.scanner.progress.first_done
    assert counts(scan(scene)) == (2, 0, 0, 0)
    assert scene.texts() == {"a.md": b"# One\n[[b]]", "sub/b.md": b"two"}
    assert scene.paths("attachment") == ["sub/pic.png"]
    assert scene.paths("folder") == ["empty", "sub"]
    assert scene.index.link_counts("sub/b.md") == (1, 0)
    assert scene.scanner.progress.first_done


def test_a_second_scan_reads_nothing(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("pic.png", b"x")
    scan(scene)
    read: list[str] = []
    scene.vault.on_read = read.append
    assert counts(scan(scene)) == (0, 0, 0, 0)
    assert read == []


def test_edits_creations_and_deletions(scene: Scene) -> None:
    scene.write("edit.md", "one")
    scene.write("gone.md", "bye")
    scene.write("same.md", "same")
    scan(scene)
    scene.write("edit.md", "two!")
    scene.write("new/new.md", "hello")
    (scene.folder / "gone.md").unlink()
    assert counts(scan(scene)) == (1, 1, 0, 1)
    assert scene.texts() == scene.disk()
    assert counts(scan(scene)) == (0, 0, 0, 0)


def test_a_new_time_alone_is_no_change(scene: Scene) -> None:
    file = scene.write("a.md", "one")
    scan(scene)
    os.utime(file, (1e9, 1e9))
    assert counts(scan(scene)) == (0, 0, 0, 0)
    row = scene.index.get("a.md")
    assert row is not None
    assert row.mtime_ns == 10**18
    read: list[str] = []
    scene.vault.on_read = read.append
    scan(scene)
    assert read == [], "the new time was taken over"


def test_a_rename_keeps_the_note_and_the_links(scene: Scene) -> None:
    scene.write("old.md", "# Same text")
    scene.write("from.md", "[[new]]")
    scan(scene)
    before = scene.index.get("old.md")
    (scene.folder / "sub").mkdir()
    (scene.folder / "old.md").rename(scene.folder / "sub" / "new.md")
    assert counts(scan(scene)) == (0, 0, 1, 0)
    after = scene.index.get("sub/new.md")
    assert before is not None
    assert after is not None
    assert after.id == before.id
    assert scene.texts() == scene.disk()
    assert [link.src for link in scene.index.inbound("sub/new.md")] == ["from.md"]


def test_a_rename_only_in_case(scene: Scene) -> None:
    scene.write("note.md", "text")
    scan(scene)
    (scene.folder / "note.md").rename(scene.folder / "Note.md")
    assert counts(scan(scene)) == (0, 0, 1, 0)
    assert scene.texts() == {"Note.md": b"text"}


def test_a_name_that_only_changes_its_unicode_form(scene: Scene) -> None:
    scene.write("é.md", "text")
    scan(scene)
    nfd = unicodedata.normalize("NFD", "é.md")
    (scene.folder / "é.md").rename(scene.folder / nfd)
    assert counts(scan(scene))[3] == 0
    row = scene.index.get("é.md")
    assert row is not None
    assert row.disk == nfd
    assert scene.text("é.md") == b"text"


def test_a_renamed_folder_takes_its_notes_along(scene: Scene) -> None:
    for number in range(5):
        scene.write(f"old/deep/{number}.md", f"note {number}")
    scene.write("old/pic.png", b"x")
    scan(scene)
    (scene.folder / "old").rename(scene.folder / "new")
    report = scan(scene)
    assert (report.added, report.modified, report.moved) == (0, 0, 5)
    assert scene.texts() == scene.disk()
    assert scene.paths("folder") == ["new", "new/deep"]
    assert scene.paths("attachment") == ["new/pic.png"]


def test_two_notes_that_are_swapped(scene: Scene) -> None:
    one = scene.write("a.md", "the first", age=200)
    two = scene.write("b.md", "and the second", age=100)
    scene.write("from.md", "[[a]] [[b]]")
    scan(scene)
    one.rename(scene.folder / "t")
    two.rename(one)
    (scene.folder / "t").rename(two)
    assert counts(scan(scene)) == (0, 2, 0, 0)
    assert scene.texts() == scene.disk()
    assert [link.dst for link in scene.index.outbound("from.md")] == ["a.md", "b.md"]


def test_renamed_and_edited_is_another_note(scene: Scene) -> None:
    scene.write("a.md", "text")
    scan(scene)
    (scene.folder / "a.md").unlink()
    scene.write("b.md", "text and more")
    assert counts(scan(scene)) == (1, 0, 0, 1)
    assert scene.texts() == scene.disk()


def test_a_copy_whose_original_goes_is_a_move(scene: Scene) -> None:
    scene.write("a.md", "text")
    scan(scene)
    shutil.copy(scene.folder / "a.md", scene.folder / "b.md")
    (scene.folder / "a.md").unlink()
    assert counts(scan(scene)) == (0, 0, 1, 0)
    assert scene.texts() == scene.disk()


def test_a_copy_whose_original_stays_is_a_new_note(scene: Scene) -> None:
    scene.write("a.md", "text")
    scan(scene)
    shutil.copy(scene.folder / "a.md", scene.folder / "b.md")
    assert counts(scan(scene)) == (1, 0, 0, 0)
    assert scene.texts() == scene.disk()


def test_several_notes_of_one_content_move_at_once(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        scene.write(f"{name}.md", "template")
    scan(scene)
    for name in ("a", "b", "c"):
        (scene.folder / f"{name}.md").rename(scene.folder / f"{name}{name}.md")
    report = scan(scene)
    assert report.moved + report.added == 3
    assert scene.texts() == scene.disk()


def test_a_note_that_becomes_a_folder_and_back(scene: Scene) -> None:
    scene.write("x.md", "text")
    scan(scene)
    (scene.folder / "x.md").unlink()
    scene.write("x.md/inner.md", "inner")
    scan(scene)
    assert scene.paths("folder") == ["x.md"]
    assert scene.texts() == {"x.md/inner.md": b"inner"}
    shutil.rmtree(scene.folder / "x.md")
    scene.write("x.md", "again")
    scan(scene)
    assert scene.paths("folder") == []
    assert scene.texts() == {"x.md": b"again"}


def test_a_note_renamed_to_an_attachment(scene: Scene) -> None:
    scene.write("a.md", "text")
    scan(scene)
    (scene.folder / "a.md").rename(scene.folder / "a.txt")
    scan(scene)
    assert scene.texts() == {}
    assert scene.paths("attachment") == ["a.txt"]


NAMES = st.sampled_from(["a.md", "b.md", "sub/a.md", "sub/deep/c.md", "B.md", "é.md"])
TEXTS = st.sampled_from(["", "one", "two", "one\n", "[[a]] [[b]]", "日本"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, TEXTS),
        st.tuples(st.just("remove"), NAMES, st.just("")),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("copy"), NAMES, NAMES),
        st.tuples(st.just("save"), NAMES, TEXTS),
        st.tuples(st.just("scan"), st.just(""), st.just("")),
    ),
    max_size=25,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_whatever_happens_a_scan_ends_with_what_is_on_disk(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    with opened(tmp_path_factory.mktemp("any")) as scene:
        scene.write("keep.md", "[[a]] [[b]] [[c]]")
        for number, (what, path, other) in enumerate(steps):
            file = scene.folder / path
            if what == "write":
                scene.write(path, other, age=1000 - number)
            elif what == "scan":
                scan(scene)
            elif what == "save":
                scene.save(path, other.encode())
            elif file.exists() and what == "remove":
                file.unlink()
            elif file.exists():
                (scene.folder / other).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, scene.folder / "t")
                if what == "rename":
                    file.unlink()
                (scene.folder / "t").rename(scene.folder / other)
        scan(scene)
        assert scene.texts() == scene.disk()
        assert scene.index.check() == []


# -- times that lie -----------------------------------------------------------------------------


def test_an_edit_within_the_clocks_resolution_is_seen(scene: Scene) -> None:
    file = scene.write("a.md", "one", age=0)
    stat = file.stat()
    scan(scene)
    file.write_text("two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert counts(scan(scene)) == (0, 1, 0, 0)
    assert scene.text("a.md") == b"two"


def test_a_note_just_changed_is_looked_at_until_it_has_rested(scene: Scene) -> None:
    file = scene.write("a.md", "one", age=0)
    read: list[str] = []
    scene.vault.on_read = read.append
    scan(scene)
    scan(scene)
    assert len(read) == 2
    rested = time.time_ns() - 10**10
    os.utime(file, ns=(rested, rested))
    scan(scene)
    assert len(read) == 3
    scan(scene)
    assert len(read) == 3


def test_a_moved_note_that_was_just_touched_is_looked_at_again(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    (scene.folder / "a.md").unlink()
    file = scene.write("b.md", "one", age=0)
    stat = file.stat()
    assert counts(scan(scene)) == (0, 0, 1, 0)
    file.write_text("two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    scan(scene)
    assert scene.text("b.md") == b"two"


def test_a_time_in_the_future_is_never_trusted(scene: Scene) -> None:
    file = scene.write("a.md", "one", age=-1e6)
    stat = file.stat()
    scan(scene)
    file.write_text("two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    scan(scene)
    assert scene.text("a.md") == b"two"


# -- notes that are odd -------------------------------------------------------------------------


def test_twins_that_differ_in_their_unicode_form(scene: Scene) -> None:
    nfd = unicodedata.normalize("NFD", "é.md")
    scene.write("é.md", "nfc twin")
    scene.write(nfd, "nfd")
    scene.write("other.png")
    scan(scene)
    assert scene.texts() == {"é.md": b"nfd"}
    assert counts(scan(scene)) == (0, 0, 0, 0)
    (scene.folder / nfd).unlink()
    scan(scene)
    assert scene.texts() == {"é.md": b"nfc twin"}
    (scene.folder / "é.md").unlink()
    scan(scene)
    assert scene.texts() == {}


def test_a_note_that_outgrows_the_limit_and_shrinks_again(scene: Scene) -> None:
    scene.write("a.md", "small [[b]]")
    scene.write("b.md", "b")
    scan(scene)
    scene.write("a.md", b"x" * (LIMIT + 1))
    scan(scene)
    row = scene.index.get("a.md")
    assert row is not None
    assert (row.kind, row.size, row.etag) == ("note", LIMIT + 1, None)
    assert row.warning == "too large to be read"
    assert scene.index.link_counts("b.md") == (0, 0)
    read: list[str] = []
    scene.vault.on_read = read.append
    scan(scene)
    assert read == [], "not tried again until it changes"
    scene.write("a.md", "small again [[b]]")
    scan(scene)
    assert scene.texts() == scene.disk()
    assert scene.index.link_counts("b.md") == (1, 0)


def test_a_note_of_exactly_the_limit(scene: Scene) -> None:
    scene.write("a.md", b"x" * LIMIT)
    scan(scene)
    assert scene.text("a.md") == b"x" * LIMIT


@pytest.mark.parametrize("data", [b"", b"\xff\xfe bad", b"\xef\xbb\xbfbom", b"\r\n\r", b"---\n{"])
def test_odd_text_is_kept_as_it_is(scene: Scene, data: bytes) -> None:
    scene.write("a.md", data)
    scan(scene)
    assert scene.text("a.md") == data
    assert counts(scan(scene)) == (0, 0, 0, 0)


def test_a_binary_note_is_listed_but_not_mirrored(scene: Scene) -> None:
    scene.write("a.md", b"PK\0\0")
    scan(scene)
    row = scene.index.get("a.md")
    assert row is not None
    assert row.warning
    assert scene.index.text(row) is None
    assert counts(scan(scene)) == (0, 0, 0, 0)


def test_a_note_that_can_not_be_read_does_not_stop_the_others(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("z.md", "one")
    scan(scene)
    scene.write("a.md", "two, unreadable")
    scene.write("z.md", "two")
    scene.write("new.md", "unreadable")

    def refuse(path: str) -> None:
        if path in ("a.md", "new.md"):
            raise Unavailable("denied")

    scene.vault.on_read = refuse
    assert counts(scan(scene)) == (0, 1, 0, 0)
    assert scene.texts() == {"a.md": b"one", "z.md": b"two"}
    del scene.vault.on_read
    assert counts(scan(scene)) == (1, 1, 0, 0)
    assert scene.texts() == scene.disk()


def test_a_note_that_vanishes_before_it_is_read(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("b.md", "one!")
    scan(scene)
    scene.write("a.md", "two")
    scene.write("c.md", "new")
    walked: list[str] = []

    def vanish(path: str) -> None:
        walked.append(path)

    scene.vault.on_list = lambda _disk: None
    original = scene.guard.probe

    def probe_and_vanish() -> object:
        (scene.folder / "a.md").unlink(missing_ok=True)
        (scene.folder / "c.md").unlink(missing_ok=True)
        return original()

    scene.vault.on_read = vanish
    scene.guard.probe = probe_and_vanish  # type: ignore[method-assign,assignment]
    assert counts(scan(scene)) == (0, 0, 0, 0)
    assert sorted(walked) == ["a.md", "c.md"]
    scan(scene)
    assert scene.texts() == {"b.md": b"one!"}


# -- a vault that looks wrong ---------------------------------------------------------------------


def test_a_scan_that_fails_half_way_removes_nothing(scene: Scene) -> None:
    for path in ("a.md", "sub/b.md", "zzz/c.md"):
        scene.write(path, path)
    scan(scene)
    (scene.folder / "a.md").unlink()
    scene.write("new.md", "new")

    def fail(disk: str) -> None:
        if disk == "zzz":
            raise Unavailable("denied")

    scene.vault.on_list = fail
    with pytest.raises(Unavailable):
        scan(scene)
    assert sorted(scene.texts()) == ["a.md", "sub/b.md", "zzz/c.md"]
    assert scene.scanner.scan_safely() is None
    assert scene.scanner.progress.last_error == "unavailable"
    assert scene.scanner.progress.phase == "idle"
    assert scene.metric("vault_scans_total", outcome="failed") == 1
    del scene.vault.on_list
    scan(scene)
    assert scene.texts() == scene.disk()
    assert scene.scanner.progress.last_error is None


def test_a_mount_that_fails_while_notes_are_read_removes_nothing(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("gone.md", "bye")
    scan(scene)
    (scene.folder / "gone.md").unlink()
    scene.write("a.md", "two")

    def lose(_path: str) -> None:
        scene.guard._lost("dead")
        raise Unavailable("dead")

    scene.vault.on_read = lose
    assert scene.scanner.scan_safely() is None
    assert sorted(scene.texts()) == ["a.md", "gone.md"]
    assert scene.scanner.progress.last_error == "dead"


def test_a_note_that_hangs_ends_the_scan(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("gone.md", "bye")
    scan(scene)
    (scene.folder / "gone.md").unlink()
    scene.write("a.md", "two")

    def hang(_path: str) -> None:
        raise Timeout("slow")

    scene.vault.on_read = hang
    with pytest.raises(Timeout):
        scan(scene)
    assert sorted(scene.texts()) == ["a.md", "gone.md"]


@pytest.mark.parametrize("repinned", [False, True], ids=["lost", "replaced"])
def test_a_guard_that_changes_its_mind_during_the_walk_discards_it(
    scene: Scene, repinned: bool
) -> None:
    scene.write("a.md", "one")
    scene.write("sub/b.md", "two")
    scan(scene)
    (scene.folder / "a.md").unlink()
    scene.write("new.md", "new")

    def change(disk: str) -> None:
        if disk == "sub":
            scene.guard._lost("dead")
            if repinned:
                assert scene.guard.probe().ok
            else:
                (scene.folder / ".vault-mcp").rename(scene.folder / ".away")

    scene.vault.on_list = change
    with pytest.raises(VaultError):
        scan(scene)
    assert sorted(scene.texts()) == ["a.md", "sub/b.md"]


def test_a_pin_that_is_new_after_the_walk_discards_it(scene: Scene) -> None:
    """Every folder was listed without an error, but not all of them on the same mount."""
    scene.write("a.md", "one")
    scan(scene)
    (scene.folder / "a.md").rename(scene.folder / "b.md")
    generation = scene.guard.pin().generation

    def repin(_disk: str) -> None:
        scene.guard._pin = None
        assert scene.guard.probe().ok

    scene.vault.on_list = repin
    with pytest.raises(NotFound):
        scan(scene)
    assert scene.guard.pin().generation == generation + 1
    assert sorted(scene.texts()) == ["a.md"]


def many(scene: Scene, number: int) -> None:
    for n in range(number):
        scene.write(f"many/{n}.md", f"note {n}")


def test_a_rename_of_most_of_the_vault_is_no_removal(scene: Scene) -> None:
    many(scene, 40)
    scan(scene)
    (scene.folder / "many").rename(scene.folder / "more")
    report = scan(scene)
    assert (report.moved, report.held, report.removed) == (40, 0, 1)
    assert scene.texts() == scene.disk()


def test_a_mass_removal_is_held_until_it_lasts(scene: Scene) -> None:
    many(scene, 30)
    scene.write("left.md", "left")
    scan(scene)
    shutil.rmtree(scene.folder / "many")
    report = scan(scene)
    assert (report.removed, report.held) == (0, 31)
    assert scene.scanner.progress.held_removals == 31
    assert scene.metric("vault_scan_held_removals") == 31
    assert len(scene.texts()) == 31
    scene.now[0] += 599
    assert scan(scene).held == 31
    scene.now[0] += 2
    assert scan(scene).removed == 31
    assert sorted(scene.texts()) == ["left.md"]
    assert scene.scanner.progress.held_removals == 0
    assert scene.metric("vault_scan_held_removals") == 0


def test_notes_that_return_end_the_hold(scene: Scene) -> None:
    many(scene, 30)
    scene.write("left.md", "left")
    scan(scene)
    (scene.folder / "many").rename(scene.folder / ".away")
    assert scan(scene).held == 31
    scene.now[0] += 590
    (scene.folder / ".away").rename(scene.folder / "many")
    assert counts(scan(scene)) == (0, 0, 0, 0)
    assert scene.scanner.progress.held_removals == 0
    shutil.rmtree(scene.folder / "many")
    scene.now[0] += 590
    assert scan(scene).held == 31, "the clock starts anew"


def test_what_changes_meanwhile_is_seen_during_a_hold(scene: Scene) -> None:
    many(scene, 30)
    scene.write("left.md", "left")
    scan(scene)
    shutil.rmtree(scene.folder / "many")
    scene.write("left.md", "changed")
    scene.write("new.md", "new")
    assert counts(scan(scene)) == (1, 1, 0, 0)
    assert scene.text("left.md") == b"changed"
    assert scene.text("new.md") == b"new"


@pytest.mark.parametrize(("notes", "held"), [(19, 0), (20, 21)])
def test_a_small_vault_may_lose_everything_at_once(scene: Scene, notes: int, held: int) -> None:
    many(scene, notes)
    scene.write("left.md", "left")
    scan(scene)
    shutil.rmtree(scene.folder / "many")
    assert scan(scene).held == held


def test_less_than_half_of_a_vault_goes_at_once(scene: Scene) -> None:
    many(scene, 30)
    for n in range(32):
        scene.write(f"{n}.md", "stays")
    scan(scene)
    shutil.rmtree(scene.folder / "many")
    assert scan(scene).removed == 31


def test_an_emptied_vault_is_not_believed(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    (scene.folder / "a.md").unlink()
    assert scene.scanner.scan_safely() is None
    assert scene.scanner.progress.last_error == "empty"
    assert sorted(scene.texts()) == ["a.md"]


# -- our own writes during a scan -----------------------------------------------------------------


def during_reading(scene: Scene, path: str, data: bytes) -> None:
    """Have this server write a note right after the scanner has read it."""

    def write(read: str) -> None:
        if read == path:
            del scene.vault.on_read
            scene.save(path, data)

    scene.vault.on_read = write


def during_walk(scene: Scene, path: str, data: bytes) -> None:
    """Have this server write a note when the walk is over but nothing was read yet."""
    original = scene.guard.probe

    def probe() -> object:
        scene.guard.probe = original  # type: ignore[method-assign]
        scene.save(path, data)
        return original()

    scene.guard.probe = probe  # type: ignore[method-assign,assignment]


def test_a_write_after_the_look_stays(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    scene.write("a.md", "two")
    during_reading(scene, "a.md", b"three, newer")
    scan(scene)
    assert scene.text("a.md") == b"three, newer"


def test_a_write_after_the_look_at_an_unchanged_note_stays(scene: Scene) -> None:
    file = scene.write("a.md", "one")
    scan(scene)
    os.utime(file, (1e9, 1e9))
    during_reading(scene, "a.md", b"two, newer")
    scan(scene)
    row = scene.index.get("a.md")
    assert row is not None
    assert scene.text("a.md") == b"two, newer"
    assert (row.size, row.mtime_ns) == (10, file.stat().st_mtime_ns)


def test_a_write_to_a_new_note_after_the_look_stays(scene: Scene) -> None:
    scene.write("a.md", "one")
    during_reading(scene, "a.md", b"two, newer")
    scan(scene)
    assert scene.text("a.md") == b"two, newer"


def test_a_write_to_a_moved_note_after_the_look_stays(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    (scene.folder / "a.md").rename(scene.folder / "b.md")
    during_reading(scene, "b.md", b"two, newer")
    scan(scene)
    assert scene.texts() == {"b.md": b"two, newer"}


def test_a_new_note_where_a_moved_one_was_stays(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    (scene.folder / "a.md").rename(scene.folder / "b.md")
    during_walk(scene, "a.md", b"another note")
    scan(scene)
    assert scene.texts() == {"a.md": b"another note", "b.md": b"one"}


def test_a_note_created_after_the_snapshot_is_not_removed(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("b.md", "two")
    scan(scene)
    (scene.folder / "a.md").unlink()
    during_walk(scene, "a.md", b"back again")
    scan(scene)
    assert scene.texts() == {"a.md": b"back again", "b.md": b"two"}


def test_a_note_created_in_a_new_folder_during_the_walk_is_not_removed(scene: Scene) -> None:
    scene.write("a.md", "one")
    scan(scene)
    during_walk(scene, "new/b.md", b"two")
    scan(scene)
    assert scene.texts() == {"a.md": b"one", "new/b.md": b"two"}
    assert scene.paths("folder") == ["new"]


def test_a_note_recreated_as_it_was_after_the_snapshot_is_not_removed(scene: Scene) -> None:
    scene.write("a.md", "one")
    scene.write("b.md", "two")
    scan(scene)
    (scene.folder / "a.md").unlink()
    during_walk(scene, "a.md", b"one")
    scan(scene)
    assert scene.texts() == {"a.md": b"one", "b.md": b"two"}


def test_a_write_that_waits_behind_the_scans_transaction_stays(tmp_path: Path) -> None:
    """Read by the scan at 10, written by us at 20; the scan's transaction comes first, at 100."""
    index = Index.open(tmp_path / "index", clock=lambda: 100)
    for data, looked in ((b"old", 10), (b"new", 20)):
        index.put([Document("a.md", "a.md", data, FileStat(3, looked), looked_ns=looked)])
    row = index.get("a.md")
    assert row is not None
    assert index.text(row) == b"new"
    index.close()


def test_a_look_that_comes_late_does_not_undo_a_newer_one(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", clock=lambda: 100)
    for data, looked in ((b"new", 20), (b"old", 10)):
        index.put([Document("a.md", "a.md", data, FileStat(3, looked), looked_ns=looked)])
    row = index.get("a.md")
    assert row is not None
    assert index.text(row) == b"new"
    index.close()


# -- the loop -------------------------------------------------------------------------------------


def test_progress_tells_where_the_scan_is(scene: Scene) -> None:
    for n in range(350):
        scene.write(f"{n}.md", str(n))
    seen: set[tuple[str, int, int]] = set()
    waiting: set[float] = set()

    def note(_disk: str) -> None:
        progress = scene.scanner.progress
        seen.add((progress.phase, progress.done, progress.total))
        if progress.phase == "reading":
            waiting.add(scene.metric("vault_index_waiting_notes"))

    scene.vault.on_list = note
    scene.vault.on_read = note
    scan(scene)
    # Few notes at first: who asks for one meanwhile shall not wait for long.
    assert waiting == {350, 250, 50}
    assert scene.metric("vault_index_waiting_notes") == 0
    assert seen == {("walking", 0, 0), *(("reading", done, 350) for done in (0, 100, 300))}
    progress = scene.scanner.progress
    assert (progress.phase, progress.done, progress.total) == ("idle", 0, 0)
    assert progress.last_success == 1000.0
    assert progress.last_seconds is not None
    assert scene.metric("vault_scan_progress_ratio") == 1
    assert scene.metric("vault_notes") == 350
    assert scene.metric("vault_scan_changes_total", kind="added") == 350
    assert scene.metric("vault_scans_total", outcome="ok") == 1
    assert scene.metric("vault_scan_last_success_timestamp_seconds") == 1000.0


def test_an_index_with_notes_was_scanned_before(tmp_path: Path) -> None:
    with opened(tmp_path) as scene:
        scene.write("a.md", "one")
        scan(scene)
    with opened(tmp_path) as scene:
        assert scene.scanner.progress.first_done
        assert counts(scan(scene)) == (0, 0, 0, 0)


def test_the_first_scan_of_an_empty_vault_is_done(scene: Scene) -> None:
    scan(scene)
    assert scene.scanner.progress.first_done


class Waits(threading.Event):
    """The pauses that the loop asked for; none is really made, and after the last the loop ends."""

    def __init__(self, stopping: threading.Event, number: int) -> None:
        super().__init__()
        self.asked: list[float] = []
        self._stopping = stopping
        self._number = number
        self._pause = 0.0
        self.meanwhile: Callable[[int], None] = lambda _n: None

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._pause += timeout
        return False

    def clear(self) -> None:
        self.asked.append(self._pause)
        self._pause = 0.0
        self.meanwhile(len(self.asked))
        if len(self.asked) >= self._number:
            self._stopping.set()


def pauses(
    scene: Scene, number: int, meanwhile: Callable[[int], None] | None = None
) -> list[float]:
    stopping = threading.Event()
    waits = Waits(stopping, number)
    if meanwhile is not None:
        waits.meanwhile = meanwhile
    scene.scanner._wake = waits
    scene.scanner.run(stopping)
    return waits.asked


def test_a_quiet_folder_is_looked_at_as_often_as_told(scene: Scene) -> None:
    assert pauses(scene, 5) == pytest.approx([15] * 5, abs=2)


def test_a_quiet_remote_is_asked_less_and_less(tmp_path: Path) -> None:
    with opened(tmp_path, RemoteGuard) as scene:
        scene.write("a.md", "one")

        def change(number: int) -> None:
            if number == 6:
                scene.write("a.md", "changed")

        asked = pauses(scene, 8, change)
        assert asked == pytest.approx([15, 22.5, 33.75, 50.625, 60, 60, 15, 22.5], abs=2)


def test_who_begins_to_watch_waits_no_longer_than_an_interval(tmp_path: Path) -> None:
    with opened(tmp_path, RemoteGuard) as scene:
        scene.write("a.md", "one")

        def watch(number: int) -> None:
            if number == 4:
                # From the middle of the pause that follows.
                looks = iter((False, False, True))
                scene.scanner.is_watched = lambda: next(looks, True)

        asked = pauses(scene, 7, watch)
        assert asked == pytest.approx([15, 22.5, 33.75, 50.625, 30, 15, 15], abs=2)


def test_a_failed_scan_is_soon_tried_again(scene: Scene) -> None:
    def fail(_disk: str) -> None:
        raise Unavailable("denied")

    scene.vault.on_list = fail
    assert pauses(scene, 3) == [2, 2, 2]
    scene.scanner._interval = 0.5
    assert pauses(scene, 2) == [0.5, 0.5]


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), OSError(5, "io"), KeyError("x"), MemoryError()]
)
def test_the_loop_survives_whatever_a_scan_raises(scene: Scene, error: Exception) -> None:
    scene.write("a.md", "one")

    def fail(_disk: str) -> None:
        raise error

    scene.vault.on_list = fail
    failed: list[str | None] = []

    def recover(number: int) -> None:
        failed.append(scene.scanner.progress.last_error)
        if number == 2:
            del scene.vault.on_list

    pauses(scene, 3, recover)
    assert failed[:2] == [type(error).__name__] * 2
    assert failed[2] is None
    assert scene.texts() == {"a.md": b"one"}
    assert scene.metric("vault_scans_total", outcome="failed") == 2


def test_the_loop_scans_when_woken_and_ends_when_told(scene: Scene) -> None:
    stopping = threading.Event()
    thread = threading.Thread(target=scene.scanner.run, args=(stopping,))
    thread.start()
    wait_for(lambda: scene.scanner.progress.first_done)
    scene.write("a.md", "one")
    scene.scanner.wake()
    wait_for(lambda: scene.texts() == {"a.md": b"one"})
    stopping.set()
    scene.scanner.wake()
    thread.join(30)
    assert not thread.is_alive()


def test_the_loop_waits_for_the_guards_first_look(tmp_path: Path) -> None:
    with opened(tmp_path) as scene:
        scene.guard.looked.clear()
        stopping = threading.Event()
        thread = threading.Thread(target=scene.scanner.run, args=(stopping,))
        thread.start()
        assert scene.scanner.progress.last_error is None
        assert not scene.scanner.progress.first_done
        scene.guard.looked.set()
        wait_for(lambda: scene.scanner.progress.first_done)
        stopping.set()
        scene.scanner.wake()
        thread.join(30)


def test_only_one_scan_runs_at_a_time(scene: Scene) -> None:
    scene.write("a.md", "one")
    inside = Semaphore(0)
    free = threading.Event()
    most: list[int] = []
    running: list[int] = []

    def enter(_disk: str) -> None:
        running.append(1)
        most.append(len(running))
        inside.release()
        free.wait(20)
        running.pop()

    scene.vault.on_list = enter
    threads = [threading.Thread(target=scene.scanner.scan) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert inside.acquire(timeout=20)
    free.set()
    for thread in threads:
        thread.join(20)
    assert max(most) == 1
