"""A day at the server in a few seconds: reads, writes, conflicts, refusals and bad manners."""

import json
import socket
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.real.servers import Server

POLICY = {
    "callers": {
        "prometheus": {"rules": [{"path": "/", "read_allow": True}], "toolsets": []},
        "keeper": {
            "admin": True,
            "rules": [
                {"path": "/", "read_allow": True, "write_allow": True},
                {"path": "careful", "write_mode": "confirm"},
                {"path": "private", "read_deny": True, "write_deny": True},
            ],
        },
    }
}


class Traffic:
    """`happen` is one round of everything that the dashboard shows."""

    def __init__(self, server: Server, vault: Path) -> None:
        self._server = server
        self._vault = vault
        self._round = 0

    def happen(self) -> None:
        self._round += 1
        call = self._server.call
        path = f"notes/{self._round}.md"
        call("note_upsert", path=path, content="a word")
        call("note_read", path=path)
        call("vault_search", query="word")
        stale = call("note_write", path=path, content="x", mode="overwrite", if_match="0" * 32)
        assert stale["code"] == "conflict", stale
        assert call("note_read", path="private/plan.md")["code"] == "permission_denied"
        (self._vault / f"elsewhere-{self._round}.md").write_text("by another device")
        waiting = call("note_upsert", path=f"careful/{self._round}.md", content="may I?")
        self._decide(waiting["pending"]["approval"], "deny")
        self._come_without_a_token()
        self._speak_no_http()

    def _decide(self, approval: str, decision: str) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._server.port}/admin/api/approvals/{approval}",
            json.dumps({"decision": decision}).encode(),
            {"Content-Type": "application/json", **self._server.bearer},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200

    def _come_without_a_token(self) -> None:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self._server.port}/readyz", timeout=30)

    def _speak_no_http(self) -> None:
        with socket.create_connection(("127.0.0.1", self._server.port), 30) as wire:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n")
            with suppress(OSError):
                wire.recv(1000)
