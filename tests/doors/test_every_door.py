"""What an agent sees is the same through every door and in both eras."""

import json

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import TextContent

from .connect import Door, until_counted
from .sample import operations

pytestmark = pytest.mark.anyio


async def test_the_server_says_who_it_is(client: Client, door: Door) -> None:
    assert client.protocol_version == ("2026-07-28" if door.era == "modern" else "2025-11-25")
    assert client.instructions == "Say something."
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("sample", "1.2.3")
    assert client.server_capabilities.tools is not None
    assert client.server_capabilities.resources is None


async def test_every_operation_is_a_tool(client: Client) -> None:
    for _ in range(2):  # the second answer comes from memory
        listing = await client.list_tools()
        tools = {tool.name: tool for tool in listing.tools}
        assert list(tools) == [operation.name for operation in operations()]
    echo, fail = tools["echo"], tools["fail"]
    assert (echo.title, echo.description) == ("Echo", "Says it again.")
    assert echo.annotations is not None
    assert echo.annotations.read_only_hint is True
    assert echo.annotations.open_world_hint is False
    assert fail.annotations is not None
    assert (fail.annotations.read_only_hint, fail.annotations.destructive_hint) == (False, True)


async def test_the_listing_says_how_long_it_is_good(client: Client, door: Door) -> None:
    listing = await client.list_tools()
    assert listing.ttl_ms == (300_000 if door.era == "modern" else 0)
    assert listing.cache_scope == "private"


async def test_a_result_is_data_and_the_same_as_compact_text(client: Client) -> None:
    result = await client.call_tool("echo", {"text": "grüß dich", "times": 2})
    assert not result.is_error
    data = result.structured_content
    assert data is not None
    assert data["text"] == "grüß dichgrüß dich"
    assert "label" not in data
    assert data["nested"] == {"name": "x"}
    assert data["properties"] == {"empty": None}
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text == json.dumps(data, ensure_ascii=False, separators=(",", ":"))


async def test_an_error_is_a_result_with_code_hint_and_details(client: Client) -> None:
    result = await client.call_tool("fail", {})
    assert result.is_error
    assert result.structured_content == {
        "code": "conflict",
        "message": "The note changed.",
        "hint": "Read it again.",
        "details": {"etag": "abc"},
    }
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert json.loads(block.text) == result.structured_content


async def test_an_unknown_argument_is_refused(client: Client) -> None:
    result = await client.call_tool("echo", {"text": "a", "txet": "b"})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["code"] == "invalid_request"
    assert "txet" in result.structured_content["message"]


async def test_an_unknown_tool_is_a_protocol_error(client: Client) -> None:
    with pytest.raises(MCPError) as caught:
        await client.call_tool("no_such_tool", {})
    assert caught.value.error.code == -32602
    assert caught.value.error.data["code"] == "not_found"


async def test_nothing_of_an_unexpected_error_gets_out(client: Client) -> None:
    result = await client.call_tool("crash", {})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["code"] == "internal_error"
    assert "secret" not in result.model_dump_json()


async def test_a_big_result_arrives_whole(client: Client) -> None:
    result = await client.call_tool("big", {"size": 5000})
    assert result.structured_content is not None
    items = result.structured_content["items"]
    assert [items[0], items[-1]] == [{"name": "Zettel 0 äöü"}, {"name": "Zettel 4999 äöü"}]
    assert len(items) == 5000


async def test_any_text_comes_back_as_it_went(client: Client) -> None:
    text = 'e\u0301 é 日本語 🗒️\u200d \u2028\u2029\x85 \x00\x1f \r\n\t \\ " </script> null'
    result = await client.call_tool("echo", {"text": text, "label": '{"a": 1}'})
    assert result.structured_content is not None
    assert result.structured_content["text"] == text
    assert result.structured_content["label"] == '{"a": 1}'


async def test_a_name_that_is_no_text_does_not_spoil_the_answer(client: Client) -> None:
    result = await client.call_tool("broken", {})
    assert result.structured_content == {"items": [{"name": "caf?.md"}]}


async def test_calls_at_once_get_their_own_answers(client: Client) -> None:
    answers: dict[int, str] = {}

    async def say(number: int) -> None:
        result = await client.call_tool("echo", {"text": f"<{number}>"})
        assert result.structured_content is not None
        answers[number] = result.structured_content["text"]

    async with anyio.create_task_group() as calls:
        for number in range(20):
            calls.start_soon(say, number)
    assert answers == {number: f"<{number}>" for number in range(20)}


async def test_a_cancelled_call_stops(client: Client) -> None:
    before = (await client.call_tool("seen", {})).structured_content
    assert before is not None
    cancelled = before["counts"].get("cancelled", 0)
    async with anyio.create_task_group() as calls:
        calls.start_soon(client.call_tool, "wait", {"seconds": 600})
        await until_counted(client, "started", before["counts"].get("started", 0) + 1)
        calls.cancel_scope.cancel()
    await until_counted(client, "cancelled", cancelled + 1)
    assert not (await client.call_tool("echo", {"text": "still here"})).is_error
