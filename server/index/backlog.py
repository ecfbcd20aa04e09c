"""What the server wrote itself and the index has yet to take in.

Who wrote a note need not wait for that, nor for a scan that is just storing a thousand others. Whoever
asks the index for something, or changes it, has it take in the backlog first; if nobody comes, a thread
of its own does a moment later.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from server.index.rows import Document
from server.telemetry import log

_PAUSE_SECONDS = 0.005
"""Long enough for the answer to be sent: both need the interpreter."""
_MOST, _MOST_BYTES = 100, 4 * 1024 * 1024


class Backlog:
    """Notes in the order in which they were written; any thread may call it at any time."""

    def __init__(self, take_in: Callable[[Sequence[Document]], None]) -> None:
        """`take_in` stores notes of different paths; one at a time is in it."""
        self._take_in = take_in
        self._items: list[Document] = []
        self._taking = threading.Lock()
        self._starting = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def add(self, item: Document) -> None:
        """Have a note taken in before anybody can miss it. One too many is taken in right here."""
        self._items.append(item)
        if len(self._items) > _MOST or sum(len(one.data) for one in self._items) > _MOST_BYTES:
            self.settle()
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="backlog", daemon=True)
                self._thread.start()
        self._news.set()

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to do just now."""
        return not self._items

    def settle(self) -> None:
        """Return when all that was added before is taken in."""
        # A note stays in the list until the index has it: who finds the list empty may go on.
        if not self._items:
            return
        with self._taking:
            for run in _runs(list(self._items)):
                try:
                    self._take_in(run)
                except Exception as error:  # noqa: BLE001 - the vault has it: the scanner will try again
                    paths = [item.path for item in run]
                    log(logging.ERROR, "notes could not be indexed", paths=paths, why=repr(error))
                del self._items[: len(run)]

    def close(self) -> None:
        """Take in what is left and end the thread."""
        self._ended.set()
        self._news.set()
        self.settle()

    def _follow(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            if self._ended.wait(_PAUSE_SECONDS):
                return
            self.settle()


def _runs(items: Sequence[Document]) -> Iterator[list[Document]]:
    """Parts in which no path comes twice: what a note said in between is to be known as well."""
    run: dict[str, Document] = {}
    for item in items:
        if item.path in run:
            yield list(run.values())
            run = {}
        run[item.path] = item
    if run:
        yield list(run.values())
