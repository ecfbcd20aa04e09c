"""The doors that the tests of refusals ask at: each takes any request in the name of any caller."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2

from .connect import running
from .denials import MISSING, OK, UNKNOWN
from .wire import INITIALIZE, JSON, META, message, modern_headers, next_answer


@dataclass(frozen=True)
class Answer:
    """What came back: the HTTP status is 200 where there is no HTTP."""

    raw: str
    said: Mapping[str, Any]
    status: int = 200
    challenge: str | None = None

    @property
    def code(self) -> str:
        """The code of a refusal, `ok` for everything else."""
        assert self.status == 200, self.raw
        if "error" in self.said:
            told = self.said["error"]
            # MCP has words of its own for a resource that isn't there.
            return MISSING if told["message"] == "Resource not found" else str(told["data"]["code"])
        result = self.said["result"]
        return str(result["structuredContent"]["code"]) if result.get("isError") else OK


class Door(Protocol):
    def ask(self, who: str, body: dict[str, Any]) -> Answer: ...


def _answered(response: httpx2.Response) -> Answer:
    challenge = response.headers.get("www-authenticate")
    said = message(response)
    # The modern era has statuses of its own for errors of the protocol.
    status = 200 if said.get("id") is not None else response.status_code
    return Answer(response.text, said, status, challenge)


class Modern:
    """HTTP in the modern era: every request is complete in itself."""

    def __init__(self, client: httpx2.Client, bearers: Mapping[str, Mapping[str, str]]) -> None:
        self._client = client
        self._bearers = bearers

    def ask(self, who: str, body: dict[str, Any]) -> Answer:
        body = {**body, "params": {**body["params"], "_meta": META}}
        headers = {**JSON, **modern_headers(body), **self._bearers[who]}
        if "uri" in body["params"]:
            headers["Mcp-Name"] = body["params"]["uri"]
        return _answered(self._client.post("/mcp", json=body, headers=headers))


class Sessions:
    """HTTP in the session era. Who never had a token tries the session of the owner."""

    def __init__(self, client: httpx2.Client, bearers: Mapping[str, Mapping[str, str]]) -> None:
        self._client = client
        self._bearers = bearers
        self._ids = {who: self._open(bearers[who]) for who in bearers if who not in UNKNOWN[:2]}

    def _open(self, bearer: Mapping[str, str]) -> str:
        opened = self._client.post("/mcp", json=INITIALIZE, headers={**JSON, **bearer})
        assert opened.status_code == 200, opened.text
        session: str = opened.headers["mcp-session-id"]
        named = {**JSON, **bearer, "Mcp-Session-Id": session}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self._client.post("/mcp", json=ready, headers=named).status_code == 202
        return session

    def ask(self, who: str, body: dict[str, Any]) -> Answer:
        session = {
            "Mcp-Session-Id": self._ids.get(who, self._ids["owner"]),
            "MCP-Protocol-Version": "2025-11-25",
        }
        headers = {**JSON, **self._bearers[who], **session}
        return _answered(self._client.post("/mcp", json=body, headers=headers))


class Pipes:
    """stdio: a process for each caller, started under its token."""

    def __init__(self, processes: Mapping[str, subprocess.Popen[str]]) -> None:
        self._processes = processes
        for who in processes:
            assert "result" in self._exchange(who, INITIALIZE)[1]
            self._send(who, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, who: str, body: dict[str, Any]) -> Answer:
        return Answer(*self._exchange(who, body))

    def _exchange(self, who: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._send(who, body)
        source = self._processes[who].stdout
        assert source is not None
        raw, said = next_answer(source)
        assert said["id"] == body["id"], raw
        return raw, said

    def _send(self, who: str, body: dict[str, Any]) -> None:
        sink = self._processes[who].stdin
        assert sink is not None
        sink.write(json.dumps(body) + "\n")
        sink.flush()


@contextmanager
def piped(environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A server over stdio."""
    command = ["env", *(f"{name}={value}" for name, value in environ.items())]
    command += [sys.executable, "-m", "server", "stdio"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running(command=command, **pipes) as server:
        yield server.process
