"""The mount lab: a Drive on loopback and real rclone mounts, of that Drive or of a local folder.

    with FakeDrive(work) as drive, DriveMount(drive, work) as mount: ...

Whatever a test does, nothing stays behind: each process has a guard that ends it (and detaches
its mount) when the test process is gone, or when a hung mount has held a test for too long.
"""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.drive.processes import free_port, guard, release, wait_for, which

HERE = Path(__file__).parent
LIFETIME = 100.0
"""Seconds after which a guard ends a mount: below the test timeout, since a process that hangs
in a mount can't be interrupted, only freed by the death of rclone."""

FLAGS = (
    "--vfs-cache-mode=writes",
    "--vfs-handle-caching=0s",
    "--vfs-write-back=1s",
    "--vfs-cache-max-age=1h",
    "--dir-cache-time=5m",
    "--poll-interval=1s",
    "--attr-timeout=1s",
    "--vfs-refresh",
    "--fast-list",
    "--drive-skip-gdocs",
    "--drive-skip-shortcuts",
    "--drive-pacer-min-sleep=10ms",
    "--timeout=20s",
    "--contimeout=10s",
    "--low-level-retries=3",
)
"""The flags the project recommends, with short times."""


class FakeDrive:
    """A loopback Google Drive. Latency, faults and another device's edits through `admin`."""

    def __init__(self, work: Path, lifetime: float = 3600.0, **latency_ms: float) -> None:
        self.work = work
        self.port, self.admin_port = free_port(), free_port()
        self.lifetime = lifetime
        self.latency = dict.fromkeys(("list", "get", "media", "upload", "patch", "changes"), 0.0)
        self.latency.update(latency_ms)
        self.env: dict[str, str] = {}

    def __enter__(self) -> Self:
        tls = self.work / "tls"
        tls.mkdir(parents=True, exist_ok=True)
        if not (tls / "server.pem").exists():
            subprocess.run([str(HERE / "mkca.sh"), str(tls)], check=True)
        args = [sys.executable, str(HERE / "fakedrive.py")]
        args += ["--port", str(self.port), "--admin", str(self.admin_port)]
        args += ["--cert", str(tls / "server.pem"), "--key", str(tls / "server.key")]
        for kind, milliseconds in self.latency.items():
            args += [f"--{kind}-ms", str(milliseconds)]
        self._process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._guard = guard(self._process, self.lifetime)
        self.env = self._environment(tls / "ca.pem")
        try:
            wait_for(self._answers, 30, "fakedrive")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(20)
        release(self._guard)

    def admin(self, endpoint: str, body: bytes = b"", **query: object) -> Any:
        """One admin call: JSON comes back decoded, file content as bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=60)
        try:
            connection.request("POST", f"{endpoint}?{urllib.parse.urlencode(query)}", body)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        answer = json.loads(data) if is_json else data
        if response.status != 200:
            raise RuntimeError(f"{endpoint}: {answer!r}")
        return answer

    def put(self, path: str, content: bytes, **query: object) -> dict[str, Any]:
        """Another device writes a file."""
        return dict(self.admin("/put", content, path=path, **query))

    def get(self, path: str) -> bytes | None:
        """The content that Drive holds, None when there is no such file."""
        content = self.admin("/get", path=path)
        return content if isinstance(content, bytes) else None

    def stat(self, path: str) -> dict[str, Any] | None:
        """Drive's metadata of a file, None when there is no such file."""
        found = self.admin("/stat", path=path)
        return None if "missing" in found else dict(found)

    def names(self, path: str = "vault") -> list[str]:
        """Paths of everything below `path` that is not in the trash."""
        return [row[0] for row in self.admin("/tree", path=path) if not row[4]]

    def files(self, path: str = "vault") -> list[tuple[str, bytes]]:
        """Every file below `path` with its content; two may have one name."""
        return [(name, base64.b64decode(text)) for name, text in self.admin("/dump", path=path)]

    # -- what else other devices do ---------------------------------------------------------------

    def move(self, path: str, to: str) -> None:
        """Another device moves or renames a file; it keeps its id."""
        self.admin("/mv", path=path, to=to)

    def remove(self, path: str) -> None:
        """Another device deletes a file for good."""
        self.admin("/rm", path=path)

    def duplicate(self, path: str, content: bytes) -> None:
        """Another device makes a second file of the same name."""
        self.admin("/put", content, path=path, dup=1)

    def document(self, path: str, content: bytes = b"text") -> None:
        """Another device makes a Google document."""
        self.admin("/gdoc", content, path=path)

    # -- how the Drive behaves, until it is calm again --------------------------------------------

    def slow(self, milliseconds: float) -> None:
        """Every call takes about so long."""
        self.admin("/latency", all=milliseconds)

    def fail(self, rate: float = 1.0, kind: str = "*", code: int = 503) -> None:
        """A share of the calls is answered with an error, all of them by default."""
        self.admin("/fault", kind=kind, do="error", code=code, reason="backendError", rate=rate)

    def hang(self, kind: str = "*") -> None:
        """Calls are taken and not answered."""
        self.admin("/fault", kind=kind, do="hang")

    def drop(self, rate: float = 1.0, kind: str = "*") -> None:
        """A share of the connections ends in the middle of a call."""
        self.admin("/fault", kind=kind, do="drop", rate=rate)

    def throttle(self, calls_per_second: float) -> None:
        """More calls than that are refused by Drive's rate limit."""
        self.admin("/latency", qps=calls_per_second)

    def lag(self, seconds: float) -> None:
        """Listings show what changed only after so long."""
        self.admin("/consistency", secs=seconds)

    def shuffle(self, seed: int) -> None:
        """Listings come in an order of their own."""
        self.admin("/shuffle", seed=seed)

    def calm(self) -> None:
        """Nothing of the above any more."""
        self.admin("/calm")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError("fakedrive ended at its start")
        try:
            self.admin("/stats")
        except OSError:
            return False
        return True

    def _environment(self, ca: Path) -> dict[str, str]:
        config = self.work / "rclone.conf"
        token = (
            '{"access_token":"fake","token_type":"Bearer","refresh_token":"fake",'
            '"expiry":"2099-01-01T00:00:00Z"}'
        )
        config.write_text(
            f"[gd]\ntype = drive\nscope = drive\nroot_folder_id = rootFOLDERid\ntoken = {token}\n"
        )
        proxy = f"http://127.0.0.1:{self.port}"
        env = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
        return env | {
            "RCLONE_CONFIG": str(config),
            "RCLONE_CA_CERT": str(ca),
            "HTTPS_PROXY": proxy,
            "https_proxy": proxy,
        }


