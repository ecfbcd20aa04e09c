"""Who is refused what: every operation, at every door, for everyone who may not."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from server.access.tokens import TokenStore
from server.app import http_door, open_app
from server.catalog.table import OPERATIONS
from server.history.store import History
from server.models import Caller
from server.settings import load
from server.vault.paths import parse_folder
from tests.real.servers import Server

from .denials import (
    ASKS,
    COVERED,
    DENIED,
    KNOWN,
    MARK,
    OK,
    PROTOCOL,
    UNKNOWN,
    Ask,
    fill,
    past,
)
from .entrances import Answer, Door, Modern, Pipes, Sessions, piped
from .vaults import environ

DOORS = ("http-modern", "http-session", "stdio")
OWNER = "token-of-an-owner-of-everything"


@dataclass(frozen=True)
class House:
    """One vault, with a server at every door."""

    vault: Path
    history: History
    client: httpx2.Client
    bearers: Mapping[str, Mapping[str, str]]
    doors: Mapping[str, Door]
    offered: frozenset[str]
    """The server's capabilities."""

    def asks(self, row: str) -> Sequence[Ask]:
        """What a row asks; the test is skipped while there is nobody to ask."""
        if ASKS[row][0].capability not in self.offered:
            pytest.skip(f"the server offers no {ASKS[row][0].capability}")
        return ASKS[row]

    def traces(self) -> tuple[dict[str, Any], list[int]]:
        """Every name and byte of the vault, and every entry of the history."""
        files = {
            path.relative_to(self.vault).as_posix(): (
                path.stat().st_mtime_ns,
                path.read_bytes() if path.is_file() else None,
            )
            for path in self.vault.rglob("*")
        }
        return files, [entry.id for entry in self.history.recent(10_000)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("denials")
    vault, state = folder / "vault", folder / "state"
    fill(vault)
    tokens = TokenStore(state, parse_folder)
    with ExitStack() as stack:
        shared = {**environ(vault, state), "AUTH": "token", "PUBLISH_REPOS": "owner/name"}
        more = {"AUTH_TOKEN": OWNER, **shared}
        del more["VAULT_PATH"], more["STATE_DIR"]
        http = stack.enter_context(Server(vault, state, **more))
        client = stack.enter_context(
            httpx2.Client(base_url=f"http://127.0.0.1:{http.port}", timeout=30)
        )
        texts = _tokens(tokens, client)
        bearers = _bearers(texts)
        pipes = {
            who: stack.enter_context(
                piped(shared if text is None else {**shared, "CALLER_TOKEN": text})
            )
            for who, text in texts.items()
            if who in UNKNOWN + KNOWN
        }
        doors: dict[str, Door] = {
            "http-modern": Modern(client, bearers),
            "http-session": Sessions(client, bearers),
            "stdio": Pipes(pipes),
        }
        for door in doors.values():
            assert door.ask("revoked", _health()).code == "ok"
            assert door.ask("expired", _health()).code == "ok"
            _until_ready(door, "reader")
            _until_ready(door, "stranger")
        tokens.revoke("revoked")
        _expire(state / "tokens.json", "expired")
        history = History.open(state / "history", max_bytes=1 << 30, max_age_days=90)
        stack.callback(history.close)
        told = doors["http-session"].ask("owner", PROTOCOL["initialize"]).said["result"]
        offered = {name for name, value in told["capabilities"].items() if value is not None}
        yield House(vault, history, client, bearers, doors, frozenset(offered))


def _bearers(texts: Mapping[str, str | None]) -> dict[str, dict[str, str]]:
    return {
        who: {} if text is None else {"Authorization": f"Bearer {text}"}
        for who, text in texts.items()
    }


def _tokens(tokens: TokenStore, client: httpx2.Client) -> dict[str, str | None]:
    """Everybody's token; those of `reader` and `stranger` were for everything once, and used."""
    for who in ("writer", *KNOWN):
        wide = Modern(client, _bearers({who: tokens.create(who)[1]}))
        assert [wide.ask(who, ask.body()).code for ask in past(who)] == ["ok"] * 4
        if who in KNOWN:
            tokens.revoke(who)
    return {
        "nobody": None,
        "wrong": tokens.create("other")[1][:-1] + "~",
        "expired": tokens.create("expired")[1],
        "revoked": tokens.create("revoked")[1],
        "reader": tokens.create("reader", read=["/"])[1],
        "stranger": tokens.create("stranger", read=["mine"], write=["mine"])[1],
        "administrator": tokens.create("administrator", read=["mine"], admin=True)[1],
        "owner": OWNER,
    }


def _expire(file: Path, name: str) -> None:
    """Let the time of a token have run out."""
    book = json.loads(file.read_bytes())
    (token,) = (token for token in book["tokens"] if token["name"] == name)
    token["expires"] = time.time() - 1
    file.with_suffix(".new").write_text(json.dumps(book))
    file.with_suffix(".new").replace(file)


def _health() -> dict[str, Any]:
    return Ask("tools/call", {"name": "health_check", "arguments": {}}).body()


def _until_ready(door: Door, who: str) -> None:
    end = time.monotonic() + 30
    while '"ok"' not in (raw := door.ask(who, _health()).raw) and '\\"ok\\"' not in raw:
        assert time.monotonic() < end, raw
        time.sleep(0.02)


ROWS = pytest.mark.parametrize("row", sorted(ASKS))
AT = pytest.mark.parametrize("at", DOORS)


def test_everything_that_can_be_called_has_a_row(house: House) -> None:
    named = {f"tools/call {op.name}" for op in OPERATIONS}
    door = house.doors["http-session"]
    if "prompts" in house.offered:
        prompts = door.ask("owner", PROTOCOL["prompts/list"]).said["result"]["prompts"]
        named |= {f"prompts/get {prompt['name']}" for prompt in prompts}
    if "resources" in house.offered:
        found = door.ask("owner", PROTOCOL["resources/templates/list"]).said["result"]
        named |= {f"resources/read {one['uriTemplate']}" for one in found["resourceTemplates"]}
    assert named <= set(ASKS), "cover what is new"
    assert all(ASKS.values())
    gone = {row for row in ASKS if row.startswith("tools/call")} - named
    assert not gone, "there is no such operation"
    assert house.offered - {"experimental", "logging", "extensions"} <= set(COVERED), "cover it"


@AT
@pytest.mark.parametrize("who", UNKNOWN)
@ROWS
def test_who_has_no_valid_token_is_refused(house: House, at: str, who: str, row: str) -> None:
    before = house.traces()
    for ask in house.asks(row):
        answer = house.doors[at].ask(who, ask.body())
        if at == "stdio":
            assert answer.code == "unauthorized", ask
        else:
            _check_unauthorized(answer, who)
        assert MARK not in answer.raw
    assert house.traces() == before


def _check_unauthorized(answer: Answer, who: str) -> None:
    """HTTP says it before the protocol, and never why a token is not valid."""
    assert answer.status == 401, answer.raw
    assert json.loads(answer.raw)["error"]["data"]["code"] == "unauthorized"
    assert answer.challenge is not None
    assert answer.challenge.startswith("Bearer ")
    assert ('error="invalid_token"' in answer.challenge) == (who != "nobody")
    assert "resource_metadata=" in answer.challenge


@pytest.mark.parametrize("at", DOORS[:2])
@pytest.mark.parametrize("who", UNKNOWN)
def test_nothing_of_the_protocol_is_open_either(house: House, at: str, who: str) -> None:
    for body in PROTOCOL.values():
        _check_unauthorized(house.doors[at].ask(who, body), who)
    for method in ("GET", "DELETE", "PUT"):
        assert house.client.request(method, "/mcp", headers=house.bearers[who]).status_code == 401


@pytest.mark.parametrize("who", UNKNOWN)
def test_over_stdio_only_the_greeting_is_open(house: House, who: str) -> None:
    for method in ("tools/list", "resources/templates/list", "prompts/list"):
        assert house.doors["stdio"].ask(who, PROTOCOL[method]).code == "unauthorized"


@AT
@ROWS
def test_who_may_only_read_changes_nothing(house: House, at: str, row: str) -> None:
    before = house.traces()
    for ask in house.asks(row):
        answer = house.doors[at].ask("reader", ask.body())
        assert answer.code == (DENIED if ask.writes else OK), ask
    assert house.traces() == before


@AT
@ROWS
def test_who_has_another_folder_learns_nothing_of_this_one(house: House, at: str, row: str) -> None:
    before = house.traces()
    for ask in house.asks(row):
        answer = house.doors[at].ask("stranger", ask.body())
        assert answer.code == ask.stranger, ask
        assert MARK not in answer.raw.lower(), ask
        assert ask.names_the_folder or "theirs" not in answer.raw, ask
    assert house.traces() == before


@ROWS
def test_a_refusal_is_the_same_for_what_is_not_there(house: House, row: str) -> None:
    door = house.doors["http-modern"]
    for ask in house.asks(row):
        asked = json.dumps(ask.body())
        absent = asked.replace("theirs/plan.md", "theirs/none.md")
        if ask.stranger != OK and absent != asked:
            found = [door.ask("stranger", json.loads(text)) for text in (asked, absent)]
            assert found[0].raw.replace("plan", "none") == found[1].raw


ABROAD = "tools/call adr_publish"
"""An owner's call goes on to a repository of others, which is not for tests."""


def test_the_rows_ask_for_what_an_owner_gets(tmp_path: Path) -> None:
    """Without it a row could be refused for another reason, or have nothing to tell."""
    fill(tmp_path / "vault")
    told: dict[str, str] = {}

    async def answer(ask: Ask, caller: Caller) -> str:
        name, arguments = ask.params["name"], ask.params["arguments"]
        return (await app.dispatcher.call(name, arguments, caller)).model_dump_json()

    async def steps() -> None:
        with anyio.fail_after(30):
            while not app.service.status.ready()[0]:
                await anyio.sleep(0.02)
        for who in ("writer", "owner"):
            for ask in past(who):
                await answer(ask, Caller(who))
        rows = [row for row in ASKS if row.startswith("tools/call") and row != ABROAD]
        for row in sorted(rows, key=lambda row: ("undo" not in row, "delete" in row, row)):
            for ask in ASKS[row]:
                told[row] = told.get(row, "") + await answer(ask, Caller("owner", admin=True))

    with open_app(load(environ(tmp_path / "vault", tmp_path / "state"))) as app:
        asyncio.run(steps())
    reading = {f"tools/call {op.name}" for op in OPERATIONS if op.access == "read"}
    silent = {row for row in reading if MARK not in told[row] and "theirs" not in told[row]}
    # Of a vault that nobody changed meanwhile a sync has nothing to tell.
    assert silent == {"tools/call health_check", "tools/call vault_sync"}


PAGES: dict[tuple[str, str], tuple[int, int, int]] = {
    # For those without a valid token, for callers, for administrators.
    ("GET", "/healthz"): (200, 200, 200),
    ("GET", "/.well-known/oauth-protected-resource"): (200, 200, 200),
    ("GET", "/.well-known/oauth-protected-resource/mcp"): (200, 200, 200),
    ("GET", "/readyz"): (401, 200, 200),
    ("GET", "/metrics"): (401, 403, 200),
    ("GET", "/admin/api/approvals"): (401, 403, 200),
    ("GET", "/admin/api/approvals/aaaaaaaaaaaaaaaa"): (401, 403, 404),
    ("POST", "/admin/api/approvals/aaaaaaaaaaaaaaaa"): (401, 403, 404),
    ("GET", "/admin"): (404, 404, 404),
    ("GET", "/docs"): (404, 404, 404),
    ("GET", "/openapi.json"): (404, 404, 404),
}
EXCEPTIONS = {("reader", "/metrics"): 200}
"""Who may read the whole vault may know how large it is."""


@pytest.mark.parametrize(("method", "path"), PAGES)
@pytest.mark.parametrize("who", [*UNKNOWN, *KNOWN, "administrator", "owner"])
def test_pages_are_for_whom_they_are_for(house: House, method: str, path: str, who: str) -> None:
    kind = 0 if who in UNKNOWN else 1 if who in KNOWN else 2
    body = {"decision": "approve"} if method == "POST" else None
    found = house.client.request(method, path, headers=house.bearers[who], json=body)
    expected = EXCEPTIONS.get((who, path), PAGES[method, path][kind])
    assert found.status_code == expected, found.text
    if expected in (401, 403):
        said = "insufficient_scope" if expected == 403 else "resource_metadata"
        assert said in found.headers["www-authenticate"]
    if kind < 2 and who != "reader":
        assert MARK not in found.text
        assert '"scan"' not in found.text


def test_every_page_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    settings = load({**environ(tmp_path / "vault", tmp_path / "state"), "AUTH": "token"})
    with open_app(settings) as app:
        routes = {getattr(route, "path", "") for route in http_door(app).routes}
    named = {path.replace("aaaaaaaaaaaaaaaa", "{id}") for _, path in PAGES}
    assert routes - {"/mcp"} <= named, "cover the new page"


@pytest.mark.parametrize("path", ["/readyz", "/metrics", "/admin/api/approvals"])
def test_a_page_answers_to_no_foreign_name(house: House, path: str) -> None:
    for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        found = house.client.get(path, headers={**house.bearers["owner"], **header})
        assert found.status_code in (421, 403)
