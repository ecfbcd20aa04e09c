"""A real Caddy with the Caddyfile that ships, on ports of its own and with a CA of its own."""

import json
import os
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any, Self

import httpx2

from tests.drive.processes import free_port, require, wait_for, which

CADDYFILE = Path(__file__).parents[2] / "Caddyfile"


class Caddy:
    """`caddy run` in front of `upstream`, as `localhost`; leaves nothing behind."""

    def __init__(self, folder: Path, upstream: str, **environ: str) -> None:
        require("caddy")
        self.port, self.http_port = free_port(), free_port()
        self.url = f"https://localhost:{self.port}"
        self._folder = folder
        self._root = folder / "caddy/pki/authorities/local/root.crt"
        self._log = folder / "caddy.log"
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "LAN_NAME": "localhost",
            "HTTPS_PORT": str(self.port),
            "HTTP_PORT": str(self.http_port),
            "CADDY_ADMIN": "off",
            "UPSTREAM": upstream,
            **environ,
        }

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(which("caddy")), "run", "--adapter", "caddyfile", "--config", str(CADDYFILE)],
                env=self._env,
                stdout=log,
                stderr=log,
            )
        try:
            wait_for(self._is_up, 60, "Caddy")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)

    def stop(self, seconds: float) -> int:
        """Ask it to end as systemd does; its exit code. Raises when that takes too long."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def trust(self) -> ssl.SSLContext:
        """What a client needs that knows this CA and no other."""
        return ssl.create_default_context(cafile=str(self._root))

    def logged(self) -> list[dict[str, Any]]:
        """Every line of its log."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def log_text(self) -> str:
        return self._log.read_text()

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError("Caddy ended: " + self._log.read_text()[-2000:])
        if not self._root.exists():
            return False
        try:
            httpx2.get(f"{self.url}/nothing", verify=self.trust(), timeout=5)
        except httpx2.TransportError:
            return False
        return True
