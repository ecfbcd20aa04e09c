"""A tiny catalog behind real doors: `python sample.py http|stdio [{"option": value}]`.

`http` says on stderr which port it got. The operations are chosen for what they do to a door.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from mcp.server.lowlevel import Server
from pydantic import Field

from server.access.limits import Limiter
from server.access.policy import Limits
from server.catalog.dispatch import Dispatcher
from server.catalog.operation import Input, Operation, Output
from server.doors.charges import charging
from server.doors.connections import Connections
from server.doors.http import build_http, caller_of
from server.doors.mcp import build_server
from server.doors.serve import serve_http
from server.doors.stdio import serve_stdio
from server.doors.streams import Responses
from server.errors import Conflict, Unauthorized
from server.models import Caller
from server.telemetry import Telemetry, configure_logging

TOKENS = {"alice-token": "alice", "bob-token": "bob"}


class Nested(Output):
    name: str
    note: str | None = None


class EchoInput(Input):
    """Not for agents."""

    text: str = Field(description="What to say.")
    times: int = Field(default=1, ge=1, le=1000)
    label: str | None = Field(default=None, description="Names the echo.")


class EchoOutput(Output):
    """Not for agents either."""

    text: str = Field(description="What was said.")
    label: str | None = None
    caller: str
    session: str | None = None
    nested: Nested = Nested(name="x")
    properties: dict[str, Any]


class Nothing(Input):
    pass


class Flag(Output):
    done: bool


class Counts(Output):
    counts: dict[str, int]


class SizeInput(Input):
    size: int


class SecondsInput(Input):
    seconds: float


class Big(Output):
    items: list[Nested]


def operations() -> list[Operation]:
    """Fresh ones, with counters of their own."""
    counts: Counter[str] = Counter()
    released = asyncio.Event()

    async def echo(_service: Any, caller: Caller, given: EchoInput) -> EchoOutput:
        return EchoOutput(
            text=given.text * given.times,
            label=given.label,
            caller=caller.name,
            session=caller.session,
            properties={"empty": None},
        )

    async def fail(_service: Any, _caller: Caller, _given: Nothing) -> Flag:
        raise Conflict("The note changed.", "Read it again.", etag="abc")

    async def crash(_service: Any, _caller: Caller, _given: Nothing) -> Flag:
        raise RuntimeError("/secret/place")

    async def broken(_service: Any, _caller: Caller, _given: Nothing) -> Big:
        return Big(items=[Nested(name="caf\udce9.md")])

    async def chatter(_service: Any, _caller: Caller, _given: Nothing) -> Flag:
        print("stray output", flush=True)
        child = await asyncio.create_subprocess_exec("echo", "stray child")
        return Flag(done=await child.wait() == 0)

    async def big(_service: Any, _caller: Caller, given: SizeInput) -> Big:
        return Big(items=[Nested(name=f"Zettel {number} äöü") for number in range(given.size)])

    async def wait(_service: Any, _caller: Caller, given: SecondsInput) -> Flag:
        counts["started"] += 1
        try:
            await asyncio.sleep(given.seconds)
        except asyncio.CancelledError:
            counts["cancelled"] += 1
            raise
        counts["finished"] += 1
        return Flag(done=True)

    async def hold(_service: Any, _caller: Caller, _given: Nothing) -> Flag:
        counts["started"] += 1
        await released.wait()
        counts["finished"] += 1
        return Flag(done=True)

    async def release(_service: Any, _caller: Caller, _given: Nothing) -> Flag:
        released.set()
        released.clear()
        return Flag(done=True)

    async def seen(_service: Any, _caller: Caller, _given: Nothing) -> Counts:
        return Counts(counts=dict(counts))

    return [
        Operation("echo", "Echo", "Says it again.", "core", "read", EchoInput, EchoOutput, echo),
        Operation("fail", "Fail", "Fails.", "core", "write", Nothing, Flag, fail, destructive=True),
        Operation("crash", "Crash", "Breaks.", "core", "write", Nothing, Flag, crash),
        Operation("broken", "Broken", "No text.", "core", "read", Nothing, Big, broken),
        Operation("chatter", "Chatter", "Talks.", "core", "read", Nothing, Flag, chatter),
        Operation("big", "Big", "Is long.", "core", "read", SizeInput, Big, big),
        Operation("wait", "Wait", "Waits.", "core", "read", SecondsInput, Flag, wait),
        Operation("hold", "Hold", "Waits for release.", "core", "read", Nothing, Flag, hold),
        Operation("release", "Release", "Ends holds.", "core", "read", Nothing, Flag, release),
        Operation("seen", "Seen", "Tells.", "core", "read", Nothing, Counts, seen),
    ]


def local(_ctx: Any) -> Caller:
    return Caller("local", door="stdio")


def sample_server(
    telemetry: Telemetry, caller: Any = local, limiter: Limiter | None = None
) -> Server[Any]:
    return build_server(
        Dispatcher(operations(), None, telemetry, limiter=limiter),
        name="sample",
        version="1.2.3",
        instructions="Say something.",
        caller=caller,
    )


def authenticate(token: str | None) -> Caller:
    """Known tokens have names; no token is a guest; any other is refused."""
    if token is None:
        return Caller("guest")
    if token not in TOKENS:
        raise Unauthorized("The token is not known.", "Ask for a new one.")
    return Caller(TOKENS[token])


def sample_http(**options: Any) -> FastAPI:
    telemetry = Telemetry()
    ready: Mapping[str, Any] = {"mount": "up" if options.pop("ready", True) else "down"}
    arguments: dict[str, Any] = {
        "allowed_hosts": ["127.0.0.1:*", "localhost:*"],
        "allowed_origins": ["http://localhost:*", "https://notes.example"],
        "max_body_bytes": 100_000,
        "session_idle_seconds": 60,
        "max_sessions": 1000,
        **options,
    }
    limiter = Limiter(Limits(**arguments.pop("limits", {})))
    if streams := arguments.pop("streams", None):
        arguments["responses"] = Responses(*streams)
    server = sample_server(telemetry, caller_of, limiter)
    server.middleware.insert(0, charging(caller_of, limiter.question))
    return build_http(
        server,
        charge=limiter.request,
        version="1.2.3",
        authenticate=authenticate,
        ready=lambda: (ready["mount"] == "up", ready),
        telemetry=telemetry,
        **arguments,
    )


def main() -> int:
    door, options = sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    configure_logging("info", "json")
    if door == "http":
        port, grace = options.pop("port", 0), options.pop("grace_seconds", 3)
        connections = Connections(*options.pop("connections", ()))
        return serve_http(
            sample_http(**options), "127.0.0.1", port, grace_seconds=grace, connections=connections
        )
    asyncio.run(serve_stdio(sample_server(Telemetry()), **options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
