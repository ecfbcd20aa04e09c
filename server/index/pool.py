"""A few read-only connections, lent to one thread at a time."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from server.errors import Unavailable
from server.index.schema import BUDGET, connect_reader


class Pool:
    """Opens up to `size` connections on demand; a borrower waits while all are lent."""

    def __init__(self, file: Path, size: int = 4, *, budget: int = BUDGET) -> None:
        self._file = file
        self._budget = budget
        self._idle: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._slots = threading.BoundedSemaphore(size)
        self._closed = threading.Event()

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        """A connection that no other thread uses. Raises `Unavailable` once the pool is closed."""
        with self._slots:
            if self._closed.is_set():
                raise Unavailable("The index is closed.", "Try again when the server is back.")
            try:
                db = self._idle.get_nowait()
            except queue.Empty:
                db = connect_reader(self._file, self._budget)
            try:
                yield db
            finally:
                self._idle.put(db)
                if self._closed.is_set():
                    self._drain()

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        self._closed.set()
        self._drain()

    def _drain(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close(True)
            except queue.Empty:
                return
