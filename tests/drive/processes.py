"""Tools and processes of the lab: what is missing, what to wait for, who cleans up."""

import os
import shutil
import socket
import subprocess
import sys
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
