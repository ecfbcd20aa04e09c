"""Notes that were just written, and that the index takes in before anybody asks it anything.

Half of the time that a small write takes would go into the index, and its caller has no use for that:
the answer goes first. Whoever reads or changes the index settles what waits; left alone, it is settled
a moment later.
"""

import logging
import threading
import time
from collections.abc import Callable

from server.index.rows import Document
from server.telemetry import log

_PAUSE = 0.01
"""Seconds in which the answer to a write is on its way: the interpreter does one thing at a time."""
_MOST = 32


class Soon:
    """Takes in documents one by one, in the order in which they came."""

    def __init__(self, take: Callable[[Document], None]) -> None:
        self._take = take
        self._waiting: list[Document] = []
        self._lock = threading.Lock()
        self._turn = threading.RLock()
        """Of who settles. What it takes in, it looks up in the index, and so comes by here again."""
        self._busy = False
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, item: Document) -> None:
        """Have a document taken in soon."""
        with self._lock:
            self._waiting.append(item)
            many = len(self._waiting) > _MOST
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="index-soon", daemon=True)
                self._thread.start()
        if many or self._closed:
            self.settle()
        else:
            self._news.set()

    def settle(self) -> None:
        """Take in whatever waits; returns when it is taken in, whoever does it."""
        if not self._waiting and not self._busy:
            return
        with self._turn:
            with self._lock:
                # In this order: nobody may see that nothing waits before they see who is at it.
                was_busy, self._busy = self._busy, True
                items, self._waiting = self._waiting, []
            try:
                for item in items:
                    self._take_safely(item)
            finally:
                self._busy = was_busy

    def close(self) -> None:
        """Take in the rest, and wait for nothing more."""
        with self._lock:
            self._closed = True
        self._news.set()
        self.settle()

    def _take_safely(self, item: Document) -> None:
        try:
            self._take(item)
        except Exception as error:  # noqa: BLE001 - the vault has it, and the scanner comes by
            log(logging.ERROR, "a note could not be indexed", path=item.path, why=repr(error))

    def _run(self) -> None:
        while not self._closed:
            self._news.wait()
            self._news.clear()
            time.sleep(_PAUSE)
            self.settle()
