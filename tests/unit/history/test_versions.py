"""Reading the history: every earlier content, in order, wherever the note has been."""

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.history.rows import key_of
from server.history.store import Author, History
from server.models import etag_of, path_key

from .build import change, etag, make, moved, opened


def author(caller: str = "ana", session: str | None = "s1", operation: str = "op1") -> Author:
    return Author(caller, session, "note_write", operation)


def kinds(history: History, path: str) -> list[tuple[str, str]]:
    return [(entry.kind, entry.path) for entry in history.of(path, limit=99)[0]]


def test_versions_come_newest_first_and_in_pages(history: History) -> None:
    texts = [b"%d" % number for number in range(7)]
    for old, new in pairwise(texts):
        make(history, change("a.md", old, new), change("b.md", old, new))
    page, total = history.of("a.md", limit=2, offset=1)
    assert total == 6
    assert [history.content(entry.before or "") for entry in page] == [b"4", b"3"]
    assert history.of("a.md", limit=2, offset=6) == ([], 6)
    assert history.of("c.md", limit=2) == ([], 0)


@pytest.mark.parametrize("spelling", ["Café/Straße.md", "CAFÉ/STRASSE.MD", "Cafe\u0301/straße.md"])
def test_a_path_is_one_however_it_is_spelled(history: History, spelling: str) -> None:
    make(history, change("Café/Straße.md", b"old", b"new"))
    assert history.of(spelling, limit=9)[1] == 1
    assert len(history.recent(9, path_prefix=spelling[:5])) == 1


def test_a_moved_note_brings_its_versions_along(history: History) -> None:
    make(history, change("a.md", b"1", b"2", "create"))
    make(history, moved("a.md", "b.md", b"2"))
    make(history, change("b.md", b"2", b"3", "patch"))
    make(history, moved("b.md", "c.md", b"3"))
    make(history, change("a.md", None, b"another note", "create"))
    make(history, change("b.md", None, b"one more", "create"))
    whole = [("move", "c.md"), ("patch", "b.md"), ("move", "b.md"), ("create", "a.md")]
    assert kinds(history, "c.md") == whole
    assert kinds(history, "b.md") == [("create", "b.md"), *whole]
    assert kinds(history, "a.md") == [("create", "a.md"), *whole[-2:]]


def test_a_note_that_goes_in_circles_is_told_once(history: History) -> None:
    make(history, change("a.md", b"0", b"1"))
    for old, new in (("a.md", "b.md"), ("b.md", "a.md"), ("a.md", "A.md"), ("A.md", "b.md")) * 3:
        make(history, moved(old, new, b"1"))
        if new == "b.md":
            make(history, moved("b.md", "a.md", b"1"))
    entries, total = history.of("a.md", limit=99)
    assert total == len(entries) == len({entry.id for entry in entries}) == 19
    assert entries[-1].before == etag(b"0")


def test_moves_without_end_are_followed_a_good_while(history: History) -> None:
    make(history, *(moved(f"{number}.md", f"{number + 1}.md", b"1") for number in range(100)))
    _, total = history.of("100.md", limit=1)
    assert 20 < total < 100


def test_changes_since_a_time_can_be_narrowed(tmp_path: Path) -> None:
    now = 1000
    history = History.open(tmp_path, max_bytes=1 << 20, max_age_days=30, clock=lambda: now)
    for who in (author(), author("ben"), author(session=None), author(operation="op2")):
        make(history, change("a.md", b"old", b"new"), change("b.md", b"old", b"new"), author=who)
        now += 10

    def ids(at_ns: int = 0, limit: int = 99, **given: str) -> list[int]:
        return [entry.id for entry in history.since(at_ns, limit=limit, **given)]

    assert ids() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert ids(1010) == [3, 4, 5, 6, 7, 8]
    assert ids(1011, limit=3) == [5, 6, 7]
    assert ids(caller="ana") == [1, 2, 5, 6, 7, 8]
    assert ids(caller="ana", session="s1") == [1, 2, 7, 8]
    assert ids(operation="op2") == [7, 8]
    assert ids(caller="ben", operation="op2") == []
    history.close()


def test_recent_changes_can_be_narrowed(history: History) -> None:
    make(history, change("devlog/a.md", b"1", b"2"))
    make(history, change("notes/100%_b.md", b"1", b"2"), author=author("ben"))
    make(history, moved("devlog/a.md", "notes/a.md", b"2"))
    assert [entry.id for entry in history.recent(9)] == [3, 2, 1]
    assert [entry.id for entry in history.recent(1, 1)] == [2]
    assert [entry.id for entry in history.recent(9, caller="ben")] == [2]
    assert [entry.id for entry in history.recent(9, path_prefix="Devlog/")] == [3, 1]
    assert [entry.id for entry in history.recent(9, path_prefix="notes/100%_")] == [2]
    assert history.recent(9, caller="ben", path_prefix="devlog/") == []


@given(st.text(st.characters(codec="utf-8"), max_size=30))
@settings(max_examples=200)
def test_the_rule_for_spellings_is_the_vaults(path: str) -> None:
    assert key_of(path) == path_key(path)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.binary(max_size=60) | st.text(max_size=60).map(str.encode)),
        st.tuples(st.just("fail"), st.binary(max_size=60)),
        st.tuples(st.just("move"), st.sampled_from(["a.md", "b.md", "C/c.md", "d.md"])),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=25,
)


@given(_STEPS)
@settings(max_examples=60, deadline=None)
def test_every_earlier_content_comes_back_in_order(steps: list[tuple[str, bytes | str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = opened(Path(folder))
        path, held = "a.md", None
        earlier: list[bytes | None] = []
        for kind, value in steps:
            if kind == "restart":
                history.close()
                history = opened(Path(folder))
            elif isinstance(value, str):
                if held is not None and value != path:
                    make(history, moved(path, value, held))
                    earlier.append(held)
                    path = value
            elif kind == "fail":
                history.drop(history.begin(author(), [change(path, held, value)]))
            else:
                make(history, change(path, held, value))
                earlier.append(held)
                held = value
        entries, total = history.of(path, limit=99)
        assert total == len(earlier)
        assert [entry.size for entry in entries] == [
            None if data is None else len(data) for data in reversed(earlier)
        ]
        assert [
            None if entry.before is None else history.content(entry.before) for entry in entries
        ] == earlier[::-1]
        assert all(history.content(etag_of(data)) == data for data in earlier if data is not None)
        history.close()
