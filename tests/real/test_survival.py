"""An answered write survives whatever dies next; a backend that is away for long hurts nobody."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.drive.lab import FakeDrive
from tests.drive.processes import wait_for
from tests.faults.servers import Forked, Nursery
from tests.real.servers import Server

NOTES = 40
READS = 1000


@pytest.mark.requirement("mount.survives")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["rclone", "drive", "drive+rc", "drive+rc, ack mount"])
def test_an_answered_write_survives_the_death_of_both(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """rclone dies within milliseconds after the answer, the server after it; both come back."""
    kind, _, ack = kind.partition(", ack ")
    bed = make_bed(request, tmp_path, kind)
    bed.elsewhere("known.md", b"first")
    mount = bed.mount
    assert mount is not None
    mount.lifetime = 250
    mount.start()
    environ = {"RCLONE_RC": bed.rc_address} if bed.rc_address else {}
    environ |= {"WRITE_ACK": ack} if ack else {}
    server = Server(bed.folder, tmp_path / "state", REQUIRE_MOUNT="true", **environ)
    lines = ["first"]
    try:
        for round_ in range(3):
            server.start()
            content = f"round {round_}"

            def is_answered(content: str = content) -> bool:
                # Until the last one is known to be safe, the answer may be to try again in a moment.
                return "etag" in server.call("note_upsert", path="known.md", content=content)

            wait_for(is_answered, 60, "an answer")
            mount.kill9()
            server.kill9()
            lines.append(content)
            mount.detach()
            mount.start()
        server.start()
        wanted = "\n".join(lines).encode()
        wait_for(lambda: bed.remote("known.md") == wanted, 60, "the note on the backend")
        assert server.call("note_read", path="known.md")["content"].encode() == wanted
    finally:
        server.stop()


@pytest.fixture
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    bed = make_bed(request, tmp_path, "drive+rc")
    for number in range(NOTES):
        bed.elsewhere(f"folder/note{number}.md", f"# Note {number}\nneedle {number}\n".encode())
    assert bed.mount is not None
    bed.mount.lifetime = 250
    bed.mount.start()
    return bed


@pytest.mark.requirement("mount.outage")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when_down", ["refuse", "queue"])
@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_backend_that_is_away_for_long(
    bed: Bed, drive: FakeDrive, tmp_path: Path, how: str, when_down: str
) -> None:
    """Ten minutes pass by the server's clock; reads and searches answer, writes wait or are refused."""
    (tmp_path / "nursery").mkdir()
    with Nursery(tmp_path / "nursery") as nursery:
        server = Forked(
            nursery, bed.folder, tmp_path / "state", REQUIRE_MOUNT="true", MOUNT_TIMEOUT="10",
            RCLONE_RC=bed.rc_address or "", WRITE_WHEN_DOWN=when_down,
        )  # fmt: skip
        server.start(ready=True)
        try:
            _away(server, nursery, drive, how, when_down)
            drive.calm()
            _back(server, bed, when_down)
        finally:
            server.stop()


def _away(server: Forked, nursery: Nursery, drive: FakeDrive, how: str, when_down: str) -> None:
    drive.fail() if how == "fails" else drive.hang()

    def ask(number: int) -> None:
        if number == READS // 2:
            nursery.set_clock(600)
        if number % 2:
            path = f"folder/note{number % NOTES}.md"
            assert server.call("note_read", path=path)["content"].startswith("# Note ")
        else:
            found = server.call("vault_search", query=f"^needle {number % NOTES}$")
            assert found["total"] == 1, found

    if when_down == "refuse":
        # A write may take three times MOUNT_TIMEOUT.
        told = server.call("note_upsert", path="folder/note1.md", content="meanwhile", timeout=60)
        assert told["code"] in ("unavailable", "timeout"), told
    with ThreadPoolExecutor(8) as agents:
        list(agents.map(ask, range(READS)))
    if when_down == "queue":
        wait_for(lambda: _is_journaled(server), 90, "a write that waits")


def _is_journaled(server: Forked) -> bool:
    """Whether a write is put on record: as soon as it is known that the remote is away."""
    told = server.call("note_write", path="folder/made.md", content="x", mode="create", timeout=60)
    return told.get("ack") == "journal" or told.get("code") == "conflict"


def _back(server: Forked, bed: Bed, when_down: str) -> None:
    def answered() -> bool:
        return "etag" in server.call("note_upsert", path="folder/note2.md", content="afterwards")

    wait_for(answered, 60, "writes after the return")
    wait_for(lambda: bed.remote("folder/note2.md") == b"# Note 2\nneedle 2\n\nafterwards", 60, "it")
    note = b"# Note 1\nneedle 1\n"
    assert bed.remote("folder/note1.md") in (note, note + b"\nmeanwhile")
    if when_down == "queue":
        wait_for(lambda: bed.remote("folder/made.md") == b"x", 60, "what waited")
    remote = (bed.remote("folder/note1.md") or b"").decode()
    wait_for(
        lambda: server.call("note_read", path="folder/note1.md")["content"] == remote, 30, "a read"
    )
