"""Getting a note's content: from the mirror when the disk says it is unchanged, else from the disk.

One stat of the vault with a short deadline; while the vault can't be reached, the mirror answers
alone and the result says so.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from unicodedata import normalize

from server.errors import Ambiguous, Timeout, Unavailable, VaultError
from server.index.rows import Document, Row
from server.index.store import Index
from server.models import Entry, FileStat, NotePath, etag_of, kind_of
from server.scanner.diff import is_racy
from server.service.freshness import iso_ns
from server.telemetry import log
from server.vault.files import Permit
from server.vault.paths import is_hidden
from server.vault.plans import Outcome
from server.vault.relocation import Place
from server.vault.vault import Found, Moved, Vault, Written
from server.workers import Deadline, Workers

_SHORT = 100_000
"""Bytes of a note that the loop may read from the mirror itself."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's content with what is known of it."""

    path: str
    data: bytes
    etag: str
    stat: FileStat
    stale: bool | None = None
    as_of: str | None = None
    sound: bool = False
    """The index has read this very text and found nothing odd about it."""

    def text(self) -> str:
        """The content as text, without a byte order mark; what isn't UTF-8 becomes U+FFFD."""
        return self.data.decode("utf-8", "replace").removeprefix("\ufeff")


class Loader:
    """Loads contents and keeps the index in step with what it saw on the way."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        mount: Workers,
        local: Workers,
        *,
        patience: float,
        queues: bool = False,
    ) -> None:
        """`queues`: while the vault is away, writes are built on what the index has."""
        self._vault = vault
        self._index = index
        self._mount = mount
        self._local = local
        self._patience = patience
        self._queues = queues

    async def load(self, path: NotePath, permit: Permit | None = None) -> Loaded | None:
        """The content of `path`, or None when it does not exist.

        `permit` is asked with the path that symbolic links lead to, before anything is told.
        Raises `Unavailable` when the vault can't be reached and the mirror has no copy either.
        """
        if self._vault.guard.health.ok and not self._vault.waits(path):
            try:
                return self._at_once(path, permit) or await self._mount.run_async(
                    Deadline.after(self._patience), self._from_vault, path, permit
                )
            except (Unavailable, Timeout) as error:
                self._vault.guard.wake()
                log(logging.DEBUG, "read from the mirror", path=path, why=error.code)
        return await self._local.run_async(Deadline.after(self._patience), self._from_mirror, path)

    def known(self, path: NotePath) -> Document | None:
        """What the index holds of a note, whatever the vault does just now.

        Raises `Unavailable` while the index doesn't know the whole vault.
        """
        if not self._index.is_complete:
            raise Unavailable("The vault was never seen as a whole yet.", "Try again in a moment.")
        rows = self._index.match(path)
        exact = [row for row in rows if row.path == path] or rows
        if len(exact) > 1:
            raise _ambiguous(path, exact)
        data = self._index.text(exact[0]) if exact else None
        if data is None:
            return None
        row = exact[0]
        return Document(row.path, row.disk, data, FileStat(row.size, row.mtime_ns))

    def load_now(self, path: NotePath, permit: Permit | None = None) -> Loaded | None:
        """`load` for a thread that may wait for the vault; nothing stale."""
        return self._from_vault(path, permit)

    def _at_once(self, path: NotePath, permit: Permit | None) -> Loaded | None:
        """What is read so soon that a worker would only be a detour; None for all that may take longer.

        That is a short note on a disk of this machine, unchanged since the index took it in. One that is
        spelled otherwise on disk has to be looked for through its folder.
        """
        row = self._index.get_at_once(path)
        if row is None or row.racy or not row.etag or row.size > _SHORT or row.disk != path:
            return None
        entry = self._vault.stat_at_once(path, permit=permit)
        if entry is None or not _same(row, entry):
            return None
        return self._unchanged(row, entry, self._index.text_at_once(row))

    def _unchanged(self, row: Row, entry: Entry, data: bytes | None) -> Loaded | None:
        """What the index has of a file that is as it was."""
        if data is None or not row.etag:
            return None
        self._index.use([row.path])
        return Loaded(row.path, data, row.etag, entry.stat, sound=row.warning is None)

    def _from_vault(self, path: NotePath, permit: Permit | None) -> Loaded | None:
        entry = self._vault.stat(path, permit=permit)
        if entry is None:
            return None
        row = self._index.get(entry.path)
        if row is not None and self._trusts(row) and _same(row, entry):
            known = self._unchanged(row, entry, self._index.text(row))
            if known is not None:
                return known
        looked = time.time_ns()
        found = self._vault.read(path, permit=permit)
        if found is None:
            return None
        content = found.content
        if entry.kind == "note":
            self.store(_document(found, looked))
        return Loaded(found.path, content.data, content.etag, content.stat)

    def _trusts(self, row: Row) -> bool:
        # Every look at a note on the mount puts its pending upload off; the scanner takes that look.
        return not row.racy or self._vault.guard.pin().is_rclone

    def _from_mirror(self, path: NotePath) -> Loaded:
        if (waiting := self._vault.queued_content(path)) is not None:
            content = waiting.content
            return Loaded(waiting.path, content.data, content.etag, content.stat)
        rows = self._index.match(path)
        exact = [row for row in rows if row.path == path] or rows
        if len(exact) > 1:
            raise _ambiguous(path, exact)
        data = self._index.text(exact[0]) if exact else None
        if data is None:
            health = self._vault.guard.health
            raise Unavailable(
                f"{path!r} has no copy here, and the vault can't be reached. {health.reason}".strip(),
                health.hint or "Try again in a moment.",
            )
        row = exact[0]
        self._index.use([row.path])
        if self._vault.waits(row.path):
            # Nobody has it newer than we.
            return Loaded(
                row.path, data, row.etag or etag_of(data), FileStat(row.size, row.mtime_ns)
            )
        return Loaded(
            row.path,
            data,
            row.etag or etag_of(data),
            FileStat(row.size, row.mtime_ns),
            True,
            iso_ns(row.indexed_at_ns),
        )

    def fetch(self, paths: Sequence[str]) -> None:
        """Read notes and index them, all in one go; one that can't be read is left to the scanner."""
        documents = []
        for path in paths:
            looked, found = time.time_ns(), None
            with suppress(VaultError):
                found = self._vault.read(NotePath(path))
            if found is not None:
                documents.append(_document(found, looked))
        if documents:
            self._index.put(documents)

    def store(self, document: Document) -> None:
        """Index a content that was just read; the vault has it, so a failure is only logged."""
        try:
            self._index.put([document])
        except Exception as error:  # noqa: BLE001 - the scanner will try again
            log(logging.ERROR, "a note could not be indexed", path=document.path, why=repr(error))

    def store_written(self, written: Written) -> None:
        """Index our own write, so that the next read, list or search sees it."""
        if is_hidden(written.path):
            # A note in the trash that had to be written again stays out of sight.
            return
        stat = written.content.stat
        if written.created:
            self._store_folders(written.disk)
        if kind_of(written.path) != "note":
            self._store_file(Entry(written.path, written.disk, "attachment", stat))
            return
        # Always looked at once more: rclone may show another time after the upload.
        self._index.put_own(
            Document(
                written.path,
                written.disk,
                written.content.data,
                stat,
                racy=True,
                looked_ns=written.at_ns,
            )
        )
        if self._queues or written.protocol != "local":
            # Should this server be killed now and the vault be away, the next write needs to know of it.
            self._index.catch_up()

    def _store_file(self, entry: Entry) -> None:
        try:
            self._index.put_files([entry])
        except Exception as error:  # noqa: BLE001 - the scanner will try again
            log(logging.ERROR, "a file could not be indexed", path=entry.path, why=repr(error))

    def take_in(self, outcome: Outcome) -> None:
        """Let the index know what a step of a plan did; a failure is left to the scanner."""
        try:
            match outcome:
                case Written():
                    self.store_written(outcome)
                case Moved(before, after):
                    self._take_in_move(before, after)
                case Place():
                    self._index.remove([normalize("NFC", outcome.disk)])
        except Exception as error:  # noqa: BLE001 - the vault is right, and the scanner comes by
            log(logging.ERROR, "a change could not be indexed", why=repr(error))

    def _take_in_move(self, before: Place, after: Place) -> None:
        old, new = normalize("NFC", before.disk), normalize("NFC", after.disk)
        if is_hidden(new):
            self._index.remove([old])
            return
        self._store_folders(after.disk)
        if not is_hidden(old) and self._index.rename(old, new, after.disk, after.stat):
            return
        if after.kind != "note":
            self._store_file(Entry(new, after.disk, after.kind, after.stat))
        elif (found := self._vault.read_held(NotePath(after.disk))) is not None:
            looked, content = time.time_ns(), found.content
            self.store(Document(found.path, found.disk, content.data, content.stat, True, looked))

    def _store_folders(self, disk: str) -> None:
        """Let the folders above a new note be listed at once, too."""
        parts = disk.split("/")[:-1]
        above = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        entries = [
            Entry(normalize("NFC", folder), folder, "folder", FileStat(0, 0))
            for folder in above
            if self._index.get(normalize("NFC", folder)) is None
        ]
        if entries:
            self._index.put_files(entries)


def _document(found: Found, looked: int) -> Document:
    """What was read at a moment, for the index."""
    content = found.content
    racy = is_racy(content.stat.mtime_ns, looked)
    return Document(found.path, found.disk, content.data, content.stat, racy, looked)


def _ambiguous(path: str, rows: Sequence[Row]) -> Ambiguous:
    return Ambiguous(
        f"{path!r} matches several notes that differ only in case.",
        "Spell the path exactly.",
        candidates=[row.path for row in rows],
    )


def _same(row: Row, entry: Entry) -> bool:
    # The spelling counts: two files may share a path in different Unicode forms.
    known = row.disk, row.size, row.mtime_ns
    return known == (entry.disk, entry.stat.size, entry.stat.mtime_ns)
