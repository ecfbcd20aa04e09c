"""What systemd is told about this process: that it serves, that its loop still turns, that it ends.

The protocol is one datagram of `NAME=value` lines. Nothing is told where nobody asked, and a
supervisor that doesn't listen never holds up or ends the server.
"""

import contextlib
import socket
from collections.abc import Callable

from server.settings import Supervision

_STATUS_SECONDS = 5.0


class Supervisor:
    """Tells the supervisor; `beat` belongs into the event loop, so that a stuck one falls silent."""

    def __init__(self, wanted: Supervision, status: Callable[[], str] = lambda: "") -> None:
        """`status` tells in one line how things are, from memory."""
        self._address = wanted.address
        self._status = status
        watchdog = wanted.watchdog_seconds
        self._word = "WATCHDOG=1" if watchdog else ""
        # A third: one beat may come late on a busy machine without a restart.
        self._every = min(watchdog / 3, _STATUS_SECONDS) if watchdog else _STATUS_SECONDS
        self._next = 0.0
        self._told = ""

    def ready(self) -> None:
        """It listens now."""
        self._tell("READY=1", *self._news())

    def beat(self, now: float) -> None:
        """The loop turns; `now` is its clock. Cheap enough for every turn."""
        if now >= self._next:
            self._next = now + self._every
            self._tell(self._word, *self._news())

    def stopping(self) -> None:
        """It takes no more clients."""
        self._tell("STOPPING=1", "STATUS=Finishing what is under way.")

    def _news(self) -> list[str]:
        said = " ".join(self._status().split())
        if said == self._told:
            return []
        self._told = said
        return [f"STATUS={said}"]

    def _tell(self, *words: str) -> None:
        message = "\n".join(word for word in words if word)
        if not message or self._address is None:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.setblocking(False)
            channel.sendto(message.encode(), self._address)
