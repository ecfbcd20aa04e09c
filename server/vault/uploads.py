"""What rclone still has to upload, as far as its remote control tells: looked at now and then, and on request."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from server.errors import VaultError
from server.telemetry import Telemetry
from server.vault.drive import DriveWriter
from server.vault.guard import Guard, Pin
from server.workers import Deadline

_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Uploads:
    """The queue at one moment. `failing` have been tried in vain; `error` is rclone's last one."""

    pending: int
    failing: int
    error: str
    at: float


class UploadWatch:
    """Asks rclone about its queue. `state` is None while nobody can tell."""

    def __init__(
        self,
        guard: Guard,
        drive: Callable[[Pin], DriveWriter | None],
        telemetry: Telemetry,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._guard = guard
        self._drive = drive
        self._telemetry = telemetry
        self._now = now
        self.state: Uploads | None = None

    def look(self) -> Uploads | None:
        """Ask now; what is known is kept for who must not wait."""
        self.state = self._ask()
        if self.state is not None:
            self._telemetry.uploads_pending.set(self.state.pending)
            self._telemetry.uploads_failing.set(self.state.failing)
        return self.state

    def flush(self, deadline: Deadline) -> Uploads | None:
        """Make every waiting upload due and wait until all are done, or time is up."""
        while (state := self.look()) is not None and state.pending and deadline.remaining:
            pin = self._guard.pin()
            if (drive := self._drive(pin)) is not None:
                drive.hurry(pin)
            time.sleep(min(_PAUSE, deadline.remaining))
        return state

    def wait(self, disk: str, md5: str, deadline: Deadline) -> bool:
        """Wait until the remote holds a content; False when it doesn't in time, or nobody can tell."""
        while True:
            pin = self._guard.pin()
            drive = self._drive(pin)
            if drive is None:
                return False
            if not drive.is_queued(pin, disk) and drive.remote_md5(pin, disk) == md5:
                return True
            if not deadline.remaining:
                return False
            drive.hurry(pin, disk)
            time.sleep(min(_PAUSE, deadline.remaining))

    def _ask(self) -> Uploads | None:
        try:
            pin = self._guard.pin()
            drive = self._drive(pin)
            if drive is None:
                return None
            queue = drive.queue(pin)
            failing = sum(item.tries > 1 for item in queue)
            return Uploads(len(queue), failing, drive.last_error() if failing else "", self._now())
        except VaultError:
            return None
