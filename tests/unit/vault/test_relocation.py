"""Moves and removals on a plain disk: nothing is clobbered, nothing is half done, nobody is misled."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.errors import Conflict, InvalidPath, NotFound, Unavailable, VaultError
from server.models import FileStat, etag_of
from server.vault import files, relocation
from server.vault.guard import Guard, Pin
from server.vault.hands import OWN, Hands
from server.vault.locks import folder_lock
from server.vault.rc import RcError
from server.vault.relocation import Place
from server.vault.replacement import BaseChanged, Replacement
from server.vault.writers import LocalWriter
from server.workers import Deadline


@dataclass
class Watching:
    """A writer that does something, once, whenever it is asked to look at the remote."""

    name: str = "watching"
    on_remote: bool = True
    looks: list[str] = field(default_factory=list)
    then: Callable[[], object] = field(default=lambda: None)

    def needs_journal(self, _pin: Pin) -> bool:
        return True

    def commit(self, what: Replacement, deadline: Deadline) -> FileStat:
        return LocalWriter().commit(what, deadline)

    def refresh(self, _pin: Pin, disk: str) -> bool:
        self.looks.append(disk)
        self.then()
        return True


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def move(guard: Guard, watching: Watching) -> Callable[[str, str], tuple[Place, Place]]:
    return lambda old, new: relocation.move(guard.pin(), watching, old, new, Deadline.after(30))


@pytest.fixture
def remove(guard: Guard, watching: Watching) -> Callable[[str, bytes], Place]:
    return lambda path, data: relocation.remove(
        guard.pin(), watching, path, etag_of(data), 1000, Deadline.after(30)
    )


Moving = Callable[[str, str], tuple[Place, Place]]
Removing = Callable[[str, bytes], Place]


def names(folder: Path) -> list[str]:
    """Everything, folders too."""
    found = (str(item.relative_to(folder)) for item in folder.rglob("*"))
    return sorted(name for name in found if name != ".vault-mcp")


def test_what_it_was_and_what_it_is(move: Moving, vault_folder: Path) -> None:
    (vault_folder / "a.md").write_bytes(b"a")
    stat = (vault_folder / "a.md").stat()
    before, after = move("a.md", "deep/er/b.png")
    assert before == Place("a.md", "note", FileStat(1, stat.st_mtime_ns))
    assert after == Place("deep/er/b.png", "attachment", FileStat(1, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("nowhere.md", "made/by/nobody.md", NotFound),
        ("nowhere/a.md", "made/by/nobody.md", NotFound),
        ("Box", "Box/inner/made/Box", InvalidPath),
        ("Box", "Box/a.md/x", InvalidPath),
        ("Box/a.md", "Box/b.md", Conflict),
        ("Box/a.md", "box/B.MD", Conflict),
        ("Box", "Other", Conflict),
        ("Box/a.md", "Other", Conflict),
        ("Other", "Box/a.md", Conflict),
        ("Box/a.md", "Box/b.md/c.md", VaultError),
    ],
)
def test_a_refused_move_leaves_no_trace(
    move: Moving, vault_folder: Path, old: str, new: str, error: type[VaultError]
) -> None:
    """Not even a folder on the way to where it would have gone."""
    for name in ("Box/a.md", "Box/b.md", "Other/c.md"):
        (vault_folder / name).parent.mkdir(exist_ok=True)
        (vault_folder / name).write_text(name)
    before = names(vault_folder)
    with pytest.raises(error):
        move(old, new)
    assert names(vault_folder) == before
    assert (vault_folder / "Box/b.md").read_text() == "Box/b.md"


@pytest.mark.parametrize("name", ["a.md", "b.md"])
def test_who_comes_first_keeps_the_place(
    move: Moving, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another server puts a note there after we have looked, and lets go of the folder's lock."""
    (vault_folder / "two").mkdir()
    (vault_folder / "a.md").write_bytes(b"ours")
    real = folder_lock

    def late(folder: int, deadline: Deadline, hands: Hands = OWN) -> Any:
        (vault_folder / "two" / name).write_bytes(b"theirs")
        return real(folder, deadline, hands)

    monkeypatch.setattr(relocation, "folder_lock", late)
    with pytest.raises(Conflict):
        move("a.md", f"two/{name}")
    assert (vault_folder / "two" / name).read_bytes() == b"theirs"
    assert (vault_folder / "a.md").read_bytes() == b"ours"


def test_a_folder_is_not_moved_onto_one_that_has_just_come(
    move: Moving, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vault_folder / "Box").mkdir()
    (vault_folder / "two").mkdir()
    real = folder_lock

    def late(folder: int, deadline: Deadline, hands: Hands = OWN) -> Any:
        (vault_folder / "two" / "Box").mkdir(exist_ok=True)
        return real(folder, deadline, hands)

    monkeypatch.setattr(relocation, "folder_lock", late)
    with pytest.raises(Conflict):
        move("Box", "two/Box")
    assert names(vault_folder) == ["Box", "two", "two/Box"]


