"""The project's own wheel, and the wheels of all that a lock pins."""

import platform
import subprocess
import sys
from pathlib import Path

# Debian 12's; wheels for a newer C library don't run there.
_GLIBC = 36
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


def build_wheel(root: Path, dist: Path) -> Path:
    """Build the project's wheel into `dist`, with the hatchling that is installed here."""
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(dist), str(root))
    (wheel,) = dist.glob("*.whl")
    return wheel


def download_wheels(lock: Path, house: Path, version: str) -> None:
    """Put the locked wheels for one version of Python into `house`; each is checked by its hash."""
    _pip(
        "download", "--require-hashes", "--no-deps", "--only-binary", ":all:",
        "--python-version", version, "--implementation", "cp", *_platforms(platform.machine()),
        "--dest", str(house), "--requirement", str(lock),
    )  # fmt: skip


def _platforms(machine: str) -> list[str]:
    """All tags that a wheel for Debian 12 or newer may have: pip doesn't derive the older ones."""
    tags = [f"linux_{machine}"]
    for minor in range(_GLIBC, 4, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _OLD_NAMES:
            tags.append(f"{_OLD_NAMES[minor]}_{machine}")
    return [part for tag in tags for part in ("--platform", tag)]


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)
