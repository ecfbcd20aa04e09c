"""The budget of full text: what goes, what stays, and how it comes back."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from server.index.store import Index
from server.query.language import parse_query

from .build import doc, text_of

BUDGET = 40_000
WORDS = "lorem ipsum dolor sit amet " * 100


class Clock:
    """A clock that a test sets; it never stands still."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


Open = Callable[..., Index]


@pytest.fixture
def reopen(tmp_path: Path, request: pytest.FixtureRequest) -> Open:
    """Opens the same index each time, with a small budget unless told otherwise."""
    clock = Clock()

    def opening(budget: int = BUDGET) -> Index:
        index = Index.open(tmp_path / "index", budget=budget, clock=clock)
        request.addfinalizer(index.close)
        return index

    return opening


def fill(index: Index, count: int, first: int = 0) -> None:
    """Notes of about 2 KB of full text each; higher numbers were modified later."""
    for number in range(first, first + count):
        text = f"---\nrank: {number}\n---\n#all [[n0]] unique{number} {WORDS}"
        index.put([doc(f"n{number}.md", text, mtime_ns=number + 1)])


def held(index: Index, count: int = 100) -> list[int]:
    """The numbers of the notes that full text finds."""
    return [n for n in range(count) if index.fts_count(f"unique{n}")]


def found(index: Index, query: str) -> int:
    return index.find(parse_query(query)).total


def test_nothing_is_given_up_within_the_budget(reopen: Open) -> None:
    index = reopen()
    fill(index, 15)
    assert held(index) == list(range(15))
    assert index.usage().evicted == 0
    assert 0 < index.usage().used <= BUDGET


def test_those_modified_longest_ago_go_first_and_the_budget_is_kept(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    usage = index.usage()
    kept = held(index)
    assert kept == list(range(60 - len(kept), 60))
    assert 0 < usage.evicted == 60 - len(kept)
    assert 0.9 * BUDGET < usage.used <= BUDGET
    assert index.check() == []


def test_the_estimate_is_near_what_the_database_holds(reopen: Open, tmp_path: Path) -> None:
    index = reopen(1 << 30)
    words = [f"w{number * 7919 % 5000:x}" for number in range(40_000)]
    for number in range(200):
        text = " ".join(words[number * 200 : number * 200 + 200])
        index.put([doc(f"n{number}.md", text)])
    db = apsw.Connection(str(tmp_path / "index" / "index.db"))
    real = db.execute("SELECT sum(length(block)) FROM fts_data").get
    db.close()
    assert 0.5 * real < index.usage().used < 2 * real


def test_all_but_full_text_stays(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    assert 0 not in held(index)
    assert found(index, "tag:#all") == 60
    assert found(index, "[rank:0]") == 1
    assert found(index, "file:n0") == 1
    assert len(index.inbound("n0.md")) == 60
    assert text_of(index, "n0.md") is not None
    with index.reading() as look:
        whole = b"".join(file.read_bytes() for _, file in look.segments)
    assert b"unique0 " in whole


def test_what_was_used_stays(reopen: Open) -> None:
    index = reopen()
    fill(index, 15)
    index.use(["n3.md", "n1.md"])
    index.tend()
    fill(index, 30, first=15)
    kept = held(index)
    assert {1, 3} <= set(kept)
    assert not {0, 2, 4} & set(kept)


def test_what_was_just_written_stays(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    index.put([doc("n0.md", f"changed unique0 {WORDS}", mtime_ns=1)])
    assert 0 in held(index)
    assert found(index, "changed") == 1
    assert index.usage().used <= BUDGET


def test_a_note_comes_back_when_it_is_used(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    assert 5 not in held(index)
    index.use(["n5.md", "unknown.md"])
    assert index.tend() == 1
    assert 5 in held(index)
    assert index.usage().used <= BUDGET
    assert index.tend() == 0, "there is no room for others"
    index.put([doc("n5.md", "unique5 short")])
    assert found(index, "unique5") == 1
    assert index.check() == []


def test_a_note_that_is_renamed_comes_back(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    row = index.get("n5.md")
    assert row is not None
    index.rename("n5.md", "other.md", "other.md", doc("", "").stat)
    assert 5 in held(index)


def test_room_is_filled_by_those_used_last(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    kept = held(index)
    index.remove([f"n{number}.md" for number in kept[-8:]])
    evicted = index.usage().evicted
    back = 0
    while more := index.tend():
        back += more
    assert 4 <= back <= 8
    assert index.usage().evicted == evicted - back
    assert held(index) == list(range(kept[0] - back, kept[-8]))
    assert index.usage().used <= BUDGET


def test_a_removed_note_is_not_counted_any_more(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    index.remove([f"n{number}.md" for number in range(60)])
    assert (index.usage().used, index.usage().evicted) == (0, 0)
    assert index.tend() == 0


def test_a_restart_keeps_the_state(reopen: Open) -> None:
    index = reopen()
    fill(index, 60)
    before, kept = index.usage(), held(index)
    index.close()
    again = reopen()
    assert (again.usage(), held(again)) == (before, kept)


def test_another_budget_after_a_restart(reopen: Open) -> None:
    index = reopen(1 << 30)
    fill(index, 60)
    assert index.usage().evicted == 0
    index.close()
    smaller = reopen()
    smaller.tend()
    kept = held(smaller)
    assert kept == list(range(60 - len(kept), 60))
    assert 0 < smaller.usage().used <= BUDGET
    smaller.close()
    larger = reopen(1 << 30)
    while larger.tend():
        pass
    assert held(larger) == list(range(60))
    assert larger.usage().evicted == 0
    assert larger.check() == []


def test_a_note_whose_copy_is_lost_waits_for_the_next_scan(reopen: Open, tmp_path: Path) -> None:
    index = reopen()
    fill(index, 60)
    for segment in (tmp_path / "index" / "mirror").iterdir():
        segment.unlink()
    index.use(["n5.md"])
    assert index.tend() == 0
    fill(index, 1, first=5)
    assert 5 in held(index)


def test_folders_in_use_are_known(tmp_path: Path) -> None:
    now = [1_000]
    index = Index.open(tmp_path / "index", clock=lambda: now[0])
    for path in ("a/one.md", "b/two.md", "three.md"):
        now[0] += 10
        index.put([doc(path, "word", mtime_ns=now[0])])
    assert index.used_folders() == ["", "b", "a"]
    now[0] += 10
    index.use(["a/one.md"])
    index.tend()
    assert index.used_folders(2) == ["a", ""]
    index.close()
