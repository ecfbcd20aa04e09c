"""Moves and removals: the same promises on every kind of storage, and on the backend behind it."""

import contextlib
import unicodedata
from collections.abc import Mapping

import pytest

from server.errors import Conflict, InvalidPath, NotFound, VaultError
from server.models import NotePath, etag_of
from server.vault.vault import Moved
from server.workers import Deadline
from tests.contract.beds import Bed, Opened
from tests.contract.test_vault import edit, put, read, shows
from tests.drive.processes import wait_for

NFD = unicodedata.normalize("NFD", "Café ü.md")
MOVES: Mapping[str, str] = {
    "same folder.md": "renamed.md",
    "to another.md": "there/to another.md",
    "far.md": "new/folders/日本/far away.md",
    "Case.md": "case.md",
    "there/up.md": "up.md",
    "pic.png": "there/bild ü.png",
    "trashed.md": ".trash/trashed.md",
    NFD: "decomposed no more.md",
    "Empty.md": "there/empty.md",
}


def move(opened: Opened, old: str, new: str) -> Moved:
    deadline = Deadline.after(30)
    with opened.vault.hold([old, new], deadline):
        return opened.vault.move_held(old, new, deadline)


def remove(opened: Opened, path: str, data: bytes) -> None:
    deadline = Deadline.after(30)
    with opened.vault.hold([path], deadline):
        opened.vault.remove_held(path, etag_of(data), deadline)


def fill(opened: Opened, contents: Mapping[str, bytes]) -> None:
    for path, data in contents.items():
        edit(opened, path, put(data))


def on_backend(bed: Bed, contents: Mapping[str, bytes | None], seconds: float = 30) -> None:
    """Wait until the backend has all of it; None: nothing there."""

    def differing() -> list[str]:
        return [path for path, data in contents.items() if bed.remote(path) != data]

    try:
        wait_for(lambda: not differing(), seconds)
    except TimeoutError:
        assert {path: bed.remote(path) for path in differing()} == {}


def seen(bed: Bed) -> set[str]:
    return {
        str(item.relative_to(bed.folder)) for item in bed.folder.rglob("*") if item.is_file()
    } - {".vault-mcp"}


@pytest.mark.requirement("vault.moves")
def test_a_file_changes_its_place_with_what_was_written_a_moment_ago(bed: Bed) -> None:
    """Nothing waits for an upload in between: the newest content has to arrive at the new place."""
    opened = bed.open()
    contents = {old: f"{old} has this".encode() * (old != "Empty.md") for old in MOVES}
    fill(opened, {"there/stays.md": b"stays"})
    for old, data in contents.items():
        edit(opened, old, put(b"an older content"))
        edit(opened, old, put(data))
        moved = move(opened, old, MOVES[old])
        assert (moved.before.disk, moved.after.disk) == (old, MOVES[old])
        assert moved.after.stat.size == len(data)
        assert read(opened, MOVES[old]) == data
        if old != "Case.md":
            assert read(opened, old) is None
            assert opened.vault.find(old) is None
    arrived: dict[str, bytes | None] = dict.fromkeys(MOVES)
    arrived |= {MOVES[old]: data for old, data in contents.items()}
    on_backend(bed, {**arrived, "there/stays.md": b"stays"})
    wait_for(lambda: seen(bed) == {*MOVES.values(), "there/stays.md"}, 30)


@pytest.mark.requirement("vault.moves")
def test_a_folder_moves_with_all_that_is_in_it(bed: Bed) -> None:
    opened = bed.open()
    inside = {f"{name}.md": name.encode() for name in ("a", "in/b", "in/deep/c", "日本/d")}
    inside["pic.png"] = b"\x89PNG" * 1000
    fill(opened, {f"Box/{name}": data for name, data in inside.items()})
    edit(opened, "Box/a.md", put(b"newer"))
    inside["a.md"] = b"newer"
    moved = move(opened, "Box", "on/a/Shelf")
    assert (moved.before.kind, moved.after.disk) == ("folder", "on/a/Shelf")
    move(opened, "on/a/Shelf/in", "Else")
    edit(opened, "Else/b.md", put(b"written at the new place"))
    places = {
        f"Else{name[2:]}" if name.startswith("in/") else f"on/a/Shelf/{name}": data
        for name, data in inside.items()
    }
    places["Else/b.md"] = b"written at the new place"
    for path, data in places.items():
        assert read(opened, path) == data
    on_backend(bed, {**places, **{f"Box/{name}": None for name in inside}})
    assert opened.vault.find("Box") is None
    wait_for(lambda: seen(bed) == set(places), 30)
    move(opened, "on", "ON")
    assert opened.vault.list_folder("ON")[0].disk == "ON/a"


