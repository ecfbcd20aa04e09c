"""A minimal Debian on disk, made once and kept: every machine of the tests is a layer on top of it.

It holds what a fresh container holds, and beside that the packages that the installer will ask for,
downloaded and not installed. So machines need no network.
"""

import hashlib
import os
import shutil
from pathlib import Path

from tests.deploy.debian import bootstrapped, mirror, run
from tests.drive.processes import missing, require

PACKAGES = ("python3-venv", "fuse3", "caddy", "curl", "ca-certificates")
BASE = ("systemd", "systemd-sysv", "dbus", "ca-certificates", "iproute2")
# Containers are unprivileged: their root is this user of the machine.
FIRST_ID = 0x70000000


def debian(suite: str) -> Path:
    """The root folder of a Debian; read it, never write to it."""
    require("debootstrap", "systemd-nspawn", "/dev/fuse")
    if os.geteuid() != 0:
        missing("needs root, to make and boot containers")
    recipe = hashlib.sha256(repr((mirror(), PACKAGES, BASE, 1)).encode()).hexdigest()[:12]
    return bootstrapped(f"machine-{suite}-{recipe}", suite, BASE, _finish)


def _finish(root: Path) -> None:
    for file in Path("/etc/apt/apt.conf.d").iterdir():
        # How to reach the mirror, but not how a slim image throws its packages away.
        text = file.read_text(errors="replace")
        if "Acquire::" in text and "Post-Invoke" not in text:
            shutil.copy(file, root / "etc/apt/apt.conf.d")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (root / "etc/hostname").write_text("vault\n")
    inside = ("chroot", str(root), "apt-get", "-qq")
    run(*inside, "update")
    run(*inside, "install", "--download-only", "--no-install-recommends", "-y", *PACKAGES)
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            _shift(os.path.join(folder, name))


def _shift(path: str) -> None:
    """Give a file to the container's user; chown takes setuid bits away."""
    status = os.lstat(path)
    if status.st_uid < FIRST_ID:
        os.lchown(path, FIRST_ID + status.st_uid, FIRST_ID + status.st_gid)
        if not os.path.islink(path):
            os.chmod(path, status.st_mode & 0o7777)
