"""An agent: `agent.py URL CA-FILE TOOL ARGUMENTS` calls one tool with the SDK's client, prints JSON.

The token comes over standard input.
"""

import asyncio
import json
import ssl
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def call(url: str, authority: str, tool: str, arguments: str) -> None:
    token = sys.stdin.read().strip()
    trust = ssl.create_default_context(cafile=authority)
    async with (
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, verify=trust, trust_env=False, timeout=60
        ) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool(tool, json.loads(arguments))
        print(json.dumps(result.structured_content))


if __name__ == "__main__":
    asyncio.run(call(*sys.argv[1:]))
