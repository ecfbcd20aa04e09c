"""The audit of a real server: every call has its line, and no line says what it must not."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.app import App, open_app
from server.audit.head import files_in
from server.audit.verification import verify
from server.catalog.table import OPERATIONS
from server.errors import VaultError
from server.models import Caller
from server.settings import load
from tests.real.servers import Server

from .vaults import environ, fill

MARK = "xq7markedwords"
SESSION = "session-xq7-that-nobody-may-know"
TOKEN = "xq7-token-that-nobody-may-know"
POLICY = """
rules:
  - {path: "", read_allow: true}
  - {path: devlog, write_allow: true}
  - {path: notes, read_deny: true}
callers:
  wide: {rules: [{path: "", read_allow: true, write_allow: true}]}
"""
WORDS: dict[str, dict[str, Any]] = {
    "note_read": {"path": "devlog/api.md", "section": MARK},
    "note_upsert": {"path": "made/a.md", "content": MARK, "frontmatter": {MARK: MARK}},
    "vault_search": {"query": MARK, "context": 1},
    "vault_list": {"depth": 3},
    "note_info": {"path": "made/a.md"},
    "note_read_many": {"paths": ["made/a.md", "absent.md"], "include_metadata": True},
    "note_outline": {"path": "made/a.md"},
    "search_notes": {"mode": "hybrid", "query": f"{MARK} OR tag:#{MARK}"},
    "context_pack": {"question": f"Where is {MARK}?"},
    "list_tags": {},
    "list_properties": {},
    "recent_changes": {"since": "1d"},
    "backlinks_search": {"path": "notes/Welcome.md"},
    "graph_neighbors": {"path": "notes/Welcome.md", "depth": 2},
    "link_add": {"from": "devlog/api.md", "to": "notes/Welcome.md", "alias": MARK},
    "note_write": {"path": "made/b.md", "content": f"# {MARK}\n", "mode": "overwrite"},
    "note_patch": {
        "path": "made/b.md", "target": "heading", "selector": MARK, "operation": "append",
        "content": MARK,
    },
    "notes_edit": {"edits": [{"path": "made/c.md", "content": MARK, "mode": "append"}]},
    "note_move": {"from": "made/c.md", "to": "made/d.md"},
    "heading_rename": {"path": "made/b.md", "heading": MARK, "to": f"{MARK} {MARK}"},
    "note_delete": {"path": "made/d.md"},
    "note_history": {"path": "made/b.md"},
    "note_restore": {"path": "made/d.md"},
    "undo": {"since": "1h"},
    "attachment_read": {"path": "picture.png"},
    "attachment_write": {"path": "made/a.bin", "data": "eHE3bWFya2Vkd29yZHM="},
    "devlog_append": {"topic": "api", "entries": [{"type": "impl", "text": MARK}]},
    "devlog_tail": {"project": MARK},
    "adr_create": {"title": "t", "context": MARK, "decision": MARK, "consequences": MARK},
    "adr_list": {"project": MARK},
    "adr_read": {"adr": 1},
    "adr_set_status": {"adr": 1, "status": "rejected"},
    "adr_publish": {"adr": 1},
    "health_check": {},
    "vault_sync": {"wait": 0},
}  # fmt: skip


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    fill(folder)
    return folder


def lines(state: Path) -> list[dict[str, Any]]:
    folder = state / "audit"
    text = b"".join((folder / name).read_bytes() for name in files_in(folder))
    return [json.loads(line) for line in text.splitlines()]


def run(
    vault: Path, steps: Callable[[App], Any], policy: str | None = None
) -> list[dict[str, Any]]:
    """What the audit says of some steps in a server."""
    state = vault.with_name("state")
    more = {}
    if policy is not None:
        (vault.parent / "policy.yaml").write_text(policy)
        more["POLICY_FILE"] = str(vault.parent / "policy.yaml")
    with open_app(load({**environ(vault, state), **more})) as app:

        async def scenario() -> None:
            with anyio.fail_after(30):
                while not app.service.status.ready()[0]:
                    await anyio.sleep(0.02)
            await steps(app)

        asyncio.run(scenario())
    assert verify(state / "audit").ok
    return lines(state)


async def call(app: App, tool: str, arguments: Mapping[str, Any], name: str = "ana") -> str:
    try:
        await app.dispatcher.call(tool, arguments, Caller(name, session=SESSION))
    except VaultError as error:
        return error.code
    return "ok"


def test_every_operation_has_a_line_without_a_word_of_what_was_said(vault: Path) -> None:
    assert set(WORDS) == {operation.name for operation in OPERATIONS}, "cover the new operation"
    outcomes: dict[str, str] = {}

    async def steps(app: App) -> None:
        for tool, arguments in WORDS.items():
            outcomes[tool] = await call(app, tool, arguments)
            assert await call(app, tool, {**arguments, MARK: 1}) == "invalid_request"

    told = run(vault, steps)
    assert {tool: code for tool, code in outcomes.items() if code != "ok"} == {
        "note_read": "not_found",
        "adr_publish": "permission_denied",
    }
    calls = [line for line in told if line["event"] == "call"]
    assert [(line["tool"], line["outcome"]) for line in calls] == [
        (tool, outcome) for tool in WORDS for outcome in (outcomes[tool], "invalid_request")
    ]
    said = json.dumps(told)
    for secret in (MARK, SESSION, "eHE3bWFya2Vkd29yZHM", str(vault.parent)):
        assert secret not in said
    assert {line["caller"] for line in calls} == {"ana"}
    assert len({line["session"] for line in calls}) == 1


def test_a_denied_call_has_the_rule_that_denied_it(vault: Path) -> None:
    async def steps(app: App) -> None:
        assert await call(app, "note_read", {"path": "notes/Welcome.md"}) == "permission_denied"
        write = {"path": "trash/new.md", "content": MARK, "mode": "create"}
        assert await call(app, "note_write", write) == "permission_denied"
        assert await call(app, "note_read", {"path": "devlog/api.md"}) == "ok"
        samples = app.telemetry.registry.get_sample_value
        assert samples("vault_denied_total", {"tool": "note_read"}) == 1
        assert samples("vault_denied_total", {"tool": "note_write"}) == 1

    read, write, allowed = [line for line in run(vault, steps, POLICY) if line["event"] == "call"]
    assert (read["decision"], read["rule"], read["paths"]) == (
        "deny", "rules[2] (notes)", ["notes/Welcome.md"],
    )  # fmt: skip
    assert (write["decision"], write["action"], write["paths"]) == (
        "deny", "write", ["trash/new.md"],
    )  # fmt: skip
    assert write["rule"] == "no rule allows it"
    assert "changes" not in write
    assert (allowed["decision"], allowed["rule"]) == ("allow", "rules[0] (/)")


def test_a_write_has_its_etags_and_bytes(vault: Path) -> None:
    etags: list[str] = []

    async def steps(app: App) -> None:
        for content in ("one\n", "two two\n"):
            arguments = {"path": "made/a.md", "content": content, "mode": "overwrite"}
            answer: Any = await app.dispatcher.call("note_write", arguments, Caller("wide"))
            etags.append(answer.etag)

    first, second = [line for line in run(vault, steps, POLICY) if line["event"] == "call"]
    assert first["changes"] == [{"path": "made/a.md", "before": None, "after": etags[0]}]
    assert second["changes"] == [{"path": "made/a.md", "before": etags[0], "after": etags[1]}]
    assert (first["bytes"], second["bytes"]) == (4, 8)


def test_what_never_reached_an_operation_has_a_line_too(vault: Path) -> None:
    async def steps(app: App) -> None:
        assert await call(app, "no_such_tool" * 50, {"content": MARK}) == "not_found"
        assert await call(app, "note_read", {"path": 5}) == "invalid_request"
        assert await call(app, "note_read", {"path": ".obsidian/app.md"}) == "path_not_allowed"

    told = [line for line in run(vault, steps) if line["event"] == "call"]
    assert [line["outcome"] for line in told] == [
        "not_found", "invalid_request", "path_not_allowed",
    ]  # fmt: skip
    assert len(told[0]["tool"]) <= 300
    assert [line.get("decision") for line in told] == [None, None, "deny"]


def test_a_cancelled_call_has_a_line(vault: Path) -> None:
    async def steps(app: App) -> None:
        task = asyncio.create_task(call(app, "vault_search", {"query": MARK}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (line,) = [line for line in run(vault, steps) if line["event"] == "call"]
    assert (line["tool"], line["outcome"]) == ("vault_search", "cancelled")


def test_who_is_not_let_in_is_told_with_an_address_and_without_a_token(vault: Path) -> None:
    state = vault.with_name("state")
    with Server(vault, state, AUTH="token", AUTH_TOKEN=TOKEN + "-right") as server:
        for header in ({}, {"Authorization": f"Bearer {TOKEN}"}):
            request = urllib.request.Request(
                f"http://127.0.0.1:{server.port}/mcp",
                b"{}",
                {"Content-Type": "application/json", **header},
            )
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=10)
            caught.value.close()
            assert caught.value.code == 401
    told = [line for line in lines(state) if line["event"] == "refused"]
    assert len(told) == 2
    assert {(line["door"], line["peer"], line["decision"]) for line in told} == {
        ("mcp", "127.0.0.1", "deny")
    }
    assert TOKEN not in json.dumps(lines(state))
    assert verify(state / "audit").ok


def test_servers_that_share_a_state_folder_write_one_chain(vault: Path) -> None:
    state = vault.with_name("state")
    with Server(vault, state) as first, Server(vault, state) as second:
        for _ in range(5):
            for server in (first, second):
                server.call("note_read", path="devlog/api.md")
        first.kill9()
        second.call("note_read", path="devlog/api.md")
    assert verify(state / "audit").ok
    assert sum(line["event"] == "call" for line in lines(state)) == 11


def test_a_server_without_a_place_for_its_audit_serves_on(vault: Path) -> None:
    state = vault.with_name("state")
    state.mkdir()
    (state / "audit").write_text("in the way")
    with open_app(load(environ(vault, state))) as app:
        assert asyncio.run(call(app, "note_read", {"path": "devlog/api.md"})) == "ok"
        assert app.audit.problem is not None
        value = app.telemetry.registry.get_sample_value("vault_audit_errors_total")
        assert value == 2
