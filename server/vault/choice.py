"""Which writer fits: chosen by what the vault lives on and whether rclone can be asked."""

import logging
import time
from pathlib import Path
from typing import Literal

from server.errors import VaultError
from server.telemetry import log
from server.vault.drive import DriveWriter
from server.vault.guard import Guard, Pin
from server.vault.rc import Rc
from server.vault.replacement import Writer
from server.vault.writers import LocalWriter, MountWriter

_ASK_AGAIN = 30.0


Ack = Literal["journal", "mount", "drive"]


class Writers:
    """The three writers. Whether remote control serves is asked once per mount, then now and then."""

    def __init__(
        self, staging: Path, rc_address: str | None, *, timeout: float, ack: Ack | None = None
    ) -> None:
        """`ack` is what an answer shall mean at least; None: as much as can be known."""
        self._ack = ack
        self._local = LocalWriter()
        self._drive = DriveWriter(Rc(rc_address, timeout), staging) if rc_address else None
        self._mount = MountWriter(self._drive)
        self._asked: tuple[int, float] = (-1, 0.0)
        self._answers = False

    def choose(self, pin: Pin) -> Writer:
        """The writer for a write that begins now."""
        if not pin.is_rclone:
            return self._local
        drive = self.drive(pin) if self._ack in (None, "drive") else None
        return drive or self._mount

    def drive(self, pin: Pin) -> DriveWriter | None:
        """The remote itself, if it can be asked."""
        if self._drive is None or not pin.is_rclone or not self._can_drive(self._drive, pin):
            return None
        return self._drive

    def current(self, guard: Guard) -> str:
        """The name of the writer in use, told without touching the mount; `none` while it is away."""
        try:
            pin = guard.pin()
        except VaultError:
            return "none"
        if not pin.is_rclone:
            return self._local.name
        drives = self._drive is not None and self._answers and self._ack in (None, "drive")
        return "drive" if drives else self._mount.name

    def _can_drive(self, drive: DriveWriter, pin: Pin) -> bool:
        generation, asked = self._asked
        if generation != pin.generation or time.monotonic() - asked > _ASK_AGAIN:
            answers = drive.answers(pin)
            if not answers and (self._answers or generation != pin.generation):
                log(
                    logging.WARNING,
                    "rclone's remote control does not serve: writing through the mount",
                )
            self._answers, self._asked = answers, (pin.generation, time.monotonic())
        return self._answers
