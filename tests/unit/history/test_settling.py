"""Changes whose server died: forgotten when the vault shows that they were not made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from server.history.store import Change, History
from server.models import etag_of

from .build import AUTHOR, change, etag, heard, kill, make, moved, opened, server

_BEGINNER = """
author = Author("ana", None, "t", "op")
changes = [Change("write", path, b"old " + path.encode(), etag_of(b"new")) for path in sys.argv[2:]]
print(*history.begin(author, changes), flush=True)
sys.stdin.readline()
"""


def holds(**notes: bytes) -> Callable[[str], str | None]:
    return lambda path: etag(notes.get(path.removesuffix(".md")))


def test_each_change_of_a_killed_server_is_settled_by_what_the_vault_holds(tmp_path: Path) -> None:
    process = server(_BEGINNER, tmp_path, "made.md", "not.md", "gone.md")
    assert heard(process) == "1 2 3"
    kill(process)
    history = opened(tmp_path)
    history.settle(holds(made=b"new", **{"not": b"old not.md"}))
    # Somebody deleted one of them since: what it said is kept, whoever was the last to change it.
    assert [entry.path for entry in history.recent(9)] == ["gone.md", "made.md"]
    assert history.content(etag_of(b"old made.md")) == b"old made.md"
    assert history.content(etag_of(b"old not.md")) is None
    assert history.content(etag_of(b"old gone.md")) == b"old gone.md"
    history.settle(holds())
    assert [entry.path for entry in history.recent(9)] == ["gone.md", "made.md"]
    history.close()


def test_a_server_at_work_is_left_alone(tmp_path: Path) -> None:
    process = server(_BEGINNER, tmp_path, "a.md")
    number = int(heard(process))
    history = opened(tmp_path)
    history.settle(holds())
    assert history.usage().entries == 1
    history.finish([number])
    assert history.content(etag_of(b"old a.md")) == b"old a.md"
    kill(process)
    history.close()


def test_two_histories_of_one_process_are_two_servers(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    one.begin(AUTHOR, [change("a.md", b"old", b"new")])
    two.settle(holds())
    one.settle(holds())
    assert two.usage().entries == 1
    one.close()
    two.settle(holds(a=b"new"))
    assert two.of("a.md", limit=9)[1] == 1
    two.close()


def reopened_after(folder: Path, work: Callable[[History], object]) -> History:
    history = opened(folder)
    work(history)
    history.close()
    return opened(folder)


def test_a_delete_was_made_when_there_is_no_file(tmp_path: Path) -> None:
    batch = [change("a.md", b"a", None, "delete"), change("b.md", b"b", None, "delete")]
    history = reopened_after(tmp_path, lambda history: history.begin(AUTHOR, batch))
    history.settle(holds(b=b"b"))
    assert [entry.path for entry in history.recent(9)] == ["a.md"]
    history.close()


def test_a_chain_of_changes_to_one_note_is_settled_from_its_end(tmp_path: Path) -> None:
    def work(history: History) -> None:
        history.begin(AUTHOR, [change("a.md", b"1", b"2"), change("a.md", b"2", b"3")])
        history.begin(AUTHOR, [change("a.md", b"3", b"4")])

    history = reopened_after(tmp_path, work)
    history.settle(holds(a=b"3"))
    assert [entry.before for entry in history.of("a.md", limit=9)[0]] == [etag(b"2"), etag(b"1")]
    history.close()


@pytest.mark.parametrize(("found", "total"), [(b"new", 2), (b"old", 1)])
def test_what_another_server_found_in_the_note_counts(
    tmp_path: Path, found: bytes, total: int
) -> None:
    history = reopened_after(
        tmp_path, lambda history: history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    )
    make(history, change("a.md", found, b"newest"))
    history.settle(holds(a=b"newest"))
    assert history.of("a.md", limit=9)[1] == total
    history.close()


def test_a_note_that_was_moved_away_since_counts_by_what_it_held(tmp_path: Path) -> None:
    history = reopened_after(
        tmp_path, lambda history: history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    )
    make(history, moved("a.md", "b.md", b"new"))
    history.settle(holds(b=b"new"))
    assert [entry.kind for entry in history.of("b.md", limit=9)[0]] == ["move", "write"]
    history.close()


def test_a_vault_that_can_not_be_read_leaves_the_rest_for_later(tmp_path: Path) -> None:
    history = reopened_after(
        tmp_path, lambda history: history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    )

    def hung(_path: str) -> str | None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        history.settle(hung)
    history.settle(holds(a=b"new"))
    assert history.of("a.md", limit=9)[1] == 1
    history.close()


def test_a_moved_attachment_is_known_by_its_new_place(tmp_path: Path) -> None:
    batch = [Change("move", f"new/{name}.png", None, None, f"{name}.png") for name in "ab"]
    history = reopened_after(tmp_path, lambda history: history.begin(AUTHOR, batch))
    history.settle(lambda path: "some etag" if path == "new/a.png" else None)
    assert [entry.other for entry in history.recent(9)] == ["a.png"]
    history.close()


def test_a_server_may_settle_changes_of_its_own(history: History) -> None:
    made = history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    dropped = history.begin(AUTHOR, [change("b.md", b"old", b"new")])
    at_work = history.begin(AUTHOR, [change("c.md", b"old", b"new")])
    history.settle(holds(a=b"new", b=b"old"), own=made + dropped)
    assert [entry.path for entry in history.recent(9)] == ["a.md"]
    history.finish(dropped + at_work)
    assert [entry.path for entry in history.recent(9)] == ["c.md", "a.md"]
