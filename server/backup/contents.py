"""What belongs to a backup: everything in STATE_DIR but index, mirror and what belongs to a process.

Servers may write meanwhile. Small files are replaced as a whole, so that each is of one moment; the
history is copied by SQLite, the audit under its lock.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from server.audit.audit import FOLDER as AUDIT
from server.audit.head import FILE as HEAD
from server.audit.reading import opened
from server.databases import copy_database
from server.history.database import FILE as HISTORY

STATE, CONFIG = "state", "config"
PLACES = (
    "vault.json", "tokens.json", "tokens.lock", "tokens-used.json", "tokens-used.lock",
    "visits.json", "visits.lock", "history", AUDIT, "approvals", "slot-*", CONFIG,
)  # fmt: skip
"""All that a restore replaces; what else lies in STATE_DIR is none of ours."""
_FILES = (
    "vault.json", "tokens.json", "tokens-used.json", "visits.json", "slot-*/aliases.json",
    "slot-*/journal/*", "slot-*/plans/*",
)  # fmt: skip

Progress = Callable[[int, int], None]


class Counter:
    """Adds up bytes for a progress bar."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, max(1, total), progress

    def add(self, size: int) -> None:
        """So many more are done; there may be more of them than was thought."""
        self._done += size
        self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        """All are."""
        self._progress(self._total, self._total)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a backup: `size` bytes of `data`."""

    name: str
    size: int
    data: BinaryIO


def parts_of(state: Path, config: dict[str, Path], temp: Path) -> Iterator[Part]:
    """Every file, one after the other; `config` are files from elsewhere by the names they get.

    `temp` is a folder with room for a copy of the history. Raises `OSError`.
    """
    for name, file in config.items():
        if file.exists():
            yield from _file(f"{CONFIG}/{name}", file)
    for pattern in _FILES:
        for file in sorted(state.glob(pattern)):
            if file.is_file() and not _is_unfinished(file):
                yield from _file(f"{STATE}/{file.relative_to(state)}", file)
    yield from _approvals(state)
    yield from _history(state, temp)
    yield from _audit(state)


def _is_unfinished(file: Path) -> bool:
    return file.name.startswith(".") or file.suffix == ".new"


def _file(name: str, file: Path) -> Iterator[Part]:
    try:
        data = file.open("rb")
    except FileNotFoundError:
        return  # finished meanwhile
    with data:
        yield Part(name, os.fstat(data.fileno()).st_size, data)


def _approvals(state: Path) -> Iterator[Part]:
    # In this order: what is decided meanwhile has moved from the first place to the second.
    for place in ("waiting", "closed"):
        for folder in sorted((state / "approvals" / place).glob("[!.]*")):
            try:
                held = {file.name: file.read_bytes() for file in sorted(folder.glob("[!.]*"))}
                still = folder.exists()
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name, data in held.items() if still else ():
                whole = f"{STATE}/approvals/{place}/{folder.name}/{name}"
                yield Part(whole, len(data), BytesIO(data))


def _history(state: Path, temp: Path) -> Iterator[Part]:
    if (state / "history" / HISTORY).exists():
        copy = temp / HISTORY
        copy_database(state / "history" / HISTORY, copy)
        yield from _file(f"{STATE}/history/{HISTORY}", copy)
        copy.unlink()


def _audit(state: Path) -> Iterator[Part]:
    with ExitStack() as stack:
        head, files = stack.enter_context(opened(state / AUDIT))
        if head is not None:
            data = head.encode()
            yield Part(f"{STATE}/{AUDIT}/{HEAD}", len(data), BytesIO(data))
        for name, file, size in files:
            yield Part(f"{STATE}/{AUDIT}/{name}", size, file)


def size_of(state: Path) -> int:
    """About how many bytes a backup has to read."""
    places = ("history", AUDIT, "approvals")
    files = (file for place in places for file in (state / place).rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())
