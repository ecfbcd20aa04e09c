"""`vault-mcp status` beside a running server, without one, and with a mount that hangs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from server.access.tokens import TokenStore
from server.vault.paths import parse_folder
from tests.drive.fixtures import LocalMounter
from tests.drive.processes import free_port
from tests.real.houses import TOKEN, House, put
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(300)

NAMES = [
    "server", "vault", "index", "journal", "uploads", "approvals", "tokens", "history", "audit", "disk"
]  # fmt: skip


def status(house: House, **environ: str) -> tuple[int, dict[str, Any]]:
    done = house.run("status", "--json", **environ)
    assert not done.stderr, done.stderr
    assert TOKEN not in done.stdout
    return done.returncode, json.loads(done.stdout)


@pytest.mark.requirement("ops.status")
def test_a_server_that_runs(house: House) -> None:
    with Server(house.vault, house.state, AUTH_TOKEN=TOKEN) as server:
        environ = {"PORT": str(server.port), "AUTH_TOKEN": TOKEN}
        code, said = status(house, **environ)
        shown = house.run("status", **environ)
        guessed, stranger = status(house, PORT=str(server.port), AUTH="token")
    assert (code, list(said)) == (0, NAMES)
    assert said["server"]["ready"] is True
    assert said["server"]["processes"] == 1
    assert said["vault"]["state"] == "ok"
    assert said["index"]["notes"] == 2
    assert said["index"]["last_scan"]
    assert said["history"]["entries"] == 2
    assert said["audit"]["last"] > 2
    assert said["disk"]["free_mb"] > 0
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert lines[0].endswith(f"answers on 127.0.0.1:{server.port}, ready")
    # Without a token only so much can be told.
    assert (guessed, stranger["server"]["answers"], stranger["server"]["ready"]) == (0, True, None)


def test_no_server(house: House) -> None:
    put(house, 100)
    TokenStore(house.state, parse_folder).create("laptop")
    code, said = status(house, PORT=str(free_port()))
    assert code == 1
    assert (said["server"]["answers"], said["server"]["processes"]) == (False, 0)
    assert said["journal"]["waiting"] == 1
    assert said["journal"]["oldest_seconds"] >= 100
    assert (said["tokens"]["live"], said["index"]["notes"]) == (1, 2)


def test_before_the_first_start(house: House, tmp_path: Path) -> None:
    code, said = status(house, STATE_DIR=str(tmp_path / "none"), PORT=str(free_port()))
    assert (code, list(said)) == (1, NAMES)
    assert (said["index"]["notes"], said["history"]["entries"]) == (None, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.requirement("ops.status")
def test_a_mount_that_hangs_does_not_hang_it(
    house: House,
    local_mount: LocalMounter,
) -> None:
    mount = local_mount(house.vault)
    environ = {"RCLONE_RC": mount.address, "REQUIRE_MOUNT": "true", "MOUNT_TIMEOUT": "2"}
    with Server(mount.root, house.state, **environ) as server:
        environ = {**environ, "PORT": str(server.port), "VAULT_PATH": str(mount.root)}
        assert status(house, **environ)[1]["uploads"] == {"waiting": 0, "failing": 0}
        mount.pause()
        try:
            end = time.monotonic() + 60
            code, said = status(house, **environ)
            while said["server"]["ready"] and time.monotonic() < end:
                code, said = status(house, **environ)
        finally:
            mount.resume()
        assert (code, said["server"]["ready"], said["vault"]["state"]) == (1, False, "hung")
        assert said["vault"]["fstype"] == "fuse.rclone"
        assert said["uploads"] == {"waiting": None, "failing": None}
