"""The HTTP door's guards, sessions and probes, met by clients that don't behave."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from .connect import Running, running
from .sample import sample_http
from .wire import INITIALIZE, META, Wire, call, message, modern_headers, raw, request, wired

pytestmark = pytest.mark.anyio


@pytest.fixture
async def wire(url: str) -> AsyncIterator[Wire]:
    async with wired(url) as wire:
        yield wire


@pytest.fixture(scope="module")
def small_url() -> Iterator[str]:
    """A server with room for two sessions that end quickly."""
    options = {"max_sessions": 2, "session_idle_seconds": 1, "ready": False}
    with running("http", json.dumps(options)) as server:
        yield f"http://127.0.0.1:{server.port}/mcp"


def refused(response: httpx2.Response, status: int, code: str) -> None:
    """A refusal is JSON with a code of ours, and never a traceback."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["data"]["code"] == code
    assert error["message"] == error["data"]["message"]
    assert "Traceback" not in response.text


async def seen(wire: Wire, name: str) -> int:
    counts = message(await wire.modern(call("seen")))["result"]["structuredContent"]["counts"]
    return int(counts.get(name, 0))


async def reached(wire: Wire, name: str, number: int) -> None:
    with anyio.fail_after(20):
        while await seen(wire, name) < number:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "127.0.0.1:x", ""])
async def test_another_host_name_is_misdirected(wire: Wire, host: str) -> None:
    refused(await wire.post(INITIALIZE, {"Host": host}), 421, "permission_denied")
    refused(await wire.modern(request("tools/list"), Host=host), 421, "permission_denied")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost.evil.example:1"]
)
async def test_a_foreign_page_is_forbidden(wire: Wire, origin: str) -> None:
    refused(await wire.post(INITIALIZE, {"Origin": origin}), 403, "permission_denied")
    refused(await wire.modern(request("tools/list"), Origin=origin), 403, "permission_denied")


async def test_any_port_includes_none(wire: Wire) -> None:
    assert (await wire.modern(request("tools/list"), Host="LocalHost")).status_code == 200


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://notes.example"])
async def test_a_listed_page_may_call(wire: Wire, origin: str) -> None:
    assert (await wire.modern(request("tools/list"), Origin=origin)).status_code == 200


async def test_an_unknown_token_is_unauthorized(wire: Wire) -> None:
    for response in (
        await wire.post(INITIALIZE, {"Authorization": "Bearer wrong"}),
        await wire.modern(request("tools/list"), Authorization="Bearer wrong"),
    ):
        refused(response, 401, "unauthorized")
        assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_the_caller_reaches_the_operation(wire: Wire) -> None:
    modern = await wire.modern(call("echo", text="a"), Authorization="bearer alice-token")
    data = message(modern)["result"]["structuredContent"]
    assert data["caller"] == "alice"
    assert "session" not in data
    claimed = await wire.modern(call("echo", text="a"), **{"Mcp-Session-Id": "not-mine"})
    assert "session" not in message(claimed)["result"]["structuredContent"]
    session = await wire.open("bob-token")
    data = message(await wire.post(call("echo", text="a"), session))["result"]["structuredContent"]
    assert (data["caller"], data["session"]) == ("bob", session["Mcp-Session-Id"])


async def test_a_session_belongs_to_the_caller_who_opened_it(wire: Wire) -> None:
    session = await wire.open("alice-token")
    for other in ({"Authorization": "Bearer bob-token"}, {"Authorization": ""}):
        taken = {**session, **other}
        assert (await wire.post(call("echo", text="a"), taken)).status_code == 404
        assert (await wire.client.get(wire.url, headers=taken)).status_code == 404
        assert (await wire.client.delete(wire.url, headers=taken)).status_code == 404
    assert (await wire.post(call("echo", text="a"), session)).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_is_not_json_is_unsupported(wire: Wire, kind: str) -> None:
    refused(await wire.post(INITIALIZE, {"Content-Type": kind}), 415, "invalid_request")


async def test_a_body_too_big_is_refused(wire: Wire, http: Running) -> None:
    refused(await wire.post(b" " * 100_001), 413, "too_large")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 10_000

    headers = {"Content-Type": "application/json"}
    refused(await wire.client.post(wire.url, content=pieces(), headers=headers), 413, "too_large")
    head = (
        "POST /mcp HTTP/1.1\nHost: 127.0.0.1:1\nContent-Type: application/json\nConnection: close"
    )
    answer = raw(http.port, head + "\nContent-Length: 99999999999")
    assert answer.startswith(b"HTTP/1.1 413 ")


