"""Who waits for the index or the vault, and who doesn't."""

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from server.index import backlog
from server.models import Content, FileStat
from server.service import loading
from server.vault.vault import Written

from .house import House


def stored(folder: Path) -> list[str]:
    """What another process would find, were this one killed now."""
    (file,) = folder.rglob("index.db")
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    found = [str(path) for (path,) in db.execute("SELECT path FROM notes")]
    db.close()
    return found


@pytest.mark.parametrize(
    ("protocol", "queues", "waited"),
    [
        ("local", False, False),
        ("local", True, True),
        ("mount", False, True),
        ("drive", False, True),
        ("journal", True, True),
    ],
)
def test_only_in_a_plain_folder_a_write_is_answered_before_the_index_has_it(
    house: House, monkeypatch: pytest.MonkeyPatch, protocol: str, queues: bool, waited: bool
) -> None:
    """While a mount is away the next write is built on what the index knows, also after kill -9."""
    monkeypatch.setattr(backlog, "_PAUSE_SECONDS", 3600)
    house.app.index.catch_up()
    content = Content(b"x", FileStat(1, 1))
    written = Written("a.md", "a.md", False, content, protocol, False, 1)
    loader = house.app.service.notes._loader
    monkeypatch.setattr(loader, "_queues", queues)
    loader.store_written(written)
    assert ("a.md" in stored(house.app.index._folder)) is waited
    assert house.app.index.get("a.md") is not None


@pytest.fixture
def busy(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All who could look at the vault wait for something."""
    loader, gate = house.app.service.notes._loader, threading.Event()
    monkeypatch.setattr(loader, "_patience", 0.2)
    monkeypatch.setattr(loading, "_SHORT", 100)
    for _ in range(loader._mount.size):
        loader._mount.start(gate.wait)
    yield
    gate.set()


@pytest.mark.usefixtures("busy")
def test_a_short_note_that_nobody_changed_is_read_at_once(house: House) -> None:
    house.fill(**{"a": "as it was", "long": "x" * 101, "folder/b": "too"})
    assert "stale" not in house.call("note_read", path="a.md")
    assert "stale" not in house.call("note_read", path="folder/b.md")
    assert house.call("note_read", path="long.md")["stale"] is True
    house.write("a.md", "as it is!")
    changed = house.call("note_read", path="a.md")
    assert (changed["content"], changed["stale"]) == ("as it was", True), "nobody could look"
    house.write("folder/b.md", "new", age=0)
    house.scan()
    just_now = house.call("note_read", path="folder/b.md")
    assert just_now["stale"] is True, "another change in the same moment would look the same"
