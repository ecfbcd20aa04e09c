"""A write that needs an approval is put to the user of the client, in both eras, over real HTTP."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)

from server.access.tokens import TokenStore
from server.vault.paths import parse_folder
from tests.real.servers import Server

from .connect import ENVIRONMENT, ROOT

pytestmark = pytest.mark.anyio

OWNER = "owner-of-the-vault-token"
YES = ElicitResult(action="accept", content={"approve": True})
Era = Literal["session", "modern"]
ERAS: list[Era] = ["session", "modern"]


@dataclass
class Place:
    """A server that asks before it writes, and who may speak to it."""

    server: Server
    vault: Path
    tokens: dict[str, str]

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def approvals(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`vault-mcp approvals`, beside the running server."""
        return subprocess.run(
            [sys.executable, "-m", "server", "approvals", *arguments],
            env={**self.server.env, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("asking")
    vault, state = folder / "vault", folder / "state"
    vault.mkdir()
    state.mkdir()
    store = TokenStore(state, parse_folder)
    tokens = {name: store.create(name)[1] for name in ("ann", "bob")}
    environ = {
        "WRITE_MODE": "confirm", "AUTH": "token", "AUTH_TOKEN": OWNER, "APPROVAL_SECONDS": "3",
        "LOG_LEVEL": "warning",
    }  # fmt: skip
    with Server(vault, state, **environ) as server:
        yield Place(server, vault, {**tokens, "owner": OWNER})


@dataclass
class Person:
    """Who sits before the client: says the same to everything, and remembers the questions."""

    say: ElicitResult | ErrorData
    before: Callable[[], Any] = lambda: None
    questions: list[str] = field(default_factory=list)

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        self.questions.append(params.message)
        found = self.before()
        if found is not None:
            await found
        return self.say


@asynccontextmanager
async def connected(
    place: Place, era: Era, person: Person | None = None, who: str = "ann"
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {place.tokens[who]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(
            streamable_http_client(f"{place.base}/mcp", http_client=http),
            mode="legacy" if era == "session" else "auto",
            elicitation_callback=person,
            cache=None,
        ) as client,
    ):
        yield client


def told(result: CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def write(path: str, content: str = "hello\n") -> dict[str, Any]:
    return {"path": path, "content": content, "mode": "append"}


async def ask_admin(
    place: Place, method: str, path: str = "", who: str | None = "owner", **options: Any
) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {place.tokens[who]}"} if who else {}
    async with httpx2.AsyncClient(timeout=30) as http:
        return await http.request(
            method,
            f"{place.base}/admin/api/approvals{path}",
            headers={**headers, **options.pop("headers", {})},
            **options,
        )


async def state_of(place: Place, id: str) -> str:
    return str((await ask_admin(place, "GET", f"/{id}")).json()["state"])


async def waiting(place: Place, path: str) -> list[dict[str, Any]]:
    rows = (await ask_admin(place, "GET")).json()["approvals"]
    return [row for row in rows if row["paths"] == [path] and row["state"] == "waiting"]


# -- a client that can ask ------------------------------------------------------------------------


@pytest.mark.requirement("confirm.client")
@pytest.mark.parametrize("era", ERAS)
async def test_the_user_says_yes(place: Place, era: Era) -> None:
    path, person = f"yes-{era}.md", Person(YES)
    async with connected(place, era, person) as client:
        result = await client.call_tool("note_write", write(path))
    answer = told(result)
    assert (answer["written"], answer["path"]) == (True, path)
    assert "pending" not in answer
    assert "dry_run" not in answer
    assert (place.vault / path).read_text() == "hello\n"
    (question,) = person.questions
    assert "note_write" in question
    assert f"+++ b/{path}" in question
    assert "+hello" in question


@pytest.mark.requirement("confirm.client")
@pytest.mark.parametrize("era", ERAS)
async def test_over_stdio_the_user_is_asked_as_well(tmp_path: Path, era: Era) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    environ = {
        "VAULT_PATH": str(vault),
        "STATE_DIR": str(tmp_path / "state"),
        "WRITE_MODE": "confirm",
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "server", "stdio"], env={**ENVIRONMENT, **environ}
    )
    mode: Literal["legacy", "auto"] = "legacy" if era == "session" else "auto"
    person = Person(YES)
    async with Client(server, mode=mode, elicitation_callback=person, cache=None) as client:
        assert told(await client.call_tool("note_write", write("a.md")))["written"] is True
        person.say = ElicitResult(action="decline")
        assert (
            told(await client.call_tool("note_write", write("b.md")))["code"] == "permission_denied"
        )
    assert [file.name for file in vault.glob("*.md")] == ["a.md"]


@pytest.mark.requirement("confirm.client")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "said",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"approve": False}),
        ElicitResult(action="accept"),
    ],
    ids=["decline", "cancel", "no", "nothing"],
)
async def test_the_user_says_no(place: Place, era: Era, said: ElicitResult) -> None:
    path = f"no-{era}-{said.action}-{len(said.content or {})}.md"
    async with connected(place, era, Person(said)) as client:
        result = await client.call_tool("note_write", write(path))
    assert result.is_error
    assert (told(result)["code"], told(result)["message"]) == (
        "permission_denied",
        "The user declined.",
    )
    assert not (place.vault / path).exists()
    assert await waiting(place, path) == []


