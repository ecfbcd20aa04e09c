"""The walk: everything that is visible, in order, or an error; never a part."""

import os
import unicodedata

import pytest

from server.errors import Timeout, Unavailable
from server.scanner.walk import walk
from server.vault.files import Denied
from server.workers import Workers

from .scene import Scene


@pytest.fixture
def workers() -> Workers:
    return Workers("walk", 4)


def test_everything_visible_is_found_in_order(scene: Scene, workers: Workers) -> None:
    for path in ("b.md", "a/z.md", "a/b/c/deep.md", "a.md", "a/pic.PNG", "A.MD", "a0.md"):
        scene.write(path)
    (scene.folder / "empty").mkdir()
    found = walk(scene.vault, workers, 10).entries
    assert [entry.path for entry in found] == sorted(entry.path for entry in found)
    assert {entry.path: entry.kind for entry in found} == {
        "A.MD": "note", "a": "folder", "a.md": "note", "a/b": "folder", "a/b/c": "folder",
        "a/b/c/deep.md": "note", "a/pic.PNG": "attachment", "a/z.md": "note", "a0.md": "note",
        "b.md": "note", "empty": "folder",
    }  # fmt: skip


def test_hidden_things_are_not_entered(scene: Scene, workers: Workers) -> None:
    for path in (".obsidian/a.md", ".trash/b.md", "sub/.git/c.md", ".hidden.md", "seen.md"):
        scene.write(path)
    listed: list[str] = []
    scene.vault.on_list = listed.append
    assert [entry.path for entry in walk(scene.vault, workers, 10).entries] == ["seen.md", "sub"]
    assert sorted(listed) == ["", "sub"]


def test_linked_folders_are_not_followed_and_a_cycle_ends(scene: Scene, workers: Workers) -> None:
    scene.write("sub/a.md")
    (scene.folder / "sub" / "loop").symlink_to("../sub")
    (scene.folder / "out").symlink_to("/etc")
    (scene.folder / "link.md").symlink_to("sub/a.md")
    (scene.folder / "passwd.md").symlink_to("/etc/passwd")
    (scene.folder / "broken.md").symlink_to("nowhere.md")
    assert [entry.path for entry in walk(scene.vault, workers, 10).entries] == [
        "link.md",
        "sub",
        "sub/a.md",
    ]


def test_a_folder_stored_in_nfd_is_entered_by_its_own_spelling(
    scene: Scene, workers: Workers
) -> None:
    nfd = unicodedata.normalize("NFD", "Café")
    scene.write(f"{nfd}/é.md")
    found = walk(scene.vault, workers, 10).entries
    assert [(entry.path, entry.disk) for entry in found] == [
        ("Café", nfd),
        ("Café/é.md", f"{nfd}/é.md"),
    ]


def test_twins_that_differ_in_their_unicode_form_come_side_by_side(
    scene: Scene, workers: Workers
) -> None:
    nfd = unicodedata.normalize("NFD", "é.md")
    scene.write("é.md", "nfc")
    scene.write(nfd, "nfd")
    found = walk(scene.vault, workers, 10).entries
    assert [(entry.path, entry.disk) for entry in found] == [("é.md", nfd), ("é.md", "é.md")]


def test_a_folder_that_vanishes_meanwhile_is_skipped(scene: Scene, workers: Workers) -> None:
    scene.write("a.md")
    scene.write("sub/b.md")

    def vanish(disk: str) -> None:
        if disk == "sub":
            os.unlink(scene.folder / "sub" / "b.md")
            os.rmdir(scene.folder / "sub")

    scene.vault.on_list = vanish
    assert [entry.path for entry in walk(scene.vault, workers, 10).entries] == ["a.md", "sub"]


@pytest.mark.parametrize("where", ["", "sub", "sub/deep"])
def test_a_folder_that_fails_fails_the_walk(scene: Scene, workers: Workers, where: str) -> None:
    scene.write("sub/deep/a.md")

    def fail(disk: str) -> None:
        if disk == where:
            raise Unavailable("denied")

    scene.vault.on_list = fail
    with pytest.raises(Unavailable, match="denied"):
        walk(scene.vault, workers, 10)


def test_a_folder_that_hangs_fails_the_walk(scene: Scene, workers: Workers) -> None:
    import threading

    scene.write("sub/a.md")
    free = threading.Event()
    scene.vault.on_list = lambda disk: None if disk != "sub" else (free.wait(30), None)[1]
    try:
        with pytest.raises(Timeout):
            walk(scene.vault, workers, 0.05)
    finally:
        free.set()


def test_the_root_itself_must_be_there(scene: Scene, workers: Workers) -> None:
    from server.errors import NotFound

    def gone(_disk: str) -> None:
        raise NotFound("gone")

    scene.vault.on_list = gone
    with pytest.raises(NotFound):
        walk(scene.vault, workers, 10)


def test_a_closed_folder_is_named_and_hides_what_is_in_it(scene: Scene, workers: Workers) -> None:
    scene.write("open/a.md", "a")
    scene.write("closed/b.md", "b")

    def refuse(disk: str) -> None:
        if disk == "closed":
            raise Denied("no")

    scene.vault.on_list = refuse
    found = walk(scene.vault, workers, 10)
    assert found.closed == ("closed",)
    assert found.hides("closed/b.md")
    assert not found.hides("closed.md")
    assert [entry.path for entry in found.entries] == ["closed", "open", "open/a.md"]