@pytest.mark.parametrize(
    ("old", "new"), [("a.md", "A.md"), ("Box", "BOX"), ("Cafe\u0301.md", "Caf\u00e9.md")]
)
def test_a_name_changes_its_case_or_form(
    move: Moving, vault_folder: Path, old: str, new: str
) -> None:
    (vault_folder / "Box").mkdir()
    for name in ("a.md", "Cafe\u0301.md", "Box/x.md"):
        (vault_folder / name).write_text(name)
    content = {file.read_text() for file in vault_folder.rglob("*.md")}
    before, after = move(old, new)
    assert (before.disk, after.disk) == (old, new)
    assert old not in names(vault_folder)
    assert new in names(vault_folder)
    assert {file.read_text() for file in vault_folder.rglob("*.md")} == content


def test_two_names_of_one_file_become_one(move: Moving, vault_folder: Path) -> None:
    """As a crash leaves it between the new name and the end of the old one."""
    (vault_folder / "a.md").write_bytes(b"a")
    (vault_folder / "b.md").hardlink_to(vault_folder / "a.md")
    move("a.md", "b.md")
    assert names(vault_folder) == ["b.md"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EIO])
def test_an_old_name_that_can_not_end_leaves_no_second_one(
    move: Moving, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (vault_folder / "a.md").write_bytes(b"a")
    real = os.unlink

    def refuse(name: str, **kwargs: Any) -> None:
        if name == "a.md":
            raise OSError(code, "refused")
        real(name, **kwargs)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(Unavailable):
        move("a.md", "b.md")
    assert names(vault_folder) == ["a.md"]


def test_a_disk_without_links_moves_all_the_same(
    move: Moving, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    (vault_folder / "a.md").write_bytes(b"a")
    (vault_folder / "b.md").write_bytes(b"b")
    move("a.md", "c.md")
    with pytest.raises(Conflict):
        move("c.md", "b.md")
    assert names(vault_folder) == ["b.md", "c.md"]


def test_a_mount_that_can_not_be_told_to_look_changes_nothing_about_what_was_done(
    move: Moving, remove: Removing, watching: Watching, vault_folder: Path
) -> None:
    def refuse() -> None:
        raise RcError("vfs/refresh", "busy", 500)

    watching.then = refuse
    (vault_folder / "a.md").write_bytes(b"a")
    assert move("a.md", "b.md")[1].disk == "b.md"
    assert remove("b.md", b"a").disk == "b.md"
    assert names(vault_folder) == []
    assert {"a.md", "b.md"} == set(watching.looks)


def test_what_a_fresh_look_shows_is_not_moved_onto(
    move: Moving, watching: Watching, vault_folder: Path
) -> None:
    """The mount's view was old: another device had a note there already."""
    (vault_folder / "a.md").write_bytes(b"a")
    watching.then = lambda: (vault_folder / "b.md").write_bytes(b"theirs")
    with pytest.raises(Conflict):
        move("a.md", "b.md")
    assert (vault_folder / "b.md").read_bytes() == b"theirs"


def test_a_removal_needs_the_very_content(
    remove: Removing, watching: Watching, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(b"a")
    with pytest.raises(BaseChanged):
        remove("a.md", b"b")
    watching.then = lambda: (vault_folder / "a.md").write_bytes(b"newer on the remote")
    with pytest.raises(BaseChanged):
        remove("a.md", b"a")
    assert names(vault_folder) == ["a.md"]
    with pytest.raises(NotFound):
        remove("b.md", b"a")


@pytest.mark.parametrize("call", ["rename", "unlink"])
def test_a_mount_that_fails_under_a_call_leaves_the_outcome_open(
    move: Moving,
    remove: Removing,
    vault_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    (vault_folder / "Box").mkdir()
    (vault_folder / "a.md").write_bytes(b"a")

    def gone(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.ENOTCONN, "gone")

    monkeypatch.setattr(os, call, gone)
    with pytest.raises(files.OutcomeOpen):
        move("Box", "Shelf") if call == "rename" else remove("a.md", b"a")


def test_nothing_leaks(
    open_descriptors: None, move: Moving, remove: Removing, vault_folder: Path
) -> None:
    (vault_folder / "a.md").write_bytes(b"a")
    for _ in range(20):
        move("a.md", "x/y/b.md")
        with pytest.raises(Conflict):
            (vault_folder / "c.md").write_bytes(b"c")
            move("c.md", "x/y/b.md")
        move("x/y/b.md", "a.md")
    remove("a.md", b"a")
