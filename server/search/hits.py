"""Reads ripgrep's JSON lines as hits, within bounds: neither a giant line of text nor a million
matches in it makes a giant hit.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

WINDOW = 2_000
"""How many bytes of a line a hit carries at most."""

_CHUNK = 1 << 18
_MARK = b'"submatches":['
_CUT = b'},{"match":'
_MATCH = b'{"type":"match"'


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line: `offset` is the line's in its file; `spans` are relative to `text`.

    `text` is the line without its terminator, or for a long line a window around its first match.
    """

    file: int
    offset: int
    text: bytes
    spans: tuple[tuple[int, int], ...]


def read_hits(stream: IO[bytes], positions: Mapping[str, int]) -> Iterator[Hit]:
    """The hits as they arrive; `positions` gives each file's place in the caller's list."""
    while line := stream.readline(_CHUNK):
        if not line.endswith(b"\n"):
            line = _shortened(line, stream)
        if line.startswith(_MATCH):
            yield _hit(json.loads(line)["data"], positions)


def _shortened(head: bytes, stream: IO[bytes]) -> bytes:
    """A record too long to take whole: its text and the first of its matches, as valid JSON.

    A quote inside a JSON string is escaped, so the marks can't occur in what a note says.
    """
    record, mark = bytearray(head), head.find(_MARK)
    piece = head
    while piece and not piece.endswith(b"\n"):
        piece = stream.readline(_CHUNK)
        # A match is no longer than its line, so the first one always fits.
        if mark < 0 or len(record) < 2 * mark + _CHUNK:
            seen = len(record)
            record += piece
            if mark < 0:
                mark = record.find(_MARK, max(0, seen - len(_MARK)))
    if record.endswith(b"\n"):
        return bytes(record)
    end = record.find(_CUT, mark + _CHUNK)
    if end < 0:
        end = record.rfind(_CUT, max(0, mark))
    return bytes(record[:end]) + b"}]}}" if mark >= 0 and end >= 0 else b""


def _hit(data: dict[str, Any], positions: Mapping[str, int]) -> Hit:
    line = _bytes(data["lines"])
    if line.endswith(b"\n"):
        line = line[: -2 if line.endswith(b"\r\n") else -1]
    spans = [(match["start"], match["end"]) for match in data["submatches"]]
    if len(line) > WINDOW:
        line, spans = _window(line, spans)
    size = len(line)
    kept = tuple((start, min(end, size)) for start, end in spans if start < size or start == end)
    return Hit(positions[_name(data["path"])], data["absolute_offset"], line, kept)


def _window(line: bytes, spans: list[tuple[int, int]]) -> tuple[bytes, list[tuple[int, int]]]:
    first = spans[0][0] if spans else 0
    start = min(max(0, first - WINDOW // 4), len(line) - WINDOW)
    end = start + WINDOW
    while start < first and line[start] & 0xC0 == 0x80:
        start += 1
    while end > first and end < len(line) and line[end] & 0xC0 == 0x80:
        end -= 1
    inside = [(max(a, start) - start, b - start) for a, b in spans if start <= a <= end]
    return line[start:end], inside


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])


def _name(value: dict[str, str]) -> str:
    text = value.get("text")
    return text if text is not None else _bytes(value).decode(errors="surrogateescape")
