"""The write journal: a write is on local disk before the vault is touched.

One file per write in STATE_DIR: a JSON header line, then the new content. Its suffix is its state:

    prepared   being written; the caller has no answer yet, so after a crash it need not come true
    applied    acknowledged, but not known to be on the remote: it must come true
    aside      could not be finished and was never acknowledged; kept a while for people to look at

A file that ends in `ghost` is no write: it names contents that may come back where a note was moved
or deleted before its last change was uploaded.

A finished write has no file. The journal never touches the vault: `recovery.py` decides.
"""

import json
import os
import threading
import time
import unicodedata
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from server.errors import Unavailable
from server.models import path_key
from server.state import sync_folder

State = Literal["prepared", "applied", "aside"]
KEEP_ASIDE = 50
QUEUED = "journal"
"""The protocol of a write that waits here before the vault was touched."""


@dataclass(frozen=True, slots=True)
class Record:
    """One write. `base` and `etag` are hashes of the content before and after."""

    id: str
    path: str
    disk: str
    base: str | None
    etag: str
    md5: str
    size: int
    protocol: str
    temp: str | None
    created: float
    note: str = ""
    earlier: tuple[str | None, ...] = ()
    """Etags of what was to be replaced by it before, and what the remote may still hold; None: nothing."""


@dataclass(frozen=True, slots=True)
class Item:
    """A record as found in the journal."""

    record: Record
    state: State
    file: Path

    def data(self) -> bytes:
        """The content that was to be written."""
        return self.file.read_bytes().split(b"\n", 1)[1]


@dataclass(frozen=True, slots=True)
class Ghost:
    """A place where one of some contents, by their etags, may show up again."""

    id: str
    disk: str
    etags: tuple[str, ...]
    created: float


class Journal:
    """A bounded folder of writes. Safe for many threads; one process owns it at a time."""

    def __init__(
        self, folder: Path, *, max_entries: int = 2000, max_bytes: int = 512 << 20
    ) -> None:
        self._folder = folder
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        on_file = [item for item in self.items() if item.state != "aside"]
        self._sizes = {item.file.stem: item.record.size for item in on_file}
        self._places = {
            item.file.stem: (path_key(item.record.path), item.record.id) for item in on_file
        }
        self._stamp = 0.0
        self._ghosts = {ghost.id: ghost for ghost in _ghosts(folder)}

    def __len__(self) -> int:
        return len(self._sizes)

    def ids(self, path: str) -> list[str]:
        """The open writes of a file, by the ids of their records."""
        if not self._places:
            return []
        key = path_key(path)
        return [entry for place, entry in list(self._places.values()) if place == key]

    def queued(self, path: str) -> Item | None:
        """The newest write of a file that still has to be made."""
        key = path_key(path)
        stems = [stem for stem, (place, _) in list(self._places.items()) if place == key]
        for stem in sorted(stems, reverse=True):
            item = _parse(self._folder / f"{stem}.applied")
            if item is not None and item.record.protocol == QUEUED:
                return item
        return None

    def stamp(self) -> float:
        """This moment, and later than every write on file: their order outlives a clock that is set back."""
        with self._lock:
            newest = max(self._sizes, default="")
            self._stamp = max(time.time(), self._stamp + 1e-5, _moment(newest) + 1e-5)
            return self._stamp

    def prepare(self, record: Record, data: bytes, state: State = "prepared") -> None:
        """Store a write durably.

        Raises `Unavailable` when the journal is full or can't be written.
        """
        with self._lock:
            if (
                len(self._sizes) >= self._max_entries
                or sum(self._sizes.values()) + len(data) > self._max_bytes
            ):
                raise Unavailable(
                    "Too many writes wait for the vault; nothing was written.",
                    "Wait until the mount has caught up; health_check shows the queue.",
                )
            self._sizes[_stem(record)] = len(data)
            self._places[_stem(record)] = path_key(record.path), record.id
        try:
            self._store(record, data, state)
        except OSError as error:
            self._forget(record)
            raise Unavailable(
                "The server's state folder can't be written; nothing was written.",
                "The owner must check the disk that holds STATE_DIR.",
            ) from error

    def applied(self, record: Record) -> None:
        """The write was made and will now be acknowledged."""
        self._file(record, "prepared").rename(self._file(record, "applied"))
        sync_folder(self._folder)

    def done(self, record: Record) -> None:
        """The write is safe, or was never made and its caller knows: forget it."""
        for state in ("applied", "prepared"):
            self._file(record, state).unlink(missing_ok=True)
        self._forget(record)

    def set_aside(self, record: Record) -> None:
        """Keep an unfinished write for people to look at, the newest `KEEP_ASIDE` of them."""
        for state in ("applied", "prepared"):
            file = self._file(record, state)
            if file.exists():
                file.rename(self._file(record, "aside"))
        self._forget(record)
        for item in [item for item in self.items() if item.state == "aside"][:-KEEP_ASIDE]:
            item.file.unlink(missing_ok=True)

    def redirect(self, old: str, new: str | None) -> list[tuple[str, str | None]]:
        """Acknowledged writes at or below `old` shall come true at `new`, or, if that is None, not at
        all; the ids of their records before and after.
        """
        changed: list[tuple[str, str | None]] = []
        if not self._sizes:
            return changed
        uploaded: dict[str, list[str]] = {}
        for item in self.items():
            record = item.record
            if item.state != "applied" or not f"{record.disk}/".startswith(f"{old}/"):
                continue
            before = tuple(etag for etag in (record.base, *record.earlier) if etag)
            uploaded.setdefault(record.disk, []).extend(before)
            if new is None:
                changed.append((record.id, None))
            else:
                disk = new + record.disk[len(old) :]
                path = unicodedata.normalize("NFC", disk)
                # Like a new note: when the mount loses it there, it has to be written there. What was
                # there before came along, and may be left behind when it moves on.
                moved = replace(
                    record,
                    id=uuid.uuid4().hex[:16],
                    disk=disk,
                    path=path,
                    base=None,
                    earlier=before,
                )
                self._add(moved, item.data())
                changed.append((record.id, moved.id))
            self.done(record)
        for disk, etags in uploaded.items():
            if etags:
                self._expect(Ghost(uuid.uuid4().hex[:16], disk, tuple(etags), time.time()))
        return changed

    @property
    def ghosts(self) -> list[Ghost]:
        """What may come back, and where."""
        return list(self._ghosts.values())

    def ghostly(self, disk: str) -> tuple[str, ...]:
        """The etags of what may come back there."""
        return tuple(etag for ghost in self.ghosts if ghost.disk == disk for etag in ghost.etags)

    def lay(self, disk: str) -> None:
        """Expect no ghost at or below a path any more."""
        for ghost in self.ghosts:
            if f"{ghost.disk}/".startswith(f"{disk}/"):
                self._ghosts.pop(ghost.id, None)
                (self._folder / f"{ghost.id}.ghost").unlink(missing_ok=True)

    def _expect(self, ghost: Ghost) -> None:
        text = json.dumps(asdict(ghost), ensure_ascii=False)
        (self._folder / f"{ghost.id}.ghost").write_bytes(text.encode("utf-8", "surrogateescape"))
        self._ghosts[ghost.id] = ghost

    def _add(self, record: Record, data: bytes) -> None:
        """An acknowledged write in the place of another, so that a full journal has room for it."""
        with self._lock:
            self._sizes[_stem(record)] = len(data)
            self._places[_stem(record)] = path_key(record.path), record.id
        try:
            self._store(record, data, "applied")
        except OSError:
            self.done(record)
            raise

    def take_over(self, folder: Path) -> int:
        """Move the open writes of an abandoned journal into this one; returns how many."""
        taken = 0
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            item = _parse(file)
            if item is None or item.state == "aside":
                continue
            file.rename(self._folder / file.name)
            with self._lock:
                self._sizes[file.stem] = item.record.size
                self._places[file.stem] = path_key(item.record.path), item.record.id
            taken += 1
        for ghost in _ghosts(folder) if folder.is_dir() else ():
            (folder / f"{ghost.id}.ghost").rename(self._folder / f"{ghost.id}.ghost")
            self._ghosts[ghost.id] = ghost
        return taken

    def items(self) -> list[Item]:
        """Every write on file, oldest first; torn ones (never complete, so never begun) are dropped."""
        found = []
        for file in sorted(self._folder.iterdir()):
            item = _parse(file)
            if item is not None:
                found.append(item)
            elif file.suffix in (".new", ".prepared") and _age(file) > 60:
                file.unlink(missing_ok=True)
        return found

    def _store(self, record: Record, data: bytes, state: State) -> None:
        said = {field: getattr(record, field) for field in Record.__slots__}
        header = json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogateescape")
        new = self._folder / f"{_stem(record)}.new"
        with new.open("xb") as file:
            file.write(header + b"\n" + data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._file(record, state))
        sync_folder(self._folder)

    def _file(self, record: Record, state: str) -> Path:
        return self._folder / f"{_stem(record)}.{state}"

    def _forget(self, record: Record) -> None:
        with self._lock:
            self._sizes.pop(_stem(record), None)
            self._places.pop(_stem(record), None)


