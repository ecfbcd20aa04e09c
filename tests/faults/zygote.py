"""Forks servers from a process that has imported everything, under a clock that can be put forward and back.

    zygote.py CLOCK        requests come in and answers go out as lines of JSON

A server is the very `vault-mcp serve`, without the second that its imports take. Its wall clock is the
machine's plus the seconds that the file CLOCK holds; what the kernel stamps files with stays as it is.
"""

import contextlib
import importlib
import json
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

_NEEDED = (
    "server.app", "server.admin.approvals", "server.doors.asking", "server.doors.charges",
    "server.doors.connections", "server.doors.http", "server.doors.identity",
    "server.doors.introductions", "server.doors.logs", "server.doors.mcp", "server.doors.pages",
    "server.doors.prompts", "server.doors.resources", "server.doors.serve", "server.doors.streams",
    "server.doors.subscriptions", "server.cli", "uvloop",
)  # fmt: skip


def main(clock: str) -> None:
    """Serve requests until nobody sends any; no server outlives that."""
    _bend_time(clock)
    for name in _NEEDED:
        importlib.import_module(name)
    running: set[int] = set()
    try:
        for line in sys.stdin:
            print(json.dumps(_do(json.loads(line), running)), flush=True)
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _bend_time(clock: str) -> None:
    """Before anything of the server is imported: some of it keeps the functions themselves."""
    with open(clock, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    now, now_ns = time.time, time.time_ns

    def ahead() -> float:
        return float(struct.unpack_from("d", shared)[0])

    bent: dict[str, Callable[[], Any]] = {
        "time": lambda: now() + ahead(),
        "time_ns": lambda: now_ns() + int(ahead() * 1e9),
    }
    for name, function in bent.items():
        setattr(time, name, function)


def _do(request: dict[str, Any], running: set[int]) -> dict[str, Any]:
    if request["do"] == "start":
        pid = _fork(request["env"], request["log"])
        running.add(pid)
        return {"pid": pid}
    pid = request["pid"]
    if pid not in running:
        return {"ended": True}
    if request["do"] == "kill":
        os.kill(pid, signal.SIGKILL)
    ended, _ = os.waitpid(pid, 0 if request["do"] == "kill" else os.WNOHANG)
    if ended:
        running.discard(pid)
    return {"ended": bool(ended)}


def _fork(env: dict[str, str], log: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.clear()
        os.environ.update(env)
        status = importlib.import_module("server.cli").main(["serve"])
    finally:
        # Nothing of the process that was forked may run here, not even at the end.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(sys.argv[1])
