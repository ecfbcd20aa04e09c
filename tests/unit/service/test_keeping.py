"""Keeping what was there: while the new file gets to the disk, and before it is put in place."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.errors import Unavailable
from server.history.store import Author, Change, History
from server.service.keeping import Keeping
from server.vault.files import OutcomeOpen
from server.vault.replacement import nothing
from server.workers import Workers

AUTHOR = Author("ann", None, "note_write", "op")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History.open(tmp_path, max_bytes=1 << 20, max_age_days=10)
    yield history
    history.close()


@pytest.fixture
def keeping(history: History) -> Iterator[Keeping]:
    workers = Workers("keep", size=2)
    yield Keeping(history, workers)
    workers.close()


def versions(history: History) -> list[str]:
    entries, _ = history.of("a.md", limit=10)
    return [(history.content(entry.before or "") or b"").decode() for entry in entries]


def change(before: bytes) -> Change:
    return Change("write", "a.md", before, "after")


def test_a_change_that_was_made_is_a_version(keeping: Keeping, history: History) -> None:
    with keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(nothing)
        assert versions(history) == []
    assert versions(history) == ["one"]
    assert len(kept.ids) == 1


def test_of_several_tries_the_last_one_counts(keeping: Keeping, history: History) -> None:
    with keeping.one(AUTHOR) as kept:
        for content in (b"one", b"two"):
            kept.will(change(content))
            kept.ready(nothing)
    assert versions(history) == ["two"]


def test_a_change_that_failed_is_forgotten(keeping: Keeping, history: History) -> None:
    with pytest.raises(ValueError, match="no"), keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(nothing)
        raise ValueError("no")
    keeping.settle(lambda _path: "after")
    assert versions(history) == []


def test_an_open_change_is_decided_by_what_is_there(keeping: Keeping, history: History) -> None:
    with pytest.raises(OutcomeOpen), keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(nothing)
        raise OutcomeOpen
    assert versions(history) == []
    keeping.settle(lambda _path: "after")
    assert versions(history) == ["one"]


def test_a_history_that_fails_tells_who_waits_for_it(
    keeping: Keeping, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[int]:
        raise Unavailable("The history can't be written.")

    monkeypatch.setattr(history, "begin", fail)
    with pytest.raises(Unavailable, match="history"), keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(nothing)
    assert kept.ids == []


def test_what_is_done_beside_it_goes_on_meanwhile(
    keeping: Keeping, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begin = threading.Event(), history.begin

    def slow(author: Author, changes: list[Change]) -> list[int]:
        # Only what is done beside it lets it go on.
        assert go.wait(30)
        return begin(author, changes)

    monkeypatch.setattr(history, "begin", slow)
    with keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(go.set)
    assert versions(history) == ["one"]


def test_what_fails_beside_it_is_told_and_nothing_is_kept(
    keeping: Keeping, history: History
) -> None:
    def fail() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"), keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(fail)
    keeping.settle(lambda _path: "after")
    assert versions(history) == []


def test_a_history_that_fails_still_waits_for_what_is_done_beside_it(
    keeping: Keeping, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is closed next, and its number may be another file's by then."""
    failed, done = threading.Event(), []

    def fail(*_: object) -> list[int]:
        failed.set()
        raise Unavailable("The history can't be written.")

    def beside() -> None:
        assert failed.wait(30)
        time.sleep(0.05)
        done.append(True)

    monkeypatch.setattr(history, "begin", fail)
    with pytest.raises(Unavailable, match="history"), keeping.one(AUTHOR) as kept:
        kept.will(change(b"one"))
        kept.ready(beside)
    assert done == [True]
