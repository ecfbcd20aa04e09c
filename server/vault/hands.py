"""Whose hands touch the vault: our own on a plain folder, those of a child process on a mount.

A call into a mount that hangs can't be stopped, not even by SIGKILL, and a process can't end while one
of its threads is in such a call. So on a mount nothing is touched by this process: a child opens the
root, holds every descriptor and makes every call. When it gets stuck it is killed and left to the
kernel, whoever waits for it learns that the mount is gone, and the next child opens the vault anew.

Descriptors are numbers of the process that opened them and mean nothing elsewhere.
"""

import contextlib
import errno
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_FRAME = struct.Struct(">QQ")
_MOST_THREADS = 48
_PATIENCE = 90.0
"""Seconds that one call may take: longer than rclone itself tries, with the flags we recommend."""


class Hands(Protocol):
    """Makes calls that touch the vault."""

    def run(
        self,
        call: Callable[..., T],
        /,
        *args: Any,
        ask: Callable[..., Any] | None = None,
        **named: Any,
    ) -> T:
        """`call(*args, **named)`; what it asks through its parameter `ask` is answered here."""
        ...

    def close(self, *fds: int) -> None:
        """Close some of their descriptors."""
        ...

    def dismiss(self) -> None:
        """They are needed no longer."""
        ...

    def abandon(self) -> None:
        """They may be stuck: never wait for them again."""
        ...


class OwnHands:
    """This very process."""

    def run(
        self,
        call: Callable[..., T],
        /,
        *args: Any,
        ask: Callable[..., Any] | None = None,
        **named: Any,
    ) -> T:
        return call(*args, **named) if ask is None else call(*args, ask=ask, **named)

    def close(self, *fds: int) -> None:
        for fd in fds:
            os.close(fd)

    def dismiss(self) -> None:
        """Nothing to do."""

    def abandon(self) -> None:
        """Nothing that could be done."""


OWN = OwnHands()


class ExpendableHands:
    """A child process. Everything fails with ENOTCONN once it is gone."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[tuple[str, Any]]] = {}
        self._number = 0
        self._gone = False
        self._socket, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from server.vault.hands import serve; serve({number})"],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="hands", daemon=True).start()

    def run(
        self,
        call: Callable[..., T],
        /,
        *args: Any,
        ask: Callable[..., Any] | None = None,
        **named: Any,
    ) -> T:
        answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        with self._lock:
            if self._gone:
                raise _lost()
            self._number += 1
            number = self._number
            self._waiting[number] = answers
        try:
            self._send(number, ("call", (call, args, named, ask is not None)))
            return self._answer(number, answers, ask)  # type: ignore[no-any-return]
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _answer(
        self,
        number: int,
        answers: "queue.SimpleQueue[tuple[str, Any]]",
        ask: Callable[..., Any] | None,
    ) -> Any:
        end = time.monotonic() + self._patience
        while True:
            try:
                kind, value = answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                self.abandon()
                raise _lost() from None
            if kind == "result":
                return value
            if kind == "error":
                raise value
            self._send(number, _outcome(ask, value) if ask else ("error", _lost()))

    def close(self, *fds: int) -> None:
        with contextlib.suppress(OSError):
            self._send(0, ("call", (OWN.close, fds, {}, False)))

    def dismiss(self) -> None:
        # It ends when it has nothing more to read; what it is doing just now goes on to its end.
        self._fail()

    def abandon(self) -> None:
        """Kill it, however stuck it may be, and wait for nothing."""
        with contextlib.suppress(OSError):
            self.process.kill()
        self._fail()

    @property
    def is_gone(self) -> bool:
        """Whether it makes no calls any more."""
        return self._gone

    @property
    def lingers(self) -> bool:
        """Whether the process is still there: the kernel may not be able to end it."""
        return self.process.poll() is None

    def _send(self, number: int, message: tuple[str, Any]) -> None:
        try:
            with self._sending:
                _send(self._socket, number, message)
        except OSError:
            self._fail()
            raise _lost() from None

    def _listen(self) -> None:
        try:
            while (frame := _receive(self._socket)) is not None:
                number, message = frame
                with self._lock:
                    answers = self._waiting.get(number)
                if answers is not None:
                    answers.put(message)
        except (OSError, pickle.UnpicklingError, EOFError):
            pass
        self._fail()
        self.process.wait()

    def _fail(self) -> None:
        with self._lock:
            self._gone = True
            waiting = list(self._waiting.values())
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for answers in waiting:
            answers.put(("error", _lost()))


def _lost() -> OSError:
    return OSError(errno.ENOTCONN, "the process that touches the mount is gone")


def _outcome(call: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "result", call(*args)
    except Exception as error:  # noqa: BLE001 - it belongs to who asked
        return "error", error


def _send(connection: socket.socket, number: int, message: tuple[str, Any]) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    connection.sendall(_FRAME.pack(number, len(data)))
    connection.sendall(data)


def _receive(connection: socket.socket) -> tuple[int, Any] | None:
    head = _exactly(connection, _FRAME.size)
    if head is None:
        return None
    number, size = _FRAME.unpack(head)
    data = _exactly(connection, size)
    # Only ever from the process at the other end of our own socket pair.
    return None if data is None else (number, pickle.loads(data))  # noqa: S301


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            return None
        rest = rest[count:]
    return bytes(data)


# -- the child -----------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Make the calls that come in over a socket until its other end is closed."""
    # The server tells when to end, by closing the socket: a stop lets calls in flight finish.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    _Child(socket.socket(fileno=number)).work()
    os._exit(0)


class _Child:
    """As many threads as there are calls at once: one that hangs must not hold up the others."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._asking: dict[int, queue.SimpleQueue[tuple[str, Any]]] = {}
        self._idle = 0
        self._threads = 0

    def work(self) -> None:
        while (frame := _receive(self._connection)) is not None:
            number, (kind, value) = frame
            if kind == "call":
                self._begin(number, value)
            else:
                self._asking[number].put((kind, value))

    def _begin(self, number: int, call: Any) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < _MOST_THREADS:
                self._threads += 1
                threading.Thread(target=self._perform, daemon=True).start()
        self._calls.put((number, call))

    def _perform(self) -> None:
        while True:
            number, (call, args, named, asks) = self._calls.get()
            if asks:
                self._asking[number] = queue.SimpleQueue()
                named["ask"] = lambda *question, number=number: self._ask(number, question)
            message = _outcome(lambda: call(*args, **named), ())  # noqa: B023 - called at once
            self._asking.pop(number, None)
            if number:
                self._reply(number, message)
            with self._lock:
                self._idle += 1

    def _ask(self, number: int, question: tuple[Any, ...]) -> Any:
        self._reply(number, ("ask", question))
        kind, value = self._asking[number].get()
        if kind == "error":
            raise value
        return value

    def _reply(self, number: int, message: tuple[str, Any]) -> None:
        with self._sending:
            try:
                _send(self._connection, number, message)
            except (pickle.PicklingError, TypeError, AttributeError):
                _send(self._connection, number, ("error", RuntimeError(repr(message[1])[:500])))
