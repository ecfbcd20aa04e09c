"""Lines of bytes over file descriptors, moved by daemon threads. Knows no protocol.

Plain `os.read` and `os.write`: a thread blocked in them never holds a lock that the interpreter
needs to end.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16
_AHEAD = 64
"""Lines read before their turn; then the client waits in its own pipe."""


def claim_standard_streams() -> tuple[int, int]:
    """Take stdin and stdout for the protocol; returns private descriptors.

    From here on the process itself, its children and every stray `print` find an empty stdin and
    write to stderr.
    """
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(empty, 1)
    os.close(empty)
    return source, sink


class LineReader:
    """Yields lines without their end; one longer than `limit` comes cut to `limit + 1` bytes."""

    def __init__(self, source: int, limit: int) -> None:
        self.limit = limit
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def __aiter__(self) -> "LineReader":
        return self

    async def __anext__(self) -> bytes:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        self._room.release()
        return line

    def _read(self) -> None:
        try:
            for line in self._split():
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            return  # the loop has ended: nobody listens any more

    def _split(self) -> Iterator[bytes]:
        held = bytearray()
        while chunk := self._chunk():
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                held += piece
                yield bytes(held[: self.limit + 1])
                held.clear()
            held += rest
            del held[self.limit + 1 :]
        if held:
            yield bytes(held)

    def _chunk(self) -> bytes:
        try:
            return os.read(self._source, _CHUNK)
        except OSError:
            return b""  # a terminal that has gone is an end like any other


class LineWriter:
    """Writes whole lines, in order; `write` returns when the line has left, or raises `OSError`."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line + b"\n", done))
        await done

    def _work(self) -> None:
        while True:
            line, done = self._lines.get()
            failure: OSError | None = None
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._sink, left) :]
            except OSError as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(_settle, done, failure)
            except RuntimeError:
                return  # the loop has ended


def _settle(done: "asyncio.Future[None]", failure: OSError | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
