"""The chain: every line carries the hash of the one before it and its own. Pure, no I/O.

A line is a JSON object in ASCII that ends with `,"hash":"…"}`. The hash is the SHA-256 of the line's
bytes without that last member, so that no byte of it can change, be it white space.

What a chain can't do: somebody who may write the files and takes the trouble to compute all hashes
anew, head included, leaves no trace. It tells accidents and quick hands, not a careful owner of the
machine; whoever fears that copies the last hash elsewhere from time to time and compares.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GENESIS = "0" * 64
"""What comes before the first line."""

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that can be read; `sound` when its bytes have the hash that it claims."""

    seq: int
    prev: str
    hash: str
    sound: bool
    fields: Mapping[str, Any]

    @property
    def event(self) -> str:
        return str(self.fields.get("event"))


def seal(fields: Mapping[str, Any], seq: int, prev: str) -> tuple[bytes, str]:
    """A line with its end, and its hash."""
    body = _encode({"seq": seq, **fields, "prev": prev}).encode("ascii")
    digest = hashlib.sha256(body).hexdigest()
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest.encode("ascii")), digest


def parse(line: bytes) -> Entry | None:
    """What a line without its end says; None when it is no line of a chain."""
    found = _SEAL.search(line)
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    seq, prev, claimed = fields.get("seq"), fields.get("prev"), fields.get("hash")
    if type(seq) is not int or not isinstance(prev, str) or not isinstance(claimed, str):
        return None
    sound = (
        found is not None
        and found[1].decode() == claimed
        and hashlib.sha256(line[: found.start()] + b"}").hexdigest() == claimed
    )
    return Entry(seq, prev, claimed, sound, fields)


def follows(entry: Entry | None, seq: int, prev: str) -> bool:
    """Whether this is the line that comes after the one with `seq`, whose hash is `prev`."""
    return entry is not None and entry.sound and (entry.seq, entry.prev) == (seq + 1, prev)
