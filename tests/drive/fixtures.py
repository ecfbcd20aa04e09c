"""Fixtures of the mount lab. Every mount they hand out is gone when the test ends, however it ends.

`drive` is an empty loopback Drive; `drive_mount` and `local_mount` are factories, since tests
choose flags. Two mounts of one test never share a folder.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.drive.lab import DriveMount, FakeDrive, LocalMount
from tests.drive.processes import require

DriveMounter = Callable[..., DriveMount]
LocalMounter = Callable[..., LocalMount]


@pytest.fixture(scope="session")
def drive_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeDrive]:
    """One emulator for the whole run; tests take `drive`."""
    require("openssl", "rclone")
    with FakeDrive(tmp_path_factory.mktemp("drive")) as drive:
        yield drive


@pytest.fixture
def drive(drive_server: FakeDrive) -> FakeDrive:
    """An empty Drive without faults or latency."""
    drive_server.admin("/reset")
    return drive_server


@pytest.fixture
def drive_mount(drive: FakeDrive, tmp_path: Path) -> Iterator[DriveMounter]:
    """`drive_mount(remote="gd:vault", rc=True, flags=())` mounts a folder of `drive`."""
    require("rclone", "fusermount3", "/dev/fuse")
    with ExitStack() as stack:

        def mount(**options: Any) -> DriveMount:
            drive.admin("/mkdir", path="vault")
            return stack.enter_context(DriveMount(drive, _work(tmp_path), **options))

        yield mount


@pytest.fixture
def local_mount(tmp_path: Path) -> Iterator[LocalMounter]:
    """`local_mount(folder, rc=True, flags=())` mounts a folder on disk."""
    require("rclone", "fusermount3", "/dev/fuse")
    with ExitStack() as stack:

        def mount(folder: Path, **options: Any) -> LocalMount:
            return stack.enter_context(LocalMount(folder, _work(tmp_path), **options))

        yield mount


def _work(tmp_path: Path) -> Path:
    work = tmp_path / f"mount{sum(1 for _ in tmp_path.glob('mount*'))}"
    work.mkdir()
    return work