BROKEN = [
    b"",
    b"{",
    b"nonsense",
    b"\xff\xfe{}",
    b'{"jsonrpc": "2.0", "id": 1, "method": "caf\xe9"}',
    b'{"a": "\\ud800"}',
    b"[" * 50_000,
]


@pytest.mark.parametrize("body", BROKEN, ids=repr)
async def test_a_body_that_cannot_be_read_is_a_parse_error(wire: Wire, body: bytes) -> None:
    response = await wire.post(body)
    refused(response, 400, "invalid_request")
    assert response.json()["error"]["code"] == -32700
    session = await wire.open()
    assert (await wire.post(body, session)).json()["error"]["code"] == -32700
    modern = await wire.post(body, modern_headers(request("tools/list")))
    assert modern.status_code == 400
    assert "Traceback" not in modern.text
    assert modern.json()["error"]["code"] in (-32700, -32600)


@pytest.mark.parametrize("body", [[], [INITIALIZE], 1, None, {}, {"id": 1}], ids=repr)
async def test_a_body_that_is_no_message_is_an_invalid_request(wire: Wire, body: object) -> None:
    response = await wire.post(body, await wire.open())
    refused(response, 400, "invalid_request")
    assert response.json()["error"]["code"] == -32600
    assert "pydantic" not in response.text
    modern = await wire.post(body, modern_headers(request("tools/list")))
    assert (modern.status_code, modern.json()["error"]["code"]) == (400, -32600)


async def test_half_a_surrogate_pair_is_no_argument(wire: Wire) -> None:
    for arguments in ({"text": "\ud800"}, {"text": "a", "\udfff": 1}):
        response = await wire.modern(request("tools/call", name="echo", arguments=arguments))
        result = message(response)["result"]
        assert result["isError"] is True
        assert result["structuredContent"]["code"] == "invalid_request"


async def test_trailing_white_space_in_headers_means_nothing(http: Running) -> None:
    body = json.dumps({**request("tools/list"), "params": {"_meta": META}}).encode()
    head = (
        "POST /mcp HTTP/1.1\nHost: 127.0.0.1:1 \nContent-Type: application/json \t\n"
        "Accept: application/json, text/event-stream  \nMCP-Protocol-Version: 2026-07-28 \t \n"
        f"Mcp-Method: tools/list  \nConnection: close\nContent-Length: {len(body)}"
    )
    answer = raw(http.port, head, body)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert b'"echo"' in answer


async def test_a_request_id_in_flight_is_not_taken_twice(wire: Wire) -> None:
    session, before = await wire.open(), await seen(wire, "started")
    answers: list[httpx2.Response] = []

    async def first() -> None:
        answers.append(await wire.post(call("hold", 7), session))

    async with anyio.create_task_group() as calls:
        calls.start_soon(first)
        await reached(wire, "started", before + 1)
        for number in (7, "7", " 7"):
            second = await wire.post(call("echo", number, text="second"), session)
            refused(second, 409, "conflict")
            assert second.json()["error"]["code"] == -32600
        other = await wire.open()
        assert "result" in message(await wire.post(call("echo", 7, text="a"), other))
        response = await wire.post({"jsonrpc": "2.0", "id": 7, "result": {}}, session)
        assert response.status_code == 202
        await wire.modern(call("release"))
    assert message(answers[0])["result"]["structuredContent"] == {"done": True}
    assert "result" in message(await wire.post(call("echo", 7, text="again"), session))


async def test_an_id_is_free_as_soon_as_its_answer_has_been_read(wire: Wire) -> None:
    session = await wire.open()
    for number in range(200):
        answer = message(await wire.post(call("echo", 1, text=f"{number}"), session))
        assert answer["result"]["structuredContent"]["text"] == f"{number}"


async def test_an_id_stays_taken_while_its_handler_runs_without_its_client(wire: Wire) -> None:
    session, before = await wire.open(), await seen(wire, "started")
    finished = await seen(wire, "finished")
    async with anyio.create_task_group() as calls:
        calls.start_soon(wire.post, call("hold", 1), session)
        await reached(wire, "started", before + 1)
        calls.cancel_scope.cancel()
    for _ in range(30):
        # Also when the server has noticed that the client is gone.
        refused(await wire.post(call("echo", 1, text="second"), session), 409, "conflict")
    await wire.modern(call("release"))
    await reached(wire, "finished", finished + 1)
    assert "result" in message(await wire.post(call("echo", 1, text="third"), session))


