"""The disk of STATE_DIR, and how it gets full without harm to anything else."""

import contextlib
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

_SIZE = 24 << 20
_BLOCK = bytes(1 << 16)


class Disk:
    """A small file system of its own where one may be mounted; else the server's files can't grow."""

    def __init__(self, folder: Path, server: Callable[[], int | None]) -> None:
        folder.mkdir()
        self.folder = folder
        self._server = server
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "vault-faults", str(folder)],
            stderr=subprocess.DEVNULL,
            check=False,
        )
        self._is_own = mounted.returncode == 0
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """No byte more."""
        if not self._is_own:
            self._limit(0)
            return
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(_BLOCK)
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"x")

    def free(self) -> None:
        """There is room again."""
        self._limit(resource.RLIM_INFINITY) if not self._is_own else self._ballast.unlink(True)

    def _limit(self, size: int) -> None:
        if (pid := self._server()) is not None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def close(self) -> None:
        if self._is_own:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
