"""Reading the lines that are kept: all of them at one moment, the last ones, or those to come."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from server.audit.chain import Entry, parse
from server.audit.head import BYTES, FILE, Head, files_in, name_of

_LOOK_SECONDS = 0.25
Wanted = Callable[[Entry], bool]


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Head | None, list[tuple[str, BinaryIO, int]]]]:
    """The head and the files, oldest first, with their sizes: all of one moment."""
    with ExitStack() as stack:
        if not folder.exists():
            yield None, []
            return
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            head = _head(folder)
            files = [
                (name, stack.enter_context(open(folder / name, "rb"))) for name in files_in(folder)
            ]
            sized: list[tuple[str, BinaryIO, int]] = [
                (name, file, os.fstat(file.fileno()).st_size) for name, file in files
            ]
        finally:
            os.close(fd)
        yield head, sized


def last(folder: Path, number: int, wanted: Wanted) -> list[Entry]:
    """The last lines that are wanted, oldest first; what is unreadable is left out."""
    found: list[Entry] = []
    with opened(folder) as (_, files):
        for _, file, size in reversed(files):
            if len(found) >= number:
                break
            for line in reversed(file.read(size).split(b"\n")):
                if len(found) >= number:
                    break
                entry = parse(line)
                if entry is not None and wanted(entry):
                    found.append(entry)
    return found[::-1]


def follow(folder: Path, seq: int, wanted: Wanted) -> Iterator[Entry]:
    """The lines after `seq` as they are written, for ever."""
    name, offset = _file_of(folder, seq), 0
    while True:
        for current in files_in(folder) if folder.exists() else ():
            if current < name:
                continue
            with open(folder / current, "rb") as file:
                offset = file.seek(offset if current == name else 0)
                data = file.read()
            name = current
            whole = data.rfind(b"\n") + 1
            offset += whole
            for line in data[:whole].split(b"\n"):
                entry = parse(line)
                if entry is not None and entry.seq > seq:
                    seq = entry.seq
                    if wanted(entry):
                        yield entry
        time.sleep(_LOOK_SECONDS)


def _file_of(folder: Path, seq: int) -> str:
    """The file that holds a line, or would."""
    names = files_in(folder) if folder.exists() else []
    return max((name for name in names if name <= name_of(seq)), default="")


def _head(folder: Path) -> Head | None:
    try:
        with open(folder / FILE, "rb") as file:
            return Head.parse(file.read(BYTES))
    except FileNotFoundError:
        return None