@pytest.mark.requirement("confirm.client")
@pytest.mark.parametrize("era", ERAS)
async def test_what_changed_while_the_user_thought_is_left_alone(place: Place, era: Era) -> None:
    file = place.vault / f"under-{era}.md"
    file.write_text("first\n")
    person = Person(YES, before=lambda: file.write_text("changed\n") and None)
    async with connected(place, era, person) as client:
        result = await client.call_tool("note_write", write(file.name))
    assert told(result)["code"] == "conflict"
    assert file.read_text() == "changed\n"
    assert await waiting(place, file.name) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_diff_is_cut(place: Place, era: Era) -> None:
    person = Person(ElicitResult(action="decline"))
    lines = "".join(f"line {number} of many\n" for number in range(1000))
    async with connected(place, era, person) as client:
        await client.call_tool("note_write", write(f"long-{era}.md", lines))
    assert 1_000 < len(person.questions[0]) < 3_000


# -- a client that can't, or doesn't --------------------------------------------------------------


@pytest.mark.requirement("confirm.waits")
@pytest.mark.parametrize("era", ERAS)
async def test_without_a_form_the_write_waits_in_the_queue(place: Place, era: Era) -> None:
    path = f"queue-{era}.md"
    async with connected(place, era) as client:
        result = await client.call_tool("note_write", write(path))
        assert not result.is_error
        answer = told(result)
        assert answer["dry_run"] is True
        assert "+hello" in answer["diff"]
        again = told(await client.call_tool("note_write", write(path)))
    assert again["pending"] == answer["pending"]
    assert not (place.vault / path).exists()
    (row,) = await waiting(place, path)
    assert (row["id"], row["caller"]) == (answer["pending"]["approval"], "ann")


async def test_a_user_who_never_answers_leaves_it_in_the_queue(place: Place) -> None:
    path = "silent.md"
    person = Person(YES, before=lambda: anyio.sleep(20))
    async with connected(place, "session", person) as client:
        with anyio.fail_after(15):
            answer = told(await client.call_tool("note_write", write(path)))
    assert answer["pending"]
    assert not (place.vault / path).exists()
    assert len(await waiting(place, path)) == 1


async def test_a_client_that_fails_to_ask_leaves_it_in_the_queue(place: Place) -> None:
    path = "failing.md"
    person = Person(ErrorData(code=-32000, message="no window"))
    async with connected(place, "session", person) as client:
        answer = told(await client.call_tool("note_write", write(path)))
    assert answer["pending"]
    assert len(await waiting(place, path)) == 1


async def test_the_owner_may_decide_before_the_user(place: Place) -> None:
    path = "sooner.md"

    async def decide() -> None:
        (row,) = await waiting(place, path)
        body = {"decision": "approve"}
        assert (await ask_admin(place, "POST", f"/{row['id']}", json=body)).status_code == 200

    for era in ERAS:
        person = Person(YES, before=decide)
        async with connected(place, era, person) as client:
            result = await client.call_tool("note_write", write(path))
        assert told(result)["code"] == "conflict"
    assert (place.vault / path).read_text() == "hello\nhello\n", "once in each era"


# -- answers by hand, in the modern era -----------------------------------------------------------


