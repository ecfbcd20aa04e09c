"""Containers without a daemon: images built by buildah, run by podman, in a store of their own."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tests.drive.processes import missing, require

# Where tests run there may be no systemd, no cgroups to limit anything in, and low limits already.
_HERE = ("--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


class Podman:
    """One store of images and containers, in `folder`."""

    def __init__(self, folder: Path) -> None:
        require("podman", "buildah", "runc")
        if os.geteuid() != 0:
            missing("needs root, to run containers")
        # podman takes no long name for the second of these, which is gone after a restart.
        self._store = ["--root", str(folder), "--runroot", f"/run/vault-mcp-{folder.name}"]
        self._made: list[str] = []

    def run(self, *arguments: str, stdin: IO[bytes] | None = None, seconds: float = 300) -> str:
        """What a podman command says. Raises with its complaints when it fails."""
        done = self.try_(*arguments, stdin=stdin, seconds=seconds)
        assert done.returncode == 0, f"podman {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_(
        self, *arguments: str, stdin: IO[bytes] | None = None, seconds: float = 300
    ) -> "subprocess.CompletedProcess[str]":
        """How a podman command went."""
        return subprocess.run(
            ["podman", *self._store, *arguments],
            stdin=stdin, capture_output=True, text=True, check=False, timeout=seconds,
        )  # fmt: skip

    def has(self, image: str) -> bool:
        return self.try_("image", "exists", f"localhost/{image}").returncode == 0

    def build(self, context: Path, tag: str, folders: Sequence[Path]) -> None:
        """Build the Dockerfile of `context`; `folders` of this machine can be read meanwhile."""
        command = ["buildah", *self._store, "bud", "--format", "docker", "--isolation", "chroot"]
        command += ["--network", "host", "--pull-never", "--tag", tag]
        command += [f"--volume={folder}:{folder}:ro" for folder in folders if folder.is_dir()]
        done = subprocess.run(
            [*command, str(context)], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def start(self, name: str, image: str, arguments: Sequence[str], *command: str) -> None:
        """Run an image in the background, in this machine's network."""
        self._made.append(name)
        options = ["--detach", "--name", name, "--network", "host"]
        self.run("run", *options, *_HERE, *arguments, f"localhost/{image}", *command)

    def exec(self, name: str, *command: str) -> str:
        return self.run("exec", name, *command)

    def logs(self, name: str) -> str:
        done = self.try_("logs", name)
        return done.stdout + done.stderr

    def inspect(self, name: str) -> dict[str, Any]:
        """Everything that is known of a container or an image."""
        return dict(json.loads(self.run("inspect", name))[0])

    def clean(self) -> None:
        """Remove the containers that were started, with their volumes."""
        for name in reversed(self._made):
            self.try_("rm", "--force", "--volumes", "--time", "5", name)
        self._made.clear()
