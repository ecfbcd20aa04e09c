"""kill -9 at any moment: nothing is torn, nothing acknowledged is lost, the index agrees.

The number of rounds is bounded here; `make crash` runs them all.
"""

import contextlib
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.drive.processes import wait_for
from tests.real.servers import Server

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "2"))
SERVER_ROUNDS = ROUNDS * 5 // 2
"""50 when ROUNDS is 20."""


@pytest.mark.timeout(900)
def test_kill_9_of_the_server_in_mid_write(tmp_path: Path) -> None:
    """Every note is the old or the new content, every acknowledged line is there, the index agrees."""
    vault, state = tmp_path / "vault", tmp_path / "state"
    vault.mkdir()
    (vault / "keep.md").write_text("here from the start")
    chance = random.Random(7)
    acknowledged: set[str] = set()
    server = Server(vault, state, LOG_LEVEL="warning")
    for round_ in range(SERVER_ROUNDS):
        server.start()
        stop = threading.Event()
        lock = threading.Lock()

        def write(
            worker: int,
            round_: int = round_,
            stop: threading.Event = stop,
            lock: threading.Lock = lock,
        ) -> None:
            for number in range(1000):
                line = f"round {round_} worker {worker} line {number} " + "x" * 400
                try:
                    answer = server.call("note_upsert", path=f"note{worker % 3}.md", content=line)
                except (OSError, HTTPException):
                    return
                if "etag" in answer:
                    with lock:
                        acknowledged.add(line)
                if stop.is_set():
                    return

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(write, worker) for worker in range(4)]
            stop.wait(chance.uniform(0.01, 0.4))
            server.kill9()
            stop.set()
            for future in futures:
                future.result(30)
    server.start()
    try:
        wait_for(lambda: server.get("/readyz")[0] == 200, 30)
        written = [
            line for note in vault.glob("note*.md") for line in note.read_text().splitlines()
        ]
        assert len(written) == len(set(written)), "a line is there twice"
        assert acknowledged <= set(written), "an acknowledged line is lost"
        for line in written:
            assert line.startswith("round "), "torn"
            assert line.endswith("x" * 400), "torn"
        found = server.call("vault_search", query="^round ", limit=1)
        wait_for(
            lambda: (
                server.call("vault_search", query="^round ", limit=1)["total"]
                == min(len(written), 2000)
            ),
            20,
        )
        assert found["truncated"] or len(written) <= 1
        wait_for(lambda: not list(vault.glob(".*.tmp")), 20, "temp files to be cleared away")
    finally:
        server.stop()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["drive", "drive+rc"])
def test_an_acknowledged_write_survives_kill_9_of_rclone(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """The note was read just before and is held open by a reader; the backend must end at ours."""
    bed: Bed = make_bed(request, tmp_path, kind)
    mount = bed.mount
    assert mount is not None
    mount.lifetime = 800
    mount.start()
    environ = {"RCLONE_RC": bed.rc_address} if bed.rc_address else {}
    with Server(bed.folder, tmp_path / "state", REQUIRE_MOUNT="true", **environ) as server:
        for round_ in range(ROUNDS):
            name = f"note{round_ % 2}.md"
            assert "etag" in server.call("note_upsert", path=name, content=f"before {round_}")
            reader = os.open(bed.folder / name, os.O_RDONLY)
            os.read(reader, 1 << 16)
            answer = server.call("note_upsert", path=name, content=f"acknowledged {round_}")
            assert "etag" in answer, answer
            # Some readers close before the crash, and rclone has time to see it: the worst case. With
            # rc, rclone tells them of the change by an error.
            with contextlib.suppress(OSError):
                if round_ % 4 < 2:
                    os.close(reader)
                    threading.Event().wait(0.3)
            mount.kill9()
            with contextlib.suppress(OSError):
                os.close(reader)
            mount.detach()
            mount.start()
            expected = f"acknowledged {round_}"

            def survives(name: str = name, expected: str = expected) -> bool:
                content = bed.remote(name)
                return content is not None and content.decode().endswith(expected)

            assert wait_for(survives, 60, f"round {round_} on the backend")
            wait_for(lambda: server.get("/readyz")[0] == 200, 30, "the mount's return")
        for name in ("note0.md", "note1.md"):
            lines = (bed.remote(name) or b"").decode().splitlines()
            assert lines == [
                f"{word} {n}"
                for n in range(ROUNDS)
                if f"note{n % 2}.md" == name
                for word in ("before", "acknowledged")
            ]
