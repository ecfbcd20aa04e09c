"""The image, built and run for real, and the mount that compose.yaml puts beside it."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.base import package_folders, stand_in, store
from tests.deploy.composition import PROJECT, composition, podman_arguments
from tests.deploy.podman import Podman
from tests.drive.processes import require, wait_for, which
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(600)  # the first run makes a Debian
IMAGE = f"vault-mcp:test-{os.getpid()}"
BASE = re.findall(r"^ARG PYTHON=(\S+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)[0]


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """A store with the image in it."""
    podman = Podman(store())
    stand_in(podman, BASE)
    podman.build(PROJECT, IMAGE, package_folders())
    try:
        yield podman
    finally:
        podman.clean()
        podman.try_("rmi", "--force", f"localhost/{IMAGE}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose mounts others see, as everything is on a machine with systemd."""
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o755)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "--make-rshared", folder], check=True)
    try:
        yield folder
    finally:
        for point in (folder / "drive", folder):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


class Contained(Server):
    """The server of a container, spoken to as any other."""

    def __init__(self, podman: Podman, name: str, folder: Path) -> None:
        super().__init__(folder, folder)
        self.podman = podman
        self.name = name

    def answers(self) -> bool:
        assert self.podman.inspect(self.name)["State"]["Running"], self.podman.logs(self.name)
        try:
            return self.get("/healthz")[0] == 200
        except OSError:
            return False

    def enter(self) -> None:
        """Make a token, as the docs say, and use it from now on."""
        wait_for(self.answers, 90, "the server in its container")
        made = self.podman.exec(self.name, "vault-mcp", "token", "create", "agent", "--json")
        self.bearer = {"Authorization": f"Bearer {json.loads(made)['token']}"}

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200


