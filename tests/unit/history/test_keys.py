"""Idempotency keys: once is enough, and nobody is told something that isn't known."""

import threading
from pathlib import Path

import pytest

from server.errors import Conflict
from server.history.store import Claim, History

from .build import heard, kill, opened, say, server


def claim(history: History, key: str = "k", request: str = "r", *, retry: bool = False) -> Claim:
    return history.claim("ana", key, "note_write", request, retry=retry)


def test_a_call_that_succeeded_is_answered_again(tmp_path: Path) -> None:
    history = opened(tmp_path)
    assert claim(history) == Claim("new")
    history.expect("ana", "k", "a.md", "e1", operation="op1")
    history.fulfil("ana", "k", {"path": "ä.md", "lines": [1, None]})
    history.close()
    again = opened(tmp_path)
    found = claim(again)
    assert (found.state, found.result) == ("done", {"path": "ä.md", "lines": [1, None]})
    assert (found.path, found.after, found.operation) == ("a.md", "e1", "op1")
    again.close()


def test_a_key_belongs_to_its_caller(history: History) -> None:
    claim(history)
    assert history.claim("ben", "k", "note_write", "other").state == "new"


@pytest.mark.parametrize(("tool", "request_hash"), [("note_write", "r2"), ("note_delete", "r")])
def test_another_request_with_the_same_key_is_refused(
    history: History, tool: str, request_hash: str
) -> None:
    claim(history)
    with pytest.raises(Conflict, match="another request"):
        history.claim("ana", "k", tool, request_hash)
    history.fulfil("ana", "k", {})
    with pytest.raises(Conflict):
        history.claim("ana", "k", tool, request_hash)
    assert claim(history).state == "done"


def test_a_call_that_wrote_nothing_frees_its_key(history: History) -> None:
    claim(history)
    history.release("ana", "k")
    assert claim(history, request="r2").state == "new"
    history.fulfil("ana", "k", {"ok": True})
    history.release("ana", "k")
    assert claim(history, request="r2").state == "done"


def test_the_second_of_two_calls_learns_that_the_first_is_at_work(history: History) -> None:
    claim(history)
    assert claim(history) == Claim("open", running=True)
    history.expect("ana", "k", "a.md", None)
    assert claim(history) == Claim("open", path="a.md", running=True)
    assert claim(history, retry=True).state == "open"


def test_of_many_threads_exactly_one_may_go_on(history: History) -> None:
    start, found = threading.Barrier(8), []

    def work() -> None:
        start.wait(30)
        found.append(claim(history).state)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(found) == ["new", *["open"] * 7]


_RACER = """
sys.stdin.readline()
print(*(history.claim("ana", str(n), "note_write", "r").state for n in range(150)), flush=True)
sys.stdin.readline()
"""


def test_of_two_servers_exactly_one_may_go_on(tmp_path: Path) -> None:
    servers = [server(_RACER, tmp_path) for _ in range(2)]
    for process in servers:
        say(process)
    one, two = (heard(process).split() for process in servers)
    for process in servers:
        kill(process)
    assert {frozenset(pair) for pair in zip(one, two, strict=True)} == {frozenset({"new", "open"})}
    assert len(one) == 150


_CLAIMER = """
print(history.claim("ana", "k", "note_write", "r").state, flush=True)
sys.stdin.readline()
if len(sys.argv) > 2:
    history.expect("ana", "k", sys.argv[2], "e1")
    print("expected", flush=True)
    sys.stdin.readline()
"""


def test_a_server_that_died_before_it_named_a_write_has_written_nothing(tmp_path: Path) -> None:
    process = server(_CLAIMER, tmp_path)
    assert heard(process) == "new"
    history = opened(tmp_path)
    assert claim(history) == Claim("open", running=True)
    history.release("ana", "k")
    assert claim(history).state == "open"
    kill(process)
    assert claim(history).state == "new"
    assert claim(history).state == "open"
    history.close()


def test_a_server_that_died_later_may_have_written(tmp_path: Path) -> None:
    process = server(_CLAIMER, tmp_path, "a.md")
    assert heard(process) == "new"
    say(process)
    assert heard(process) == "expected"
    kill(process)
    history = opened(tmp_path)
    assert claim(history) == Claim("open", path="a.md", after="e1", running=False)
    assert claim(history, retry=True) == Claim("new")
    assert claim(history, retry=True) == Claim("open", running=True)
    history.close()


def test_keys_are_forgotten_after_two_days(tmp_path: Path) -> None:
    now = 10**18
    history = History.open(tmp_path, max_bytes=1 << 20, max_age_days=30, clock=lambda: now)
    claim(history)
    history.fulfil("ana", "k", {})
    now += 48 * 3600 * 10**9
    history.tidy()
    assert claim(history).state == "done"
    now += 1
    assert claim(history, request="r2").state == "new"
    now += 48 * 3600 * 10**9 + 1
    history.tidy()
    now -= 10**9
    assert claim(history, request="r3").state == "new"
    history.close()
