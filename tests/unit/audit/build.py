"""Small audits, and writers that can be killed, for the audit tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from server.audit.audit import Audit
from server.audit.head import files_in
from server.audit.log import Log

NOW = {"time": "2026-01-01T00:00:00.000Z"}

PRELUDE = """
import sys
from pathlib import Path
from server.audit.log import Log

log = Log(Path(sys.argv[1]), max_bytes=20_000, max_files=10_000)
now = {"time": "2026-01-01T00:00:00.000Z"}
"""


def opened(folder: Path, max_bytes: int = 1 << 20, max_files: int = 8) -> Log:
    return Log(folder, max_bytes=max_bytes, max_files=max_files)


def add(log: Log, number: int = 1) -> int:
    seq = 0
    for _ in range(number):
        seq = log.append({**NOW, "event": "call", "tool": "note_read"}, now=NOW, patience=5)
    return seq


def filled(folder: Path, number: int, max_bytes: int = 1 << 20, max_files: int = 8) -> None:
    log = opened(folder, max_bytes, max_files)
    add(log, number)
    log.close()


def audit(folder: Path) -> Audit:
    return Audit.open(folder, max_mb=1, max_files=4)


def raw(folder: Path) -> list[bytes]:
    """All lines as they are, oldest first."""
    return [
        line for name in files_in(folder) for line in (folder / name).read_bytes().splitlines(True)
    ]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw(folder)]


def newest(folder: Path) -> Path:
    return folder / files_in(folder)[-1]


def writer(script: str, folder: Path) -> "subprocess.Popen[str]":
    """Another process that writes into the same folder."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
