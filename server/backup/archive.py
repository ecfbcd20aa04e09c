"""The file of a backup: a compressed tar whose last member lists all others with their hashes."""

import hashlib
import json
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from server.backup.contents import CONFIG, STATE, Part
from server.errors import InvalidRequest

FORMAT = 1
LIST = "backup.json"
_BLOCK = 1 << 20
_LONGEST_LIST = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError)

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Listed:
    """One member as it has to be."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a backup says about itself."""

    files: tuple[Listed, ...]
    facts: dict[str, Any]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def write_archive(file: BinaryIO, parts: Iterable[Part], facts: dict[str, Any], told: Told) -> None:
    """Write everything; `told` hears of bytes as they are written. Raises `OSError`."""
    listed = []
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6, format=tarfile.PAX_FORMAT) as tar:
        for part in parts:
            reader = _Hashing(part.data, part.size, told)
            tar.addfile(_member(part.name, part.size), reader)
            listed.append(Listed(part.name, part.size, reader.digest))
        said = {"format": FORMAT, **facts, "files": [asdict(one) for one in listed]}
        data = json.dumps(said, indent=1).encode()
        tar.addfile(_member(LIST, len(data)), _Hashing.of(data))


def read_archive(path: Path, take: Callable[[str, IO[bytes]], str], told: Told) -> Contents:
    """Read a whole backup and compare it with its list.

    `take` gets each file and gives the hash of what it read. Raises `InvalidRequest` for what is no
    backup, is damaged, or comes from a newer version.
    """
    found: dict[str, str] = {}
    last: bytes | None = None
    try:
        with tarfile.open(path, mode="r:gz") as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isreg() else None
                if data is None or last is not None:
                    raise _damaged("it holds something that no backup holds")
                if member.name == LIST:
                    last = data.read(_LONGEST_LIST)
                    continue
                _check_name(member.name, found)
                found[member.name] = take(member.name, data)
                told(member.size)
    except FileNotFoundError:
        raise InvalidRequest(f"There is no file {path}.", "Name the file of a backup.") from None
    except _BROKEN as error:
        raise _damaged(str(error)[:200] or error.__class__.__name__) from None
    contents = _contents(last)
    if found != {one.name: one.sha256 for one in contents.files}:
        raise _damaged("its files are not those that it lists")
    return contents


def hash_of(_name: str, data: IO[bytes]) -> str:
    """For `read_archive`: only compare."""
    digest = hashlib.sha256()
    for block in _blocks(data):
        digest.update(block)
    return digest.hexdigest()


def extracting(folder: Path) -> Callable[[str, IO[bytes]], str]:
    """For `read_archive`: put each file below `folder`, for its owner alone, safely on the disk."""

    def take(name: str, data: IO[bytes]) -> str:
        target = folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256()
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as out:
            for block in _blocks(data):
                digest.update(block)
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
        return digest.hexdigest()

    return take


class _Hashing:
    """Reads exactly so many bytes, and knows their hash."""

    def __init__(self, data: IO[bytes], size: int, told: Told) -> None:
        self._data = data
        self._left = size
        self._told = told
        self._hash = hashlib.sha256()

    @classmethod
    def of(cls, data: bytes) -> "_Hashing":
        return cls(BytesIO(data), len(data), lambda _size: None)

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        block = self._data.read(wanted)
        self._left -= len(block)
        self._hash.update(block)
        self._told(len(block))
        return block

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _blocks(data: IO[bytes]) -> Iterator[bytes]:
    while block := data.read(_BLOCK):
        yield block


def _check_name(name: str, known: dict[str, str]) -> None:
    parts = PurePosixPath(name).parts
    sound = all(_NAME.fullmatch(part) and part not in (".", "..") for part in parts)
    if name in known or not sound or len(parts) < 2 or parts[0] not in (STATE, CONFIG):
        raise _damaged("it holds a name that no backup holds")


def _contents(data: bytes | None) -> Contents:
    try:
        said = json.loads(data or b"")
        if said["format"] > FORMAT:
            raise InvalidRequest(
                "The backup was made by a newer version of this server.",
                "Restore it with that version.",
            )
        files = tuple(Listed(**one) for one in said["files"])
    except (ValueError, KeyError, TypeError):
        raise _damaged("its list is missing or makes no sense") from None
    facts = {name: value for name, value in said.items() if name not in ("files", "format")}
    return Contents(files, facts)


def _damaged(why: str) -> InvalidRequest:
    return InvalidRequest(f"The file is no backup, or is damaged: {why}.", "Take another one.")
