"""Deadlines hold whatever the work does, and a pool full of stuck work fails fast."""

import asyncio
import threading

import pytest

from server.errors import Timeout, Unavailable
from server.workers import Deadline, Workers


@pytest.fixture
def stuck() -> threading.Event:
    return threading.Event()


def jam(workers: Workers, stuck: threading.Event, number: int) -> None:
    """Leave so many threads stuck; on a busy machine work may not even begin before its deadline."""
    while workers.stuck < number:
        with pytest.raises(Timeout):
            workers.run(Deadline.after(0.05), stuck.wait, 100)


def test_results_and_errors_reach_the_caller() -> None:
    workers = Workers("t", 2)
    assert workers.run(Deadline.after(30), lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        workers.run(Deadline.after(30), lambda: 1 / 0)
    workers.close()


def test_a_caller_never_waits_past_its_deadline(stuck: threading.Event) -> None:
    workers = Workers("t", 2)
    deadline = Deadline.after(0.05)
    with pytest.raises(Timeout):
        workers.run(deadline, stuck.wait, 100)
    assert deadline.cancelled
    with pytest.raises(Timeout):
        deadline.check()
    jam(workers, stuck, 1)
    assert workers.stuck == 1
    assert workers.run(Deadline.after(30), lambda: "the other thread still serves") is not None
    stuck.set()
    workers.close()


def test_a_pool_full_of_stuck_work_fails_at_once_and_recovers(stuck: threading.Event) -> None:
    workers = Workers("t", 2)
    jam(workers, stuck, 2)
    with pytest.raises(Unavailable):
        workers.run(Deadline.after(30), lambda: 1)
    stuck.set()
    for _ in range(3000):
        if workers.stuck == 0:
            break
        threading.Event().wait(0.01)
    assert workers.run(Deadline.after(30), lambda: 1) == 1
    workers.close()


def test_the_event_loop_goes_on_while_work_is_stuck(stuck: threading.Event) -> None:
    workers = Workers("t", 1)

    async def scenario() -> str:
        with pytest.raises(Timeout):
            await workers.run_async(Deadline.after(0.05), stuck.wait, 100)
        stuck.set()
        for _ in range(3000):
            if workers.stuck == 0:
                break
            await asyncio.sleep(0.01)
        return await workers.run_async(Deadline.after(30), lambda: "back")

    assert asyncio.run(scenario()) == "back"
    workers.close()


def test_cancelling_a_coroutine_cancels_its_deadline(stuck: threading.Event) -> None:
    workers = Workers("t", 1)
    deadline = Deadline.after(30)

    async def scenario() -> None:
        task = asyncio.create_task(workers.run_async(deadline, stuck.wait, 100))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert deadline.cancelled
    stuck.set()
    workers.close()


def test_map_keeps_the_order_and_raises_the_first_failure() -> None:
    workers = Workers("t", 4)
    assert workers.map(30, lambda n: n * n, range(100)) == [n * n for n in range(100)]

    def some(n: int) -> int:
        if n == 7:
            raise Unavailable("seven")
        return n

    with pytest.raises(Unavailable, match="seven"):
        workers.map(30, some, range(100))
    assert workers.map(30, lambda n: n, [1, 2]) == [1, 2]
    workers.close()


def test_map_gives_up_on_an_item_that_hangs(stuck: threading.Event) -> None:
    workers = Workers("t", 2)
    with pytest.raises(Timeout):
        workers.map(0.05, lambda n: stuck.wait(100) if n == 3 else n, range(10))
    stuck.set()
    workers.close()


def test_a_closed_pool_refuses_work() -> None:
    workers = Workers("t", 1)
    workers.close()
    with pytest.raises(Unavailable):
        workers.run(Deadline.after(1), lambda: 1)
