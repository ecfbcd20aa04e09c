"""A stand-in for the image that ours is built on: a Debian with its Python, made once and kept.

There may be no way to a registry of images where tests run, but there is one to Debian's packages. The
stand-in knows this machine's package index and trusts whom this machine trusts.
"""

import configparser
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deploy.debian import CACHE, bootstrapped, mirror, run
from tests.deploy.podman import Podman
from tests.drive.processes import require

SUITE = "trixie"
PACKAGES = ("ca-certificates", "fuse3", "python3", "python3-venv")
_BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def store() -> Path:
    """Where images live that were made from this stand-in."""
    require("debootstrap")
    return CACHE / f"podman-{_recipe()}"


def stand_in(podman: Podman, image: str) -> None:
    """Have `image` there, unless it is."""
    if podman.has(image):
        return
    with subprocess.Popen(["tar", "-C", _debian(), "-c", "."], stdout=subprocess.PIPE) as tar:
        podman.run("import", "-", f"localhost/{image}", stdin=tar.stdout)
    assert tar.returncode == 0


def _recipe() -> str:
    return hashlib.sha256(repr((mirror(), SUITE, PACKAGES, _pip(), 1)).encode()).hexdigest()[:12]


def _debian() -> Path:
    return bootstrapped(f"base-{_recipe()}", SUITE, PACKAGES, _adapt)


def _adapt(root: Path) -> None:
    if Path("/", _BUNDLE).exists():
        shutil.copy(Path("/", _BUNDLE), root / _BUNDLE)
    config = configparser.RawConfigParser()
    config["global"] = _pip()
    with (root / "etc/pip.conf").open("w") as file:
        config.write(file)
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)


def _pip() -> dict[str, str]:
    """How pip finds packages on this machine, but not whom it trusts: that is the bundle's to say."""
    listed = run(sys.executable, "-m", "pip", "config", "list")
    found = re.findall(r"^\S*?\.([\w-]+)='(.*)'$", listed, re.MULTILINE)
    wanted = ("index-url", "extra-index-url", "find-links", "no-index", "timeout")
    return {key: value for key, value in found if key in wanted}


def package_folders() -> list[Path]:
    """The folders of this machine in which pip looks for packages."""
    words = " ".join(_pip().values()).replace("file://", "").split()
    folders = [Path(word) for word in words if word.startswith("/")]
    # An index has its files beside its list of them.
    return [folder.parent if folder.name == "simple" else folder for folder in folders]
