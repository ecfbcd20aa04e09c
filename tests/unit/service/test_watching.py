"""Who is told of a change: only who watches it, may read it at that moment, and each thing once."""

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access.decision import Access
from server.errors import RateLimited, Unauthorized
from server.models import Caller, Grant
from server.service import watching
from server.service.watching import Change, News, Watch, Watching, subject
from tests.drive.processes import wait_for

from .house import House, access_by, hiding

ANNE = Caller("anne")
NOTE = subject("note", "a/b.md")


class Room:
    """Watches with a way to wait until everything was told."""

    def __init__(self, access: Access | None = None) -> None:
        self.watching = Watching(access or Access())
        self._told = threading.Event()
        self._end = self.open(Caller("end"))
        self.watching.add(self._end, subject("note", "the end"), "end")

    def open(self, caller: Caller | Callable[[], Caller] = ANNE, *, lists: bool = False) -> Watch:
        who = caller if callable(caller) else lambda: caller
        return self.watching.open(who, self._told.set, lists=lists)

    def watch(self, *names: str, caller: Caller | Callable[[], Caller] = ANNE) -> Watch:
        watch = self.open(caller)
        for name in names:
            self.watching.add(watch, subject("note", name), name)
        return watch

    def tell(self, *changes: Change) -> None:
        self.watching.changed(changes)
        self.watching.changed([("modified", "the end", None)])
        wait_for(lambda: bool(self._end.take().names), 10, "told")


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.watching.end()


def test_a_watcher_learns_of_what_it_watches_once(room: Room) -> None:
    watch = room.watch("a/b.md")
    room.tell(("modified", "a/b.md", None), ("modified", "a/c.md", None))
    room.tell(("modified", "a/b.md", None))
    assert watch.take() == News(("a/b.md",), False)
    assert watch.take() == News((), False)


def test_a_path_is_the_same_in_any_case_and_form(room: Room) -> None:
    watch = room.watch("Grüße.md")
    room.tell(("modified", "GRÜSSE.md", None))
    assert watch.take().names == ("Grüße.md",)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("created", "a/b.md", None), ["a", ""]),
        (("deleted", "a/b.md", None), ["a", ""]),
        (("moved", "x/b.md", "a/b.md"), ["a", "x", ""]),
        (("modified", "a/b.md", None), []),
    ],
)
def test_a_folder_changes_when_something_comes_or_goes(
    room: Room, change: Change, told: list[str]
) -> None:
    watch = room.open(lists=True)
    for folder in ("", "a", "x", "y"):
        room.watching.add(watch, subject("folder", folder), folder)
    room.tell(change)
    news = watch.take()
    assert sorted(news.names) == sorted(told)
    assert news.listed is bool(told)


def test_nobody_learns_of_what_it_may_not_read() -> None:
    room = Room(hiding("secret", of=["anne"]))
    watch, owner = room.open(ANNE, lists=True), room.open(Caller("owner"), lists=True)
    for one in (watch, owner):
        room.watching.add(one, subject("note", "secret/a.md"), "note")
        room.watching.add(one, subject("folder", "secret"), "folder")
        room.watching.add(one, subject("folder", ""), "root")
    room.tell(("created", "secret/a.md", None))
    assert watch.take() == News((), False)
    assert owner.take() == News(("note", "folder", "root"), True)
    room.tell(("moved", "open/a.md", "secret/a.md"))
    assert watch.take() == News(("root",), True)
    assert set(owner.take().names) == {"note", "folder", "root"}
    room.watching.changed(None)
    room.tell()
    assert watch.take() == News(("root",), True)
    assert set(owner.take().names) == {"note", "folder", "root"}


def test_access_is_decided_when_it_changes() -> None:
    policies = [hiding(of=["anne"]), hiding("a", of=["anne"])]
    now = [0]

    class Changing(Access):
        def sees(self, caller: Caller):  # type: ignore[no-untyped-def]
            return policies[now[0]].sees(caller)

    room = Room(Changing())
    watch = room.watch("a/b.md")
    room.tell(("modified", "a/b.md", None))
    assert watch.take().names == ("a/b.md",)
    now[0] = 1
    room.tell(("modified", "a/b.md", None))
    assert watch.take().names == ()


