"""The queue of writes that wait: kept once, decided once, whoever shares it and whoever dies."""

import json
import stat
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from server.approvals import store as module
from server.approvals.records import Request
from server.approvals.store import Approvals
from server.errors import Conflict, NotFound, RateLimited
from server.models import Caller, Grant
from tests.doors.connect import ENVIRONMENT

ANN = Caller("ann", "s1", "mcp", Grant(("in",), ("in", "out")))


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def request(name: str = "a", caller: Caller = ANN) -> Request:
    mark = f"{caller.name} {name}"
    return Request(caller, "note_write", (f"{name}.md",), "--- a\n+++ b", b"steps", {"k": 1}, mark)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Approvals:
    return Approvals(tmp_path / "approvals", hours=1, clock=clock)


def again(tmp_path: Path, clock: Clock) -> Approvals:
    """The queue as another process finds it."""
    return Approvals(tmp_path / "approvals", hours=1, clock=clock)


def test_looking_at_an_empty_queue_makes_nothing(store: Approvals, tmp_path: Path) -> None:
    assert (store.waiting(), store.decided(), store.count(), store.ended()) == ([], [], 0, set())
    assert store.sweep() == []
    assert list(tmp_path.iterdir()) == []


def test_what_waits_is_there_for_others(store: Approvals, tmp_path: Path, clock: Clock) -> None:
    put = store.put(request())
    other = again(tmp_path, clock)
    assert other.waiting() == [put]
    assert other.get(put.id) == put
    assert other.diff(put.id) == "--- a\n+++ b"
    assert put.asker == ANN
    assert (put.expires - put.asked, put.paths, put.plan) == (3600, ("a.md",), {"k": 1})
    with other.claim(put.id) as claim:
        assert claim.steps() == b"steps"


def test_only_the_owner_may_look_at_the_files(store: Approvals, tmp_path: Path) -> None:
    store.put(request())
    for file in (tmp_path / "approvals").rglob("*"):
        mode = stat.S_IMODE(file.stat().st_mode)
        assert mode == (0o700 if file.is_dir() else 0o600), file


def test_the_same_write_waits_once(store: Approvals) -> None:
    first = store.put(request())
    assert store.put(request()).id == first.id
    assert store.put(request("b")).id != first.id
    assert store.put(request(caller=Caller("bob"))).id != first.id
    with store.claim(first.id) as claim:
        claim.close("denied")
    assert store.put(request()).id != first.id


def test_it_is_decided_once(store: Approvals, tmp_path: Path) -> None:
    id = store.put(request()).id
    with store.claim(id) as claim:
        claim.approve("owner")
        closed = claim.close("applied")
    assert (closed.state, closed.by, closed.decided) == ("applied", "owner", 1_000_000.0)
    assert store.get(id) == closed
    assert (store.waiting(), store.decided(), store.ended()) == ([], [closed], {id})
    with pytest.raises(Conflict, match="applied already"), store.claim(id):
        pass
    assert not list((tmp_path / "approvals").rglob("steps")), "what was to be written is not kept"


@pytest.mark.parametrize(
    "id", ["", "x", "../waiting", "a" * 16, "A" * 16, "a" * 15 + "/", "é" * 16]
)
def test_an_id_that_nobody_gave_is_not_found(store: Approvals, id: str) -> None:
    store.put(request())
    with pytest.raises(NotFound), store.claim(id):
        pass
    with pytest.raises(NotFound):
        store.get(id)
    with pytest.raises(NotFound):
        store.diff(id)


def test_nobody_else_decides_meanwhile(store: Approvals, tmp_path: Path, clock: Clock) -> None:
    id = store.put(request()).id
    with (
        store.claim(id),
        pytest.raises(Conflict, match="just now"),
        again(tmp_path, clock).claim(id, patience=0),
    ):
        pass


def test_what_is_not_decided_in_time_expires(store: Approvals, clock: Clock) -> None:
    early = store.put(request())
    clock.now += 3599
    late = store.put(request("b"))
    clock.now += 1
    assert store.waiting() == [late]
    with pytest.raises(Conflict, match="time is over"), store.claim(early.id):
        pass
    assert store.get(early.id).state == "expired"
    clock.now += 3600
    assert store.sweep() == []
    assert store.get(late.id).state == "expired"
    assert store.count() == 0
    assert store.put(request()).id != early.id


def test_an_approved_write_does_not_expire(store: Approvals, clock: Clock) -> None:
    id = store.put(request()).id
    with store.claim(id) as claim:
        claim.approve("owner")
    clock.now += 10_000
    assert store.sweep() == [id]
    with store.claim(id) as claim:
        assert claim.approval.by == "owner"


