"""What `make dist` builds, installed and started as a user would, with no index to help out."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from release.bundle import build_bundle
from release.wheels import download_wheels
from server import __version__
from tests.drive.processes import require, which
from tests.npm import install

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
WHEEL = f"obsidian_vault_mcp-{__version__}-py3-none-any.whl"
BUNDLE = f"obsidian-vault-mcp-{__version__}.mcpb"


def run(*command: str | Path, **options: Any) -> str:
    """What a command prints; its errors when it fails."""
    line = [str(part) for part in command]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=500, **options
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def bare(folder: Path, **environ: str) -> dict[str, str]:
    """The environment of somebody who has none of this project's, nor any index."""
    names = ("PATH", "LANG", "TMPDIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    state = {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state")}
    return {**kept, **state, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", **environ}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is released, with the wheels for this Python."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    run(sys.executable, "-m", "release", "--into", folder, version, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a clean virtual environment that has only the wheelhouse."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder / "venv")
    house = dist / "wheelhouse"
    pip = (folder / "venv" / "bin" / "pip", "install", "--find-links", house)
    locked = ("--require-hashes", "--requirement", house / "requirements.lock")
    run(*pip, *locked, env=bare(folder))
    run(*pip, "--no-deps", house / WHEEL, env=bare(folder))
    return folder / "venv" / "bin"


def use(command: str, arguments: list[str], environ: dict[str, str]) -> None:
    """Read, find and write a note of the sample vault over stdio, with the official client."""

    async def talk() -> None:
        target = StdioServerParameters(command=command, args=arguments, env=environ)
        async with Client(target, mode="auto", cache=None) as client:
            assert client.server_info is not None
            assert client.server_info.version == __version__
            read = await client.call_tool("note_read", {"path": "notes/Welcome.md"})
            found = await client.call_tool("vault_search", {"query": "append-only|scanner"})
            wrote = await client.call_tool("note_upsert", {"path": "new.md", "content": "text"})
            for result in (read, found, wrote):
                assert not result.is_error, result.structured_content
            assert read.structured_content is not None
            assert read.structured_content["exists"] is True
            assert found.structured_content is not None
            assert found.structured_content["total"] > 0

    asyncio.run(talk())


def test_the_checksums_are_of_every_file(dist: Path) -> None:
    listed = {}
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        listed[name] = digest
    files = {str(file.relative_to(dist)): file for file in dist.rglob("*") if file.is_file()}
    assert set(listed) == set(files) - {"SHA256SUMS"}
    assert {BUNDLE, WHEEL, f"wheelhouse/{WHEEL}", "wheelhouse/requirements.lock"} <= set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest


def test_two_builds_are_the_same(dist: Path, tmp_path: Path) -> None:
    assert build_bundle(ROOT, tmp_path).read_bytes() == (dist / BUNDLE).read_bytes()


def test_the_wheel_is_the_server_with_its_sample_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "-z", "server", cwd=ROOT).split("\0")
    assert names == set(tracked) - {""}
    assert "server/sample/notes/Welcome.md" in names


@pytest.mark.requirement("release.dist")
def test_the_wheel_works_without_an_index(installed: Path, dist: Path, tmp_path: Path) -> None:
    command = installed / "vault-mcp"
    assert run(command, "--version", env=bare(tmp_path)) == f"vault-mcp {__version__}\n"
    (package,) = (installed.parent / "lib").glob("python*/site-packages/server")
    shutil.copytree(package / "sample", tmp_path / "vault")
    use(str(command), ["stdio"], bare(tmp_path, VAULT_PATH=str(tmp_path / "vault")))
    assert (tmp_path / "vault" / "new.md").read_text() == "text"


@pytest.fixture
def bundle(dist: Path, tmp_path: Path) -> Path:
    """The bundle as a client unpacks it, in a folder whose name has a space."""
    folder = tmp_path / "my extensions" / "vault"
    with zipfile.ZipFile(dist / BUNDLE) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.requirement("release.dist")
def test_the_bundle_starts_as_its_manifest_says(bundle: Path, dist: Path, tmp_path: Path) -> None:
    require("uv")
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert (bundle / manifest["server"]["entry_point"]).is_file()
    shutil.copytree(bundle / "server" / "sample", tmp_path / "vault")
    known = {
        "${__dirname}": str(bundle),
        "${user_config.vault}": str(tmp_path / "vault"),
        "${user_config.write_mode}": manifest["user_config"]["write_mode"]["default"],
    }

    def filled(text: str) -> str:
        for name, value in known.items():
            text = text.replace(name, value)
        assert "${" not in text
        return text

    config = manifest["server"]["mcp_config"]
    # uv wants to know at once what it would install with every version of Python.
    for minor in range(11, 15):
        download_wheels(ROOT / "requirements.lock", tmp_path / "wheels", f"3.{minor}")
    offline = tmp_path / "uv.toml"
    offline.write_text(f"no-index = true\nfind-links = [{json.dumps(str(tmp_path / 'wheels'))}]\n")
    uv = {
        "UV_CONFIG_FILE": str(offline), "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": os.path.realpath(sys.executable), "UV_LINK_MODE": "copy",
    }  # fmt: skip
    environ = bare(tmp_path, **uv, **{key: filled(value) for key, value in config["env"].items()})
    # The client of the SDK gives a server 10 s for its first answer; fetching may take longer.
    run(which("uv") or "", "sync", "--directory", bundle, env=environ)
    assert config["command"] == "uv"
    use(which("uv") or "", [filled(argument) for argument in config["args"]], environ)
    assert (tmp_path / "vault" / "new.md").read_text() == "text"


@pytest.mark.requirement("release.dist")
def test_the_manifest_is_valid(bundle: Path, request: pytest.FixtureRequest) -> None:
    tools = install(request.config, Path(__file__).parent / "mcpb")
    validator = tools / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
    assert "passes" in run("node", validator, "validate", bundle / "manifest.json")
    manifest = json.loads((bundle / "manifest.json").read_text())
    asked = set(manifest["user_config"])
    text = json.dumps(manifest["server"])
    assert all(f"${{user_config.{name}}}" in text for name in asked)


def test_the_bundle_pins_exactly_what_is_locked(bundle: Path) -> None:
    pins = tomllib.loads((bundle / "pyproject.toml").read_text())["project"]["dependencies"]
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    locked = {line.split(" ")[0] for line in lock if "==" in line and not line.startswith(" ")}
    assert {pin.split(";")[0] for pin in pins} == locked