def items_in(folder: Path) -> list[Item]:
    """The writes on file in a journal that somebody else may own, oldest first; only looks."""
    return [item for file in sorted(folder.iterdir()) if (item := _parse(file)) is not None]


def _ghosts(folder: Path) -> list[Ghost]:
    found = []
    for file in sorted(folder.glob("*.ghost")):
        try:
            said = json.loads(file.read_bytes().decode("utf-8", "surrogateescape"))
            found.append(Ghost(said["id"], said["disk"], tuple(said["etags"]), said["created"]))
        except (OSError, ValueError, KeyError, TypeError):
            # Cut short by a crash: then a ghost stays, which loses nothing.
            file.unlink(missing_ok=True)
    return found


def _stem(record: Record) -> str:
    return f"{int(record.created * 1e6):020d}-{record.id}"


def _moment(stem: str) -> float:
    """When the write of a file's name was asked for."""
    digits = stem.partition("-")[0]
    return int(digits) / 1e6 if digits.isdigit() else 0.0


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _parse(file: Path) -> Item | None:
    state = file.suffix[1:]
    if state not in ("prepared", "applied", "aside"):
        return None
    try:
        header, _, data = file.read_bytes().partition(b"\n")
        said = json.loads(header.decode("utf-8", "surrogateescape"))
        record = Record(**(said | {"earlier": tuple(said.get("earlier", ()))}))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return Item(record, state, file) if len(data) == record.size else None  # type: ignore[arg-type]


def by_path(items: Iterable[Item]) -> dict[str, list[Item]]:
    """Items grouped by path, each group oldest first: a chain of writes to one note."""
    chains: dict[str, list[Item]] = {}
    for item in items:
        chains.setdefault(item.record.disk, []).append(item)
    return chains
