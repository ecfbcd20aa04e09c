"""A real Prometheus with the configuration that ships, pointed at a server of the test."""

import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.drive.processes import free_port, require, wait_for, which

SHIPPED = Path(__file__).parents[2] / "deploy" / "prometheus"
_TARGET, _TOKEN_FILE = "server:1065", "/run/secrets/metrics_token"


def configure(folder: Path, target: str, token: str) -> Path:
    """The shipped configuration and rules in `folder`, with another target, token and pace."""
    config = (SHIPPED / "prometheus.yml").read_text()
    secret = folder / "metrics_token"
    secret.write_text(token)
    for shipped, here in (
        (_TARGET, target),
        (_TOKEN_FILE, str(secret)),
        ("interval: 30s", "interval: 1s"),
    ):
        assert shipped in config
        config = config.replace(shipped, here)
    (folder / "rules.yml").write_text((SHIPPED / "rules.yml").read_text())
    path = folder / "prometheus.yml"
    path.write_text(config)
    return path


def promtool(*arguments: str | Path) -> str:
    """What promtool says; fails the test when it finds something wrong."""
    require("promtool")
    done = subprocess.run(
        [str(which("promtool")), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """The process; leaves nothing behind."""

    def __init__(self, config: Path) -> None:
        require("prometheus")
        self._port = free_port()
        self.config = config

    def __enter__(self) -> Self:
        folder = self.config.parent
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                str(which("prometheus")),
                f"--config.file={self.config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=self._log,
            stderr=self._log,
            env={"PATH": os.environ["PATH"], "GOMAXPROCS": "1"},
        )
        try:
            wait_for(self._is_ready, 60, "Prometheus")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._log.close()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression gives now."""
        words = urllib.parse.urlencode({"query": expression})
        result = self._get(f"/api/v1/query?{words}")["result"]
        return result if isinstance(result, list) and result else []

    def rules(self) -> list[dict[str, Any]]:
        """Every rule that is loaded, with how its last evaluation went."""
        groups = self._get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """Everything that is scraped, with how that went."""
        return list(self._get("/api/v1/targets")["activeTargets"])

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
            return dict(json.load(answer)["data"])

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self.config.parent / "prometheus.log").read_text()[-2000:])
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5).close()
        except OSError:
            return False
        return True
