"""HTTP by hand, for what no well-behaved client sends."""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import IO, Any

import httpx2

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(method: str, number: int | str = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(tool: str, number: int | str = 1, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", number, name=tool, arguments=arguments)


INITIALIZE = request(
    "initialize",
    0,
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)


def message(response: httpx2.Response) -> dict[str, Any]:
    """The one message of a response, whether it came as JSON or as a stream."""
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        (text,) = (line[6:] for line in text.splitlines() if line.startswith("data: "))
    decoded: dict[str, Any] = json.loads(text)
    return decoded


def next_answer(lines: IO[str]) -> tuple[str, dict[str, Any]]:
    """The next answer on a stream of lines, raw and read.

    What the server tells unasked comes in between: the first scan changes the list of resources.
    """
    while "id" not in (said := json.loads(raw := lines.readline())):
        continue
    return raw, said


class Wire:
    """One HTTP client, with what each era puts into its headers."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url

    async def post(self, body: Any, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(
            self.url, content=content, headers={**JSON, **(headers or {})}
        )

    async def open(self, token: str | None = None) -> dict[str, str]:
        """Open a session; returns the headers that belong to it."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        response = await self.post(INITIALIZE, bearer)
        assert response.status_code == 200, response.text
        session = {
            "Mcp-Session-Id": response.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
            **bearer,
        }
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(initialized, session)).status_code == 202
        return session

    async def modern(self, body: dict[str, Any], **headers: str) -> httpx2.Response:
        """A request of the modern era, complete in itself."""
        params = {**body["params"], "_meta": META}
        return await self.post({**body, "params": params}, {**modern_headers(body), **headers})


def modern_headers(body: Mapping[str, Any]) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": body["method"]}
    return {**headers, **({"Mcp-Name": body["params"]["name"]} if "name" in body["params"] else {})}


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[Wire]:
    async with httpx2.AsyncClient(timeout=20) as client:
        yield Wire(client, url)


def raw(port: int, head: str, body: bytes = b"") -> bytes:
    """Send bytes as they are and read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received
