"""A stand-in for the image that ours is built on: a Debian with its Python, made once and kept.

There may be no way to a registry of images where tests run, but there is one to Debian's packages. The
stand-in knows this machine's package index and trusts whom this machine trusts.
"""

import configparser
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deploy.podman import Podman
from tests.drive.processes import missing, require

CACHE = Path("/var/cache/obsidian-vault-mcp-tests")
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
    return hashlib.sha256(repr((_mirror(), SUITE, PACKAGES, _pip(), 1)).encode()).hexdigest()[:12]


def _debian() -> Path:
    root = CACHE / f"base-{_recipe()}"
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (CACHE / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            part = root.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
            _run(*command, SUITE, str(part), _mirror())
            _adapt(part)
            part.rename(root)
    return root


def _mirror() -> str:
    """Where this machine's own packages come from."""
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirrors = [line for line in listed.split() if "security" not in line]
    if not mirrors:
        missing("apt knows no mirror; try apt-get update")
    return mirrors[0]


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
    listed = _run(sys.executable, "-m", "pip", "config", "list")
    found = re.findall(r"^\S*?\.([\w-]+)='(.*)'$", listed, re.MULTILINE)
    wanted = ("index-url", "extra-index-url", "find-links", "no-index", "timeout")
    return {key: value for key, value in found if key in wanted}


def package_folders() -> list[Path]:
    """The folders of this machine in which pip looks for packages."""
    words = " ".join(_pip().values()).replace("file://", "").split()
    folders = [Path(word) for word in words if word.startswith("/")]
    # An index has its files beside its list of them.
    return [folder.parent if folder.name == "simple" else folder for folder in folders]


def _run(*command: str) -> str:
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout
