"""A bounded pool of daemon threads whose callers never wait longer than a deadline.

Mount calls can hang in the kernel, where nothing can stop them. A caller whose deadline passes
leaves its thread behind (it is daemonic, so it never holds up the interpreter's exit); while every
thread is stuck, new work fails at once instead of queueing behind a dead mount.
"""

import asyncio
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from server.errors import Timeout, Unavailable

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")
_END = object()


@dataclass(slots=True)
class Deadline:
    """A moment after which work must not be started or committed any more."""

    at: float
    cancelled: bool = field(default=False)
    _ends: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        return max(0.0, self.at - time.monotonic())

    def cancel(self) -> None:
        """Nobody waits any more: end what can be ended."""
        self.cancelled = True
        for end in list(self._ends):
            end()

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Have `end` called, from another thread, when the caller goes while the block runs."""
        self._ends.append(end)
        try:
            if self.cancelled:
                end()
            yield
        finally:
            self._ends.remove(end)

    def check(self) -> None:
        """Raise `Timeout` when the moment has passed or the caller has gone."""
        if self.cancelled or time.monotonic() >= self.at:
            raise Timeout(
                "The vault did not answer in time; nothing was written.",
                "Try again in a moment; health_check tells the state of the mount.",
            )


@dataclass(slots=True)
class _Job:
    run: Callable[[], Any]
    future: "Future[Any]"
    started: bool = False
    abandoned: bool = False


class Workers:
    """`size` threads, started on demand. `run` waits in a thread, `run_async` in an event loop."""

    def __init__(self, name: str, size: int, backlog: int = 256, grace: float = 0.0) -> None:
        """`grace`: seconds that work which can be ended may take to end before it counts as stuck."""
        self.name = name
        self.size = size
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._waiting = 0
        self._stuck = 0
        self._backlog = backlog
        self._grace = grace
        self._all_stuck_at = math.inf
        self._closed = False

    @property
    def stuck(self) -> int:
        """How many threads are busy with work that nobody waits for any more."""
        return self._stuck

    def start(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
        """Run `call` in a worker now; what is returned waits for its result, however long it takes."""
        return self._submit(lambda: call(*args, **kwargs)).future.result

    def run(self, deadline: Deadline, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker; raises `Timeout` at the deadline, `Unavailable` when none is free."""
        job = self._submit(lambda: call(*args, **kwargs))
        try:
            return job.future.result(deadline.remaining)  # type: ignore[no-any-return]
        except FutureTimeout:
            if job.future.done():
                raise
            raise self._abandon(job, deadline) from None

    async def run_async(
        self, deadline: Deadline, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`run` for coroutines. Cancelling it abandons the work."""
        loop = asyncio.get_running_loop()
        job = self._submit(lambda: call(*args, **kwargs))
        # `asyncio.wait` does the same at twice the price, and every call comes by here.
        ended: asyncio.Future[bool] = loop.create_future()
        expiry = loop.call_later(deadline.remaining, _settle, ended, False)
        job.future.add_done_callback(partial(_tell, loop, ended))
        try:
            in_time = await ended
        except asyncio.CancelledError:
            self._abandon(job, deadline)
            raise
        finally:
            expiry.cancel()
        if in_time or job.future.done():
            return job.future.result()  # type: ignore[no-any-return]
        raise self._abandon(job, deadline)

    def map(self, timeout: float, call: Callable[[A], T], items: Sequence[A]) -> list[T]:
        """Run `call` for every item, as many at once as there are threads; results in order.

        Each item may take `timeout` seconds. The first failure is raised, the rest is abandoned.
        """
        results: list[T] = []
        jobs: deque[_Job] = deque()
        rest = iter(items)
        deadline = Deadline.after(timeout)
        try:
            while True:
                while len(jobs) < self.size and (item := next(rest, _END)) is not _END:
                    jobs.append(self._submit(partial(call, item)))  # type: ignore[arg-type]
                if not jobs:
                    return results
                deadline = Deadline.after(timeout)
                results.append(jobs[0].future.result(timeout))
                jobs.popleft()
        except FutureTimeout:
            raise self._abandon(jobs[0], deadline) from None
        finally:
            for job in jobs:
                self._abandon(job, deadline)

    def close(self) -> None:
        """Let idle threads end; stuck ones are left to the operating system."""
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _submit(self, run: Callable[[], Any]) -> _Job:
        job = _Job(run, Future())
        with self._lock:
            if self._closed:
                raise Unavailable("The server is stopping.", "Try again when it is back.")
            since = time.monotonic() - self._all_stuck_at
            if since >= self._grace or self._waiting >= self._backlog:
                raise Unavailable(
                    "The vault does not answer: every worker is waiting for it.",
                    "Try again in a moment; health_check tells the state of the mount.",
                )
            self._waiting += 1
            if self._idle < self._waiting and self._threads < self.size:
                self._threads += 1
                name = f"{self.name}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put(job)
        return job

    def _abandon(self, job: _Job, deadline: Deadline) -> Timeout:
        deadline.cancel()
        with self._lock:
            if not job.future.done() and not job.abandoned:
                job.abandoned = True
                if job.started:
                    self._stuck += 1
                    if self._stuck == self.size:
                        self._all_stuck_at = time.monotonic()
        return Timeout(
            "The vault did not answer in time.",
            "Read the note before you repeat a write; health_check tells the state of the mount.",
        )

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
                if job is None:
                    self._threads -= 1
                    return
                self._waiting -= 1
                job.started = not job.abandoned
            if job.started:
                self._perform(job)
            # While the thread waits, nothing may keep its last answer in memory.
            del job

    def _perform(self, job: _Job) -> None:
        # From here on a cancelled waiter no longer cancels the future under the running call.
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            result = job.run()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        with self._lock:
            if job.abandoned:
                self._stuck -= 1
                self._all_stuck_at = math.inf


def _tell(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[bool]", _: "Future[Any]") -> None:
    """From a worker's thread: the work has ended."""
    with suppress(RuntimeError):  # so has the loop
        loop.call_soon_threadsafe(_settle, ended, True)


def _settle(ended: "asyncio.Future[bool]", in_time: bool) -> None:
    if not ended.done():
        ended.set_result(in_time)
