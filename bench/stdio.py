"""A small MCP client over a child's stdin and stdout; every call has a time limit."""

import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bench.server import Unmeasured, resident

_PROTOCOL = "2025-06-18"


class TooSlow(Unmeasured):
    """No answer within the limit."""


class Child:
    """A server over stdio, in the protocol with a handshake, which every peer speaks."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], log: Path, limit: float
    ) -> None:
        self._limit = limit
        self._log = log
        self._number = 0
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env=os.environ | environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def open(self) -> None:
        """Shake hands."""
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        self._request("initialize", params)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text of a tool's answer. Raises `Unmeasured` when the tool refuses."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(part.get("text", "") for part in result.get("content", ()))
        if result.get("isError"):
            raise Unmeasured(f"{tool}: {text[:300]}")
        return text

    def memory(self) -> float:
        """MB resident now."""
        return resident(self._process.pid)[0]

    def settle(self, seconds: float) -> None:
        """Let it finish what it does in the background, as far as it does so in time."""
        end, before = monotonic() + seconds, self._worked()
        while monotonic() < end:
            sleep(1)
            now = self._worked()
            if now - before < 0.05:
                return
            before = now

    def _worked(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        end = monotonic() + self._limit
        while True:
            answer = self._receive(end, method)
            if answer.get("id") == self._number and "method" not in answer:
                break
        if "error" in answer:
            raise Unmeasured(f"{method}: {str(answer['error'])[:300]}")
        return dict(answer["result"])

    def _receive(self, end: float, method: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, end - monotonic()))
        except queue.Empty:
            raise TooSlow(f"{method}: no answer within {self._limit:g} s") from None
        if not line:
            raise Unmeasured("it ended: " + self._log.read_text(errors="replace")[-300:])
        try:
            answer = json.loads(line)
        except ValueError:
            return {}
        return answer if isinstance(answer, dict) else {}

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")
