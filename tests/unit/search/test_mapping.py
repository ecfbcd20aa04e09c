"""ripgrep over the mirror's segments finds what a plain search of every note finds."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.store import Document, Index
from server.models import FileStat
from server.search.ripgrep import Hit

from .build import ripgrep

Found = set[tuple[str, int, bytes, tuple[tuple[int, int], ...]]]

_LINES = st.sampled_from(
    [b"alpha", b"alpha beta", b"", b" ", b"gam\xffma alpha", "übung".encode(), b"beta\talpha", b"a"]
)
_ENDS = st.sampled_from([b"\n", b"\r\n"])
_texts = st.builds(
    lambda bom, lines, end, last: bom + end.join(lines) + last,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(_LINES, max_size=5),
    _ENDS,
    st.sampled_from([b"", b"\n", b"\r\n"]),
)
_paths = st.sampled_from([f"{folder}{name}.md" for folder in ("", "d/") for name in "abcde"])
_steps = st.lists(st.tuples(_paths, st.one_of(st.none(), _texts)), min_size=1, max_size=15)


def mapped(index: Index, pattern: str) -> Found:
    """What a caller does: search the segments, keep the hits that belong to a live note."""
    found: Found = set()
    with index.reading() as reading:
        numbers = [number for number, _ in reading.segments]

        def keep(hit: Hit) -> bool:
            note = reading.locate(numbers[hit.file], hit.offset)
            if note is not None:
                found.add((note.path, hit.offset - note.start, hit.text, hit.spans))
            return True

        files = [path for _, path in reading.segments]
        ripgrep().search(pattern, files, case="sensitive", timeout=30, on_hit=keep)
    return found


def plain(notes: dict[str, bytes], pattern: str) -> Found:
    """The same with Python's own regular expressions, line by line."""
    compiled = re.compile(pattern.encode())
    found: Found = set()
    for path, data in notes.items():
        offset = 0
        for line in data.split(b"\n"):
            text = line.removesuffix(b"\r") if offset + len(line) < len(data) else line
            spans = tuple(match.span() for match in compiled.finditer(text))
            if spans and offset < len(data):
                found.add((path, offset, text, spans))
            offset += len(line) + 1
    return found


@settings(max_examples=25, deadline=None)
@given(steps=_steps, compacting=st.booleans())
@pytest.mark.parametrize("pattern", ["alpha", "^alpha", "alpha$", "b.ta", "^$", "(a|be)ta? ", "ü"])
def test_segments_give_what_the_notes_hold(
    tmp_path_factory: pytest.TempPathFactory,
    pattern: str,
    steps: list[tuple[str, bytes | None]],
    compacting: bool,
) -> None:
    index = Index.open(tmp_path_factory.mktemp("mapping"), segment_bytes=64)
    notes: dict[str, bytes] = {}
    for path, data in steps:
        if data is None:
            notes.pop(path, None)
            index.remove([path])
        else:
            notes[path] = data
            index.put([Document(path, path, data, FileStat(len(data), 1))])
    if compacting:
        index.compact(0.2)
    assert mapped(index, pattern) == plain(notes, pattern)
    index.close()
