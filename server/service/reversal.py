"""Taking back what one caller did: the history read backwards over the files as they are now.

What others did stays. Their entries are not reverted; they tell under which name a file went before.
Nothing is written here: what comes out is a batch.
"""

import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from server.errors import InvalidRequest, TooLarge
from server.history.store import Entry
from server.markdown.merging import merge
from server.models import NotePath, etag_of, kind_of, path_key
from server.service.editing import Batch
from server.service.texts import decoded
from server.vault.files import Permit
from server.vault.vault import Vault

What = Literal["restored", "deleted", "moved_back", "recreated"]


@dataclass(frozen=True, slots=True)
class Reverted:
    """What becomes of one file; None is no file, and a content that nobody looked at."""

    path: str
    what: What
    moved_from: str | None
    before: bytes | None
    after: bytes | None


@dataclass(slots=True)
class _Span:
    """Changes of one file in a row, with nothing of others between them."""

    before: str | None
    after: str | None


@dataclass(slots=True, eq=False)
class _File:
    """A file, whatever it was called in its time."""

    path: str
    """Where it shall be."""
    located: bool = False
    disk: str | None = None
    """Where it is; None: nowhere."""
    loaded: bool = False
    now: bytes | None = None
    wanted: bytes | None = None
    span: _Span | None = None
    dropped: bool = False
    """Whether somebody else deleted it."""

    @property
    def stays(self) -> bool:
        return self.wanted is not None if self.loaded else self.disk is not None


class Reversal:
    """One undo, built from the entries since its beginning; `refused` says why it can't be made."""

    def __init__(
        self,
        vault: Vault,
        content: Callable[[str, str], bytes | None],
        skip: Collection[str],
        permit: Callable[[str], Permit],
    ) -> None:
        self._vault = vault
        self._content = content
        self._skip = {path_key(path) for path in skip}
        self._permit = permit
        self._files: list[_File] = []
        self._names: dict[str, _File] = {}
        """The files by the keys of the names they had at the time that is being looked at."""
        self.refused: dict[str, str] = {}
        self.reverted: list[Reverted] = []

    def replay(self, entries: Sequence[Entry], mine: Callable[[Entry], bool]) -> Batch:
        """Take back those of `entries` (oldest first) that are `mine`."""
        for entry in reversed(entries):
            if not mine(entry) or self._is_skipped(entry):
                self._follow(entry)
            elif entry.other is not None:
                self._move_back(entry, entry.other)
            else:
                self._put_back(entry)
        for file in self._files:
            self._settle(file)
        self._check_places()
        return self._batch()

    def _is_skipped(self, entry: Entry) -> bool:
        if not self._skip:
            return False
        names = [entry.path, entry.other or entry.path, self._at(entry.path).path]
        return any(path_key(name) in self._skip for name in names)

    def _follow(self, entry: Entry) -> None:
        if entry.other is not None:
            self._rename(self._at(entry.path), entry.path, entry.other)
        elif entry.after is None:
            self._at(entry.path).dropped = True

    def _put_back(self, entry: Entry) -> None:
        file = self._at(entry.path)
        if file.span is not None and file.span.before == entry.after:
            file.span.before = entry.before
            return
        self._settle(file)
        file.span = _Span(entry.before, entry.after)

    def _move_back(self, entry: Entry, old: str) -> None:
        file = self._at(entry.path)
        self._locate(file)
        if kind_of(entry.path) == "note":
            self._load(file)
        self._rename(file, entry.path, old)
        if file.disk is None and file.span is None and file.wanted is None:
            if not file.dropped:
                self._refuse(file.path, "it is gone: somebody else moved or deleted it")
        elif path_key(file.path) != path_key(entry.path):
            self._refuse(file.path, "somebody else moved it on")
        else:
            file.path = old

    def _settle(self, file: _File) -> None:
        """Revert the changes that were gathered, on top of what others made of the file."""
        span, file.span = file.span, None
        if span is None or span.before == span.after:
            return
        self._load(file)
        etag = None if file.wanted is None else etag_of(file.wanted)
        if etag == span.before:
            return
        if etag == span.after:
            file.wanted = self._known(file, span.before) if span.before is not None else None
        elif file.wanted is None:
            if not file.dropped:
                self._refuse(file.path, "it is gone: somebody else moved or deleted it")
        elif span.before is None:
            self._refuse(file.path, "it was created, and somebody else wrote in it")
        elif span.after is None:
            self._refuse(file.path, "it was deleted, and somebody else made another in its place")
        else:
            file.wanted = self._merged(file, span.before, span.after)

    def _merged(self, file: _File, before: str, after: str) -> bytes | None:
        base, ours = self._content(file.path, after), self._known(file, before)
        if base is not None and ours is not None and file.wanted is not None:
            data = _without_end(base, ours, file.wanted) or _merged(base, ours, file.wanted)
            if data is not None:
                return data
        self._refuse(file.path, "somebody else changed the same lines")
        return file.wanted

    def _known(self, file: _File, etag: str) -> bytes | None:
        data = self._content(file.path, etag)
        if data is None:
            self._refuse(file.path, "the history lost what it said before")
        return data

    def _check_places(self) -> None:
        """Refuse two files in one place, and one file under two names."""
        taken = {path_key(f.path) for f in self._files if f.stays and f.disk != f.path}
        for file in self._files:
            if path_key(file.path) in taken:
                self._locate(file)
        places = Counter(path_key(f.path) for f in self._files if f.located and f.stays)
        disks = Counter(path_key(f.disk) for f in self._files if f.disk is not None)
        for file in self._files:
            if file.stays and places[path_key(file.path)] > 1:
                self._refuse(file.path, "something else is in its place")
            if file.disk is not None and disks[path_key(file.disk)] > 1:
                self._refuse(file.path, "it has two names: one is a symbolic link")

    def _batch(self) -> Batch:
        batch = Batch("undo")
        moving = [f for f in self._files if f.disk is not None and f.stays and f.path != f.disk]
        going = {path_key(f.disk): f for f in self._files if f.disk is not None and not f.stays}
        coming = [f for f in self._files if f.disk is None and f.wanted is not None]
        replaced = [f for f in coming if path_key(f.path) in going]
        for file in replaced:
            self._replace(batch, file, going.pop(path_key(file.path)).now)
        for file in going.values():
            path, data = file.disk or file.path, file.now or b""
            batch.remove(path, data)
            self.reverted.append(Reverted(path, "deleted", None, data, None))
        made: set[tuple[str, str]] = set()
        for file, old, new in _in_order(moving):
            for step in _steps(old, new):
                if step not in made:
                    made.add(step)
                    batch.move(*step)
            batch.moved(old, new, file.now)
        for file in moving:
            if file.wanted is not None and file.wanted != file.now:
                batch.replace(file.path, file.now, file.wanted)
            self.reverted.append(
                Reverted(file.path, "moved_back", file.disk, file.now, file.wanted)
            )
        done = {*moving, *replaced}
        for file in self._files:
            if file.wanted not in (None, file.now) and file not in done:
                self._replace(batch, file, file.now)
        return batch

    def _replace(self, batch: Batch, file: _File, now: bytes | None) -> None:
        data = file.wanted or b""
        batch.replace(file.path, now, data)
        what: What = "recreated" if now is None else "restored"
        self.reverted.append(Reverted(file.path, what, None, now, data))

    def _at(self, path: str) -> _File:
        key = path_key(path)
        return self._names.get(key) or self._add(_File(path))

    def _add(self, file: _File) -> _File:
        self._files.append(file)
        self._names[path_key(file.path)] = file
        return file

    def _rename(self, file: _File, new: str, old: str) -> None:
        """Before this, the file went by its old name."""
        if path_key(new) == path_key(old):
            return
        # Whatever has the old name now came later; it has to be known when places are compared.
        self._at(old)
        self._names[path_key(old)] = file
        self._add(_File(new, located=True, loaded=True))

    def _locate(self, file: _File) -> None:
        if file.located:
            return
        file.located = True
        place = self._vault.find(file.path, permit=self._permit(file.path))
        if place is None:
            return
        file.disk = file.path = unicodedata.normalize("NFC", place.disk)
        if place.kind == "folder":
            self._refuse(file.path, "a folder is in its place")

    def _load(self, file: _File) -> None:
        self._locate(file)
        if file.loaded or file.path in self.refused:
            return
        if file.disk is not None:
            try:
                permit = self._permit(file.disk)
                found = self._vault.read(NotePath(file.disk), permit=permit)
            except TooLarge:
                self._refuse(file.path, "it is too large")
                return
            file.now = file.wanted = found.content.data if found else None
        file.loaded = True

    def _refuse(self, path: str, why: str) -> None:
        self.refused.setdefault(path, why)


