"""Small Debians on disk, made once from this machine's own mirror and kept."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.drive.processes import missing, require

CACHE = Path("/var/cache/obsidian-vault-mcp-tests")


def bootstrapped(
    name: str, suite: str, packages: Sequence[str], finish: Callable[[Path], None]
) -> Path:
    """The root folder of a Debian with these packages, as `finish` left it when it was made.

    Read it, never write to it. The name must change with whatever goes into it.
    """
    require("debootstrap")
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    root = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            part = CACHE / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            include = f"--include={','.join(packages)}"
            run("debootstrap", "--variant=minbase", include, suite, str(part), mirror())
            finish(part)
            part.rename(root)
    return root


def mirror() -> str:
    """Where this machine's own packages come from."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirrors = [line for line in listed.split() if "security" not in line]
    if not mirrors:
        missing("apt knows no mirror; try apt-get update")
    return mirrors[0]


def run(*command: str) -> str:
    """What a command says; fails the test when it fails."""
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout
