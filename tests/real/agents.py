"""Clients by hand, in either era: they send what no well-behaved client sends and keep all of it."""

import json
from typing import Any

import httpx2

from tests.doors.wire import INITIALIZE, JSON, META, message, modern_headers, request


class Agent:
    """Posts to one server; remembers every answer as text."""

    def __init__(self, url: str, era: str) -> None:
        self.url = url
        self.era = era
        self.heard: list[str] = []
        self.http = httpx2.Client(timeout=60)
        self._session: dict[str, str] = {}
        if era == "session":
            opened = self.http.post(url, json=INITIALIZE, headers=JSON)
            self._session = {
                "Mcp-Session-Id": opened.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
            }
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert self.http.post(url, json=ready, headers={**JSON, **self._session}).is_success

    def text(self, body: dict[str, Any]) -> str:
        """A request as this era writes it."""
        if self.era == "modern":
            body = {**body, "params": {**body["params"], "_meta": META}}
        return json.dumps(body)

    def post(self, content: Any, body: dict[str, Any]) -> httpx2.Response:
        """Send anything at all under the headers of the request `body`."""
        headers = self._session if self.era == "session" else modern_headers(body)
        answer = self.http.post(self.url, content=content, headers={**JSON, **headers})
        self.heard.append(answer.text)
        return answer

    def send(self, body: dict[str, Any]) -> dict[str, Any]:
        """One request: the one message of its answer."""
        return message(self.post(self.text(body).encode(), body))

    def ask(self, tool: str, arguments: Any) -> dict[str, Any]:
        """What a tool says as data, whatever the arguments are; a protocol error's own data."""
        said = self.send(request("tools/call", 1, name=tool, arguments=arguments))
        if "error" in said:
            return {"code": said["error"]["code"], "message": said["error"]["message"]}
        data: dict[str, Any] = said["result"]["structuredContent"]
        return data
