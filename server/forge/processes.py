"""Programs run for their answer: no shell, no terminal, a deadline, and nothing left running."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from server.errors import Timeout, Unavailable
from server.workers import Deadline

_LONGEST = 120.0
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")
_SHOWN = 300


class FailedError(Exception):
    """A program ended with another status than 0; `words` are its last ones."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


def run(command: list[str], cwd: Path, deadline: Deadline) -> str:
    """What a program prints. Raises `FailedError`, `Timeout`, or `Unavailable` without the program."""
    deadline.check()
    try:
        # A session of its own has no terminal to ask for a password on, and ends as one group.
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(
            f"The program {command[0]!r} can't be started on the server.",
            f"Its owner must install {command[0]!r} and put it on the PATH.",
        ) from error
    try:
        out, complaints = process.communicate(timeout=min(_LONGEST, deadline.remaining))
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Timeout(
            f"{' '.join(command[:2])} took too long.", "Try again; doing it twice does no harm."
        ) from None
    if process.returncode != 0:
        raise FailedError(_last_words(complaints, cwd))
    return out.decode("utf-8", "replace")


def _last_words(complaints: bytes, cwd: Path) -> str:
    """The last line that says something, without places of this machine or credentials."""
    lines = [line.strip() for line in complaints.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "no reason given")
    for path in (str(cwd), str(cwd.parent)):
        last = last.replace(path, "…")
    return _CREDENTIALS.sub("", last)[:_SHOWN]
