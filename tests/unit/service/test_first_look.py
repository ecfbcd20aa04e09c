"""What a search asks for is indexed before its turn while the first scan runs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from server.app import App
from server.index.store import Index
from server.query.tree import Text
from server.scanner.scanner import Scanner
from server.search.ripgrep import Ripgrep, find_rg
from server.service.first_look import FirstLook
from server.service.loading import Loader
from server.vault.mounts import MountPoint
from server.workers import Workers

from .house import House


@dataclass
class Beginning:
    """A vault with notes, and an index that nobody has filled yet."""

    house: House
    index: Index
    scanner: Scanner
    look: FirstLook

    @property
    def found(self) -> list[str]:
        return self.index.paths(kind="note")


@pytest.fixture
def beginning(house: House, tmp_path: Path) -> Iterator[Beginning]:
    app: App = house.app
    index, workers = Index.open(tmp_path / "empty"), Workers("first", size=1)
    scanner = Scanner(app.vault, index, workers, app.telemetry, interval=3600, timeout=30)
    loader = Loader(app.vault, index, workers, workers, patience=3)
    look = FirstLook(app.guard, index, loader, scanner, Ripgrep(find_rg()))
    house.write("a/tea.md", "A pot of Tea.\n")
    house.write("kettle.md", "# Kettle\nfor tea\n")
    house.write("pan.md", "A pan.\n")
    house.write(".obsidian/hidden.md", "tea\n")
    yield Beginning(house, index, scanner, look)
    workers.close()
    index.close()


def test_notes_with_the_words_are_indexed_and_no_others(beginning: Beginning) -> None:
    beginning.look.take(Text("tea"))
    assert beginning.found == ["a/tea.md", "kettle.md"]
    assert beginning.index.fts_count("tea") == 2
    beginning.scanner.scan()
    assert beginning.found == ["a/tea.md", "kettle.md", "pan.md"]


def test_nothing_is_read_once_the_scan_is_done(beginning: Beginning) -> None:
    beginning.scanner.scan()
    beginning.house.write("late.md", "more tea\n")
    beginning.look.take(Text("tea"))
    assert "late.md" not in beginning.found


def test_many_notes_are_left_to_the_scan(beginning: Beginning) -> None:
    for number in range(200):
        beginning.house.write(f"many/{number}.md", "tea\n")
    beginning.look.take(Text("tea"))
    assert beginning.found == []


def test_a_query_without_words_looks_at_nothing(beginning: Beginning) -> None:
    beginning.look.take(None)
    assert beginning.found == []


@pytest.mark.parametrize("kind", ["fuse.rclone", "nfs4", "fuse.sshfs"])
def test_a_mount_that_may_hang_is_never_looked_at(
    beginning: Beginning, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    guard = beginning.house.app.guard
    pin = replace(guard.pin(), mount=MountPoint(1, "/", "/", kind, "remote:"))
    monkeypatch.setattr(guard, "pin", lambda: pin)
    beginning.look.take(Text("tea"))
    assert beginning.found == []


def test_a_note_named_in_another_unicode_form_is_indexed_once(beginning: Beginning) -> None:
    beginning.house.write("cafe\u0301.md", "tea\n")
    beginning.look.take(Text("tea"))
    beginning.look.take(Text("tea"))
    assert "caf\u00e9.md" in beginning.found


def test_what_cant_be_read_is_left_to_the_scan(beginning: Beginning) -> None:
    beginning.house.write("large.md", "tea " * 20_000)
    with open(os.fsencode(beginning.house.folder) + b"/caf\xe9.md", "wb") as file:
        file.write(b"tea")
    beginning.look.take(Text("tea"))
    assert beginning.found == ["a/tea.md", "kettle.md"]