def test_what_is_old_is_forgotten(store: Approvals, clock: Clock) -> None:
    id = store.put(request()).id
    with store.claim(id) as claim:
        claim.close("denied")
    clock.now += 6 * 86400
    store.sweep()
    assert store.get(id).state == "denied"
    clock.now += 2 * 86400
    store.sweep()
    with pytest.raises(NotFound):
        store.get(id)


def test_one_caller_can_not_fill_the_queue(
    store: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_EACH", 2)
    store.put(request("a"))
    store.put(request("b"))
    with pytest.raises(RateLimited):
        store.put(request("c"))
    assert store.put(request("a")).state == "waiting", "what waits already takes no room"
    store.put(request("c", Caller("bob")))


@pytest.mark.parametrize(("name", "value"), [("MOST", 2), ("MOST_BYTES", 40)])
def test_the_queue_is_bounded(
    store: Approvals, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(module, name, value)
    first = store.put(request("a"))
    store.put(request("b", Caller("bob")))
    with pytest.raises(RateLimited):
        store.put(request("c", Caller("eve")))
    with store.claim(first.id) as claim:
        claim.close("denied")
    store.put(request("c", Caller("eve")))


def test_an_answer_counts_once(store: Approvals, tmp_path: Path, clock: Clock) -> None:
    id = store.put(request()).id
    with store.claim(id) as claim:
        claim.give("one", "about one")
        claim.give("two", "about two")
    other = again(tmp_path, clock)
    with other.claim(id) as claim:
        assert claim.take("one") == "about one"
        assert claim.take("one") is None
        assert claim.take("three") is None
    with store.claim(id) as claim:
        assert claim.take("one") is None
        assert claim.take("two") == "about two"


def test_questions_are_not_kept_without_end(store: Approvals) -> None:
    id = store.put(request()).id
    with store.claim(id) as claim:
        for number in range(50):
            claim.give(f"answer {number}", "")
        assert len(claim.approval.asks) == 8
        assert claim.take("answer 49") == ""


def test_a_damaged_entry_stops_nobody(store: Approvals, tmp_path: Path) -> None:
    broken, sound = store.put(request("a")), store.put(request("b"))
    (tmp_path / "approvals/waiting" / broken.id / "head.json").write_text('{"id"')
    assert store.waiting() == [sound]
    with pytest.raises(NotFound), store.claim(broken.id):
        pass
    assert (store.count(), store.sweep(), store.count()) == (2, [], 1)
    assert (tmp_path / f"approvals/waiting/{broken.id}.damaged/steps").exists()
    store.put(request("c"))


def test_an_entry_that_was_cut_short_is_nothing(store: Approvals, tmp_path: Path) -> None:
    store.put(request("a"))
    left = tmp_path / "approvals/waiting/.new-abc"
    left.mkdir()
    (left / "steps").write_bytes(b"half")
    assert store.count() == 1
    store.put(request("b"))
    assert not left.exists()


def test_a_name_that_is_no_text_can_wait(store: Approvals) -> None:
    odd = replace(request(), paths=("caf\udce9.md",), diff="\udce9")
    assert store.get(store.put(odd).id).paths == ("caf\udce9.md",)


RACER = """
import json, os, sys
from pathlib import Path
from server.approvals.store import Approvals
from server.errors import VaultError
store, won = Approvals(Path(sys.argv[1]), hours=1), []
sys.stdin.readline()
for id in sys.argv[2:]:
    try:
        with store.claim(id, patience=5) as claim:
            claim.approve(str(os.getpid()))
            claim.close("applied")
            won.append(id)
    except VaultError:
        pass
print(json.dumps(won))
"""


def test_of_several_processes_one_decides(tmp_path: Path) -> None:
    store = Approvals(tmp_path / "approvals", hours=1)
    ids = [store.put(request(str(number))).id for number in range(30)]
    command = [sys.executable, "-c", RACER, str(tmp_path / "approvals"), *ids]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"go\n")
        racer.stdin.flush()
    won = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sorted(id for ids_won in won for id in ids_won) == sorted(ids)
    assert store.count() == 0


DYING = """
import os, signal, sys
from pathlib import Path
from server.approvals.store import Approvals
with Approvals(Path(sys.argv[1]), hours=1).claim(sys.argv[2]) as claim:
    claim.approve("owner")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_process_that_was_killed_decided_is_free_and_known(tmp_path: Path) -> None:
    store = Approvals(tmp_path / "approvals", hours=1)
    id = store.put(request()).id
    command = [sys.executable, "-c", DYING, str(tmp_path / "approvals"), id]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == -9
    assert store.sweep() == [id]
    with store.claim(id, patience=0) as claim:
        assert (claim.approval.state, claim.approval.by) == ("approved", "owner")
        assert claim.steps() == b"steps"
