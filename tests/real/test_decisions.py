"""Decisions and devlogs of many agents through two servers on one vault: no number twice, no line lost."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

from server.markdown.frontmatter import split
from tests.real.servers import Server

AGENTS, LINES = 16, 10
INDEX = "# Mine\n\n| Status | ADR | Title |\n|---|---|---|\n\nA person's words.\n"


@pytest.fixture(params=["one state", "two states"])
def servers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Server]]:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "_index.md").write_text(INDEX)
    names = ("state", "state" if request.param == "one state" else "other")
    with ExitStack() as stack:
        yield [stack.enter_context(Server(vault, tmp_path / name)) for name in names]


@pytest.mark.requirement("tool.adr_create.concurrent")
def test_agents_of_two_servers_get_numbers_of_their_own(
    tmp_path: Path, servers: list[Server]
) -> None:
    vault, barrier = tmp_path / "vault", Barrier(AGENTS)

    def create(agent: int) -> int:
        barrier.wait(30)
        said = servers[agent % 2].call(
            "adr_create", title=f"Title {agent}", context="c", decision="d", consequences="e"
        )
        assert "adr" in said, said
        assert (vault / said["path"]).exists()
        return int(said["adr"])

    with ThreadPoolExecutor(AGENTS) as pool:
        numbers = list(pool.map(create, range(AGENTS)))
    assert sorted(numbers) == list(range(1, AGENTS + 1))
    files = {
        int(split(file.read_text()).properties["adr"]): file for file in (vault / "adr").iterdir()
    }
    assert sorted(files) == sorted(numbers)
    for agent, number in enumerate(numbers):
        assert f"# ADR-{number:03d}: Title {agent}\n" in files[number].read_text()
    text = (vault / "_index.md").read_text()
    rows = re.findall(
        r"^\| accepted \| \[\[ADR-(\d+)-title-(\d+)\\\|ADR-\1\]\] \| Title \2 \|$",
        text,
        re.MULTILINE,
    )
    assert sorted((int(n), int(agent)) for n, agent in rows) == sorted(
        (number, agent) for agent, number in enumerate(numbers)
    )
    assert text.startswith(INDEX.partition("\n\nA person")[0])
    assert text.endswith("\n\nA person's words.\n")


@pytest.mark.requirement("tool.devlog_append.concurrent")
def test_agents_of_two_servers_lose_no_line(tmp_path: Path, servers: list[Server]) -> None:
    vault, barrier = tmp_path / "vault", Barrier(AGENTS)

    def append(agent: int) -> bool:
        barrier.wait(30)
        entries = [{"type": "impl", "text": f"agent {agent} line {n}"} for n in range(LINES)]
        said = servers[agent % 2].call("devlog_append", topic="Busy", entries=entries)
        assert said.get("lines") == LINES, said
        return bool(said["created"])

    with ThreadPoolExecutor(AGENTS) as pool:
        assert sum(pool.map(append, range(AGENTS))) == 1
    text = (vault / "devlog/busy.md").read_text()
    lines = re.findall(r"^\[impl\]    (\S+)  (agent \d+ line \d+)$", text, re.MULTILINE)
    expected = [f"agent {agent} line {n}" for agent in range(AGENTS) for n in range(LINES)]
    assert sorted(line for _, line in lines) == sorted(expected)
    properties = split(text).properties
    assert properties["updated"].isoformat() == max(day for day, _ in lines)
    assert properties["created"] <= properties["updated"]
