"""The whole server over a small vault, without a door: calls go through the dispatcher."""

import asyncio
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.access.decision import Access
from server.access.policy import parse_policy
from server.app import App, open_app
from server.errors import VaultError
from server.models import Caller
from server.settings import load
from server.vault.paths import parse_folder
from tests.drive.processes import wait_for

CALLER = Caller("tester")


def access_by(text: str) -> Access:
    """Decisions by the rules of a policy file."""
    policy = parse_policy(text, parse_folder)
    return Access(lambda: policy)


def hiding(*paths: str, of: Sequence[str] = (CALLER.name,)) -> Access:
    """Some callers may do everything but with some folders or notes; others everything."""
    denied = [{"path": path, "read_deny": True, "write_deny": True} for path in paths]
    rules = [{"path": "/", "read_allow": True, "write_allow": True}]
    callers: dict[str, Any] = {name: {"rules": denied} for name in of}
    return access_by(json.dumps({"rules": rules, "callers": callers | {"owner": {"admin": True}}}))


@dataclass(frozen=True)
class House:
    app: App
    folder: Path

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """An answer as plain data; what is None is left out, as at every door."""
        output = asyncio.run(self.app.dispatcher.call(tool, arguments, CALLER))
        return output.model_dump(exclude_none=True)

    def refused(self, tool: str, **arguments: Any) -> VaultError:
        """The error that a call ends with."""
        try:
            answer = self.call(tool, **arguments)
        except VaultError as error:
            return error
        raise AssertionError(f"{tool} answered {answer}")

    def write(self, path: str, data: str | bytes = "", age: float = 100) -> Path:
        """Somebody else writes a file; the server has not seen it yet."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        moment = time.time_ns() - int(age * 1e9)
        os.utime(file, ns=(moment, moment))
        return file

    def fill(self, **notes: str | bytes) -> None:
        """Notes by their names without `.md`, seen by the server."""
        for name, data in notes.items():
            self.write(f"{name}.md", data)
        self.scan()

    def scan(self) -> None:
        self.app.scanner.scan()

    def bytes(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def metric(self, name: str, **labels: str) -> float:
        return self.app.telemetry.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def opened(folder: Path, state: Path, **environ: str) -> Iterator[House]:
    """A server that scans when told to and after its first look."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {
        "VAULT_PATH": str(folder), "STATE_DIR": str(state), "SCAN_INTERVAL": "3600",
        "CALLS_PER_SECOND": "0", "CONCURRENT_CALLS": "0", **environ,
    }  # fmt: skip
    with open_app(load(environ)) as app:
        wait_for(lambda: app.scanner.progress.first_done)
        yield House(app, folder)
