"""Who may change which paths: everybody in the order they came, and a folder with all that is below it.

Inside this process only; between processes there are the folders' locks.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from server.errors import Timeout
from server.workers import Deadline


class Turns:
    """Hands out sets of paths, each whole or not at all, so that nobody waits for half of another's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: dict[int, frozenset[str]] = {}
        """Who has a turn or waits for one, by their tickets."""
        self._ticket = 0

    @contextmanager
    def take(self, keys: Iterable[str], deadline: Deadline) -> Iterator[None]:
        """Have the paths, what is below and what is above them; raises `Timeout`."""
        mine = frozenset(keys)
        with self._changed:
            ticket = self._ticket = self._ticket + 1
            self._queue[ticket] = mine
        try:
            with self._changed:
                # Only for those who came before: a folder's move is not starved by edits in it.
                if not self._changed.wait_for(
                    lambda: self._is_free(ticket, mine), deadline.remaining
                ):
                    raise Timeout(
                        "Another write holds this note; nothing was written.",
                        "Try again in a moment.",
                    )
            yield
        finally:
            with self._changed:
                del self._queue[ticket]
                self._changed.notify_all()

    def _is_free(self, ticket: int, mine: frozenset[str]) -> bool:
        return not any(
            other < ticket and overlap(mine, keys) for other, keys in self._queue.items()
        )


def overlap(keys: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two sets of paths share one, or one has a folder above another's."""
    return _touch(keys, others) or _touch(others, keys)


def _touch(keys: frozenset[str], others: frozenset[str]) -> bool:
    """Whether one of the others is one of these paths, or a folder above it."""
    for key in keys:
        above = key
        while above:
            if above in others:
                return True
            above = above.rpartition("/")[0]
    return False
