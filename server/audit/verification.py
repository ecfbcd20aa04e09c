"""Looking whether the chain is whole: nothing removed, changed, moved, doubled or cut off.

Only looks; it may run beside servers that write. `chain.py` says what this can't tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from server.audit.chain import Entry, parse
from server.audit.head import Head, first_seq
from server.audit.log import HEAD_LOST, REPAIRED, ROTATED, hash_of
from server.audit.reading import opened

MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written; `seq` is the line that it is about."""

    seq: int
    what: str


@dataclass(slots=True)
class Report:
    """What was found: `problems` make it a failure, `notes` don't."""

    lines: int = 0
    oldest: int | None = None
    last: int | None = None
    problems: list[Problem] = field(default_factory=list)
    more_problems: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(folder: Path) -> Report:
    """Look at every line that is kept. Raises `OSError`."""
    with opened(folder) as (head, files):
        walk = _Walk(head)
        if files or head is not None:
            walk.look(files)
        return walk.report


class _Walk:
    """One pass over the lines; knows which one has to come next."""

    def __init__(self, head: Head | None) -> None:
        self.report = Report()
        self._head = head
        self._seq = head.oldest - 1 if head else None
        self._prev = head.oldest_prev if head else None
        self._rotated: int | None = None
        self._junk: list[bytes] = []

    def look(self, files: Sequence[tuple[str, BinaryIO, int]]) -> None:
        head = self._head
        if head is None:
            self._complain(0, "head.json is missing or unreadable: nobody knows where the end was")
        for name, file, size in files:
            if head is not None and (first_seq(name) or 0) < head.oldest:
                self.report.notes.append(f"{name} is past its time and will be removed")
                continue
            for line in _lines(file, size):
                self._take(line)
        self._end()

    def _take(self, line: bytes) -> None:
        entry = parse(line.removesuffix(b"\n"))
        if entry is None:
            self._junk.append(line)
            return
        if self._junk:
            self._judge_junk(entry)
        if self._seq is None:
            self._seq, self._prev = entry.seq - 1, entry.prev
        self.report.lines += 1
        self.report.oldest = self.report.oldest or self._seq + 1
        if not entry.sound:
            # Neither is its number to be trusted: it stands where the next one has to stand.
            self._seq, self._prev = self._seq + 1, entry.hash
            self._complain(self._seq, "altered: the line has not the hash that it claims")
            return
        self._judge(entry, self._seq + 1)
        if entry.seq > self._seq:
            self._seq, self._prev = entry.seq, entry.hash
        if entry.event == ROTATED:
            self._rotated = entry.fields.get("oldest")
        if entry.event == HEAD_LOST:
            self._complain(entry.seq, "the head was lost before this: lines may be missing here")

    def _judge(self, entry: Entry, expected: int) -> None:
        if entry.seq > expected:
            gone = f"{expected}" if entry.seq == expected + 1 else f"{expected} to {entry.seq - 1}"
            self._complain(expected, f"missing: {gone} before {entry.seq}")
        elif entry.seq < expected:
            self._complain(entry.seq, f"out of place: {expected} had to come here")
        elif entry.prev != self._prev:
            self._complain(entry.seq, "does not follow the line before it, which was altered")

    def _judge_junk(self, entry: Entry) -> None:
        torn = b"".join(self._junk).rstrip(b"\n")
        self._junk.clear()
        if (
            entry.event == REPAIRED
            and entry.sound
            and entry.prev == self._prev
            and entry.fields.get("torn") == hash_of(torn)
        ):
            self.report.notes.append(f"torn line repaired at seq {entry.seq}")
        else:
            self._complain((self._seq or 0) + 1, f"unreadable: {len(torn)} bytes that are no line")

    def _end(self) -> None:
        head, seq = self._head, self._seq or 0
        self.report.last = seq or None
        if head is not None:
            self._judge_end(head, seq)
        if self._junk:
            size = sum(map(len, self._junk))
            if head is not None and seq < head.seq:
                self._complain(seq + 1, f"unreadable: {size} bytes that are no line")
            else:
                note = f"torn line after seq {seq} ({size} bytes); the next start closes it"
                self.report.notes.append(note)

    def _judge_end(self, head: Head, seq: int) -> None:
        if seq < head.seq:
            gone = f"{seq + 1}" if head.seq == seq + 1 else f"{seq + 1} to {head.seq}"
            self._complain(seq + 1, f"missing: {gone} at the end")
        elif seq == head.seq and self._prev != head.hash:
            self._complain(seq, "altered: the head knows another last line")
        elif seq > head.seq:
            self.report.notes.append(
                f"{seq - head.seq} lines at the end that the head doesn't know: a writer was killed"
            )
        # Right after the head moved on to a new file, its first line is still to come.
        kept = self._rotated or 1
        if head.size and kept != head.oldest:
            self._complain(kept, f"missing: {kept} was the oldest line to be kept")

    def _complain(self, seq: int, what: str) -> None:
        if len(self.report.problems) < MOST_PROBLEMS:
            self.report.problems.append(Problem(seq, what))
        else:
            self.report.more_problems += 1


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines before `size`: what is written meanwhile is not looked at."""
    for line in file:
        if size <= 0:
            return
        yield line[:size]
        size -= len(line)
