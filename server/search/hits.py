"""Reads ripgrep's JSON lines as hits, within bounds: neither a giant line of text nor a million
matches in it makes a giant hit.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import IO

WINDOW = 2_000
"""How many bytes of a line a hit carries at most."""

Spans = tuple[tuple[int, int], ...]

_CHUNK = 1 << 18
# A quote inside a JSON string is escaped, so these marks can't occur in what a note says.
_MATCH = b'{"type":"match","data":{"path":'
_LINES = b',"lines":{'
_OFFSET = b'"absolute_offset":'
_MARK = b'"submatches":['
_CUT = b'},{"match":'


class Hit:
    """A matching line: `offset` is the line's in its file; `spans` are relative to `text`.

    `text` is the line without its terminator, or for a long line a window around its first match.
    """

    __slots__ = ("_spans", "_text", "file", "offset")

    def __init__(self, file: int, offset: int, text: bytes, spans: Spans | None = None) -> None:
        """Without `spans`, `text` is ripgrep's record of the line.

        Decoding it is most of a hit's cost and most hits are only counted, so it waits for demand.
        """
        self.file = file
        self.offset = offset
        self._text = text
        self._spans = spans

    @property
    def text(self) -> bytes:
        return self.decode()[0]

    @property
    def spans(self) -> Spans:
        return self.decode()[1]

    def decode(self) -> tuple[bytes, Spans]:
        """The text and the spans; the record is let go."""
        if self._spans is None:
            self._text, self._spans = _decode(self._text)
        return self._text, self._spans

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hit) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.file, self.offset))

    def __repr__(self) -> str:
        return f"Hit{self._values()}"

    def _values(self) -> tuple[int, int, bytes, Spans]:
        return self.file, self.offset, self.text, self.spans


def read_hits(stream: IO[bytes], positions: Mapping[str, int]) -> Iterator[Hit]:
    """The hits as they arrive; `positions` gives each file's place in the caller's list."""
    head, file = b"\n", 0
    while line := stream.readline(_CHUNK):
        if not line.endswith(b"\n"):
            line = _shortened(line, stream)
        if not line.startswith(_MATCH):
            continue
        if not line.startswith(head):
            head = line[: line.index(_LINES) + len(_LINES)]
            file = positions[_name(head)]
        at = line.index(_OFFSET) + len(_OFFSET)
        hit = Hit(file, int(line[at : line.index(b",", at)]), line)
        if len(line) > 2 * WINDOW:
            # Whoever keeps the hit must not keep a giant record with it.
            hit.decode()
        yield hit


def _shortened(head: bytes, stream: IO[bytes]) -> bytes:
    """A record too long to take whole: its text and the first of its matches, as valid JSON."""
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


def _decode(record: bytes) -> tuple[bytes, Spans]:
    data = json.loads(record)["data"]
    line = _bytes(data["lines"])
    if line.endswith(b"\n"):
        line = line[: -2 if line.endswith(b"\r\n") else -1]
    spans = [(match["start"], match["end"]) for match in data["submatches"]]
    if len(line) > WINDOW:
        line, spans = _window(line, spans)
    size = len(line)
    kept = tuple((start, min(end, size)) for start, end in spans if start < size or start == end)
    return line, kept


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


def _name(head: bytes) -> str:
    """The file that a record, of which this is the beginning, is about."""
    value = json.loads(head[len(_MATCH) : -len(_LINES)])
    return _bytes(value).decode(errors="surrogateescape")


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])