@pytest.mark.requirement("vault.moves")
def test_a_move_or_a_removal_that_is_refused_changes_nothing(bed: Bed) -> None:
    opened = bed.open()
    contents = {"a.md": b"a", "b.md": b"b", "Box/c.md": b"c", "Shelf/d.md": b"d"}
    fill(opened, contents)
    refused: list[tuple[str, str, type[VaultError]]] = [
        ("a.md", "b.md", Conflict),
        ("a.md", "B.MD", Conflict),
        ("a.md", "Box/c.md", Conflict),
        ("a.md", "Box", Conflict),
        ("Box", "Shelf", Conflict),
        ("Box", "a.md", Conflict),
        ("Box", "Box/inner/Box", InvalidPath),
        ("none.md", "new/none.md", NotFound),
        ("none/at/all", "new/all", NotFound),
    ]
    for old, new, error in refused:
        with pytest.raises(error):
            move(opened, old, new)
    with pytest.raises(Conflict):
        remove(opened, "a.md", b"another")
    with pytest.raises(NotFound):
        remove(opened, "none.md", b"")
    assert not (bed.folder / "new").exists()
    assert {path: read(opened, path) for path in contents} == contents
    on_backend(bed, contents)
    wait_for(lambda: seen(bed) == set(contents), 30)
    remove(opened, "a.md", b"a")
    assert read(opened, "a.md") is None
    on_backend(bed, {"a.md": None, "b.md": b"b"})
    if bed.protocol != "mount":
        # Who can't ask the remote learns of other devices only when the mount does.
        bed.elsewhere("theirs.md", b"theirs")
        bed.elsewhere("b.md", b"theirs, too")
        with pytest.raises(Conflict):
            move(opened, "Box/c.md", "theirs.md")
        with pytest.raises(Conflict):
            remove(opened, "b.md", b"b")
        on_backend(bed, {"theirs.md": b"theirs", "b.md": b"theirs, too", "Box/c.md": b"c"})


@pytest.mark.requirement("vault.moves")
def test_what_was_moved_and_removed_stays_so_when_rclone_dies(mount_bed: Bed) -> None:
    """Acknowledged writes come true at their new place, and nothing comes back at the old one."""
    bed, mount = mount_bed, mount_bed.mount
    assert mount is not None
    opened = bed.open()
    uploaded = {"old.md": b"uploaded", "Old/in/x.md": b"uploaded"}
    fill(opened, uploaded)
    on_backend(bed, {**uploaded})
    fill(opened, {"old.md": b"changed", "Old/in/x.md": b"changed", "Old/y.md": b"made"})
    fill(opened, {"gone.md": b"made", "fresh.md": b"made"})
    move(opened, "old.md", "new.md")
    move(opened, "Old", "New/place")
    move(opened, "fresh.md", ".trash/fresh.md")
    remove(opened, "gone.md", b"made")
    mount.kill9()
    mount.detach()
    mount.start()
    wait_for(lambda: opened.guard.probe().ok, 30, "the mount's return")
    wanted: dict[str, bytes | None] = {
        "new.md": b"changed",
        "New/place/in/x.md": b"changed",
        "New/place/y.md": b"made",
        ".trash/fresh.md": b"made",
        **dict.fromkeys(("Old/in/x.md", "Old/y.md", "fresh.md", "gone.md")),
    }

    def has_come_true() -> bool:
        """Settled again and again, as the server does it."""
        settle(opened)
        return arrived(bed, wanted) and all(shows(opened, path, wanted[path]) for path in wanted)

    # A restarted rclone may show what it uploads as empty, or not at all, until it is settled.
    try:
        wait_for(has_come_true, 40)
    except TimeoutError:
        assert {path: bed.remote(path) for path in wanted} == wanted
        assert {path: read(opened, NotePath(path)) for path in wanted} == wanted


def test_an_older_version_does_not_come_back_at_the_old_place(mount_bed: Bed) -> None:
    """What was uploaded before a note was edited and, a moment later, moved or removed."""
    opened = mount_bed.open()
    fill(opened, {"old.md": b"uploaded", "gone.md": b"uploaded"})
    on_backend(mount_bed, {"old.md": b"uploaded", "gone.md": b"uploaded"})
    fill(opened, {"old.md": b"changed", "gone.md": b"changed"})
    move(opened, "old.md", "new.md")
    remove(opened, "gone.md", b"changed")
    on_backend(mount_bed, {"new.md": b"changed"})
    if mount_bed.protocol == "mount":
        # rclone forgot what the remote holds beneath a file that waits for its upload, and shows it
        # when it looks again, as it is made to here.
        assert mount_bed.mount is not None
        mount_bed.mount.look_again()

        def is_gone() -> bool:
            settle(opened)
            return arrived(mount_bed, {"old.md": None, "gone.md": None})

        wait_for(is_gone, 30)
        fill(opened, {"old.md": b"uploaded"})
        settle(opened)
        wait_for(lambda: shows(opened, "old.md", b"uploaded"), 30, "written anew, it is no ghost")
    on_backend(mount_bed, {"gone.md": None})


def settle(opened: Opened) -> int:
    with contextlib.suppress(VaultError):
        return opened.recovery.settle()
    return 1


def arrived(bed: Bed, contents: Mapping[str, bytes | None]) -> bool:
    return all(bed.remote(path) == data for path, data in contents.items())