async def test_a_call_without_an_id_is_not_made(wire: Wire) -> None:
    """Nobody would hear how it ended, and nobody could end it."""
    session, before = await wire.open(), await seen(wire, "started")
    nobodys = {name: value for name, value in call("hold").items() if name != "id"}
    assert (await wire.post(nobodys, session)).status_code == 202
    assert "result" in message(await wire.post(call("echo", 1, text="behind it"), session))
    assert await seen(wire, "started") == before
    await wire.modern(call("release"))


async def test_one_session_never_sees_what_another_missed(wire: Wire) -> None:
    """Without an event store there is nothing to replay, whatever a client claims to have seen."""
    mine, theirs = await wire.open(), await wire.open()
    answer = await wire.post(call("echo", 1, text="mine"), mine)
    assert not any(line.startswith("id:") for line in answer.text.splitlines())
    stream = {**theirs, "Last-Event-ID": "1", "Accept": "text/event-stream"}
    async with wire.client.stream("GET", wire.url, headers=stream) as replayed:
        assert replayed.status_code == 200
        await wire.client.delete(wire.url, headers=theirs)
        assert "mine" not in (await replayed.aread()).decode()


async def test_an_ended_session_is_gone(wire: Wire) -> None:
    session = await wire.open()
    assert (await wire.client.delete(wire.url, headers=session)).status_code == 200
    assert (await wire.post(call("echo", text="a"), session)).status_code == 404
    unknown = {**session, "Mcp-Session-Id": "0" * 32}
    assert (await wire.post(call("echo", text="a"), unknown)).status_code == 404


async def test_sessions_are_capped_and_abandoned_ones_end(small_url: str) -> None:
    async with wired(small_url) as wire:
        first, second = await wire.open(), await wire.open()
        async with listening(wire, first):
            async with listening(wire, second):
                full = await wire.post(INITIALIZE)
                assert full.status_code == 503
                assert full.json()["error"]["message"] == "Too many open sessions"
            with anyio.fail_after(20):
                while (await wire.post(INITIALIZE)).status_code != 200:
                    await anyio.sleep(0.05)
            assert (await wire.post(call("echo", text="a"), second)).status_code == 404
            assert (await wire.post(call("echo", text="a"), first)).status_code == 200


@asynccontextmanager
async def listening(wire: Wire, session: dict[str, str]) -> AsyncIterator[None]:
    """Keep a session's stream open: it is not idle then."""
    headers = {**session, "Accept": "text/event-stream"}
    async with wire.client.stream("GET", wire.url, headers=headers) as stream:
        assert stream.status_code == 200
        yield


async def test_methods_that_mean_nothing_here(wire: Wire) -> None:
    session = await wire.open()
    assert (await wire.client.put(wire.url, headers=session)).status_code == 405
    modern = {"MCP-Protocol-Version": "2026-07-28"}
    assert (await wire.client.get(wire.url, headers=modern)).status_code == 405


async def test_healthz_is_the_process_alone(url: str, small_url: str) -> None:
    async with httpx2.AsyncClient() as client:
        for server in (url, small_url):
            answer = await client.get(server.replace("/mcp", "/healthz"))
            assert (answer.status_code, answer.json()) == (
                200,
                {"status": "ok", "version": "1.2.3"},
            )


async def test_readyz_tells_the_state(url: str, small_url: str) -> None:
    async with httpx2.AsyncClient() as client:
        up = await client.get(url.replace("/mcp", "/readyz"))
        assert (up.status_code, up.json()) == (200, {"ready": True, "mount": "up"})
        down = await client.get(small_url.replace("/mcp", "/readyz"))
        assert (down.status_code, down.json()) == (503, {"ready": False, "mount": "down"})


async def test_metrics_count_calls_and_sessions(wire: Wire) -> None:
    async def sessions() -> float:
        text = (await wire.client.get(wire.url.replace("/mcp", "/metrics"))).text
        assert 'vault_calls_total{door="mcp",outcome="ok",tool="echo"}' in text
        (line,) = (line for line in text.splitlines() if line.startswith("vault_mcp_sessions "))
        return float(line.split()[1])

    await wire.modern(call("echo", text="a"))
    before = await sessions()
    session = await wire.open()
    assert await sessions() == before + 1
    await wire.client.delete(wire.url, headers=session)
    assert await sessions() == before


async def test_nothing_wraps_the_listener() -> None:
    """Starlette's middleware for functions would double the cost of every request."""
    assert sample_http().user_middleware == []


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/", "/mcp/x"])
async def test_there_are_no_other_pages(wire: Wire, path: str) -> None:
    assert (await wire.client.get(wire.url.replace("/mcp", path))).status_code == 404
