"""Ends one process, and detaches its mount, when the test process that started it is gone.

    guard.py PIDFD SECONDS [MOUNT POINT]

The test process holds the other end of standard input, so its death is seen however it comes.
After SECONDS the guard acts anyway: a test that hangs in a mount can't free itself.
A pidfd never names another process, even after the first has ended.
"""

import contextlib
import select
import signal
import subprocess
import sys


def main(pidfd: int, seconds: float, mount: str) -> None:
    select.select([sys.stdin], [], [], seconds)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    if mount:
        subprocess.run(["fusermount3", "-uz", mount], stderr=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
