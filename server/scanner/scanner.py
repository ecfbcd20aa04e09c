"""Reconciles the index with the disk, again and again, and never believes a vault that looks wrong.

A scan that fails changes nothing but what it had already read; nothing is ever removed from the index
without a complete walk of a mount that was the same and healthy before and after it.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from server.errors import NotFound, TooLarge, Unavailable, VaultError
from server.index.rows import Document
from server.index.store import Index
from server.models import Entry, FileStat, NotePath, etag_of
from server.scanner.diff import Diff, Known, diff, is_racy
from server.scanner.oddities import Oddities, find_oddities
from server.scanner.recency import by_recency
from server.scanner.walk import Walk, look
from server.telemetry import Telemetry, log
from server.vault.vault import Found, Vault
from server.workers import Deadline, Workers

_FIRST_BATCH, _BATCH, _BATCH_BYTES = 100, 1000, 16 << 20
_IN_LINE = 50
_MASS = 20
_HOLD_SECONDS = 600.0
_LAG_NS = 30_000_000_000

Phase = Literal["idle", "walking", "reading"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the scanner is; a cached value that any thread may read."""

    phase: Phase = "idle"
    done: int = 0
    total: int = 0
    first_done: bool = False
    last_success: float | None = None
    last_error: str | None = None
    last_seconds: float | None = None
    held_removals: int = 0
    rebuilding: bool = False
    oddities: Oddities = field(default_factory=Oddities)


@dataclass(slots=True)
class Report:
    """What one scan changed."""

    added: int = 0
    modified: int = 0
    moved: int = 0
    removed: int = 0
    held: int = 0

    @property
    def total(self) -> int:
        return self.added + self.modified + self.moved + self.removed


