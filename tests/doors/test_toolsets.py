"""tools/list and tools/call over MCP: each caller has the tools that the policy gives it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from server.doors.mcp import build_server
from server.models import Caller
from tests.unit.service.house import House, opened

RULES = {
    "rules": [{"path": "/", "read_allow": True}],
    "callers": {"small": {"toolsets": ["core"]}, "wide": {"toolsets": ["core", "graph"]}},
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(RULES))
    with opened(tmp_path / "vault", tmp_path / "state", POLICY_FILE=str(file)) as made:
        yield made


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_callers_are_told_of_their_own_tools_and_can_call_no_others(
    house: House, mode: str
) -> None:
    who = [Caller("small")]
    dispatcher = house.app.dispatcher
    server = build_server(
        dispatcher, name="n", version="1", instructions="", caller=lambda _ctx: who[0]
    )
    async with Client(server, mode=mode, cache=None) as client:
        listed = {}
        for name in ("small", "wide", "other", "small"):
            who[0] = Caller(name)
            tools = (await client.list_tools()).tools
            listed[name] = [tool.name for tool in tools]
            assert listed[name] == [op.name for op in dispatcher.listed_for(who[0])]
        assert "graph_neighbors" in listed["wide"]
        assert "search_notes" not in listed["small"]
        assert "search_notes" in listed["other"]
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("no_such_tool", {})
        with pytest.raises(MCPError) as hidden:
            await client.call_tool("search_notes", {"query": "x"})
        assert unknown.value.error.code == hidden.value.error.code
        assert str(hidden.value).replace("search_notes", "no_such_tool") == str(unknown.value)
        answer = await client.call_tool("note_read", {"path": "a.md"})
        assert not answer.is_error
