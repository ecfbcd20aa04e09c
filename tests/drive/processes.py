"""Tools and processes of the lab: what is missing, what to wait for, who cleans up."""

import fcntl
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")


def require(*tools: str) -> None:
    """Skip the test when a tool (a command, or a device by its path) is missing; fail it in CI."""
    absent = [tool for tool in tools if not (os.path.exists(tool) or which(tool))]
    if absent:
        missing(f"needs {', '.join(absent)}")


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something; fail it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def wait_for(
    condition: Callable[[], T | None], seconds: float = 30.0, what: str = "condition"
) -> T:
    """Poll until the condition is truthy and return its value; raises `TimeoutError`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise TimeoutError(f"{what}: not within {seconds:g} s")


def which(tool: str) -> str | None:
    beside = os.path.dirname(sys.executable)
    return shutil.which(tool, path=beside + os.pathsep + os.environ.get("PATH", os.defpath))


_claims: list[int] = []
"""Descriptors whose locks claim ports, as long as this process runs."""


def free_port() -> int:
    """A port that nobody listens on, and that no other test run takes before its server does.

    Below the range from which the system gives ports to clients: those come and go all the time.
    """
    while True:
        port = random.randrange(12_000, 32_000)
        claim = os.open(Path(tempfile.gettempdir()) / f"test-port-{port}", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(claim)
            continue
        _claims.append(claim)
        return port


def guard(
    process: subprocess.Popen[bytes], lifetime: float, mount: Path | None = None
) -> subprocess.Popen[bytes]:
    """A process that outlives this one just long enough to clean up after it."""
    pidfd = os.pidfd_open(process.pid)
    try:
        return subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("guard.py")),
                str(pidfd),
                str(lifetime),
                str(mount or ""),
            ],
            stdin=subprocess.PIPE,
            pass_fds=(pidfd,),
            start_new_session=True,
        )
    finally:
        os.close(pidfd)


def release(guard: subprocess.Popen[bytes]) -> None:
    if guard.stdin is not None and not guard.stdin.closed:
        guard.stdin.close()
    guard.wait(20)