@pytest.fixture(scope="module")
def alone(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Contained:
    """The server over a plain folder, with what compose.yaml says of it."""
    folder = tmp_path_factory.mktemp("alone")
    vault = folder / "vault"
    vault.mkdir()
    os.chown(vault, 10001, 10001)
    server = Contained(podman, f"alone-{os.getpid()}", folder)
    told = {"MOUNT_DIR": str(vault), "VAULT_PATH": "/mnt/vault", "CONFIG_DIR": str(folder)}
    service = composition(RCLONE_RC="", **told)["services"]["server"]
    arguments = podman_arguments(service, server.name, folder)
    podman.start(server.name, IMAGE, [*arguments, f"--env=PORT={server.port}"])
    server.enter()
    wait_for(server.is_ready, 90, "ready")
    return server


def test_it_runs_as_nobody_special_and_can_write_nowhere_else(alone: Contained) -> None:
    tell = "id -u; id -g; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/1/status"
    said = alone.podman.exec(alone.name, "sh", "-c", tell).split()
    assert said[:2] == ["10001", "10001"]
    assert said[2:] == ["CapBnd:", "0" * 16, "NoNewPrivs:", "1"] or said[2:] == [
        "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1",
    ]  # fmt: skip
    for place in ("/", "/opt/vault-mcp", "/etc", "/home", "/var/tmp"):
        refused = alone.podman.try_("exec", alone.name, "touch", f"{place}/x")
        assert "Read-only file system" in refused.stderr, place


def test_it_serves(alone: Contained) -> None:
    written = alone.call("note_upsert", path="a.md", content="words from a container")
    assert written["created"]
    assert alone.call("note_read", path="a.md")["content"] == "words from a container"
    assert alone.call("vault_search", query="fr.m")["results"][0]["path"] == "a.md"


def test_the_healthcheck_knows_a_living_server_from_a_dead_one(alone: Contained) -> None:
    podman, name = alone.podman, alone.name
    assert podman.try_("healthcheck", "run", name).returncode == 0
    wrong = podman.try_(
        "exec", "--env", "PORT=1", name, *podman.inspect(IMAGE)["Healthcheck"]["Test"][1:]
    )
    assert wrong.returncode != 0


def test_it_holds_what_serving_needs_and_no_more(podman: Podman, alone: Contained) -> None:
    listed = podman.exec(alone.name, "ls", "/opt/vault-mcp/bin").split()
    assert {"vault-mcp", "rg"} <= set(listed)
    assert not {"pip", "hatchling", "pytest", "rclone", "caddy"} & set(listed)
    added = podman.inspect(IMAGE)["Size"] - podman.inspect(f"localhost/{BASE}")["Size"]
    assert added < 120_000_000
    assert podman.inspect(IMAGE)["Config"]["User"] == "10001:10001"


def test_settings_that_are_wrong_are_named(podman: Podman) -> None:
    said = podman.try_(
        "run", "--rm", "--network=host", "--runtime=runc",
        "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--env=PORT=x",
        f"localhost/{IMAGE}", "config", "check",
    )  # fmt: skip
    assert said.returncode != 0
    assert "PORT" in said.stdout + said.stderr


def test_it_stops_when_it_is_told_to(alone: Contained) -> None:
    alone.podman.run("stop", "--time", "60", alone.name)
    assert alone.podman.inspect(alone.name)["State"]["ExitCode"] == 0


@pytest.fixture
def rig(podman: Podman, shared: Path, tmp_path: Path) -> Iterator[tuple[Contained, str, Path]]:
    """Server and mount as compose.yaml has them; rclone's binary in a stand-in for its image."""
    require("rclone", "/dev/fuse")
    rclone = which("rclone")
    remote, secrets = tmp_path / "remote", tmp_path / "secrets"
    remote.mkdir()
    secrets.mkdir()
    (secrets / "rclone_conf").write_text("[box]\ntype = alias\nremote = /remote\n")
    (secrets / "rclone_conf").chmod(0o600)
    services = composition(MOUNT_DIR=str(shared), REMOTE="box:", CONFIG_DIR=str(tmp_path))
    services = services["services"]
    prefix = f"rig-{os.getpid()}"
    server = Contained(podman, f"{prefix}-server", tmp_path)
    mount = f"{prefix}-rclone"
    arguments = podman_arguments(services["server"], prefix, secrets)
    podman.start(server.name, IMAGE, [*arguments, f"--env=PORT={server.port}"])
    arguments = podman_arguments(services["rclone"], prefix, secrets)
    own = [f"--volume={rclone}:/usr/local/bin/rclone:ro", f"--volume={remote}:/remote"]
    try:
        podman.start(mount, BASE, [*arguments, *own])
        yield server, mount, remote
    finally:
        podman.try_("stop", "--time", "5", mount)
        podman.clean()
        for volume in ("state", "rc", "uploads"):
            podman.try_("volume", "rm", "--force", f"{prefix}-{volume}")


def test_a_mount_that_comes_and_goes_reaches_the_server(
    rig: tuple[Contained, str, Path], shared: Path
) -> None:
    server, mount, remote = rig
    podman = server.podman
    server.enter()
    wait_until(server, server.is_ready, mount)
    written = server.call("note_upsert", path="a.md", content="on the remote")
    assert (written["created"], written["ack"]) == (True, "drive"), written
    assert (remote / "a.md").read_text() == "on the remote"

    podman.run("kill", "--signal", "KILL", mount)
    wait_until(server, lambda: not server.is_ready(), mount)
    assert server.call("note_upsert", path="b.md", content="x")["code"] == "unavailable"
    podman.run("start", mount)
    wait_until(server, server.is_ready, mount)
    assert server.call("note_upsert", path="b.md", content="again")["ack"] == "drive"
    assert (remote / "b.md").read_text() == "again"

    # What others put into rclone's cache is on the remote when it has stopped.
    (shared / "drive" / "late.md").write_text("in the cache")
    podman.run("stop", "--time", "60", mount)
    assert (remote / "late.md").read_text() == "in the cache"
    assert not (shared / "drive" / "a.md").exists(), "the mount is gone"
    assert server.answers()


def wait_until(server: Contained, condition: Callable[[], Any], mount: str) -> None:
    """Wait, and show what both containers said when it was in vain."""
    try:
        wait_for(condition, 90, "the mount")
    except TimeoutError as error:
        said = server.podman.logs(server.name) + server.podman.logs(mount)
        raise AssertionError(f"{error}: {said[-3000:]}") from None


def test_the_base_can_be_pinned_by_its_digest() -> None:
    text = (PROJECT / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON}"}
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", BASE)
