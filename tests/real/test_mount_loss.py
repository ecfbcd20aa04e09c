"""A real rclone mount that dies, goes, hangs or comes late: the server stays, nothing is lost."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.drive.processes import wait_for
from tests.real.servers import Server

NOTES = 30
PROBE = 4
"""Seconds for a probe: too few to wait for the mount (MOUNT_TIMEOUT), many for a busy machine."""


@pytest.fixture(params=["drive", "rclone+rc"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    bed = make_bed(request, tmp_path, request.param)
    for number in range(NOTES):
        bed.elsewhere(f"folder/note{number}.md", f"# Note {number}\nneedle {number}\n".encode())
    assert bed.mount is not None
    bed.mount.start()  # anew: a mount does not see at once what other devices did
    return bed


def server_of(bed: Bed, tmp_path: Path) -> Server:
    environ = {"RCLONE_RC": bed.rc_address} if bed.rc_address else {}
    environ |= {"REQUIRE_MOUNT": "true", "MOUNT_TIMEOUT": "5"}
    return Server(bed.folder, tmp_path / "state", **environ)


def needles(server: Server) -> dict[str, object]:
    return server.call("vault_search", query="^needle", limit=1)


def assert_degraded(server: Server, beneath: Path) -> None:
    """Probes answer at once, searches from the mirror, writes fail and land nowhere."""
    for path in ("/healthz", "/metrics"):
        assert server.get(path, timeout=PROBE)[0] == 200
    wait_for(lambda: server.get("/readyz")[0] == 503, 30, "degraded")
    found = needles(server)
    assert found["total"] == NOTES, "no index entry is lost"
    assert found["stale"] is True
    assert found["as_of"]
    read = server.call("note_read", path="folder/note1.md")
    assert read["content"] == "# Note 1\nneedle 1\n"
    assert read["stale"] is True
    refused = server.call("note_upsert", path="folder/lost.md", content="must not land")
    assert refused["code"] == "unavailable", refused
    assert refused["hint"]
    assert server.metric("vault_mount_up") == 0
    time.sleep(2.5)  # more than two scan intervals: the scanner must not have dropped anything
    assert needles(server)["total"] == NOTES
    if not _is_dead(beneath):
        assert list(beneath.rglob("*lost*")) == [], "written beneath the mount"


def _is_dead(folder: Path) -> bool:
    try:
        list(folder.iterdir())
    except OSError:
        return True
    return False


def assert_recovered(server: Server, bed: Bed) -> None:
    wait_for(lambda: server.get("/readyz")[0] == 200, 40, "recovery without a restart")
    answer = wait_for(
        lambda: (
            (a := server.call("note_upsert", path="folder/back.md", content="back")).get("etag")
            and a
        ),
        40,
    )
    assert answer
    assert wait_for(lambda: (bed.remote("folder/back.md") or b"").startswith(b"back"), 30)
    assert bed.remote("folder/lost.md") is None
    found = needles(server)
    assert found["total"] == NOTES
    assert "stale" not in found


@pytest.mark.parametrize("how", ["kill -9", "unmount"])
def test_a_mount_that_goes_away(bed: Bed, tmp_path: Path, how: str) -> None:
    mount = bed.mount
    assert mount is not None
    with server_of(bed, tmp_path) as server:
        assert needles(server)["total"] == NOTES
        if how == "kill -9":
            mount.kill9()
            assert_degraded(server, bed.folder)
        mount.detach()
        assert_degraded(server, mount.root)
        assert list(mount.root.iterdir()) == []
        mount.start()
        assert_recovered(server, bed)


def test_a_mount_that_hangs(bed: Bed, tmp_path: Path) -> None:
    mount = bed.mount
    assert mount is not None
    with server_of(bed, tmp_path) as server:
        assert needles(server)["total"] == NOTES
        mount.pause()
        try:
            assert server.get("/healthz", timeout=PROBE)[0] == 200
            assert server.get("/metrics", timeout=PROBE)[0] == 200
            wait_for(
                lambda: server.get("/readyz", timeout=PROBE)[0] == 503, 30, "the hang to be noticed"
            )
            found = needles(server)
            assert (found["total"], found["stale"]) == (NOTES, True)
            assert server.call("note_read", path="folder/note1.md")["stale"] is True
            refused = server.call("note_upsert", path="folder/lost.md", content="must not land")
            assert refused["code"] in ("unavailable", "timeout")
        finally:
            mount.resume()
        assert_recovered(server, bed)


@pytest.mark.requirement("mount.hang")
def test_a_server_can_be_stopped_while_its_mount_hangs(bed: Bed, tmp_path: Path) -> None:
    """Calls are stuck in the kernel when the stop comes; what is stuck is not the server."""
    mount = bed.mount
    assert mount is not None
    with server_of(bed, tmp_path) as server, ThreadPoolExecutor(8) as agents:
        assert needles(server)["total"] == NOTES
        mount.pause()
        try:
            stuck = [
                agents.submit(server.call, "note_upsert", path=f"folder/{n}.md", content="waits")
                for n in range(8)
            ]
            # A search needs a new process, which must not wait for the stuck ones.
            assert needles(server)["total"] == NOTES
            process = server.process
            assert process is not None
            process.terminate()
            process.wait(15)
            for call in stuck:
                with contextlib.suppress(OSError):
                    call.result(5)
        finally:
            mount.resume()
        server.start()
        assert_recovered(server, bed)


def test_a_server_that_starts_before_its_mount(bed: Bed, tmp_path: Path) -> None:
    mount = bed.mount
    assert mount is not None
    mount.stop()
    mount.root.joinpath("claude").mkdir()
    server = server_of(bed, tmp_path)
    server.start(ready=False)
    try:
        wait_for(lambda: b"not_mounted" in server.get("/readyz")[1], 20)
        refused = server.call("note_upsert", path="lost.md", content="must not land")
        assert refused["code"] == "unavailable"
        assert list((mount.root / "claude").iterdir()) == [], "nothing lands beneath"
        mount.root.joinpath("claude").rmdir()
        mount.start()
        assert_recovered(server, bed)
    finally:
        server.stop()


def test_a_restart_while_the_mount_is_away_serves_the_mirror(bed: Bed, tmp_path: Path) -> None:
    mount = bed.mount
    assert mount is not None
    server = server_of(bed, tmp_path)
    server.start()
    server.stop()
    mount.stop()
    server.start(ready=False)
    try:
        assert_degraded(server, mount.root)
        mount.start()
        assert_recovered(server, bed)
    finally:
        server.stop()
