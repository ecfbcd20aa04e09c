"""A real `vault-mcp serve` process and a small MCP client that keeps its connection."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.drive.processes import free_port

PROTOCOL = "2026-07-28"
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")


class Unmeasured(RuntimeError):
    """Something did not happen that had to be timed."""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the process's birth: until it answers at all, until it is ready."""

    alive: float
    ready: float


class Server:
    """The child process; `client` speaks to it."""

    def __init__(self, vault: Path, state: Path) -> None:
        self.state = state
        self.port = free_port()
        self.client = Client(self.port)
        self._log = state.with_name("server.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._environ = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "VAULT_PATH": str(vault),
            "STATE_DIR": str(state),
            # Load is what a bench is for.
            "CALLS_PER_SECOND": "0",
            "CONCURRENT_CALLS": "0",
            "WRITE_MB_PER_HOUR": "0",
            "PORT": str(self.port),
        }

    def start(self, **settings: str) -> Start:
        """Start it with these settings beside the defaults, and wait until it is ready."""
        born = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "server", "serve"],
                env=self._environ | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        alive = self._wait("/healthz", 60) - born
        return Start(alive, self._wait("/readyz", 600) - born)

    def stop(self) -> None:
        self.client.close()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def cpu(self) -> float:
        """Seconds of processor time that it and its children took so far."""
        if self._process is None:
            raise Unmeasured("the server does not run")
        return sum(map(processor_seconds, [self._process.pid, *children(self._process.pid)]))

    def memory(self) -> tuple[float, float]:
        """MB resident now, and at most since the process began."""
        if self._process is None:
            raise Unmeasured("the server does not run")
        return resident(self._process.pid)

    def _wait(self, path: str, seconds: float) -> float:
        def answers() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise Unmeasured("the server ended: " + self._log.read_text()[-2000:])
            return _status(self.port, path) == 200

        began = time.perf_counter()
        otherwise = f"{path} never answered 200"
        try:
            return wait_until(answers, min(2.0, seconds), otherwise, pause=0.01)
        except Unmeasured:
            # Whoever asks a hundred times a second measures his own questions.
            rest = seconds - (time.perf_counter() - began)
            return wait_until(answers, rest, otherwise, pause=0.1)


class Client:
    """Tool calls over one connection, in the protocol without sessions."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool. Raises `Unmeasured` when the tool refuses."""
        body = self.post("tools/call", tool, name=tool, arguments=arguments)
        result = json.loads(body).get("result", {})
        if result.get("isError", True):
            raise Unmeasured(f"{tool}: {body[:300]!r}")
        return dict(result["structuredContent"])

    def post(self, method: str, subject: str | None = None, **params: Any) -> bytes:
        """One request; the body of its answer."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": method,
        } | ({"Mcp-Name": subject} if subject else {})
        self._connection.request("POST", "/mcp", json.dumps(request).encode(), headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Unmeasured(f"{method}: HTTP {answer.status} {body[:300]!r}")
        return body

    def close(self) -> None:
        self._connection.close()


def wait_until(
    condition: Callable[[], bool], seconds: float, otherwise: str, pause: float
) -> float:
    """Poll until the condition holds; the moment it did. Raises `Unmeasured` after `seconds`."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise Unmeasured(otherwise)
        time.sleep(pause)
    return time.perf_counter()


def children(pid: int) -> list[int]:
    """The processes that a process has started and not yet outlived."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def processor_seconds(pid: int) -> float:
    """Processor time of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> tuple[float, float]:
    """MB that a process holds in memory now, and at most since it began."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return _megabytes(fields["VmRSS"]), _megabytes(fields["VmHWM"])


def _status(port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def _megabytes(field: str) -> float:
    return int(field.split(maxsplit=1)[0]) / 1024
