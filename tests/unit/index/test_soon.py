"""A note that was just written is in the index before anybody can ask it anything."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from server.index.rows import Document
from server.index.soon import Soon
from server.index.store import Index
from server.models import Entry, FileStat, etag_of
from tests.drive.processes import wait_for

from .build import doc

READS: dict[str, Callable[[Index], Any]] = {
    "a row": lambda index: index.get("a.md") is not None,
    "a text": lambda index: (row := index.get("a.md")) and index.text(row) == b"kettle [[b]]",
    "a list": lambda index: index.paths(kind="note") == ["a.md"],
    "counts": lambda index: index.counts().notes == 1,
    "links": lambda index: [link.target for link in index.outbound("a.md")] == ["b"],
    "full text": lambda index: index.fts_count("kettle") == 1,
    "a snapshot": lambda index: [row.path for row in index.snapshot()] == ["a.md"],
}


@pytest.fixture
def patient(index: Index, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index that never settles anything by itself."""
    monkeypatch.setattr("server.index.soon._PAUSE", 3600)
    return index


@pytest.mark.parametrize("read", READS)
def test_whoever_reads_finds_it(patient: Index, read: str) -> None:
    patient.put_soon(doc("a.md", "kettle [[b]]"))
    assert READS[read](patient)


def test_what_comes_after_it_stays_after_it(patient: Index) -> None:
    patient.put_soon(doc("gone.md", "x"))
    patient.remove(["gone.md"])
    patient.put_soon(doc("old.md", "x"))
    patient.rename("old.md", "new.md", "new.md", FileStat(1, 1))
    patient.put_soon(doc("twice.md", "one"))
    patient.put_soon(doc("twice.md", "two"))
    patient.put_files([Entry("pic.png", "pic.png", "attachment", FileStat(1, 1))])
    assert patient.paths(kind="note") == ["new.md", "twice.md"]
    row = patient.get("twice.md")
    assert row is not None
    assert patient.text(row) == b"two"


def test_left_alone_it_is_taken_in_all_the_same(index: Index) -> None:
    heard = threading.Event()
    index.on_change = lambda _: heard.set()
    index.put_soon(doc("a.md", "kettle"))
    assert heard.wait(30)


def test_what_a_note_held_in_between_is_not_forgotten(patient: Index) -> None:
    patient.put_soon(doc("a.md", "one"))
    patient.put_soon(doc("a.md", "two"))
    patient.put_soon(doc("a.md", "three"))
    assert patient.get("a.md") is not None
    for former in (b"one", b"two"):
        assert patient.former(etag_of(former)) == former


def test_a_closed_index_has_taken_in_everything(patient: Index) -> None:
    patient.put_soon(doc("a.md", "kettle"))
    folder = patient._folder
    patient.close()
    again = Index.open(folder)
    assert again.fts_count("kettle") == 1
    again.close()


def test_a_failure_is_left_to_the_scanner(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[str] = []

    def take(item: Document) -> None:
        if item.path == "bad.md":
            raise ValueError("bad")
        taken.append(item.path)

    soon = Soon(take)
    for path in ("bad.md", "good.md"):
        soon.add(doc(path, "x"))
    soon.settle()
    soon.close()
    assert taken == ["good.md"]
    assert "could not be indexed" in caplog.text


def test_who_comes_while_another_takes_it_in_waits_for_it() -> None:
    began, go, taken = threading.Event(), threading.Event(), list[str]()

    def take(item: Document) -> None:
        began.set()
        go.wait(30)
        taken.append(item.path)

    soon = Soon(take)
    soon.add(doc("a.md", "x"))
    assert began.wait(30)
    seen: list[list[str]] = []

    def read() -> None:
        soon.settle()
        seen.append(list(taken))

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(0.1)
    assert seen == []
    go.set()
    reader.join(30)
    assert seen == [["a.md"]]
    soon.close()


def test_many_are_not_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.index.soon._PAUSE", 3600)
    taken: list[str] = []
    soon = Soon(lambda item: taken.append(item.path))
    for number in range(100):
        soon.add(doc(f"{number}.md", "x"))
    assert len(taken) > 60
    soon.close()
    assert len(taken) == 100


def test_writers_and_readers_at_once_never_miss_a_write(index: Index) -> None:
    missed: list[str] = []

    def agent(name: str) -> None:
        for number in range(30):
            path = f"{name}/{number}.md"
            index.put_soon(doc(path, "kettle"))
            if index.get(path) is None:
                missed.append(path)

    agents = [threading.Thread(target=agent, args=(name,)) for name in "abcd"]
    for one in agents:
        one.start()
    for one in agents:
        one.join(60)
    assert missed == []
    wait_for(lambda: index.counts().notes == 120)
