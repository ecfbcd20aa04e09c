"""The dispatcher: nothing but domain errors comes out, and nothing of the inside with them."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import Field

from server.catalog.dispatch import Dispatcher, unexpected
from server.catalog.operation import Input, Operation, Output
from server.errors import InternalError, InvalidRequest, NotFound, RateLimited, VaultError
from server.models import Caller
from server.telemetry import Telemetry

CALLER = Caller("alice", door="mcp")


class In(Input):
    path: str
    depth: int = Field(1, ge=1)
    items: tuple[int, ...] = ()


class Out(Output):
    said: str


def dispatcher(run: Any, subject: str | None = "path") -> tuple[Dispatcher, Telemetry]:
    telemetry = Telemetry()
    operation = Operation(
        name="op", title="Op", description="", toolset="core", access="read",
        input=In, output=Out, run=run, subject=subject,
    )  # fmt: skip
    return Dispatcher([operation], "service", telemetry), telemetry


def call(run: Any, arguments: Mapping[str, Any], name: str = "op") -> Any:
    made, _ = dispatcher(run)
    return asyncio.run(made.call(name, arguments, CALLER))


async def echo(service: str, caller: Caller, args: In) -> Out:
    return Out(said=f"{service} {caller.name} {args.path} {args.depth}")


def test_a_call_reaches_its_operation() -> None:
    assert call(echo, {"path": "a.md"}).said == "service alice a.md 1"


def test_an_unknown_tool() -> None:
    with pytest.raises(NotFound) as caught:
        call(echo, {}, name="x" * 1000)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "path"),
        ({"path": 5}, "path"),
        ({"path": "a", "depth": 0}, "depth"),
        ({"path": "a", "depth": "many"}, "depth"),
        ({"path": "a", "pth": "b"}, "pth is not an argument"),
        ({"path": "a", "items": [1, "x"]}, "items.1"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(echo, arguments)
    assert word in caught.value.message
    assert caught.value.hint == "Arguments of op: path, depth, items."


def test_a_complaint_stays_short_and_never_repeats_what_was_sent() -> None:
    arguments: dict[str, Any] = {"x" * 500 + str(n): "secret" for n in range(100)}
    with pytest.raises(InvalidRequest) as caught:
        call(echo, {**arguments, "depth": "secret"})
    assert len(caught.value.message) < 1000
    assert "secret" not in caught.value.message


def test_domain_errors_pass_and_others_become_an_id(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(*_: Any) -> Out:
        raise RateLimited("slow down")

    with pytest.raises(RateLimited, match="slow down"):
        call(refuse, {"path": "a"})

    async def fail(*_: Any) -> Out:
        raise ValueError("host path /srv/secret")

    with pytest.raises(InternalError) as caught:
        call(fail, {"path": "a"})
    said = f"{caught.value.message} {caught.value.hint} {caught.value.details}"
    assert "secret" not in said
    assert caught.value.details["id"] in caught.value.hint
    assert caught.value.details["id"] in caplog.text
    assert "/srv/secret" in caplog.text, "the log has what the caller doesn't get"


def test_every_unexpected_error_has_an_id_of_its_own() -> None:
    assert unexpected(ValueError()).details["id"] != unexpected(ValueError()).details["id"]


@pytest.mark.parametrize(
    ("run", "outcome"),
    [(echo, "ok"), (None, "internal_error")],
)
def test_every_call_is_counted_once(run: Any, outcome: str) -> None:
    made, telemetry = dispatcher(run)
    with contextlib.suppress(VaultError):
        asyncio.run(made.call("op", {"path": "a"}, CALLER))
    labels = {"tool": "op", "outcome": outcome, "door": "mcp"}
    assert telemetry.registry.get_sample_value("vault_calls_total", labels) == 1


def test_a_read_is_told_of_after_its_answer_and_before_any_later_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, _ = dispatcher(echo)
    caplog.set_level("INFO")

    def told() -> list[str]:
        return [record.fields["outcome"] for record in caplog.records if record.msg == "call"]  # type: ignore[attr-defined]

    async def scenario() -> None:
        await made.call("op", {"path": "a"}, CALLER)
        assert told() == []
        await asyncio.sleep(0)
        assert told() == ["ok"]
        await made.call("op", {"path": "b"}, CALLER)
        with pytest.raises(InvalidRequest):
            await made.call("op", {"path": 5}, CALLER)
        assert told() == ["ok", "ok", "invalid_request"]
        await made.call("op", {"path": "c"}, CALLER)

    asyncio.run(scenario())
    assert told()[3:] == ["ok"], "nor is the last one forgotten"


def test_bad_arguments_are_counted_too() -> None:
    made, telemetry = dispatcher(echo)
    with pytest.raises(InvalidRequest):
        asyncio.run(made.call("op", {"path": 5}, CALLER))
    labels = {"tool": "op", "outcome": "invalid_request", "door": "mcp"}
    assert telemetry.registry.get_sample_value("vault_calls_total", labels) == 1


def test_a_cancelled_call_is_neither_swallowed_nor_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang(*_: Any) -> Out:
        await asyncio.Event().wait()
        raise AssertionError

    made, telemetry = dispatcher(hang)

    async def scenario() -> None:
        task = asyncio.create_task(made.call("op", {"path": "a"}, CALLER))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    labels = {"tool": "op", "outcome": "cancelled", "door": "mcp"}
    assert telemetry.registry.get_sample_value("vault_calls_total", labels) == 1
    assert "unexpected" not in caplog.text


@pytest.mark.parametrize("subject", [5, None, {"a": 1}, "x" * 10_000, ["a"]])
def test_whatever_the_subject_is_it_can_be_logged(subject: Any) -> None:
    with pytest.raises(VaultError):
        call(echo, {"path": subject, "depth": 0})
