"""Edits of many agents at once, and of a server that is killed: each is made once, and kept.

EDIT_ROUNDS and KEY_ROUNDS set how many there are; `make crash` runs them all.
"""

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from server.history.store import Entry, History
from server.models import etag_of
from tests.contract.conftest import make_bed
from tests.drive.lab import read_whole
from tests.drive.processes import wait_for
from tests.real.servers import Server

AGENTS, NOTES = 8, 20
ROUNDS = int(os.environ.get("EDIT_ROUNDS", "25"))
KILLS = int(os.environ.get("KEY_ROUNDS", "6"))
COUNTER = re.compile(r"^counter: (\d+)( by \S+)?$", re.MULTILINE)
TEXT = "---\nstatus: 1.10 # as it is\n---\n# Note\n\ncounter: 0\n\n## Log\n\n- start\n\n## Rest\n\nend\n"


@dataclass
class Agent:
    """Reads a note and changes what it read; told that others were first, it does so again."""

    server: Server
    name: str
    accepted: list[tuple[str, str]] = field(default_factory=list)
    """Of every edit that was made, the note and the line that it left."""
    merged: int = 0
    conflicts: int = 0
    seconds: list[float] = field(default_factory=list)

    def work(self, rounds: int) -> None:
        chance = random.Random(self.name)
        for number in range(rounds):
            path = f"notes/{chance.randrange(NOTES)}.md"
            begun = time.monotonic()
            while not self.attempt(path, number % 3, f"{self.name}.{number}"):
                self.conflicts += 1
                assert time.monotonic() - begun < 120, "others are always first"
            self.seconds.append(time.monotonic() - begun)

    def read(self, path: str) -> dict[str, Any] | None:
        """None when the mount is just learning of a change, and says so."""
        seen = self.server.call("note_read", path=path)
        return None if seen.get("code") == "unavailable" else seen

    def attempt(self, path: str, kind: int, mark: str) -> bool:
        seen = wait_for(partial(self.read, path), 30, path)
        tool, line, arguments = _edit(kind, mark, seen["content"])
        said = self.server.call(tool, path=path, if_match=seen["etag"], **arguments)
        if said.get("code") == "conflict":
            return False
        assert said.get("changed") is True, said
        self.merged += bool(said.get("merged"))
        self.accepted.append((path, line))
        return True


def _edit(kind: int, mark: str, text: str) -> tuple[str, str, dict[str, Any]]:
    """The tool, the line that it leaves, and the rest of its arguments."""
    if kind == 0:
        line = f"- <{mark}> " + "é" * 60
        target = {"target": "heading", "selector": "Note#Log", "operation": "append"}
        return "note_patch", line, {**target, "content": line}
    if kind == 1:
        line = f"<{mark}> " + "x" * 120
        return "note_write", line, {"mode": "append", "content": line + "\n"}
    found = COUNTER.search(text)
    assert found is not None, text
    line = f"counter: {int(found[1]) + 1} by {mark}"
    target = {"target": "text", "selector": found[0], "operation": "replace"}
    return "note_patch", line, {**target, "content": line}


def check_text(text: str, lines: Sequence[str]) -> None:
    """The note has every accepted line once, whole, and what was there before."""
    counted = [line for line in lines if line.startswith("counter")]
    added = [line for line in lines if not line.startswith("counter")]
    rows = text.split("\n")
    assert Counter(row for row in rows if "<" in row) == Counter(added)
    last = COUNTER.search(text)
    assert last is not None
    assert int(last[1]) == len(counted), "a count is lost"
    assert not counted or last[0] in counted
    kept = [row for row in rows if "<" not in row and not row.startswith("counter")]
    assert kept == [row for row in TEXT.split("\n") if not row.startswith("counter")]


def check_history(entries: Sequence[Entry], content: bytes, edits: int) -> None:
    """Every change found what the one before it left; `entries` come newest first."""
    chain = list(reversed(entries))
    assert len(chain) == edits
    assert chain[0].before is None
    for earlier, later in pairwise(chain):
        assert earlier.after == later.before
    assert chain[-1].after == etag_of(content)


