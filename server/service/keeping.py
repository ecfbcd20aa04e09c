"""What notes held before a change: begun in the history before the vault is touched, concluded after.

A single change is kept while its file gets to the disk, because both mostly wait for that. Nothing is
put in place before what it replaces is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from server.history.store import Author, Change, History
from server.vault.files import OutcomeOpen
from server.workers import Workers


class Kept:
    """The entry of one change, which may have to be worked out anew when somebody else was quicker."""

    def __init__(self, history: History, workers: Workers, author: Author) -> None:
        self._history = history
        self._workers = workers
        self._author = author
        self._change: Change | None = None
        self.ids: list[int] = []
        """What was begun."""

    def will(self, change: Change) -> None:
        """What is about to be made, in the place of what an earlier try was about to make."""
        self._history.drop(self.ids)
        self._change, self.ids = change, []

    def ready(self, beside: Callable[[], None]) -> None:
        """Keep what the change is made from, on the disk, while `beside` is done.

        Raises `Unavailable` when it can't be kept, and what `beside` raises: write nothing then.
        """
        # In this order: the other thread mostly waits for the disk, this one needs the interpreter.
        done = self._workers.start(beside)
        try:
            if self._change is not None:
                self.ids = self._history.begin(self._author, [self._change])
        finally:
            done()


class Keeping:
    """Begins entries of the history and tells it what became of them."""

    def __init__(self, history: History, workers: Workers) -> None:
        self._history = history
        self._workers = workers
        self._open: set[int] = set()
        """Entries about changes of which nobody knows yet whether they were made."""

    @contextmanager
    def one(self, author: Author) -> Iterator[Kept]:
        """For one change, which the block makes."""
        kept = Kept(self._history, self._workers, author)
        with self._concluding(lambda: kept.ids):
            yield kept

    @contextmanager
    def several(self, author: Author, changes: Sequence[Change]) -> Iterator[None]:
        """For changes that the block makes, all or none."""
        ids = self._history.begin(author, changes)
        with self._concluding(lambda: ids):
            yield

    def settle(self, current: Callable[[str], str | None]) -> None:
        """Decide about changes whose outcome was open. `current` gives a file's etag."""
        unknown = frozenset(self._open)
        self._history.settle(current, own=unknown)
        self._open -= unknown

    @contextmanager
    def _concluding(self, ids: Callable[[], Sequence[int]]) -> Iterator[None]:
        try:
            yield
        except OutcomeOpen:
            self._open.update(ids())
            raise
        except BaseException:
            self._history.drop(ids())
            raise
        self._history.finish(ids())