class Scanner:
    """One scan at a time: from its own thread (`run`), or on request (`scan`)."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        workers: Workers,
        telemetry: Telemetry,
        *,
        interval: float,
        timeout: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._vault = vault
        self._index = index
        self._target = index
        self._workers = workers
        self._telemetry = telemetry
        self._interval = interval
        self._timeout = timeout
        self._now = now
        self._scanning = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._held_since: float | None = None
        self.is_watched: Callable[[], bool] = lambda: False
        """Whether somebody waits to be told of changes: then a quiet remote is asked as often."""
        self._names: int | None = None
        self._ids: dict[str, str] = {}
        """Where the remote's files were at the last scan, by the ids that a move keeps."""
        self.progress = Progress(first_done=index.is_complete)
        telemetry.scan_progress.set(1)

    def run(self, stopping: threading.Event) -> None:
        """Scan until told to stop: often while things change, seldom while they don't."""
        self._stopping = stopping
        pause = self._interval
        self._vault.guard.looked.wait(self._timeout)
        while not stopping.is_set():
            started = time.monotonic()
            report = self.scan_safely()
            quiet = report is not None and report.total == 0
            # A plain folder is cheap to look at; a remote is asked less often while it is quiet.
            longest = self._interval * (4 if self._is_remote() and not self.is_watched() else 1)
            pause = min(pause * 1.5, longest) if quiet else self._interval
            spent = time.monotonic() - started
            # An edit that a scan just missed must be stored by the next one within the interval.
            quickly = max(pause - 2 * spent, spent)
            self._rest(quickly if report is not None else min(2.0, self._interval))

    def _rest(self, seconds: float) -> None:
        """Wait for the next scan, not longer than the interval once somebody watches."""
        while seconds > 0:
            step = min(seconds, self._interval)
            if self._wake.wait(step) or self.is_watched():
                break
            seconds -= step
        self._wake.clear()

    def wake(self) -> None:
        """Make `run` scan now (the mount came back, somebody asks, the server stops)."""
        self._wake.set()

    def scan_safely(self) -> Report | None:
        """One scan whose failure is logged and counted, not raised."""
        try:
            return self.scan()
        except VaultError as error:
            self._failed(
                error.code if self._vault.guard.health.ok else self._vault.guard.health.state
            )
        except Exception as error:
            logging.getLogger("vault_mcp").exception("scan failed")
            self._failed(type(error).__name__)
        return None

    def scan(self) -> Report:
        """Walk, compare, read what differs, store it. Raises when the vault can't be trusted."""
        with self._scanning:
            started, started_ns = time.perf_counter(), time.time_ns()
            generation = self._vault.guard.pin().generation
            self._target = self._index.target()
            # The snapshot comes before the walk: what is written meanwhile can look new or changed,
            # which costs a second look, but never removed.
            known = self._target.snapshot(md5=self._is_remote())
            self._set(phase="walking", done=0, total=0)
            seen = look(self._vault, self._workers, self._timeout)
            if (
                self._vault.guard.probe().state != "ok"
                or self._vault.guard.pin().generation != generation
            ):
                raise NotFound("The mount changed during the scan.")
            changes, count = diff(seen.entries, known), len(known)
            del known
            report = self._apply(seen, changes, count, started_ns)
            self._finished(report, time.perf_counter() - started, seen)
            return report

    def _apply(self, seen: Walk, changes: Diff, known: int, started_ns: int) -> Report:
        vanished = [row for row in changes.removed if not seen.hides(row.path)]
        report = Report()
        others = [e for e in (*changes.added, *changes.modified) if e.kind != "note"]
        if others:
            self._target.put_files(others)
        for entry in changes.touched:
            self._target.touch(entry.path, entry.stat, racy=False)
        # What waits on record is newer than what the vault shows.
        gone = {row.path: row for row in vanished if not self._vault.waits(row.path)}
        found = [e for e in (*changes.modified, *changes.added) if e.kind == "note"]
        notes = [entry for entry in found if not self._vault.waits(entry.path)]
        if seen.listed:
            notes = [e for e in notes if not self._lags(e, changes.before.get(e.path), started_ns)]
            self._catch_up([*notes, *vanished])
            notes = self._follow(notes, changes.before, gone, report)
        if self._is_remote() and len(notes) > 1:
            notes = by_recency(notes, self._target.used_folders())
        moved_from = {row.etag: row for row in gone.values() if row.kind == "note" and row.etag}
        self._set(phase="reading", done=0, total=len(notes))
        done = 0
        for batch in _batches(notes):
            if self._stopping.is_set():
                raise Unavailable("The server is stopping.")
            documents = self._sort(self._read(batch), changes.before, moved_from, gone, report)
            if documents:
                self._target.put(documents)
            done += len(batch)
            self._set(phase="reading", done=done, total=len(notes))
        # A remote may need a moment until its listing shows what was just written.
        settled_ns = started_ns - (_LAG_NS if seen.listed else 0)
        self._remove(list(gone), known, settled_ns, report)
        self._ids = {entry.id: entry.path for entry in seen.entries if entry.id}
        return report

    def _lags(self, entry: Entry, row: Known | None, started_ns: int) -> bool:
        """Whether the remote still lists what was there before we wrote a moment ago."""
        if row is None or not row.racy or entry.stat.mtime_ns >= row.mtime_ns:
            return False
        now = self._target.get(entry.path)
        # What seems to come from the future was written before somebody set the clock back.
        since, until = started_ns - _LAG_NS, time.time_ns()
        return now is not None and since < now.indexed_at_ns <= until

    def _catch_up(self, changed: Sequence[Entry | Known]) -> None:
        """Have the mount see what its remote told, before anything is read through it."""
        folders = sorted({one.disk.rpartition("/")[0] for one in changed})
        if folders:
            self._vault.look_again(folders, self._timeout)

    def _follow(
        self,
        notes: Sequence[Entry],
        known: dict[str, Known],
        gone: dict[str, Known],
        report: Report,
    ) -> list[Entry]:
        """Follow the renames that the remote's ids tell; what is left has to be read."""
        left = []
        for entry in notes:
            row = gone.get(self._ids.get(entry.id or "", ""))
            if row is None or entry.path in known or not self._move(row, entry, entry.stat, True):
                left.append(entry)
                continue
            del gone[row.path]
            known[entry.path] = row
            report.moved += 1
            if entry.md5 is None or entry.md5 != row.md5:
                left.append(entry)
            else:
                self._target.touch(entry.path, entry.stat, racy=False)
        return left

    def _read(self, entries: Sequence[Entry]) -> list["_Read"]:
        # A remote makes every read wait, so many go at once; on a plain folder threads that take
        # turns at so little work cost more than the work.
        step = 1 if self._is_remote() else _IN_LINE
        parts = [entries[start : start + step] for start in range(0, len(entries), step)]
        if step == 1:
            read = self._workers.map(self._timeout, self._read_some, parts)
        else:
            read = [
                self._workers.run(Deadline.after(self._timeout), self._read_some, part)
                for part in parts
            ]
        return list(itertools.chain.from_iterable(read))

    def _read_some(self, entries: Sequence[Entry]) -> list["_Read"]:
        return [read for entry in entries if (read := self._read_one(entry)) is not None]

    def _read_one(self, entry: Entry) -> "_Read | None":
        looked = time.time_ns()
        try:
            found = self._vault.read(NotePath(entry.disk))
        except TooLarge:
            return _Read(entry, None, looked)
        except VaultError as error:
            # One note that can't be read (permissions, a name that the disk refuses) must not stop
            # the scan of the others; a mount that fails must.
            if self._vault.guard.health.ok and error.code != "timeout":
                log(logging.WARNING, "a note can't be read", path=entry.path, why=error.code)
                return None
            raise
        return _Read(entry, found, looked) if found is not None else None

    def _sort(
        self,
        reads: Sequence["_Read"],
        known: dict[str, Known],
        moved_from: dict[str, Known],
        gone: dict[str, Known],
        report: Report,
    ) -> list[Document]:
        """The contents to store; what only moved, or is too large to be read, is settled here."""
        documents: list[Document] = []
        for read in reads:
            entry, row = read.entry, known.get(read.entry.path)
            if read.found is None:
                self._target.put_files([entry])
                continue
            data, stat = read.found.content.data, read.found.content.stat
            racy = is_racy(stat.mtime_ns, read.looked_ns)
            etag = etag_of(data)
            source = moved_from.pop(etag, None) if row is None else None
            if source is not None and self._move(source, entry, stat, racy):
                gone.pop(source.path, None)
                report.moved += 1
                continue
            documents.append(Document(entry.path, entry.disk, data, stat, racy, read.looked_ns))
            if row is None:
                report.added += 1
            elif row.etag != etag or row.disk != entry.disk:
                report.modified += 1
        return documents

    def _move(self, source: Known, entry: Entry, stat: FileStat, racy: bool) -> bool:
        """Follow a rename; False when either path was written since the snapshot."""
        now = self._target.get(source.path)
        if now is None or now.etag != source.etag or self._target.get(entry.path) is not None:
            return False
        self._target.rename(source.path, entry.path, entry.disk, stat)
        self._target.touch(entry.path, stat, racy)
        return True

    def _remove(self, paths: list[str], known: int, started_ns: int, report: Report) -> None:
        if not paths:
            self._held_since = None
            return
        if len(paths) > _MASS and len(paths) > known / 2 and self._hold():
            report.held = len(paths)
            log(
                logging.WARNING,
                "most of the vault vanished: kept in the index for now",
                paths=len(paths),
                of=known,
            )
            return
        self._held_since = None
        self._target.remove(paths, before_ns=started_ns)
        report.removed = len(paths)

    def _hold(self) -> bool:
        """A mass removal is believed only when it lasts: a remote may show a part for a while."""
        self._held_since = self._held_since if self._held_since is not None else self._now()
        return self._now() - self._held_since < _HOLD_SECONDS

    def _is_remote(self) -> bool:
        try:
            return self._vault.guard.pin().is_rclone
        except VaultError:
            return False

    def _finished(self, report: Report, seconds: float, seen: Walk) -> None:
        self._vault.guard.remember(populated=any(e.kind == "note" for e in seen.entries))
        self._target.set_complete()
        if self._target is not self._index:
            self._index.promote()
            self._target = self._index
        self._telemetry.scans.labels("ok").inc()
        self._telemetry.scan_seconds.observe(seconds)
        self._telemetry.scan_last.set(self._now())
        for kind in ("added", "modified", "moved", "removed"):
            self._telemetry.scan_changes.labels(kind).inc(getattr(report, kind))
        self.publish_sizes()
        was, names = self.progress, hash(tuple(entry.disk for entry in seen.entries))
        self.progress = Progress(
            first_done=True,
            last_success=self._now(),
            last_seconds=seconds,
            held_removals=report.held,
            oddities=was.oddities if names == self._names else find_oddities(seen.entries),
        )
        self._names = names
        self._telemetry.scan_progress.set(1)
        self._telemetry.scan_waiting.set(0)
        self._telemetry.scan_held.set(report.held)
        if report.total or not was.first_done:
            log(
                logging.INFO, "scan", added=report.added, modified=report.modified, moved=report.moved,
                removed=report.removed, seconds=round(seconds, 2), notes=self._index.counts().notes,
            )  # fmt: skip

    def publish_sizes(self) -> None:
        """Set the gauges that describe the index."""
        self._telemetry.notes.set(self._index.counts().notes)
        for part, size in self._index.sizes().items():
            self._telemetry.index_bytes.labels(part).set(size)
        self.publish_usage()

    def publish_usage(self) -> None:
        """Set the gauges that describe the budget of full text."""
        usage = self._index.usage()
        self._telemetry.index_budget.set(usage.budget)
        self._telemetry.index_used.set(usage.used)
        self._telemetry.index_evicted.set(usage.evicted)

    def _failed(self, why: str) -> None:
        self._telemetry.scans.labels("failed").inc()
        if self.progress.last_error != why:
            log(logging.WARNING, "scan given up, nothing removed", why=why)
        self._set(phase="idle", last_error=why)
        self._telemetry.scan_progress.set(1)

    def _set(
        self, *, phase: Phase, done: int = 0, total: int = 0, last_error: str | None = None
    ) -> None:
        was = self.progress
        self.progress = Progress(
            phase, done, total, was.first_done, was.last_success, last_error or was.last_error,
            was.last_seconds, was.held_removals, self._target is not self._index, was.oddities,
        )  # fmt: skip
        self._telemetry.scan_progress.set(done / total if total else 0)
        if phase == "reading":
            # What a scan that failed left undone is still to do: only a good one sets this to 0.
            self._telemetry.scan_waiting.set(total - done)
        if total >= 2000 and done // 2000 > was.done // 2000:
            log(logging.INFO, "indexing", done=done, total=total)


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Some at a time: many enough for the index, and not more than memory should hold.

    Few at first: who asks for a note while the server starts must not wait for a long transaction.
    """
    batch: list[Entry] = []
    size, most = 0, _FIRST_BATCH
    for entry in entries:
        batch.append(entry)
        size += entry.stat.size
        if len(batch) == most or size > _BATCH_BYTES:
            yield batch
            batch, size, most = [], 0, min(2 * most, _BATCH)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class _Read:
    entry: Entry
    found: Found | None
    looked_ns: int