def test_a_grant_narrows_what_is_told() -> None:
    room = Room(access_by('{"rules": [{"path": "/", "read_allow": true}]}'))
    watch = room.watch("a/b.md", "c/d.md", caller=Caller("anne", grant=Grant(("c",), ())))
    room.tell(("modified", "a/b.md", None), ("modified", "c/d.md", None))
    assert watch.take().names == ("c/d.md",)


def test_whoever_is_no_caller_any_more_is_told_nothing_and_others_are(room: Room) -> None:
    valid = [True]

    def caller() -> Caller:
        if not valid[0]:
            raise Unauthorized("The token has ended.")
        return ANNE

    gone, other = room.watch("a/b.md", caller=caller), room.watch("a/b.md")
    valid[0] = False
    room.tell(("modified", "a/b.md", None))
    assert gone.take().names == ()
    assert other.take().names == ("a/b.md",)


def test_a_watcher_that_fails_keeps_nobody_else_from_hearing(room: Room) -> None:
    def fail() -> None:
        raise OSError("gone")

    broken = room.watching.open(lambda: ANNE, fail, lists=False)
    room.watching.add(broken, NOTE, "x")
    room.tell(("modified", "a/b.md", None))
    other = room.watch("a/b.md")
    room.tell(("modified", "a/b.md", None))
    assert other.take().names == ("a/b.md",)


def test_what_is_removed_or_closed_is_told_no_more(room: Room) -> None:
    watch, closed = room.watch("a/b.md", "c.md"), room.watch("a/b.md")
    room.tell(("modified", "a/b.md", None))
    room.watching.remove(watch, NOTE, "a/b.md")
    room.watching.close(closed)
    closed.take()
    room.tell(("modified", "a/b.md", None), ("modified", "c.md", None))
    assert watch.take().names == ("c.md",)
    assert closed.take().names == ()


def test_one_caller_can_watch_only_so_much(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_OF_ONE_WATCH", 3)
    monkeypatch.setattr(watching, "MOST_OF_ONE_CALLER", 4)
    first = room.watch("1", "2", "3")
    with pytest.raises(RateLimited):
        room.watching.add(first, subject("note", "4"), "4")
    second = room.watch("1")
    with pytest.raises(RateLimited):
        room.watching.add(second, subject("note", "2"), "2")
    assert room.watch("1", caller=Caller("ben")).names
    room.watching.close(first)
    room.watching.add(second, subject("note", "2"), "2")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from(["a", "A", "b"])), max_size=40
    )
)
def test_all_bookkeeping_is_gone_when_all_have_left(steps: list[tuple[bool, int, str]]) -> None:
    room = Watching(Access())
    watches = [room.open(lambda: ANNE, lambda: None, lists=False) for _ in range(3)]
    for add, number, name in steps:
        (room.add if add else room.remove)(watches[number], subject("note", name), name)
    for watch in watches:
        room.close(watch)
    assert not room._by_subject
    assert not room._callers
    assert room.count == 0
    room.end()


def test_the_index_tells_of_scans_and_of_own_writes(house: House) -> None:
    told = threading.Event()
    watch = house.app.service.watching.open(lambda: Caller("tester"), told.set, lists=True)
    house.app.service.watching.add(watch, subject("note", "note.md"), "uri")
    house.fill(note="somebody else's")
    wait_for(lambda: watch.take() == News(("uri",), True), 10, "scan")
    house.call("note_upsert", path="note.md", content="our own")
    wait_for(lambda: watch.take() == News(("uri",), False), 10, "write")
    house.call("note_delete", path="note.md")
    wait_for(lambda: watch.take() == News(("uri",), True), 10, "delete")
    house.app.service.watching.close(watch)
