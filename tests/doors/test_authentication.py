"""Who is let in, over HTTP and stdio, by a real server that is not restarted meanwhile."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server as LowLevel
from mcp.types import CallToolRequestParams, CallToolResult, TextContent
from starlette.requests import Request
from starlette.types import Scope

from server.access.tokens import TokenStore
from server.doors.guards import Origins, Refusal
from server.doors.http import build_http
from server.doors.identity import Administrators, Reception
from server.errors import Unauthorized
from server.models import Caller
from server.telemetry import Telemetry
from server.vault.paths import parse_folder
from tests.real.servers import Server
from tests.unit.access.provider import AUDIENCE, ISSUER, document, published, signed

from .connect import running
from .sample import authenticate, sample_http
from .vaults import fill
from .wire import INITIALIZE, JSON, Wire, call, message, next_answer, raw, request, wired

pytestmark = pytest.mark.anyio
FIXED = "fixed-token-of-the-settings"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests: tokens, a fixed one, and an identity provider's."""
    folder = tmp_path_factory.mktemp("house")
    vault = folder / "vault"
    vault.mkdir()
    fill(vault)
    keys = folder / "keys.json"
    keys.write_bytes(document(published("ES256", "k1")))
    more = {"JWT_ISSUER": ISSUER, "JWT_AUDIENCE": AUDIENCE, "JWT_JWKS": str(keys)}
    with Server(vault, folder / "state", AUTH="token", AUTH_TOKEN=FIXED, **more) as server:
        yield server


@pytest.fixture(scope="module")
def tokens(house: Server) -> TokenStore:
    return TokenStore(Path(house.env["STATE_DIR"]), parse_folder)


@pytest.fixture
async def wire(house: Server) -> AsyncIterator[Wire]:
    async with wired(f"http://127.0.0.1:{house.port}/mcp") as wire:
        yield wire


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def status(wire: Wire, token: str | None) -> int:
    headers = bearer(token) if token is not None else {}
    return (await wire.modern(request("tools/list"), **headers)).status_code


