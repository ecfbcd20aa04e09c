"""One vault, five kinds of storage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.beds import Bed, drive_bed, local_mount_bed, plain_bed

BEDS = ("local", "rclone", "rclone+rc", "drive", "drive+rc")


@pytest.fixture(params=BEDS)
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    yield make_bed(request, tmp_path, request.param)


@pytest.fixture(params=BEDS[1:])
def mount_bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    yield make_bed(request, tmp_path, request.param)


def make_bed(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> Bed:
    """Build a bed by its name; mounts end with the test."""
    rc = kind.endswith("+rc")
    if kind == "local":
        return plain_bed(tmp_path)
    if kind.startswith("rclone"):
        source = tmp_path / "source"
        (source / "claude").mkdir(parents=True)
        mount = request.getfixturevalue("local_mount")(source, rc=rc)
        return local_mount_bed(tmp_path, source, mount)
    drive = request.getfixturevalue("drive")
    drive.admin("/mkdir", path="vault/claude")
    return drive_bed(tmp_path, drive, request.getfixturevalue("drive_mount")(rc=rc))