@pytest.mark.timeout(900)
@pytest.mark.requirement("edit.concurrent")
def test_edits_of_many_agents_on_a_mount(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    bed = make_bed(request, tmp_path, "drive")
    assert bed.mount is not None
    bed.mount.lifetime = 850
    # As we recommend: what is uploaded before it gets its name may leave the temporary one behind.
    bed.mount.flags = ("--vfs-write-back=5s",)
    bed.mount.start()
    state = tmp_path / "edits"
    paths = [f"notes/{number}.md" for number in range(NOTES)]
    with Server(bed.folder, state, REQUIRE_MOUNT="true", LOG_LEVEL="warning") as server:
        for path in paths:
            made = server.call("note_write", path=path, mode="create", content=TEXT)
            assert made.get("written") is True, made
        agents = [Agent(server, f"agent{number}") for number in range(AGENTS)]
        begun = time.monotonic()
        with ThreadPoolExecutor(AGENTS) as pool:
            list(pool.map(lambda agent: agent.work(ROUNDS), agents))
        taken = time.monotonic() - begun
        assert server.stop() == 0
    times = sorted(second for agent in agents for second in agent.seconds)
    accepted = [edit for agent in agents for edit in agent.accepted]
    print(
        f"\n{len(accepted)} edits in {taken:.1f} s, {sum(agent.merged for agent in agents)} merged, "
        f"{sum(agent.conflicts for agent in agents)} conflicts, p50 {times[len(times) // 2] * 1e3:.0f} ms, "
        f"p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms"
    )
    assert len(accepted) == AGENTS * ROUNDS
    left = {path: read_whole(bed.folder / path) for path in paths}
    history = History.open(state / "history", max_bytes=1 << 30, max_age_days=1)
    try:
        for path in paths:
            lines = [line for where, line in accepted if where == path]
            data = left[path]
            check_text(data.decode(), lines)
            entries, total = history.of(path, limit=100_000)
            assert total == len(entries)
            check_history(entries, data, len(lines) + 1)
            for entry in entries[:-1]:
                assert history.content(entry.before or "") is not None
        assert history.usage().entries == len(accepted) + NOTES, "an entry is still open"
    finally:
        history.close()
    for path in paths:
        wait_for(lambda path=path: bed.remote(path) == left[path], 60, f"{path} on the drive")  # type: ignore[misc]
    bed.mount.look_again()
    wait_for(lambda: all(file.suffix == ".md" for file in (bed.folder / "notes").iterdir()), 30)


class Line:
    """A line that is sent until it is acknowledged, always with the same key."""

    def __init__(self, number: int) -> None:
        self.path = f"note{number % 2}.md"
        self.text = f"line {number} " + "x" * 300
        self.tool = "note_upsert" if number % 3 == 0 else "note_write"
        self.arguments: dict[str, Any] = {"path": self.path, "idempotency_key": f"key {number}"}
        if self.tool == "note_upsert":
            self.arguments["content"] = self.text
        else:
            self.arguments |= {"content": self.text + "\n", "mode": "append"}
        self.said: dict[str, Any] | None = None

    def send(self, server: Server) -> None:
        try:
            said = server.call(self.tool, timeout=20, **self.arguments)
        except (OSError, HTTPException, ValueError):
            return
        if "etag" in said:
            self.said = said


@pytest.mark.timeout(900)
@pytest.mark.requirement("edit.once")
def test_a_write_that_is_sent_again_after_kill_9_is_made_once(tmp_path: Path) -> None:
    """Killed before, in or after the write, with other writes on top when the retry comes."""
    vault, state = tmp_path / "vault", tmp_path / "state"
    vault.mkdir()
    (vault / "keep.md").write_text("here from the start")
    chance = random.Random(11)
    lines: list[Line] = []
    replayed = 0
    server = Server(vault, state, LOG_LEVEL="warning")
    server.start()
    try:
        for _ in range(KILLS):
            fresh = [Line(len(lines) + number) for number in range(8)]
            lines += fresh
            with ThreadPoolExecutor(8) as pool:
                sent = [pool.submit(line.send, server) for line in fresh]
                threading.Event().wait(chance.uniform(0.0, 0.06))
                server.kill9()
                for call in sent:
                    call.result(60)
            server.start()
            lost = [line for line in fresh if line.said is None]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda line: _insist(line, server), lost))
            replayed += sum(bool((line.said or {}).get("replayed")) for line in lost)
        for line in lines[-8:]:
            said = server.call(line.tool, **line.arguments)
            assert (said["replayed"], said["etag"]) == (True, (line.said or {})["etag"])
        written = Counter(
            row
            for note in ("note0.md", "note1.md")
            for row in (vault / note).read_text().split("\n")
            if row
        )
        assert written == Counter(line.text for line in lines)
        print(
            f"\n{KILLS} kills, {len(lines)} lines, {replayed} found to be written by the dead server"
        )
    finally:
        server.stop()


def _insist(line: Line, server: Server) -> None:
    def acknowledged() -> bool:
        line.send(server)
        return line.said is not None

    wait_for(acknowledged, 40, "an answer")