async def said(wire: Wire, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await wire.modern(call(tool, **arguments), **bearer(token))
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = message(answer)["result"]["structuredContent"]
    return data


async def test_every_kind_of_token_opens_the_door(wire: Wire, tokens: TokenStore) -> None:
    _, text = tokens.create("opens")
    for token in (text, FIXED, signed()):
        assert await status(wire, token) == 200
        await wire.open(token)
    for wrong in (None, "wrong", text[:-1], signed(exp=1), signed(which="stranger")):
        assert await status(wire, wrong) == 401


async def test_a_refusal_tells_where_to_get_a_token(wire: Wire, house: Server) -> None:
    base = f"http://127.0.0.1:{house.port}"
    metadata = f'resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
    for body in (INITIALIZE, call("note_read", path="notes/Welcome.md")):
        without = await wire.post(body)
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == f"Bearer {metadata}"
        assert without.json()["error"]["data"] == {
            "code": "unauthorized",
            "message": "A valid bearer token is needed.",
            "hint": "Send the header 'Authorization: Bearer <token>'.",
        }
        wrong = await wire.post(body, bearer("wrong"))
        assert wrong.status_code == 401
        assert wrong.headers["www-authenticate"] == f'Bearer error="invalid_token", {metadata}'
        assert wrong.json() == without.json()
    for path, resource in (("", base), ("/mcp", f"{base}/mcp")):
        told = await wire.client.get(f"{base}/.well-known/oauth-protected-resource{path}")
        assert (told.status_code, told.json()) == (
            200,
            {
                "resource": resource,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "resource_name": "obsidian-vault",
            },
        )
    evil = await wire.client.get(
        f"{base}/.well-known/oauth-protected-resource/mcp", headers={"Host": "evil.example"}
    )
    assert (evil.status_code, "evil" in evil.text) == (421, False)


async def test_only_the_process_itself_is_open_to_all(wire: Wire, house: Server) -> None:
    base = f"http://127.0.0.1:{house.port}"
    assert (await wire.client.get(f"{base}/healthz")).status_code == 200
    for path in ("/readyz", "/metrics"):
        for headers in ({}, bearer("wrong"), {"Host": "evil.example"}):
            refused = await wire.client.get(base + path, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert "evil" not in refused.headers["www-authenticate"]
        assert (await wire.client.get(base + path, headers=bearer(FIXED))).status_code == 200


async def test_a_change_holds_for_the_next_request(wire: Wire, tokens: TokenStore) -> None:
    _, first = tokens.create("changing", expires=time.time() + 3600)
    assert await status(wire, first) == 200
    _, second = tokens.rotate("changing", grace=3600)
    assert [await status(wire, text) for text in (first, second)] == [200, 200]
    _, third = tokens.rotate("changing", grace=0)
    assert [await status(wire, text) for text in (first, second, third)] == [401, 401, 200]
    tokens.revoke("changing")
    assert await status(wire, third) == 401


async def test_a_token_ends_by_itself(wire: Wire, tokens: TokenStore) -> None:
    _, text = tokens.create("brief", expires=time.time() + 1)
    assert await status(wire, text) == 200
    with anyio.fail_after(10):
        while await status(wire, text) == 200:
            await anyio.sleep(0.05)
    assert await status(wire, text) == 401


async def test_a_session_is_its_callers_alone(wire: Wire, tokens: TokenStore) -> None:
    _, mine = tokens.create("mine")
    _, theirs = tokens.create("theirs")
    session = await wire.open(mine)
    for other in (theirs, FIXED, signed(sub="mine")):
        taken = {**session, **bearer(other)}
        assert (await wire.post(request("tools/list", 5), taken)).status_code == 404
        assert (await wire.client.get(wire.url, headers=taken)).status_code == 404
        assert (await wire.client.delete(wire.url, headers=taken)).status_code == 404
    _, rotated = tokens.rotate("mine")
    for text in (mine, rotated):
        own = {**session, **bearer(text)}
        assert (await wire.post(request("tools/list", 6), own)).status_code == 200
    tokens.revoke("mine")
    for text in (mine, rotated):
        gone = {**session, **bearer(text)}
        assert (await wire.post(request("tools/list", 7), gone)).status_code == 401


async def test_a_stream_ends_with_its_token(wire: Wire, tokens: TokenStore) -> None:
    _, text = tokens.create("streams")
    session = {**await wire.open(text), "Accept": "text/event-stream"}
    async with wire.client.stream("GET", wire.url, headers=session) as stream:
        assert stream.status_code == 200
        tokens.revoke("streams")
        with anyio.fail_after(10):
            await stream.aread()


async def test_a_token_is_good_for_its_folders(wire: Wire, tokens: TokenStore) -> None:
    _, text = tokens.create("reader", read=["Notes"])
    assert (await said(wire, text, "note_read", path="notes/Welcome.md"))["exists"] is True
    for tool, arguments in (
        ("note_read", {"path": "devlog/api.md"}),
        ("note_read", {"path": "devlog/absent.md"}),
        ("note_upsert", {"path": "notes/new.md", "content": "x"}),
    ):
        assert (await said(wire, text, tool, **arguments))["code"] == "permission_denied"


async def test_one_header_and_no_other_way(wire: Wire, house: Server) -> None:
    body = json.dumps({**request("tools/list"), "params": {}}).encode()
    head = (
        "POST /mcp HTTP/1.1\nHost: 127.0.0.1:1\nContent-Type: application/json\n"
        f"Accept: application/json, text/event-stream\nContent-Length: {len(body)}\n"
        "Connection: close\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/list"
    )
    for pair in ((FIXED, FIXED), (FIXED, "wrong"), ("wrong", FIXED)):
        lines = "".join(f"\nAuthorization: Bearer {token}" for token in pair)
        answer = raw(house.port, head + lines, body)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert b'error="invalid_request"' in answer
    for query in (f"?access_token={FIXED}", f"?token={FIXED}"):
        asked = await wire.client.post(wire.url + query, json=INITIALIZE, headers=JSON)
        assert asked.status_code == 401
    for scheme in ("Basic", "Token", ""):
        headers = {"Authorization": f"{scheme} {FIXED}".strip()}
        assert (await wire.post(INITIALIZE, headers)).status_code == 401


async def test_a_damaged_file_locks_nobody_out(
    wire: Wire, tokens: TokenStore, house: Server
) -> None:
    _, text = tokens.create("steady")
    assert await status(wire, text) == 200
    file = Path(house.env["STATE_DIR"]) / "tokens.json"
    good = file.read_bytes()
    try:
        file.write_bytes(good[: len(good) // 2])
        assert await status(wire, text) == 200
        assert await status(wire, "wrong") == 401
    finally:
        file.write_bytes(good)
    assert await status(wire, text) == 200
    assert "the tokens make no sense" in house.log.read_text()


async def test_what_the_command_makes_and_revokes(wire: Wire, house: Server) -> None:
    def run(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "server", "token", *argv],
            env=house.env, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    made = json.loads(run("create", "by-command", "--json"))
    assert await status(wire, made["token"]) == 200
    with anyio.fail_after(20):
        while True:
            (row,) = (
                row for row in json.loads(run("list", "--json")) if row["name"] == "by-command"
            )
            if row["last_used"] is not None:
                break
    again = json.loads(run("rotate", "by-command", "--grace", "0", "--json"))
    assert [await status(wire, each["token"]) for each in (made, again)] == [401, 200]
    run("revoke", "by-command")
    assert await status(wire, again["token"]) == 401


async def test_no_secret_is_in_the_log(house: Server, tokens: TokenStore, wire: Wire) -> None:
    _, text = tokens.create("logged")
    assert await status(wire, text) == 200
    log = house.log.read_text()
    assert text[-43:] not in log
    assert FIXED not in log


def test_a_server_without_tokens_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    server = Server(
        tmp_path / "vault", tmp_path / "state", HOST="0.0.0.0", PUBLIC_URL="https://v.example"
    )
    server.start(ready=False)
    try:
        assert server.get("/mcp")[0] == 401
        with pytest.raises(OSError):
            server.call("health_check")
        said = server.log.read_text()
        metadata = json.loads(server.get("/.well-known/oauth-protected-resource/mcp")[1])
    finally:
        server.stop()
    assert "vault-mcp token create NAME" in said
    assert "there are no tokens" in said
    assert "https://v.example/mcp" in said
    assert metadata["resource"] == "https://v.example/mcp"
    assert "authorization_servers" not in metadata


def test_keys_that_can_not_be_read_are_a_problem_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    more = {"JWT_ISSUER": ISSUER, "JWT_AUDIENCE": "a", "JWT_JWKS": str(tmp_path / "none")}
    environ = Server(tmp_path / "vault", tmp_path / "state", **more).env
    done = subprocess.run(
        [sys.executable, "-m", "server", "serve"],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "vault-mcp: JWT_JWKS: can't be used" in done.stderr


# -- stdio ----------------------------------------------------------------------------------------


@contextmanager
def spoken(vault: Path, state: Path, **environ: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """A server over stdio; what is given makes one call and returns its answer."""
    assigned = {"VAULT_PATH": str(vault), "STATE_DIR": str(state), **environ}
    command = ["env", *(f"{name}={value}" for name, value in assigned.items())]
    command += [sys.executable, "-m", "server", "stdio"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running(command=command, **pipes) as server:
        source, sink = server.process.stdout, server.process.stdin
        assert source is not None
        assert sink is not None

        def exchange(body: dict[str, Any]) -> dict[str, Any]:
            sink.write(json.dumps(body) + "\n")
            sink.flush()
            answer: dict[str, Any] = next_answer(source)[1]["result"]
            return answer

        exchange(INITIALIZE)
        sink.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')

        def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            answer: dict[str, Any] = exchange(call(tool, 5, **arguments))["structuredContent"]
            return answer

        yield ask


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "a.md").write_text("text")
    return folder


def test_stdio_trusts_whoever_started_it(vault: Path, tmp_path: Path) -> None:
    more = {"HOST": "0.0.0.0", "AUTH_TOKEN": FIXED}
    with spoken(vault, tmp_path / "state", **more) as ask:
        assert ask("note_read", path="a.md")["exists"] is True


def test_stdio_acts_under_its_token_while_that_holds(vault: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    tokens = TokenStore(state, parse_folder)
    _, text = tokens.create("pipe", read=["a.md"])
    (tmp_path / "secret").write_text(text + "\n")
    with spoken(vault, state, AUTH="token", CALLER_TOKEN_FILE=str(tmp_path / "secret")) as ask:
        assert ask("note_read", path="a.md")["exists"] is True
        assert ask("note_read", path="b.md")["code"] == "permission_denied"
        tokens.revoke("pipe")
        assert ask("note_read", path="a.md")["code"] == "unauthorized"


@pytest.mark.parametrize("more", [{}, {"CALLER_TOKEN": "wrong"}])
def test_stdio_without_its_token_does_nothing(
    vault: Path, tmp_path: Path, more: dict[str, str]
) -> None:
    with spoken(vault, tmp_path / "state", AUTH="token", **more) as ask:
        for tool in ("note_read", "note_upsert", "health_check"):
            refused = ask(tool, path="new.md", content="x") if tool != "health_check" else ask(tool)
            assert refused["code"] == "unauthorized"
    assert sorted(path.name for path in vault.iterdir() if path.suffix) == ["a.md"]


# -- what no page shows yet -----------------------------------------------------------------------


def scope_of(client: str | None = "127.0.0.1", *headers: tuple[str, str]) -> Scope:
    named = [("host", "localhost:1"), *headers]
    return {
        "type": "http", "method": "GET", "path": "/admin", "scheme": "http", "state": {},
        "client": None if client is None else (client, 5),
        "headers": [(name.encode(), value.encode()) for name, value in named],
    }  # fmt: skip


def administrators(**options: Any) -> Administrators:
    def known(token: str | None) -> Caller:
        if token in ("boss", "agent"):
            return Caller(token, admin=token == "boss")
        raise Unauthorized("no")

    reception = Reception(known, Origins(["localhost:*"], ["https://v.example"]))
    usual = {"proxy": "127.0.0.1", "logins": frozenset({"ann@example.com"}), **options}
    return Administrators(reception, lambda caller: caller.admin, **usual)


LOGIN = ("tailscale-user-login", "Ann@example.com")


async def test_an_administrator_has_a_token_or_a_login() -> None:
    people = administrators()
    assert (await people.admit(scope_of(None, ("authorization", "Bearer boss")))).name == "boss"
    for peer in ("127.0.0.1", "::ffff:127.0.0.1"):
        caller = await people.admit(scope_of(peer, LOGIN))
        assert caller == Caller("tailscale:ann@example.com", door="admin", admin=True)


@pytest.mark.parametrize(
    ("client", "headers", "refusal"),
    [
        ("127.0.0.1", [], 401),
        ("127.0.0.2", [LOGIN], 401),
        (None, [LOGIN], 401),
        ("127.0.0.1", [("tailscale-user-login", "bob@example.com")], 403),
        ("127.0.0.1", [LOGIN, ("tailscale-user-login", "x")], 403),
        ("127.0.0.1", [LOGIN, ("authorization", "Bearer wrong")], 401),
        ("127.0.0.1", [LOGIN, ("authorization", "Bearer agent")], 403),
        ("127.0.0.1", [LOGIN, ("origin", "https://evil.example")], 403),
        ("127.0.0.1", [("x-forwarded-for", "127.0.0.1")], 401),
    ],
)
async def test_nobody_else_administers(
    client: str | None, headers: list[tuple[str, str]], refusal: int
) -> None:
    with pytest.raises(Refusal) as caught:
        await administrators().admit(scope_of(client, *headers))
    assert caught.value.response.status_code == refusal
    if ("authorization", "Bearer agent") in headers:
        challenge = caught.value.response.headers["www-authenticate"]
        assert challenge == 'Bearer error="insufficient_scope"'


async def test_without_a_trusted_proxy_no_login_counts() -> None:
    choices: list[dict[str, Any]] = [
        {"proxy": None},
        {"proxy": "10.0.0.1"},
        {"logins": frozenset()},
    ]
    for options in choices:
        with pytest.raises(Refusal):
            await administrators(**options).admit(scope_of("127.0.0.1", LOGIN))


async def test_a_login_opens_no_tools(wire: Wire) -> None:
    named = {"Tailscale-User-Login": "ann@example.com"}
    assert (await wire.post(INITIALIZE, named)).status_code == 401


async def test_a_check_that_may_wait_does_not_hold_up_others() -> None:
    threads: list[threading.Thread] = []

    def known(token: str | None) -> Caller:
        threads.append(threading.current_thread())
        return Caller(str(token))

    reception = Reception(known, Origins([], []), may_wait=lambda token: token == "slow")
    for token in ("slow", "quick"):
        asked = Request(scope_of(None, ("authorization", f"Bearer {token}")))
        assert (await reception.admit(asked.scope, asked.headers)).name == token
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


# -- elicitation ----------------------------------------------------------------------------------


@contextmanager
def asking() -> Iterator[str]:
    """A server with one tool, which asks its caller something before it answers."""

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], _params: CallToolRequestParams
    ) -> CallToolResult:
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        answer = await ctx.session.elicit_form("Sure?", schema, ctx.request_id)
        return CallToolResult(content=[TextContent(text=f"{answer.action} {answer.content}")])

    app = build_http(
        LowLevel("asking", on_call_tool=call_tool),
        version="1",
        allowed_hosts=["127.0.0.1:*"],
        allowed_origins=[],
        max_body_bytes=10_000,
        session_idle_seconds=60,
        max_sessions=10,
        authenticate=authenticate,
        ready=lambda: (True, {}),
        telemetry=Telemetry(),
    )
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(20)


async def test_a_question_is_answered_by_the_caller_who_was_asked() -> None:
    with asking() as url:
        async with wired(url) as wire:
            able = {**INITIALIZE["params"], "capabilities": {"elicitation": {}}}
            opened = await wire.post({**INITIALIZE, "params": able}, bearer("alice-token"))
            alice = {
                "Mcp-Session-Id": opened.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
                **bearer("alice-token"),
            }
            await wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, alice)
            body = json.dumps(call("ask", 3))
            async with wire.client.stream(
                "POST", url, content=body, headers={**JSON, **alice}
            ) as stream:
                lines = (line[6:] async for line in stream.aiter_lines() if line[:6] == "data: ")
                question = json.loads(await anext(lines))
                assert question["method"] == "elicitation/create"
                for others, sure in (
                    (bearer("bob-token"), "bob"),
                    ({"Authorization": ""}, "guest"),
                ):
                    forged = _answer(question["id"], sure)
                    refused = await wire.post(forged, {**alice, **others})
                    assert refused.status_code == 404
                given = await wire.post(_answer(question["id"], "alice"), alice)
                assert given.status_code == 202
                answer = json.loads(await anext(lines))
    text = answer["result"]["content"][0]["text"]
    assert re.fullmatch(r"accept .*alice.*", text)


def _answer(number: int | str, sure: str) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "result": {"action": "accept", "content": {"sure": sure}},
    }


def test_without_tokens_to_get_there_is_no_metadata() -> None:
    paths = {getattr(route, "path", "") for route in sample_http().routes}
    assert not any("well-known" in path for path in paths)
