"""Lines of bytes over file descriptors. Knows no protocol.

The event loop reads and writes itself what can't block. For the rest there are daemon threads with
plain `os.read` and `os.write`: one that is blocked in them never holds a lock that the interpreter
needs to end.
"""

import asyncio
import fcntl
import os
import queue
import stat
import sys
import termios
import threading
from collections import deque
from contextlib import suppress

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
        self._lines: deque[bytes] = deque()
        self._held = bytearray()
        self._news = asyncio.Event()
        self._ended = False
        self._room = threading.Event()
        self._room.set()
        self._waits = _is_pipe(source)
        """Whether the loop is told when there is something to read, and reads it itself."""
        if self._waits:
            self._loop.add_reader(source, self._read_now)
        else:
            threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def __aiter__(self) -> "LineReader":
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        line = self._lines.popleft()
        if len(self._lines) < _AHEAD and not self._room.is_set():
            self._room.set()
            if self._waits and not self._ended:
                self._loop.add_reader(self._source, self._read_now)
        return line

    def close(self) -> None:
        """Read no more; what was read and not asked for is dropped."""
        self._lines.clear()
        self._take(b"", closing=True)

    def _read_now(self) -> None:
        self._take(self._chunk())

    def _read(self) -> None:
        while chunk := self._chunk():
            with suppress(RuntimeError):  # the loop has ended: nobody listens any more
                self._loop.call_soon_threadsafe(self._take, chunk)
            self._room.wait()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, b"")

    def _take(self, chunk: bytes, *, closing: bool = False) -> None:
        """Make lines of what was read; nothing is the end."""
        if self._ended:
            return
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._held += piece
            self._lines.append(bytes(self._held[: self.limit + 1]))
            self._held.clear()
        self._held += rest
        del self._held[self.limit + 1 :]
        if not chunk:
            self._ended = True
            if self._held and not closing:
                self._lines.append(bytes(self._held))
        if len(self._lines) >= _AHEAD:
            self._room.clear()
        if self._waits and (self._ended or not self._room.is_set()):
            self._loop.remove_reader(self._source)
        self._news.set()

    def _chunk(self) -> bytes:
        try:
            return os.read(self._source, _CHUNK)
        except OSError:
            return b""  # a terminal that has gone is an end like any other


class LineWriter:
    """Writes whole lines, in order."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._room = _pipe_room(sink)
        self._handed_over = 0
        threading.Thread(target=self._work, name="stdout", daemon=True).start()

    def write(self, line: bytes) -> "asyncio.Future[None] | None":
        """Write a line; what ends when it has left, None when it has. Raises `OSError`, now or then."""
        line += b"\n"
        # What fits into an empty pipe can't block: no thread has to be woken for it.
        if not self._handed_over and len(line) <= self._room and not _unread(self._sink):
            _write_all(self._sink, line)
            return None
        done: asyncio.Future[None] = self._loop.create_future()
        self._handed_over += 1
        self._lines.put((line, done))
        return done

    def _work(self) -> None:
        while True:
            line, done = self._lines.get()
            failure: OSError | None = None
            try:
                _write_all(self._sink, line)
            except OSError as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(self._landed, done, failure)
            except RuntimeError:
                return  # the loop has ended

    def _landed(self, done: "asyncio.Future[None]", failure: OSError | None) -> None:
        self._handed_over -= 1
        if done.done():
            return
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _is_pipe(fd: int) -> bool:
    """Whether a loop can wait for what comes from there."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _pipe_room(fd: int) -> int:
    """How many bytes an empty pipe takes; 0 for anything else, and where nobody can tell."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (AttributeError, OSError):
        return 0


def _unread(fd: int) -> int:
    """The bytes that wait in a pipe."""
    count = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)
