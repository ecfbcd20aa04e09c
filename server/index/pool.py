"""A few read-only connections, lent to one thread at a time."""

import queue
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import apsw

from server.errors import Unavailable
from server.index.generations import damage_mark
from server.index.schema import BUDGET, connect_reader

UNSOUND = (apsw.CorruptError, apsw.NotADBError)
"""What SQLite says of a damaged file."""


class Pool:
    """Opens up to `size` connections on demand; a borrower waits while all are lent."""

    def __init__(self, file: Path, size: int = 4, *, budget: int = BUDGET) -> None:
        self._file = file
        self._budget = budget
        self._idle: list[apsw.Connection] = []
        """The one that was used last is lent first: its cache is warm."""
        self._turns: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._turns.put(None)
        self._closed = threading.Event()

    def connection(self, *, wait: bool = True) -> AbstractContextManager[apsw.Connection]:
        """A connection that no other thread uses. Raises `Unavailable` once the pool is closed.

        Without `wait` it raises that, too, while all are lent. Damage that shows while it is used is
        marked, so that another index is built.
        """
        return _Loan(self, wait)

    def take(self, wait: bool) -> apsw.Connection:
        """What `give` must follow."""
        try:
            self._turns.get(wait)
        except queue.Empty:
            raise Unavailable("The index is busy.", "Try again in a moment.") from None
        try:
            return self._open()
        except BaseException:
            self._turns.put(None)
            raise

    def _open(self) -> apsw.Connection:
        if self._closed.is_set():
            raise Unavailable("The index is closed.", "Try again when the server is back.")
        try:
            return self._idle.pop()
        except IndexError:
            return connect_reader(self._file, self._budget)

    def give(self, db: apsw.Connection) -> None:
        """Take a connection back."""
        self._idle.append(db)
        self._turns.put(None)
        if self._closed.is_set():
            self._drain()

    def mark_damaged(self) -> None:
        """Have another index built in place of this one."""
        damage_mark(self._file.parent).touch()

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        self._closed.set()
        self._drain()

    def _drain(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close(True)
            except IndexError:
                return


class _Loan(AbstractContextManager[apsw.Connection]):
    """No generator: every read of the index is in one of these."""

    __slots__ = ("_db", "_pool", "_wait")

    def __init__(self, pool: Pool, wait: bool) -> None:
        self._pool = pool
        self._wait = wait

    def __enter__(self) -> apsw.Connection:
        try:
            self._db = self._pool.take(self._wait)
        except UNSOUND as error:
            raise self._damaged() from error
        return self._db

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.give(self._db)
        if isinstance(error, UNSOUND):
            raise self._damaged() from error

    def _damaged(self) -> Unavailable:
        self._pool.mark_damaged()
        return damaged()


def damaged() -> Unavailable:
    """What is said while another index is built."""
    return Unavailable("The index is damaged and is being built anew.", "Try again in a minute.")
