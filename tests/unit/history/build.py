"""Small changes, and servers that can be killed, for the history tests."""

import os
import subprocess
import sys
from pathlib import Path

from server.history.store import Author, Change, History
from server.models import etag_of

AUTHOR = Author("ana", "s1", "note_write", "op1")

PRELUDE = """
import sys
from pathlib import Path
from server.history.store import Author, Change, History
from server.models import etag_of

history = History.open(Path(sys.argv[1]), max_bytes=1 << 30, max_age_days=30)
"""


def opened(folder: Path, max_bytes: int = 1 << 30, days: float = 30.0) -> History:
    return History.open(folder, max_bytes=max_bytes, max_age_days=days)


def etag(data: bytes | None) -> str | None:
    return None if data is None else etag_of(data)


def change(path: str, before: bytes | None, after: bytes | None, kind: str = "write") -> Change:
    return Change(kind, path, before, etag(after))


def moved(old: str, new: str, data: bytes) -> Change:
    return Change("move", new, data, etag_of(data), old)


def make(history: History, *changes: Change, author: Author = AUTHOR) -> list[int]:
    """A change from its beginning to its end."""
    ids = history.begin(author, changes)
    history.finish(ids)
    return ids


def server(script: str, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Another server on the same folder."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line that the other server says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: "subprocess.Popen[str]") -> None:
    """Let the other server go on."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate(timeout=30)
