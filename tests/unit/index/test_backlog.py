"""Own writes: taken in by whoever asks first, in their order, and by themselves if nobody does."""

import threading
from collections.abc import Sequence

import pytest

from server.index import backlog
from server.index.backlog import Backlog
from server.index.generations import request_mark
from server.index.rows import Document
from server.index.store import Index
from server.models import etag_of
from tests.drive.processes import wait_for

from .build import doc


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes anything in of itself."""
    monkeypatch.setattr(backlog, "_PAUSE_SECONDS", 3600)


def paths_of(items: Sequence[Document]) -> list[str]:
    return [item.path for item in items]


@pytest.mark.usefixtures("patient")
def test_whoever_asks_finds_what_was_written(index: Index) -> None:
    index.put_own(doc("a.md", "one [[b]] #tag"))
    assert index.get("a.md") is not None
    index.put_own(doc("b.md", "two"))
    assert index.fts_count("two") == 1
    assert index.link_counts("b.md") == (1, 0)
    index.put_own(doc("c.md", "three"))
    with index.reading() as look:
        assert b"three" in b"".join(path.read_bytes() for _, path in look.segments)


@pytest.mark.usefixtures("patient")
def test_what_changes_the_index_comes_after_what_was_written(index: Index) -> None:
    index.put_own(doc("a.md", "one"))
    index.remove(["a.md"])
    assert index.paths() == []
    index.put_own(doc("a.md", "old"))
    index.put([doc("a.md", "new")])
    assert (index.fts_count("old"), index.fts_count("new")) == (0, 1)


@pytest.mark.usefixtures("patient")
def test_what_a_note_said_in_between_is_known(index: Index) -> None:
    for text in ("one", "two", "three"):
        index.put_own(doc("a.md", text))
    assert [index.former(etag_of(text)) for text in (b"one", b"two", b"three")] == [
        b"one",
        b"two",
        None,
    ]


@pytest.mark.usefixtures("patient")
def test_an_index_that_ends_takes_in_what_is_left(index: Index) -> None:
    index.put_own(doc("a.md", "one"))
    folder = index._folder
    index.close()
    again = Index.open(folder)
    assert again.paths() == ["a.md"]
    again.close()


@pytest.mark.usefixtures("patient")
def test_an_index_in_the_making_learns_of_own_writes_too(index: Index) -> None:
    index.put([doc("a.md", "one")])
    request_mark(index._folder).touch()
    successor = index.target()
    assert successor is not index
    index.put_own(doc("b.md", "two"))
    assert (index.fts_count("two"), successor.fts_count("two")) == (1, 1)


def test_without_anybody_asking_it_is_taken_in() -> None:
    taken: list[str] = []
    kept = Backlog(lambda items: taken.extend(paths_of(items)))
    kept.add(doc("a.md"))
    wait_for(lambda: taken == ["a.md"], what="the first")
    kept.add(doc("b.md"))
    wait_for(lambda: taken == ["a.md", "b.md"], what="the second")
    kept.close()


@pytest.mark.usefixtures("patient")
def test_nobody_goes_on_while_another_takes_in() -> None:
    begun, go_on, passed = threading.Event(), threading.Event(), threading.Event()

    def take_in(_items: Sequence[Document]) -> None:
        begun.set()
        assert go_on.wait(30)

    kept = Backlog(take_in)
    kept.add(doc("a.md"))
    first = threading.Thread(target=kept.settle)

    def follow() -> None:
        kept.settle()
        passed.set()

    second = threading.Thread(target=follow)
    first.start()
    assert begun.wait(30)
    second.start()
    assert not passed.wait(0.2)
    go_on.set()
    assert passed.wait(30)
    first.join()
    second.join()


@pytest.mark.usefixtures("patient")
def test_one_that_fails_is_left_to_the_scanner_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[list[str]] = []

    def take_in(items: Sequence[Document]) -> None:
        if len(taken) == 0:
            taken.append([])
            raise OSError("no space left")
        taken.append(paths_of(items))

    kept = Backlog(take_in)
    for path in ("a.md", "b.md", "a.md"):
        kept.add(doc(path))
    kept.settle()
    kept.settle()
    assert taken == [[], ["a.md"]]
    assert "notes could not be indexed" in caplog.text


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("count", "size"), [(150, 10), (10, 1 << 20)])
def test_it_never_grows_long(count: int, size: int) -> None:
    taken: list[str] = []
    kept = Backlog(lambda items: taken.extend(paths_of(items)))
    for number in range(count):
        kept.add(doc(f"{number}.md", "x" * size))
    assert taken == [f"{number}.md" for number in range(len(taken))]
    assert len(taken) >= count // 2
