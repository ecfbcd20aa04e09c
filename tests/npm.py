"""What tests need from npm: installed once, kept between runs, shared by all that run at a time."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from tests.drive.processes import missing, require

_INSTALL = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent")


def install(config: pytest.Config, sources: Path) -> Path:
    """A folder with everything that the package.json of `sources` names."""
    require("node", "npm")
    assert config.cache is not None, "the packages are kept in pytest's cache"
    folder = config.cache.mkdir(sources.name)
    wanted = (sources / "package.json").read_text()
    stamp = folder / "installed.json"
    with (folder / "lock").open("w") as lock:
        # Another worker may be installing: it is waited for.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            (folder / "package.json").write_text(wanted)
            done = subprocess.run(
                _INSTALL, cwd=folder, capture_output=True, text=True, check=False, timeout=240
            )
            if done.returncode:
                missing(f"npm install failed: {done.stderr[-500:]}")
            stamp.write_text(wanted)
    return folder
