"""A real server process and a small client for it: what agents and operators see."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.drive.processes import free_port, wait_for

MODERN = "2026-07-28"


class Server:
    """`vault-mcp serve` as a child process, spoken to over HTTP."""

    def __init__(self, vault: Path, state: Path, **environ: str) -> None:
        self.port = free_port()
        self.log = state.with_name(f"{state.name}-{self.port}.log")
        self.env = {
            **{
                k: v
                for k, v in os.environ.items()
                if not k.startswith(("VAULT_", "AUTH", "RCLONE"))
            },
            "VAULT_PATH": str(vault),
            "STATE_DIR": str(state),
            # Load is what these tests are for.
            "CALLS_PER_SECOND": "0",
            "CONCURRENT_CALLS": "0",
            "WRITE_MB_PER_HOUR": "0",
            "PORT": str(self.port),
            "SCAN_INTERVAL": "1",
            "MOUNT_TIMEOUT": "30",
            **environ,
        }
        token = environ.get("AUTH_TOKEN")
        self.bearer = {"Authorization": f"Bearer {token}"} if token else {}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, ready: bool = True) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "server", "serve"], env=self.env, stdout=log, stderr=log
            )
        wait_for(self.answers, 60, "server")
        if ready:
            wait_for(lambda: self.get("/readyz")[0] == 200, 90, "ready")

    def answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError("server ended: " + self.log.read_text()[-2000:])
        try:
            return self.get("/healthz")[0] == 200
        except OSError:
            return False

    def kill9(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int | None:
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(20)

    def get(self, path: str, timeout: float = 20) -> tuple[int, bytes]:
        try:
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}{path}", headers=self.bearer
            )
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def metric(self, name: str) -> float:
        """The value of one sample, spelled as in the exposition."""
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        raise KeyError(name)

    def call(self, tool: str, timeout: float = 60, **arguments: Any) -> dict[str, Any]:
        """One tool call in the modern era. Errors come back as `{"code": …}`."""
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/mcp",
            json.dumps(body).encode(),
            {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": MODERN,
                "Mcp-Method": "tools/call",
                "Mcp-Name": tool,
                **self.bearer,
            },
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read().decode()
            if answer.headers["Content-Type"].startswith("text/event-stream"):
                # A call that takes long is answered by a stream, whose last message is the result.
                text = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1]
            return dict(json.loads(text)["result"]["structuredContent"])