async def asked(client: Client, arguments: dict[str, Any], tool: str = "note_write") -> str:
    """The state of a question that a call ends with."""
    result = await client.session.call_tool(tool, arguments, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    assert result.input_requests is not None
    assert list(result.input_requests) == ["approve"]
    assert result.request_state
    return result.request_state


async def answered(
    client: Client, arguments: dict[str, Any], state: str, tool: str = "note_write"
) -> dict[str, Any]:
    result = await client.session.call_tool(
        tool, arguments, input_responses={"approve": YES}, request_state=state,
        allow_input_required=True,
    )  # fmt: skip
    assert isinstance(result, CallToolResult)
    return told(result)


@pytest.mark.requirement("confirm.client")
async def test_an_answer_counts_once(place: Place) -> None:
    arguments = write("replay.md")
    async with connected(place, "modern", Person(YES)) as client:
        state = await asked(client, arguments)
        assert (await answered(client, arguments, state))["written"] is True
        replay = await answered(client, arguments, state)
        assert replay["code"] in ("conflict", "permission_denied")
        # While the same write waits again, the old answer is still no answer.
        await asked(client, arguments)
        assert (await answered(client, arguments, state))["code"] in (
            "conflict",
            "permission_denied",
        )
    assert (place.vault / "replay.md").read_text() == "hello\n"


@pytest.mark.requirement("confirm.client")
async def test_an_answer_is_the_callers_own(place: Place) -> None:
    arguments = write("others.md")
    async with (
        connected(place, "modern", Person(YES)) as ann,
        connected(place, "modern", Person(YES), "bob") as bob,
    ):
        state = await asked(ann, arguments)
        refused = await answered(bob, arguments, state)
        assert refused["code"] == "permission_denied"
        assert not (place.vault / "others.md").exists()
        assert (await answered(ann, arguments, state))["written"] is True


@pytest.mark.requirement("confirm.client")
@pytest.mark.parametrize("change", ["content", "path", "tool"])
async def test_an_answer_is_for_what_was_asked(place: Place, change: str) -> None:
    path, other = f"bound-{change}.md", f"bound-{change}-other.md"
    arguments = write(path)
    changed = write(other) if change == "path" else write(path, "else\n")
    async with connected(place, "modern", Person(YES)) as client:
        state = await asked(client, arguments)
        if change == "tool":
            upsert = {"path": path, "content": "hello\n"}
            refused = await answered(client, upsert, state, "note_upsert")
        else:
            refused = await answered(client, changed, state)
    assert refused["code"] == "permission_denied"
    assert not (place.vault / path).exists()
    assert not (place.vault / other).exists()


async def test_an_approval_id_is_no_answer(place: Place) -> None:
    arguments = write("guess.md")
    async with connected(place, "modern") as silent:
        answer = told(await silent.call_tool("note_write", arguments))
    id = answer["pending"]["approval"]
    async with connected(place, "modern", Person(YES)) as client:
        for state in (id, f"{id}.", f"{id}.{'a' * 22}", "..", "nonsense", f"{'a' * 16}.x"):
            assert (await answered(client, arguments, state))["code"] == "permission_denied", state
    assert not (place.vault / "guess.md").exists()


async def test_another_kind_of_answer_is_refused(place: Place) -> None:
    arguments = write("kind.md")
    async with connected(place, "modern", Person(YES)) as client:
        state = await asked(client, arguments)
        result = await client.session.call_tool(
            "note_write", arguments, request_state=state, allow_input_required=True
        )
        assert isinstance(result, InputRequiredResult), "without an answer it asks again"
        assert result.request_state is not None
        assert result.request_state != state
        assert (await answered(client, arguments, result.request_state))["written"] is True


# -- the command line, beside the server ----------------------------------------------------------


async def queued(place: Place, path: str, content: str = "hello\n", who: str = "ann") -> str:
    async with connected(place, "modern", who=who) as client:
        answer = told(await client.call_tool("note_write", write(path, content)))
    return str(answer["pending"]["approval"])


async def test_the_command_line_shows_and_decides(place: Place) -> None:
    first, second = await queued(place, "cli-a.md"), await queued(place, "cli-b.md", "\x1b[2Jx\n")
    listed = place.approvals("list")
    assert listed.returncode == 0, listed.stderr
    assert any(line.startswith(first) and "cli-a.md" in line for line in listed.stdout.splitlines())
    rows = json.loads(place.approvals("--json").stdout)
    assert {first, second} <= {row["id"] for row in rows}
    shown = place.approvals("show", second)
    assert "+++ b/cli-b.md" in shown.stdout
    assert "\x1b" not in shown.stdout, "a note must not steer the terminal"
    assert json.loads(place.approvals("show", first, "--json").stdout)["diff"].endswith("+hello")
    approved = place.approvals("approve", first)
    assert (approved.returncode, approved.stdout) == (0, "Written: cli-a.md\n"), approved.stderr
    assert (place.vault / "cli-a.md").read_text() == "hello\n"
    twice = place.approvals("approve", first)
    assert twice.returncode == 1
    assert "applied already" in twice.stderr
    denied = place.approvals("deny", second, "--reason", "not now", "--json")
    assert json.loads(denied.stdout)["reason"] == "not now"
    assert not (place.vault / "cli-b.md").exists()
    assert await state_of(place, second) == "denied"
    assert place.approvals("deny", "x").returncode == 1
    everything = json.loads(place.approvals("list", "--all", "--json").stdout)
    assert {first: "applied", second: "denied"}.items() <= {
        row["id"]: row["state"] for row in everything
    }.items()
    audit = Path(place.server.env["STATE_DIR"], "audit")
    lines = "".join(file.read_text(encoding="utf-8") for file in audit.iterdir())
    assert f'"id":"{first}"' in lines.replace('": "', '":"')


async def test_an_approval_of_the_command_line_is_seen_by_the_server(place: Place) -> None:
    id = await queued(place, "seen.md", "needle-of-the-command-line\n")
    assert place.approvals("approve", id).returncode == 0
    async with connected(place, "modern") as client:
        result = await client.call_tool("note_read", {"path": "seen.md"})
    assert told(result)["content"] == "needle-of-the-command-line\n"


async def test_of_the_command_line_and_the_page_one_writes(place: Place) -> None:
    id = await queued(place, "race.md")
    process = await anyio.open_process(
        [sys.executable, "-m", "server", "approvals", "approve", id],
        env={**place.server.env, "PYTHONPATH": ENVIRONMENT["PYTHONPATH"]},
    )
    statuses = []
    while process.returncode is None:
        body = {"decision": "approve"}
        statuses.append((await ask_admin(place, "POST", f"/{id}", json=body)).status_code)
        with anyio.move_on_after(0.05):
            await process.wait()
    assert statuses.count(200) + (process.returncode == 0) == 1
    assert (place.vault / "race.md").read_text() == "hello\n"


# -- the pages of administrators ------------------------------------------------------------------


async def test_an_administrator_looks_and_decides_over_http(place: Place) -> None:
    id = await queued(place, "page.md")
    page = await ask_admin(place, "GET", f"/{id}")
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
    assert "+hello" in page.json()["diff"]
    assert page.json()["paths"] == ["page.md"]
    done = await ask_admin(place, "POST", f"/{id}", json={"decision": "approve"})
    assert (done.status_code, done.json()["state"], done.json()["by"]) == (200, "applied", "token")
    assert (place.vault / "page.md").read_text() == "hello\n"
    late = await ask_admin(place, "POST", f"/{id}", json={"decision": "deny"})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    other = await queued(place, "page2.md")
    body = {"decision": "deny", "reason": "no"}
    denied = await ask_admin(place, "POST", f"/{other}", json=body)
    assert denied.json()["reason"] == "no"
    assert not (place.vault / "page2.md").exists()


async def test_a_page_says_that_a_note_changed_underneath(place: Place) -> None:
    (place.vault / "below.md").write_text("first\n")
    id = await queued(place, "below.md")
    (place.vault / "below.md").write_text("person\n")
    answer = await ask_admin(place, "POST", f"/{id}", json={"decision": "approve"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert (place.vault / "below.md").read_text() == "person\n"
    assert await state_of(place, id) == "outdated"


async def test_nobody_else_sees_the_pages(place: Place) -> None:
    id = await queued(place, "closed.md")
    for method, path in (("GET", ""), ("GET", f"/{id}"), ("POST", f"/{id}")):
        options: dict[str, Any] = {"json": {"decision": "approve"}} if method == "POST" else {}
        assert (await ask_admin(place, method, path, None, **options)).status_code == 401
        assert (await ask_admin(place, method, path, "ann", **options)).status_code == 403
        login = {"Tailscale-User-Login": "owner@example.com"}
        answer = await ask_admin(place, method, path, None, headers=login, **options)
        assert answer.status_code == 401
    assert not (place.vault / "closed.md").exists()


async def test_a_foreign_page_decides_nothing(place: Place) -> None:
    id = await queued(place, "foreign.md")
    body = json.dumps({"decision": "approve"})
    for headers, status in (
        ({"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example", "Content-Type": "application/json"}, 421),
    ):
        answer = await ask_admin(place, "POST", f"/{id}", content=body, headers=headers)
        assert answer.status_code == status, headers
    assert await state_of(place, id) == "waiting"
    assert not (place.vault / "foreign.md").exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"decision": "maybe"}', b'{"decision":1}'])
async def test_what_is_no_decision_decides_nothing(place: Place, body: bytes) -> None:
    id = await queued(place, "unclear.md")
    json_type = {"Content-Type": "application/json"}
    answer = await ask_admin(place, "POST", f"/{id}", content=body, headers=json_type)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    long = json.dumps({"decision": "approve", "reason": "x" * 100_000})
    answer = await ask_admin(place, "POST", f"/{id}", content=long, headers=json_type)
    assert answer.status_code == 413
    assert (await ask_admin(place, "GET", "/nothing")).status_code == 404
    assert await state_of(place, id) == "waiting"