def _steps(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The moves from one path to another; folders that differ only in case move with all in them."""
    if path_key(old) != path_key(new):
        yield old, new
        return
    above = ""
    for was, shall in zip(old.split("/"), new.split("/"), strict=True):
        if was != shall:
            yield above + was, above + shall
        above += f"{shall}/"


def _without_end(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What others appended to a text, without the end that it had when they did: a log of many."""
    rest = theirs[len(base) :]
    if not (base.startswith(ours) and theirs.startswith(base) and rest):
        return None
    breaks = rest.startswith((b"\n", b"\r\n"))
    if not breaks and not (base.endswith(b"\n") and (not ours or ours.endswith(b"\n"))):
        return None
    return ours + rest


def _merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    try:
        text = merge(decoded(base), decoded(ours), decoded(theirs))
    except InvalidRequest:
        return None
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _in_order(files: Sequence[_File]) -> Iterator[tuple[_File, str, str]]:
    """The moves (old, new), none of them onto a file that has yet to move away."""
    waiting = {path_key(file.disk or ""): (file, file.disk or "") for file in files}
    while waiting:
        wanted = {key: path_key(file.path) for key, (file, _) in waiting.items()}
        free = [key for key, end in wanted.items() if end == key or end not in waiting]
        if free:
            for key in free:
                file, old = waiting.pop(key)
                yield file, old, file.path
        else:
            # They go round in a circle: one of them has to step aside.
            key, (file, old) = next(iter(waiting.items()))
            stem, dot, suffix = file.path.rpartition(".")
            aside = f"{stem} {uuid.uuid4().hex[:8]}{dot}{suffix}"
            del waiting[key]
            waiting[path_key(aside)] = (file, aside)
            yield file, old, aside
