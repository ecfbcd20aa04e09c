"""Servers that start in a moment, can be killed at any, and live by a clock of their own."""

import json
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from tests.drive.processes import wait_for
from tests.real.servers import Server


class Nursery:
    """A process that servers are forked from, and their clock."""

    def __init__(self, work: Path) -> None:
        self._clock = work / "clock"
        self._clock.write_bytes(bytes(8))
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote", str(self._clock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def set_clock(self, seconds: float) -> None:
        """How far the servers' clock is ahead of the machine's."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request to the process, and its answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            return dict(json.loads(stdout.readline()))


class Forked(Server):
    """`vault-mcp serve`, forked."""

    def __init__(self, nursery: Nursery, vault: Path, state: Path, **environ: str) -> None:
        super().__init__(vault, state, **environ)
        self._nursery = nursery
        self.pid: int | None = None

    @property
    def runs(self) -> bool:
        return self.pid is not None

    def start(self, *, ready: bool = False) -> None:
        """Start it and wait until it answers; whether it is ready is another question."""
        self.pid = self._nursery.ask(do="start", env=self.env, log=str(self.log))["pid"]
        wait_for(self.answers, 60, "server")
        if ready:
            wait_for(lambda: self.get("/readyz")[0] == 200, 60, "ready")

    def answers(self) -> bool:
        if self._nursery.ask(do="poll", pid=self.pid)["ended"]:
            self.pid = None
            raise RuntimeError("server ended: " + self.log.read_text()[-2000:])
        try:
            return self.get("/healthz", timeout=5)[0] == 200
        except OSError:
            return False

    def kill9(self) -> None:
        if self.pid is not None:
            self._nursery.ask(do="kill", pid=self.pid)
            self.pid = None

    def stop(self) -> int | None:
        self.kill9()
        return None
