"""Limits as clients meet them: errors in the protocol, 429 where there is no protocol yet."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import anyio
import httpx2
import pytest

from server.access.limits import Limiter
from server.access.policy import Limits
from server.catalog.dispatch import Dispatcher
from server.catalog.operation import Access, Input, Operation, Output
from server.errors import RateLimited, TooLarge
from server.models import Caller
from server.telemetry import Telemetry

from .connect import Running, running
from .sample import sample_http
from .wire import JSON, Wire, call, message, request, wired

pytestmark = pytest.mark.anyio

ALICE, BOB = ({"Authorization": f"Bearer {name}-token"} for name in ("alice", "bob"))
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def small() -> Iterator[Running]:
    """A server for few sessions, few streams and one call at a time."""
    options = {
        "limits": {"concurrent_calls": 1, "answer_kb": 1},
        "max_sessions": 6,
        "max_sessions_of_one_caller": 3,
        "streams": [3, 2],
    }
    with running("http", json.dumps(options)) as server:
        yield server


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """To a server where each caller has five calls, and one more every 50 seconds."""
    app = sample_http(limits={"calls_per_second": 0.02, "burst": 5})
    transport = httpx2.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport) as client:
        yield Wire(client, "http://127.0.0.1:1/mcp")


@pytest.fixture
async def few(small: Running) -> AsyncIterator[Wire]:
    async with wired(f"http://127.0.0.1:{small.port}/mcp") as wire:
        yield wire


async def started(wire: Wire) -> bool:
    seen = message(await wire.modern(call("seen"), **BOB))["result"]["structuredContent"]
    return bool(seen["counts"].get("started"))


async def test_a_call_too_many_is_an_error_of_the_tool(wire: Wire) -> None:
    for _ in range(5):
        answer = message(await wire.modern(call("echo", text="a"), **ALICE))
        assert not answer["result"].get("isError")
    refused = await wire.modern(call("echo", text="a"), **ALICE)
    assert refused.status_code == 200
    result = message(refused)["result"]
    assert result["isError"]
    said = result["structuredContent"]
    assert said["code"] == "rate_limited"
    assert 40 < said["details"]["retry_after"] <= 50
    answer = message(await wire.modern(call("echo", text="a"), **BOB))
    assert answer["result"]["structuredContent"]["caller"] == "bob"


@pytest.mark.parametrize("era", ["session", "modern"])
async def test_listing_is_charged_like_calling(wire: Wire, era: str) -> None:
    session = await wire.open("alice-token") if era == "session" else {}

    async def listing() -> dict[str, object]:
        if era == "session":
            return message(await wire.post(request("tools/list", 7), session))
        return message(await wire.modern(request("tools/list", 7), **ALICE))

    for _ in range(5):
        assert "result" in await listing()
    error = (await listing())["error"]
    assert isinstance(error, dict)
    assert error["data"]["code"] == "rate_limited"
    assert error["data"]["details"]["retry_after"] > 40


async def test_whoever_does_not_listen_is_stopped_at_the_door(wire: Wire) -> None:
    answers = [await wire.modern(call("echo", text="a"), **ALICE) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]
    refused = answers[-1]
    assert 0 < int(refused.headers["retry-after"]) <= 25
    assert refused.json()["error"]["data"]["code"] == "rate_limited"
    assert (await wire.modern(call("echo", text="a"), **BOB)).status_code == 200


async def test_rubbish_is_charged_too(wire: Wire) -> None:
    answers = [await wire.post(b"{", ALICE) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [400] * 10 + [429]


async def test_a_long_answer_is_an_error_that_says_what_to_do(few: Wire) -> None:
    assert not message(await few.modern(call("big", size=2), **ALICE))["result"].get("isError")
    said = message(await few.modern(call("big", size=200), **ALICE))["result"]["structuredContent"]
    assert said["code"] == "too_large"
    assert said["details"]["limit"] == 1024 < said["details"]["size"]
    assert "less" in said["hint"]


async def test_one_call_at_once(few: Wire) -> None:
    async with AsyncExitStack() as stack:
        body = call("hold", 1)
        session = await few.open("alice-token")
        stream = few.client.stream("POST", few.url, json=body, headers={**JSON, **session})
        await stack.enter_async_context(stream)
        with anyio.fail_after(20):
            while not await started(few):
                await anyio.sleep(0.01)
        said = message(await few.modern(call("echo", text="a"), **ALICE))["result"]
        assert said["structuredContent"]["code"] == "rate_limited"
        other = message(await few.modern(call("release"), **BOB))["result"]
        assert other["structuredContent"] == {"done": True}
    await few.client.delete(few.url, headers=session)


async def test_streams_of_one_caller_and_of_all(few: Wire) -> None:
    sessions = [await few.open(f"{name}-token") for name in ("alice", "alice", "alice", "bob")]
    sessions.append(await few.open("bob-token"))

    async with AsyncExitStack() as stack:

        async def opened(number: int) -> httpx2.Response:
            headers = {**sessions[number], **STREAM}
            return await stack.enter_async_context(
                few.client.stream("GET", few.url, headers=headers)
            )

        assert [(await opened(number)).status_code for number in (0, 1)] == [200, 200]
        third = await opened(2)
        assert (third.status_code, third.headers["retry-after"]) == (429, "5")
        assert (await opened(3)).status_code == 200
        assert (await opened(4)).status_code == 503, "three are all that there are"
    for session in sessions:
        await few.client.delete(few.url, headers=session)


async def test_sessions_of_one_caller_leave_room_for_others(few: Wire) -> None:
    sessions = [await few.open("alice-token") for _ in range(3)]
    with pytest.raises(AssertionError, match="Too many open sessions"):
        await few.open("alice-token")
    sessions += [await few.open("bob-token") for _ in range(3)]
    await few.client.delete(few.url, headers=sessions[0])
    sessions.append(await few.open("alice-token"))
    for session in sessions[1:]:
        assert (await few.client.delete(few.url, headers=session)).status_code == 200


class Text(Input):
    content: str


class Said(Output):
    said: str


def limited(access: Access, **limits: float) -> Dispatcher:
    async def run(_service: object, _caller: Caller, given: Text) -> Said:
        return Said(said=given.content)

    operation = Operation("op", "Op", "", "core", access, Text, Said, run)
    limiter = Limiter(Limits.model_validate(limits))
    return Dispatcher([operation], None, Telemetry(), limiter=limiter)


async def test_writes_are_charged_by_their_content_and_reads_are_not() -> None:
    arguments = {"content": "x" * 700_000}
    caller = Caller("alice")
    writing, reading = (limited(access, write_mb_per_hour=1) for access in ("write", "read"))
    await writing.call("op", arguments, caller)
    with pytest.raises(RateLimited) as caught:
        await writing.call("op", arguments, caller)
    assert caught.value.details["retry_after"] > 3000
    await writing.call("op", arguments, Caller("bob"))
    for _ in range(3):
        await reading.call("op", arguments, caller)


async def test_a_call_is_charged_before_its_arguments_are_looked_at() -> None:
    dispatcher = limited("read", calls_per_second=0.01, burst=1)
    await dispatcher.call("op", {"content": "a"}, Caller("alice"))
    with pytest.raises(RateLimited):
        await dispatcher.call("op", {"wrong": 1}, Caller("alice"))


async def test_what_was_written_is_told_however_long_the_answer_is() -> None:
    long = {"content": "x" * 5000}
    assert await limited("write", answer_kb=1).call("op", long, Caller("alice"))
    with pytest.raises(TooLarge):
        await limited("read", answer_kb=1).call("op", long, Caller("alice"))
    broken = {"content": "\udce9" * 5000}
    with pytest.raises(TooLarge):
        await limited("read", answer_kb=1).call("op", broken, Caller("alice"))
