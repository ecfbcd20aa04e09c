"""A folder of notes moves with every link to it: killed on the way, and on real mounts.

The number of rounds and the size of the vault are bounded here; with CRASH_ROUNDS=20, 50 moves of 500
notes with 2,000 links to them are killed.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.drive.lab import read_whole
from tests.drive.processes import wait_for
from tests.oracle.links import Files, make_box, read_links
from tests.oracle.test_moves import check
from tests.real.agents import Agent
from tests.real.servers import Server

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "2")) * 5 // 2
"""50 when CRASH_ROUNDS is 20."""
NOTES, LINKS = (500, 2000) if "CRASH_ROUNDS" in os.environ else (40, 160)
PLACES = ("Crate", "Shelf/Crate ü")


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def on_disk(folder: Path) -> Files:
    """Every file, with the temporary ones, without what the server and Obsidian keep there."""
    return {
        str(file.relative_to(folder)): read_whole(file)
        for file in folder.rglob("*")
        if file.is_file() and file.name != ".vault-mcp"
    }


def moves_of(files: Files, old: str, new: str) -> dict[str, str]:
    return {path: new + path[len(old) :] for path in files if path.startswith(f"{old}/")}


def check_index(server: Server, files: Files) -> None:
    """The index has the files that are there, and sees the links that they hold."""

    def listed() -> set[str]:
        items: list[dict[str, Any]] = []
        while True:
            page = server.call("vault_list", depth=20, limit=1000, offset=len(items))
            items += page["entries"]
            if not page["truncated"]:
                return {item["path"] for item in items if item["kind"] != "folder"}

    wait_for(lambda: listed() == set(files), 30, "the index to agree with the disk")
    wanted: dict[str, list[str]] = {}
    for link in (link for link in read_links(files) if link.source != link.path):
        wanted.setdefault(link.path, []).append(link.source)
    for path in random.Random(1).sample(sorted(files), 8):
        items = server.call("backlinks_search", path=path, limit=200)["items"]
        found = [item["path"] for item in items if item["resolved"] is True]
        assert sorted(found) == sorted(wanted.get(path, [])), path


def ask_to_move(server: Server, old: str, new: str) -> dict[str, Any]:
    """A long call: its answer may come as a stream."""
    agent = Agent(f"http://127.0.0.1:{server.port}/mcp", "modern")
    with httpx2.Client(timeout=500) as agent.http:
        return agent.ask("note_move", {"from": old, "to": new})


def settled(state: Path) -> bool:
    return not [file for file in state.rglob("plans/*") if file.suffix in (".plan", ".back")]


@pytest.mark.requirement("edit.move_crash")
@pytest.mark.timeout(3000)
def test_kill_9_of_the_server_while_a_folder_moves(tmp_path: Path) -> None:
    vault, state = tmp_path / "vault", tmp_path / "state"
    write(vault, make_box(random.Random(3), PLACES[0], NOTES, LINKS))
    chance, seconds, at = random.Random(5), 0.0, 0
    outcomes: Counter[str] = Counter()
    server = Server(vault, state, LOG_LEVEL="warning")
    server.start()
    for round_ in range(ROUNDS + 1):
        old, new = PLACES[at], PLACES[1 - at]
        before = on_disk(vault)
        moves = moves_of(before, old, new)
        assert len(moves) == NOTES
        answer: list[dict[str, Any]] = []

        def ask(old: str = old, new: str = new, answer: list[Any] = answer) -> None:
            with suppress(httpx2.TransportError):
                answer.append(ask_to_move(server, old, new))

        thread = threading.Thread(target=ask)
        began = time.monotonic()
        thread.start()
        if round_ == 0:
            # The first one lives, and tells how long a move takes.
            thread.join(300)
            seconds = time.monotonic() - began
        else:
            threading.Event().wait(chance.uniform(0, seconds))
        server.kill9()
        thread.join(30)
        assert not any("code" in told for told in answer), answer
        cut = not settled(state)
        server.start()
        wait_for(lambda: settled(state), 120, "what was cut short to be settled")
        wait_for(lambda: not list(vault.rglob(".*.tmp")), 30, "temp files to be cleared away")
        after = on_disk(vault)
        moved = not (vault / old).exists()
        outcomes["finished later" if cut else "answered" if answer else "never begun"] += 1
        if moved:
            assert set(after) == {moves.get(path, path) for path in before}
            check(before, after, moves)
            at = 1 - at
        else:
            assert after == before
        assert moved or not answer, "an acknowledged move was lost"
        check_index(server, after)
    server.stop()
    print(f"{ROUNDS} kills in moves of {seconds:.1f} s: {dict(outcomes)}")
    assert outcomes["answered"]


@pytest.mark.requirement("edit.move_mount")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["drive", "drive+rc"])
def test_a_folder_moves_on_a_mount_and_on_the_backend(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    bed: Bed = make_bed(request, tmp_path, kind)
    assert bed.mount is not None
    files = make_box(random.Random(9), PLACES[0], NOTES, LINKS)
    for path, data in files.items():
        bed.elsewhere(path, data)
    # A new mount: it sees what is there.
    bed.mount.lifetime = 500
    bed.mount.flags = ("--vfs-write-back=5s",)
    bed.mount.start()
    environ = {"RCLONE_RC": bed.rc_address} if bed.rc_address else {}
    with Server(bed.folder, tmp_path / "state", REQUIRE_MOUNT="true", **environ) as server:
        wait_for(lambda: server.call("health_check")["status"] == "ok", 60, "health")
        began = time.monotonic()
        told = ask_to_move(server, *PLACES)
        print(
            f"{kind}: {NOTES} notes, {told['links_updated']} links in {time.monotonic() - began:.1f} s"
        )
        assert told["moved"] == NOTES
        moves = moves_of(files, *PLACES)
        seen = on_disk(bed.folder)
        assert set(seen) == {moves.get(path, path) for path in files}
        check(files, seen, moves)
        wait_for(lambda: all(bed.remote(path) == data for path, data in seen.items()), 90)
        assert [path for path in moves if bed.remote(path) is not None] == []
        check_index(server, seen)
