"""The real Claude Code: its configurations connect, and its skills do in the vault what they say.

Its model is a stand-in on this machine, which asks for the calls that the skill shows. Everything
else is what a user has: the .mcp.json, the skills in the home folder, the permissions.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.model import serving
from tests.clients.skills import PREFIX, SKILLS, Skill
from tests.clients.snippets import COMMAND, FOLDER, SNIPPETS
from tests.docs.pages import page
from tests.drive.processes import which
from tests.npm import install
from tests.real.servers import Server

SAMPLE = Path(__file__).parents[2] / "server/sample"
SECRET = "a-token-that-is-long-enough"

pytestmark = pytest.mark.timeout(420)


@dataclass(frozen=True)
class User:
    """Somebody with a home, a project in it, and Claude Code."""

    home: Path
    program: Path

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def environ(self) -> dict[str, str]:
        """What Claude Code finds: nothing of ours, and no reason to call home."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TIMEOUT": "120000",
            "MCP_CONNECT_TIMEOUT_MS": "120000",
        }

    def run(self, *arguments: str, **environ: str) -> str:
        """What `claude` says."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.project,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        return done.stdout

    def use(self, transport: str) -> None:
        """Put the file in its place; the answer to "trust it?" is in the settings."""
        snippet = next(one for one in SNIPPETS if str(one) == f"claude-code-{transport}")
        command = which("vault-mcp")
        assert command is not None
        (self.project / snippet.path.name).write_text(snippet.text.replace(COMMAND, command))


@pytest.fixture
def user(request: pytest.FixtureRequest, tmp_path: Path) -> User:
    packages = install(request.config, Path(__file__).parent / "packages")
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text('{"enableAllProjectMcpServers": true}')
    return User(home, packages / "node_modules/.bin/claude")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "vault"))


@pytest.fixture
def server(vault: Path) -> Iterator[Server]:
    with Server(vault, vault.with_name("state"), AUTH_TOKEN=SECRET) as server:
        server.call("devlog_append", topic="backup", entries=[{"type": "impl", "text": "begun"}])
        yield server


@pytest.mark.requirement("clients.files")
def test_it_connects_over_http(user: User, server: Server) -> None:
    user.use("http")
    url = f"http://127.0.0.1:{server.port}"
    said = user.run("mcp", "list", VAULT_MCP_URL=url, VAULT_MCP_TOKEN=SECRET)
    assert "obsidian-vault: " in said
    assert "Connected" in said
    assert "Connected" not in user.run("mcp", "list", VAULT_MCP_URL=url, VAULT_MCP_TOKEN="wrong")


def test_it_connects_over_stdio(user: User, vault: Path) -> None:
    user.use("stdio")
    assert "Connected" in user.run("mcp", "list", VAULT_PATH=str(vault))
    assert "Connected" not in user.run("mcp", "list", VAULT_PATH=str(vault), PORT="no port")


def test_it_connects_with_the_line_that_the_server_prints(user: User, server: Server) -> None:
    line = next(line for line in server.log.read_text().splitlines() if "claude mcp add" in line)
    _, *words = line.replace('"', "").strip().split(" ", 6)
    *words, rest = words
    url, header = rest.split(" --header ")
    user.run(*words, url, "--header", header.replace("$AUTH_TOKEN", SECRET))
    assert "Connected" in user.run("mcp", "list")


def lines_of_the_docs() -> list[tuple[str, str]]:
    """Every `claude mcp add` that the pages tell people to type."""
    return [
        (str(one), line)
        for one in (page("README.md"), page("docs/clients.md"))
        for block in one.blocks()
        for line in block.code.splitlines()
        if line.startswith("claude mcp add ")
    ]


@pytest.mark.parametrize(("where", "line"), lines_of_the_docs())
def test_it_connects_with_the_lines_of_the_docs(
    where: str, line: str, user: User, server: Server, vault: Path
) -> None:
    command = which("vault-mcp")
    assert command is not None
    (user.project / ".venv").symlink_to(Path(command).parents[1])
    (user.home / "Obsidian").mkdir()
    (user.home / "Obsidian/claude").symlink_to(vault)
    if "--transport http" in line and "--header" not in line:
        # For a server that asks for no token, as on a loopback address.
        line += f' --header "Authorization: Bearer {SECRET}"'
    typed = line.replace("http://127.0.0.1:1065", f"http://127.0.0.1:{server.port}")
    subprocess.run(
        ["bash", "-euc", typed],
        cwd=user.project,
        env={**user.environ, "VAULT_MCP_TOKEN": SECRET},
        capture_output=True,
        timeout=150,
        check=True,
    )
    assert "Connected" in user.run("mcp", "list"), where


def _ask(user: User, prompt: str, skill: Skill, server: Server) -> tuple[Any, dict[str, Any], Any]:
    """Use a skill; the model, what Claude Code said at its start, and at its end."""
    user.use("http")
    for one in SKILLS:
        shutil.copytree(FOLDER / "skills" / one.name, user.home / ".claude/skills" / one.name)
    calls = [(PREFIX + tool, arguments) for tool, arguments in skill.calls]
    with serving(calls) as model:
        said = user.run(
            "-p", prompt, "--output-format", "stream-json", "--verbose",
            VAULT_MCP_URL=f"http://127.0.0.1:{server.port}", VAULT_MCP_TOKEN=SECRET,
            ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="not-a-key",
        )  # fmt: skip
    events = [json.loads(line) for line in said.splitlines()]
    assert events[-1]["type"] == "result", said[-2000:]
    return model, events[0], events[-1]


@pytest.mark.requirement("clients.skills")
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_a_skill_does_what_it_says(skill: Skill, user: User, server: Server) -> None:
    model, start, end = _ask(user, f"/{skill.name} backup of the nas", skill, server)
    assert start["mcp_servers"] == [{"name": "obsidian-vault", "status": "connected"}]
    assert {"adr", "catchup", "devlog"} <= set(start["skills"])
    assert "Asked for: backup of the nas" in model.told
    assert len(model.results) == len(skill.calls)
    allowed = [not one.get("is_error") for one in model.results]
    # Without a person to ask, what a skill doesn't have is refused; the rest was really done.
    assert allowed == [tool in skill.tools for tool, _ in skill.calls]
    refused = [one["tool_name"].removeprefix(PREFIX) for one in end["permission_denials"]]
    assert refused == [tool for tool, _ in skill.calls if tool not in skill.tools]


def test_what_a_skill_writes_is_in_the_vault(user: User, server: Server, vault: Path) -> None:
    skill = next(one for one in SKILLS if one.name == "devlog")
    _ask(user, "/devlog backup", skill, server)
    written = (vault / "devlog/backup.md").read_text()
    (entries,) = [arguments["entries"] for tool, arguments in skill.calls if "entries" in arguments]
    assert [entry["text"] in written for entry in entries] == [True] * 4
    problem = server.call("devlog_tail", topic="backup")["entries"][2]
    assert problem["resolution"] == "RequiresMountsFor=/mnt/nas in the unit"