class Mount:
    """A real `rclone mount <remote>` under `work`; `start` again reuses the same cache."""

    def __init__(
        self,
        remote: str,
        work: Path,
        env: dict[str, str],
        *,
        rc: bool = True,
        flags: Sequence[str] = (),
        lifetime: float = LIFETIME,
    ) -> None:
        self.remote, self.env, self.flags, self.lifetime = remote, env, tuple(flags), lifetime
        self.root, self.cache, self.log = work / "mnt", work / "cache", work / "rclone.log"
        self.socket = work / "rc.sock" if rc else None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def look_again(self) -> None:
        """Have rclone forget what it remembers of folders, as it does by itself after a while."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    @property
    def address(self) -> str:
        """Where rclone's remote control listens."""
        assert self.socket is not None, "mounted without rc"
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> Self:
        """Mount, and wait until the mount is there."""
        self.stop()
        self.root.mkdir(parents=True, exist_ok=True)
        self.cache.mkdir(exist_ok=True)
        if self.socket is not None:
            self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            self.command(), env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._guard = guard(self._process, self.lifetime, self.root)
        try:
            wait_for(self._mounted, 30, "mount")
        except BaseException:
            self.stop()
            raise
        return self

    def command(self) -> list[str]:
        """What is run."""
        rclone = which("rclone")
        assert rclone is not None, "no rclone"
        command = [rclone, "mount", self.remote, str(self.root), "--cache-dir", str(self.cache)]
        command += ["-vv", "--log-file", str(self.log), *FLAGS, *self.flags]
        if self.socket is not None:
            command += ["--rc", "--rc-addr", self.address, "--rc-no-auth"]
        return command

    def kill9(self) -> None:
        """End rclone as a crash does; the dead mount stays in place."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def detach(self) -> None:
        """Take the mount out of the tree at once; rclone may live on."""
        subprocess.run(
            ["fusermount3", "-uz", str(self.root)], stderr=subprocess.DEVNULL, check=False
        )

    def stop(self) -> None:
        """Detach, end rclone, and see that nothing is left; safe to repeat, whatever the state."""
        if self._process is None:
            return
        # Killing comes first: it frees whatever hangs in the mount. Pending uploads stay in the
        # cache, as they do at any end of rclone.
        self.kill9()
        for _ in range(5):
            if is_mounted(self.root):
                self.detach()
        if self._guard is not None:
            release(self._guard)
        self._process = self._guard = None

    def _mounted(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError("rclone ended: " + self.log.read_text()[-800:])
        listens = self.socket is None or self.socket.exists()
        return listens and is_mounted(self.root)


class DriveMount(Mount):
    """A mount of a folder of a `FakeDrive`."""

    def __init__(
        self, drive: FakeDrive, work: Path, remote: str = "gd:vault", **options: Any
    ) -> None:
        super().__init__(remote, work, drive.env, **options)


class LocalMount(Mount):
    """A mount of a folder on disk: the same FUSE layer without a Drive behind it."""

    def __init__(self, folder: Path, work: Path, **options: Any) -> None:
        config = work / "rclone.conf"
        config.write_text("")
        super().__init__(str(folder), work, dict(os.environ, RCLONE_CONFIG=str(config)), **options)


def is_mounted(path: Path) -> bool:
    """Whether this process's mount table names the path as a mount point."""
    target = str(path).replace("\\", "\\134").replace(" ", "\\040")
    table = Path("/proc/self/mountinfo").read_text()
    return any(line.split()[4] == target for line in table.splitlines())


def whole(path: Path) -> bytes | None:
    """What a mount hands out of a file, None unless its end and a stat after the read vouch for it."""
    try:
        with path.open("rb", buffering=0) as file:
            data = os.read(file.fileno(), 1 << 20)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    return data if len(data) == size else None


def read_whole(path: Path, seconds: float = 30) -> bytes:
    """A file of a mount, as soon as rclone, which may just be learning of a change, hands it out."""

    def found() -> tuple[bytes] | None:
        data = whole(path)
        return None if data is None else (data,)

    return wait_for(found, seconds, str(path))[0]
