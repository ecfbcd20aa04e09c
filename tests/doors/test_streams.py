"""A stop ends responses as HTTP wants them ended, and leaves alone what is not its own."""

import asyncio

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from server.doors.guards import Refusal
from server.doors.streams import Responses, is_endless

pytestmark = pytest.mark.anyio

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


async def nothing() -> Message:
    raise AssertionError("nobody reads here")


class Served:
    """One request whose app sends `messages` and then never returns."""

    def __init__(self, responses: Responses, *messages: Message, endless: bool = True) -> None:
        self.sent: list[Message] = []
        self.waiting = asyncio.Event()

        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            for message in messages:
                await send(message)
            self.waiting.set()
            await asyncio.Event().wait()

        async def send(message: Message) -> None:
            self.sent.append(message)

        self.task = asyncio.create_task(responses.run(app, {}, nothing, send, endless=endless))


def test_what_is_endless() -> None:
    assert is_endless({"method": "GET"}, Headers())
    assert is_endless({"method": "POST"}, Headers({"Mcp-Method": "subscriptions/listen"}))
    assert not is_endless({"method": "POST"}, Headers({"Mcp-Method": "tools/call"}))
    assert not is_endless({"method": "DELETE"}, Headers())


async def test_a_stop_ends_endless_responses_alone() -> None:
    responses = Responses()
    stream, answer = Served(responses, START), Served(responses, START, endless=False)
    await stream.waiting.wait()
    await answer.waiting.wait()
    responses.stop()
    await stream.task
    assert stream.sent == [START, END]
    assert not answer.task.done()
    responses.abandon()
    await answer.task
    assert answer.sent == [START, END]


async def test_a_request_without_a_response_gets_one() -> None:
    responses = Responses()
    served = Served(responses, endless=False)
    await served.waiting.wait()
    responses.abandon()
    with pytest.raises(Refusal) as caught:
        await served.task
    assert caught.value.response.status_code == 503


async def test_a_complete_response_is_not_ended_twice() -> None:
    responses = Responses()
    served = Served(responses, START, END)
    await served.waiting.wait()
    responses.stop()
    await served.task
    assert served.sent == [START, END]


async def test_another_cancellation_passes_through() -> None:
    responses = Responses()
    served = Served(responses, START)
    await served.waiting.wait()
    served.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served.task
    assert served.sent == [START]
