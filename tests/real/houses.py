"""A vault that was served, to be broken or backed up, and the commands that an owner runs on it.

`house` is a copy for one test of what `served` keeps for all of a module.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from server.vault.journal import Journal, Record
from tests.drive.processes import free_port, missing, wait_for
from tests.real.servers import Server

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-that-nobody-may-see"
SECONDS = 100
"""Within which a command ends, whatever hangs."""


@dataclass
class House:
    """A vault that was served, and the environment to look at it with."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    @property
    def vault(self) -> Path:
        return self.home / "vault"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def run(self, *arguments: str | Path, **environ: str) -> "subprocess.CompletedProcess[str]":
        """A command of `vault-mcp`, as a user runs it."""
        return self.run_program(["-m", "server"], *arguments, **environ)

    def run_program(
        self, program: list[str], *arguments: str | Path, **environ: str
    ) -> "subprocess.CompletedProcess[str]":
        """The same, started by another program."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        own = {"VAULT_PATH": str(self.vault), "STATE_DIR": str(self.state), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [self.python, *program, *map(str, arguments)],
            env={**kept, **own, "PORT": str(free_port()), **self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    def found(self, **environ: str) -> dict[str, dict[str, str]]:
        """Every finding by its check; a failure and the exit code agree, no secret is told."""
        done = self.run("doctor", "--json", **environ)
        assert not done.stderr, done.stderr
        said = json.loads(done.stdout)
        assert said["ok"] is (done.returncode == 0)
        assert said["ok"] is not any(one["verdict"] == "fail" for one in said["checks"])
        for one in said["checks"]:
            assert bool(one["fix"]) is (one["verdict"] in ("warn", "fail")), one
        assert TOKEN not in done.stdout
        return {one["check"]: one for one in said["checks"]}

    def assert_finds(self, check: str, verdict: str, what: str, fix: str, **environ: str) -> None:
        """That one check complains, about this, with that fix, and none of the others fails."""
        found = self.found(**environ)
        one = found[check]
        assert (one["verdict"], check) == (verdict, check), found
        assert what in one["message"], one
        assert fix in one["fix"], one
        failed = {name for name, other in found.items() if other["verdict"] == "fail"}
        assert failed == ({check} if verdict == "fail" else set()), found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault and a state folder as a server leaves them after a scan and a write."""
    home = tmp_path_factory.mktemp("served")
    (home / "vault").mkdir()
    (home / "vault" / "a.md").write_text("# A\n\nwords\n")
    with Server(home / "vault", home / "state") as server:
        assert server.call("note_upsert", path="a.md", content="more")["etag"]
        assert server.call("note_upsert", path="b.md", content="new")["created"] is True
        wait_for(lambda: json.loads((home / "state/vault.json").read_text())["populated"], 30)
    return home


@pytest.fixture
def house(served: Path, tmp_path: Path) -> House:
    """A copy of it to break."""
    shutil.copytree(served / "vault", tmp_path / "vault")
    shutil.copytree(served / "state", tmp_path / "state")
    (tmp_path / "state").chmod(0o700)
    return House(tmp_path)


def put(house: House, age: float) -> tuple[Journal, Record]:
    journal = Journal(house.state / "slot-0" / "journal")
    record = Record(
        id="0123456789abcdef", path="a.md", disk="a.md", base=None, etag="e", md5="", size=4,
        protocol="journal", temp=None, created=time.time() - age,
    )  # fmt: skip
    journal.prepare(record, b"text", "applied")
    return journal, record


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own for a folder; without the right to mount, a reason to skip."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "small", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        missing("needs root and the right to mount, for a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
