"""The stdio door: what is on stdout, and how it ends."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .connect import Running, running
from .wire import INITIALIZE, META, call, request

Line = dict[str, Any]
ERAS = ["session", "modern"]


class Talk:
    """A client that writes lines and reads lines."""

    def __init__(self, server: Running, era: str) -> None:
        self.server = server
        self.era = era
        if era == "session":
            self.say(INITIALIZE)
            assert self.hear()["result"]["serverInfo"]["name"] == "sample"
            self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, line: Line | str) -> None:
        if isinstance(line, dict) and self.era == "modern" and "id" in line and "params" in line:
            line = {**line, "params": {**line["params"], "_meta": META}}
        stdin = self.server.process.stdin
        assert stdin is not None
        stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        stdin.flush()

    def hear(self) -> Line:
        stdout = self.server.process.stdout
        assert stdout is not None
        heard: Line = json.loads(stdout.readline())
        return heard

    def rest(self) -> list[Line]:
        """What stdout still holds, every line of it a message."""
        stdout = self.server.process.stdout
        assert stdout is not None
        return [json.loads(line) for line in stdout]

    def start(self, slow: Line) -> None:
        """Have a call in flight, certainly."""
        self.say(slow)
        for poll in range(100, 2000):
            self.say(call("seen", poll))
            if self.hear()["result"]["structuredContent"]["counts"].get("started"):
                return
        raise AssertionError("the call never started")


@contextmanager
def talking(era: str, *options: str) -> Iterator[Talk]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 1}
    with running("stdio", *options, **pipes) as server:
        yield Talk(server, era)


@pytest.fixture(params=ERAS)
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    with talking(request.param) as talk:
        yield talk


def close(talk: Talk) -> None:
    assert talk.server.process.stdin is not None
    talk.server.process.stdin.close()


def test_end_of_input_ends_it_after_what_is_in_flight(talk: Talk) -> None:
    talk.start(call("wait", 1, seconds=1.5))
    close(talk)
    assert [line["result"]["structuredContent"] for line in talk.rest()] == [{"done": True}]
    code, said = talk.server.end()
    assert (code, "Traceback" in said) == (0, False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_what_is_in_flight(talk: Talk, number: signal.Signals) -> None:
    talk.start(call("wait", 1, seconds=1.5))
    talk.server.process.send_signal(number)
    assert [line["result"]["structuredContent"] for line in talk.rest()] == [{"done": True}]
    code, said = talk.server.end()
    assert (code, "Traceback" in said) == (0, False)


def test_a_signal_ends_an_idle_server_although_its_input_stays_open() -> None:
    with talking("session") as talk:
        talk.server.process.send_signal(signal.SIGTERM)
        assert talk.rest() == []
        assert talk.server.end()[0] == 0


def test_a_second_signal_does_not_wait() -> None:
    with talking("session", json.dumps({"grace_seconds": 600})) as talk:
        talk.start(call("wait", 1, seconds=600))
        talk.server.process.send_signal(signal.SIGTERM)
        talk.server.process.send_signal(signal.SIGINT)
        assert talk.server.end(30)[0] == 0


def test_a_call_that_takes_too_long_does_not_hold_up_the_end() -> None:
    with talking("session", json.dumps({"grace_seconds": 0.3})) as talk:
        talk.start(call("wait", 1, seconds=600))
        talk.server.process.send_signal(signal.SIGTERM)
        assert talk.server.end()[0] == 0


@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_call_is_not_waited_for(era: str) -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with talking(era, json.dumps({"grace_seconds": 600})) as talk:
        talk.start(call("wait", 1, seconds=600))
        talk.say(cancelled)
        close(talk)
        assert talk.server.end()[0] == 0
        assert talk.rest() == []


def test_a_client_that_stops_reading_does_not_hold_up_the_end() -> None:
    with talking("session", json.dumps({"grace_seconds": 0.3})) as talk:
        for number in range(1, 6):
            talk.say(call("big", number, size=5000))
        talk.server.process.send_signal(signal.SIGTERM)
        assert talk.server.end()[0] == 0


def test_stdout_carries_nothing_but_the_protocol(talk: Talk) -> None:
    talk.say(call("chatter", 1))
    assert talk.hear()["result"]["structuredContent"] == {"done": True}
    close(talk)
    assert talk.rest() == []
    code, said = talk.server.end()
    assert code == 0
    assert "stray output" in said
    assert "stray child" in said
    assert '"call"' in said


def test_garbage_from_a_client_that_has_gone_is_no_failure(talk: Talk) -> None:
    assert talk.server.process.stdout is not None
    talk.server.process.stdout.close()
    talk.say("nonsense")
    code, said = talk.server.end()
    assert (code, "Traceback" in said) == (0, False)


GARBAGE = [
    ("nonsense", -32700, None),
    ('{"jsonrpc": "2.0", "id": 5, "method": "x"', -32700, None),
    ('{"a": "\\ud800"}', -32700, None),
    ("[]", -32600, None),
    ("1", -32600, None),
    ('{"id": 5}', -32600, 5),
    ('{"jsonrpc": "1.0", "id": true, "method": "x"}', -32600, None),
]


def test_garbage_is_answered_and_survived(talk: Talk) -> None:
    for line, code, number in GARBAGE:
        talk.say(line)
        answer = talk.hear()
        assert (answer["id"], answer["error"]["code"]) == (number, code), line
        assert "pydantic" not in json.dumps(answer)
    talk.say("")
    talk.say("   \r")
    talk.say(call("echo", 9, text="alive"))
    assert talk.hear()["result"]["structuredContent"]["text"] == "alive"


def test_invalid_utf8_is_answered_and_survived(talk: Talk) -> None:
    stdin = talk.server.process.stdin
    assert stdin is not None
    os.write(stdin.fileno(), b'{"jsonrpc": "2.0", "id": 1, "method": "caf\xe9"}\n\xff\xfe\n')
    assert [talk.hear()["error"]["code"] for _ in range(2)] == [-32700, -32700]
    talk.say(call("echo", 9, text="alive"))
    assert talk.hear()["result"]["structuredContent"]["text"] == "alive"


def test_garbage_before_the_first_request_decides_nothing() -> None:
    with talking("modern") as talk:
        for _ in range(20):
            talk.say("nonsense")
            assert talk.hear()["error"]["code"] == -32700
        talk.say(request("server/discover"))
        assert "2026-07-28" in talk.hear()["result"]["supportedVersions"]


def test_a_message_too_long_is_refused_and_survived() -> None:
    with talking("session", json.dumps({"max_message_bytes": 70_000})) as talk:
        talk.say(call("echo", 1, text="x" * 300_000))
        answer = talk.hear()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        talk.say(call("echo", 2, text="x" * 69_000))
        assert len(talk.hear()["result"]["structuredContent"]["text"]) == 69_000


def test_a_request_id_in_flight_is_not_taken_twice(talk: Talk) -> None:
    talk.start(call("hold", 7))
    talk.say(call("echo", "7", text="second"))
    answer = talk.hear()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    talk.say(call("release", 8))
    assert {talk.hear()["id"], talk.hear()["id"]} == {7, 8}
    talk.say(call("echo", 7, text="again"))
    assert talk.hear()["result"]["structuredContent"]["text"] == "again"


def test_an_unknown_tool_and_a_listing_before_the_handshake() -> None:
    with talking("none") as talk:
        talk.say(request("tools/list", 1))
        assert talk.hear()["error"]["code"] == -32602
        talk.say(INITIALIZE)
        assert "result" in talk.hear()
