"""A booted Debian: an unprivileged container with systemd, without a network but its own loopback.

Its mounts live in a namespace of their own and its processes in one as well, so that nothing is left
when its first process is gone, however the test ends.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.deploy.lxc.image import FIRST_ID
from tests.drive.processes import guard, release, wait_for

_LIFETIME = 1500.0
_BOOT = """
set -e
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
for group in $3; do echo $$ >"$group/cgroup.procs"; done
exec systemd-nspawn --quiet --directory="$2/root" --machine="$4" --register=no --keep-unit \
  --private-network --private-users="$5:65536" --private-users-ownership=off \
  --bind="$2/fuse:/dev/fuse" --bind-ro="$6:/project" --bind-ro="$7:/wheelhouse" \
  --resolv-conf=off --console=pipe --boot
"""
_ENVIRON = (
    "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root", "LC_ALL=C.UTF-8",
)  # fmt: skip


class Machine:
    """One container; its disk lives as long as `folder` does."""

    def __init__(self, image: Path, folder: Path, project: Path, wheelhouse: Path) -> None:
        self._image = image
        self._folder = folder
        self._project = project
        self._wheelhouse = wheelhouse
        self._name = f"vault-mcp-{os.getpid()}"
        self.disk = folder / "upper"
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        os.chown(self.disk, FIRST_ID, FIRST_ID)
        os.mknod(folder / "fuse", 0o20666, os.makedev(10, 229))
        os.chmod(folder / "fuse", 0o666)

    def __enter__(self) -> Self:
        self.boot()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._gone()

    def boot(self) -> None:
        """Start it and wait until everything that starts by itself has."""
        groups = [base / self._name for base in _hierarchies()]
        for group in groups:
            _remove_orphans(group.parent)
            group.mkdir(exist_ok=True)
        command = (
            "unshare", "--mount", "--propagation", "private", "--pid", "--kill-child", "--fork",
            "--mount-proc", "bash", "-c", _BOOT, "boot",
            self._image, self._folder, " ".join(map(str, groups)), self._name, FIRST_ID,
            self._project, self._wheelhouse,
        )  # fmt: skip
        with (self._folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                env={**os.environ, "UNIFIED_CGROUP_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self._guard = guard(self._process, _LIFETIME)
        self.leader = wait_for(self._find_leader, 60, "the container's init")
        wait_for(self._is_up, 120, "the end of the boot")

    def reboot(self) -> None:
        """As a power button does; returns when it is up again."""
        self.run("systemctl", "reboot", check=False)
        self._process.wait(120)
        self._gone()
        self.boot()

    def run(
        self, *command: str, check: bool = True, timeout: float = 300, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root inside of it."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.leader), "--all", *_ENVIRON, *command],
            input=stdin, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def read(self, *command: str) -> str:
        return self.run(*command).stdout.strip()

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.read("systemctl", "show", unit, "--property", name, "--value")

    def signal(self, unit: str, number: signal.Signals) -> None:
        """Send a signal to the main process of a unit, behind systemd's back."""
        self.run("sh", "-c", f"kill -{number.value} {self.show(unit, 'MainPID')}")

    def write(self, path: str, text: str) -> None:
        self.run("tee", path, stdin=text)

    def put(self, file: Path, path: str) -> None:
        """Copy a file of this machine into it."""
        with file.open("rb") as content:
            subprocess.run(
                ["nsenter", "--target", str(self.leader), "--all", "cp", "/dev/stdin", path],
                stdin=content, check=True, timeout=60,
            )  # fmt: skip

    def client(self, *command: str, hosts: str, **options: Any) -> Any:
        """Run a program of this machine in the container's network, with these names; reads its JSON."""
        names = self._folder / "hosts"
        names.write_text(hosts)
        wrapped = (
            "nsenter", "--target", str(self.leader), "--net", "unshare", "--mount", "sh", "-c",
            'mount --bind "$0" /etc/hosts && exec "$@"', str(names), *command,
        )  # fmt: skip
        done = subprocess.run(
            wrapped, capture_output=True, text=True, check=False, timeout=120, **options
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def journal(self, unit: str) -> str:
        return self.read("journalctl", "--unit", unit, "--no-pager", "--lines", "60")

    def _find_leader(self) -> int | None:
        if self._process.poll() is not None:
            said = (self._folder / "console.log").read_text(errors="replace")
            raise RuntimeError(f"the container ended: {said[-2000:]}")
        # unshare, systemd-nspawn, the first process of the container
        for nspawn in _children(self._process.pid):
            for child in _children(nspawn):
                if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return child
        return None

    def _is_up(self) -> bool:
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def _gone(self) -> None:
        self._process.wait(60)
        release(self._guard)
        for base in _hierarchies():
            wait_for(lambda at=base / self._name: _removed(at), 30, "an empty cgroup")  # type: ignore[misc]


def _hierarchies() -> Iterator[Path]:
    """Where systemd keeps its processes: one tree, or two where the old hierarchy is in use."""
    base = Path("/sys/fs/cgroup")
    if (base / "cgroup.procs").exists():
        yield base
    else:
        yield from (base / name for name in ("systemd", "unified") if (base / name).is_dir())


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:  # it ended in this moment
        return []


def _remove_orphans(base: Path) -> None:
    """Remove the empty cgroups of test runs that were killed."""
    for group in base.glob("vault-mcp-*"):
        if not Path(f"/proc/{group.name.rpartition('-')[2]}").exists():
            _removed(group)


def _removed(group: Path) -> bool:
    """Whether a cgroup and all below it are gone now."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return not group.exists()
