"""The machine that the tests of the installation share: they run in the order of the file."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.lxc.image import debian
from tests.deploy.lxc.machine import Machine

PROJECT = Path(__file__).parents[3]
SUITE = os.environ.get("DEPLOY_SUITE", "bookworm")


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` puts into dist/wheelhouse."""
    dist = tmp_path_factory.mktemp("dist")
    version = {"bookworm": "3.11", "trixie": "3.13"}[SUITE]
    subprocess.run(
        [sys.executable, "-m", "release", "--into", str(dist), version],
        cwd=PROJECT, check=True, timeout=300, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return dist / "wheelhouse"


@pytest.fixture(scope="module")
def machine(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A Debian as it comes, with the project in /project and its wheels in /wheelhouse, both read-only."""
    folder = tmp_path_factory.mktemp("machine")
    try:
        with Machine(debian(SUITE), folder, PROJECT, wheelhouse) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)
