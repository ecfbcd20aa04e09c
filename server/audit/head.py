"""The head: where the chain ends and where its kept part begins, so that neither end can be cut off.

It is rewritten in place with every line, always with the same number of bytes: no room is needed for
that on a full disk, and a process that is killed leaves either the old one or the new one.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from server.audit.chain import GENESIS, parse

FILE = "head.json"
BYTES = 512
_HASH = re.compile("[0-9a-f]{64}")
_PREFIX, _SUFFIX = "audit-", ".jsonl"


@dataclass(frozen=True, slots=True)
class Head:
    """The last line (`seq`, `hash`) in `file`, which ends at `size`; the oldest one and what it follows."""

    seq: int
    hash: str
    file: str
    size: int
    oldest: int
    oldest_prev: str

    def encode(self) -> bytes:
        """As the file holds it."""
        # By hand: this is a third of the cost of a line otherwise. No text here needs an escape.
        text = (
            f'{{"seq": {self.seq}, "hash": "{self.hash}", "file": "{self.file}", "size": {self.size}, '
            f'"oldest": {self.oldest}, "oldest_prev": "{self.oldest_prev}"}}'
        )
        return text.encode("ascii").ljust(BYTES - 1) + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """From the file's content; None when it makes no sense."""
        try:
            head = cls(**json.loads(data))
        except (ValueError, TypeError):
            return None
        numbers = (head.seq, head.size, head.oldest)
        hashes = (head.hash, head.oldest_prev)
        fits = all(type(number) is int for number in numbers) and all(
            isinstance(text, str) and _HASH.fullmatch(text) for text in hashes
        )
        named = isinstance(head.file, str) and first_seq(head.file) is not None
        return head if fits and named else None


def beginning(seq: int = 0, last: str = GENESIS) -> Head:
    """The head of a chain that has no line yet, or none after `seq`."""
    return Head(seq, last, name_of(seq + 1), 0, seq + 1, last)


def name_of(seq: int) -> str:
    """The file that begins with a line."""
    return f"{_PREFIX}{seq:012d}{_SUFFIX}"


def first_seq(name: str) -> int | None:
    """The line that a file begins with, by its name; None for a file that is none of ours."""
    digits = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    ours = digits.isdecimal() and digits.isascii() and name == name_of(int(digits))
    return int(digits) if ours else None


def files_in(folder: Path) -> list[str]:
    """The names of the files with lines, oldest first."""
    return sorted(
        (name for name in os.listdir(folder) if first_seq(name) is not None),
        key=lambda name: first_seq(name) or 0,
    )


def rebuilt(folder: Path) -> Head | None:
    """A head from what the files say, when it is lost itself; None when they say nothing."""
    names = files_in(folder)
    for name in reversed(names):
        end, last = 0, None
        with open(folder / name, "rb") as lines:
            for line in lines:
                entry = parse(line.removesuffix(b"\n"))
                if entry is not None and entry.sound and line.endswith(b"\n"):
                    last, end = entry, lines.tell()
        if last is not None:
            oldest, prev = start_of(folder / names[0]) or (first_seq(names[0]) or 1, GENESIS)
            return Head(last.seq, last.hash, name, end, oldest, prev)
    return None


def start_of(file: Path) -> tuple[int, str] | None:
    """The first line's number and what it follows; None when that can't be read."""
    try:
        with open(file, "rb") as lines:
            entry = parse(lines.readline().removesuffix(b"\n"))
    except FileNotFoundError:
        return None
    return (entry.seq, entry.prev) if entry is not None else None
