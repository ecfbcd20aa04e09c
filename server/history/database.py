"""The file and the connections to it: one that writes, one that reads, each for a thread at a time.

Several servers may have the file open. When one of them sets it aside because it is damaged, the
others notice at their next use and go on with the fresh one.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw

from server.errors import Unavailable
from server.history.presence import Presence, alone, sweep
from server.history.schema import VERSION, connect_reader, connect_writer, version
from server.telemetry import log

FILE = "history.db"
_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)
_UNSOUND = (*_DAMAGED, apsw.SQLError)
_FAILED = (
    apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.BusyError,
    apsw.LockedError, apsw.PermissionsError, apsw.ProtocolError, OSError,
)  # fmt: skip
_CHECK = "The owner must check the disk that holds STATE_DIR."


class Database:
    """Safe for many threads and for many processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._closed = False
        self._reader: apsw.Connection | None = None
        self._seen = 0
        with _told("The history can't be opened."):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone(folder):
                sweep(folder)
                self._connect()

    @contextmanager
    def write(self, *, durable: bool) -> Iterator[apsw.Connection]:
        """A transaction: all or nothing, and if `durable` on the disk when the block ends.

        Raises `Unavailable` when it can't be stored.
        """
        with self._writing, _told("The history can't be written; nothing was written."):
            self._follow()
            db = self._writer
            try:
                db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                finally:
                    # Some failures end the transaction, others leave it open.
                    if db.in_transaction:
                        db.execute("ROLLBACK")
            except _DAMAGED as error:
                self._replace(str(error))
                raise Unavailable(
                    "The history was damaged and is begun anew; nothing was written.", "Try again."
                ) from error

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """A connection that sees one state of things throughout. Raises `Unavailable`."""
        with self._reading, _told("The history can't be read."):
            try:
                with self._current_reader() as db:
                    yield db
            except _DAMAGED as error:
                raise Unavailable(
                    "The history is damaged in this place.", "Other versions may be intact."
                ) from error

    @contextmanager
    def idle(self) -> Iterator[apsw.Connection]:
        """The connection that writes, outside of a transaction: for the care of the file."""
        with self._writing, _told("The history can't be tidied."):
            self._follow()
            yield self._writer

    def close(self) -> None:
        """End it: the file is checkpointed when its last connection closes."""
        with self._reading, self._writing:
            if not self._closed:
                self._closed = True
                if self._reader is not None:
                    self._reader.close(True)
                self._disconnect()

    def _current_reader(self) -> apsw.Connection:
        # The writer must not close what another thread reads from: the reader follows by itself.
        if self._reader is None or self._closed or _inode_of(self._file) != self._seen:
            with self._writing:
                self._follow()
                inode = self._inode
            if self._reader is not None:
                self._reader.close(True)
            self._reader, self._seen = connect_reader(self._file), inode
        return self._reader

    def _connect(self, fresh: bool = False) -> None:
        first = int(time.time()) if fresh else 1
        if self._file.exists() and not _is_usable(self._file):
            first = self._set_aside("it can't be read")
        try:
            db = connect_writer(self._file, first)
        except _UNSOUND as error:
            db = connect_writer(self._file, self._set_aside(str(error)))
        if version(db) > VERSION:
            db.close(True)
            raise Unavailable(
                "The history was written by a newer version of this server.",
                "Run that version, or move STATE_DIR/history out of the way.",
            )
        self._writer = db
        self._inode = _inode_of(self._file)
        self.presence = Presence(self._folder)

    def _disconnect(self) -> None:
        self._inode = 0
        self._writer.close(True)
        self.presence.close()

    def _set_aside(self, reason: str) -> int:
        """Move the file away, and say which id a fresh one should begin with.

        Ids go on rising, so that a version somebody remembers never means another one.
        """
        log(logging.ERROR, "the history is set aside and begun anew", reason=reason)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        for suffix in ("-shm", "-wal", ""):
            file = self._file.with_name(FILE + suffix)
            if file.exists():
                file.rename(self._folder / f"{FILE}.damaged-{stamp}{suffix}")
        return int(time.time())

    def _replace(self, reason: str) -> None:
        """Set aside what turned out to be damaged, unless another server already has."""
        with self._reconnecting():
            if not self._is_replaced():
                self._set_aside(reason)

    def _follow(self) -> None:
        """Go on with the fresh file when this one was set aside or deleted."""
        if self._closed:
            raise Unavailable("The history is closed.", "Try again when the server is back.")
        if self._is_replaced():
            log(logging.WARNING, "the history was replaced by a fresh one")
            with self._reconnecting():
                pass

    @contextmanager
    def _reconnecting(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(self._folder):
            yield
            # A file that was moved first is closed without a word to the log that has its name now.
            self._disconnect()
            self._connect(fresh=True)

    def _is_replaced(self) -> bool:
        return _inode_of(self._file) != self._inode


@contextmanager
def _told(message: str) -> Iterator[None]:
    try:
        yield
    except _FAILED as error:
        log(logging.ERROR, "the history failed", reason=str(error))
        raise Unavailable(message, _CHECK) from error


def _inode_of(file: Path) -> int:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return -1


def _is_usable(file: Path) -> bool:
    return file.is_file() and os.access(file, os.R_OK | os.W_OK)
