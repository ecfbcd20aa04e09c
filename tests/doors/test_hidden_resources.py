"""What a caller may not read is not there: not in lists, completions, prompts, news or errors."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from server.app import App, open_app, stdio_door
from server.models import Caller
from server.settings import load
from tests.drive.processes import wait_for

from .connect import Door, Target
from .test_subscriptions import LISTED, watching
from .vaults import environ

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

ERAS = [Door("memory", "session"), Door("memory", "modern")]
WORD = "xyzzy"
"""Stands in everything that is hidden, and nowhere else."""
HIDDEN = f"""---
tags: [devlog, adr, {WORD}tag]
topic: {WORD}topic
project: {WORD}project
adr: 99
status: proposed
---
# {WORD} title

[problem] 2026-02-20  {WORD} is broken
"""
OPEN = HIDDEN.replace(WORD, "plain").replace("99", "11")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    home = tmp_path_factory.mktemp("hidden")
    vault = home / "vault"
    for path, text in {
        "open/plain.md": OPEN,
        f"{WORD}/ADR-099-{WORD}.md": HIDDEN,
        f"open/{WORD}.md": HIDDEN,
        f"mixed/{WORD}/deep.md": HIDDEN,
        "mixed/fine.md": "nothing special\n",
    }.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    denied = [f"{WORD}", f"open/{WORD}.md", f"mixed/{WORD}"]
    policy = {
        "rules": [{"path": "/", "read_allow": True, "write_allow": True}],
        "callers": {
            "local": {"rules": [{"path": path, "read_deny": True} for path in denied]},
        },
    }
    (home / "policy.yaml").write_text(json.dumps(policy))
    settings = load({**environ(vault, home / "state"), "POLICY_FILE": str(home / "policy.yaml")})
    with open_app(settings) as app:
        wait_for(lambda: app.scanner.progress.first_done)
        yield app


@pytest.fixture(params=ERAS, ids=str)
def era(request: pytest.FixtureRequest) -> Door:
    door: Door = request.param
    return door


@pytest.fixture
async def client(app: App, era: Door) -> AsyncIterator[Client]:
    mode: Any = "legacy" if era.era == "session" else "auto"
    async with Client(stdio_door(app), mode=mode, cache=None) as client:
        yield client


async def test_the_word_is_in_no_answer(client: Client) -> None:
    answers: list[Any] = [await client.list_resources(), client.instructions]
    folders = ("", "open", "mixed")
    answers += [await client.read_resource(f"vault://folder/{folder}") for folder in folders]
    for template in ("note", "folder"):
        for begun in ("", WORD, f"{WORD}/", "open/", f"mixed/{WORD}"):
            reference = ResourceTemplateReference(uri=f"vault://{template}/{{+path}}")
            answers.append(await client.complete(reference, {"name": "path", "value": begun}))
    for prompt, argument in {
        "devlog": "topic",
        "catchup": "tag",
        "weekly-review": "project",
        "adr": "supersedes",
    }.items():
        found = await client.complete(PromptReference(name=prompt), {"name": argument, "value": ""})
        assert found.completion.total == len(found.completion.values)
        answers.append(found)
    for name, arguments in {
        "catchup": {"since": "1w"},
        "weekly-review": {},
        "adr": {"title": "x", "supersedes": "ADR-099"},
        "devlog": {"topic": "plaintopic"},
    }.items():
        answers.append((await client.get_prompt(name, arguments)).messages[1:])
    said = " ".join(map(str, answers))
    assert "plaintopic" in said and "open/plain.md" in said and "11" in said
    assert WORD not in said
    decisions = await client.complete(
        PromptReference(name="adr"), {"name": "supersedes", "value": ""}
    )
    assert decisions.completion.values == ["11"]


@pytest.mark.parametrize(
    ("hidden", "missing"),
    [
        (f"vault://note/open/{WORD}.md", "vault://note/open/xyzzz.md"),
        (f"vault://note/{WORD}/ADR-099-{WORD}.md", "vault://note/xyzzz/ADR-099-xyzzz.md"),
        (f"vault://folder/{WORD}", "vault://folder/xyzzz"),
        (f"vault://folder/mixed/{WORD}", "vault://folder/mixed/xyzzz"),
        (f"vault://note/{WORD}/picture.png", "vault://note/xyzzz/picture.png"),
    ],
)
async def test_a_read_answers_as_for_what_is_not_there(
    client: Client, hidden: str, missing: str
) -> None:
    errors = []
    for uri in (hidden, missing):
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        errors.append(caught.value.error.model_dump_json().replace(uri, "URI"))
    assert errors[0] == errors[1]


async def test_a_prompt_answers_as_for_what_is_not_there(client: Client) -> None:
    errors = []
    for path in (f"open/{WORD}.md", "open/xyzzz.md"):
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("summarise-meeting", {"note": path})
        errors.append(caught.value.error.model_dump_json().replace(path, "PATH"))
    assert errors[0] == errors[1]


async def test_nothing_is_told_of_what_is_hidden(app: App, era: Door) -> None:
    hidden = [
        f"vault://note/open/{WORD}.md",
        f"vault://folder/{WORD}",
        f"vault://note/{WORD}/new {era}.md",
        "vault://folder/mixed",
    ]
    seen = "vault://note/open/plain.md"
    owner = Caller("owner")

    async def write(path: str) -> None:
        arguments = {"path": path, "content": "more"}
        await app.dispatcher.call("note_upsert", arguments, owner)

    async with watching(era, Target("", ["none"], stdio_door(app)), *hidden, seen) as (_, heard):
        for path in (f"open/{WORD}.md", f"{WORD}/new {era}.md", f"mixed/{WORD}/new {era}.md"):
            await write(path)
        await write("open/plain.md")
        await heard.until(lambda told: seen in told)
        await anyio.sleep(0.3)
        assert set(heard.all) == {seen}
        await write(f"mixed/new {era}.md")
        await heard.until(lambda told: {LISTED, "vault://folder/mixed"} <= set(told))
