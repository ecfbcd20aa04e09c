import errno
import os
from pathlib import Path

import pytest

from server.index.mirror import Mirror
from server.index.store import Index

from .build import doc, text_of


def segment_files(index: Index) -> list[Path]:
    with index.reading() as reading:
        return [path for _, path in reading.segments]


def test_texts_are_packed_one_after_the_other_with_a_newline(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, 0, segment_bytes=20)
    places = mirror.append([b"one", b"", b"two\n", b"x" * 50, b"last"])
    assert places == [(1, 0), (1, 4), (1, 5), (2, 0), (3, 0)]
    assert mirror.path(1).read_bytes() == b"one\n\ntwo\n\n"
    assert mirror.append([b"more"]) == [(3, 5)]
    assert mirror.read(3, 5, 4) == b"more"
    assert mirror.read(3, 5, 99) is None
    assert mirror.read(9, 0, 1) is None
    mirror.close()


def test_a_text_cut_off_by_a_crash_shares_no_line_with_the_next(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, 0)
    mirror.append([b"whole"])
    mirror.close()
    with mirror.path(1).open("ab") as file:
        file.write(b"half a te")
    again = Mirror(tmp_path, 1)
    assert again.append([b"next"]) == [(1, 16)]
    assert again.path(1).read_bytes() == b"whole\nhalf a te\nnext\n"
    again.close()


def test_a_number_that_rows_still_name_is_not_used_again(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, 7)
    assert mirror.append([b"x"]) == [(8, 0)]
    mirror.close()


def test_an_unlinked_segment_is_not_written_to(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, 0)
    mirror.append([b"x"])
    mirror.path(1).unlink()
    assert mirror.append([b"y"]) == [(2, 0)]
    assert mirror.read(2, 0, 1) == b"y"
    mirror.close()


def test_locate_knows_live_bytes_from_dead_ones(index: Index) -> None:
    index.put([doc("a.md", "aaaa"), doc("empty.md", ""), doc("b.md", "bbbb")])
    found = [index.locate(1, offset) for offset in range(11)]
    assert [note and note.path for note in found] == (
        ["a.md"] * 4 + [None, None] + ["b.md"] * 4 + [None]
    )
    index.put([doc("a.md", "changed")])
    assert index.locate(1, 2) is None
    located = index.locate(1, 12)
    assert located is not None and (located.path, located.start, located.length) == ("a.md", 11, 7)
    index.remove(["b.md"])
    assert index.locate(1, 7) is None


def test_compaction_keeps_every_text_and_gives_back_the_rest(index: Index) -> None:
    names = [f"n{number}.md" for number in range(40)]
    index.put([doc(name, f"{name} " * 40) for name in names])
    for round_ in range(3):
        index.put([doc(name, f"{name} {round_} " * 40) for name in names[::2]])
    before = index.sizes()["mirror"]
    freed = index.compact(0.3)
    assert freed > 0
    assert index.sizes()["mirror"] < before
    for number, name in enumerate(names):
        expected = f"{name} " * 40 if number % 2 else f"{name} 2 " * 40
        assert text_of(index, name) == expected.encode()
    assert index.compact(0.3) == 0
    assert index.check() == []


def test_a_segment_stays_while_it_is_read(index: Index) -> None:
    index.put([doc("a.md", "x" * 3000)])
    with index.reading() as reading:
        (number, old), *_ = reading.segments
        index.put([doc("a.md", "y" * 3000)])
        index.compact(0.1)
        assert old.exists()
        assert old not in segment_files(index)
        located = reading.locate(number, 7)
        assert located is not None
        assert reading.text(number, located) == b"x" * 3000
    assert not old.exists()
    assert text_of(index, "a.md") == b"y" * 3000


def test_a_row_read_before_compaction_still_finds_its_text(index: Index) -> None:
    index.put([doc("a.md", "x" * 100), doc("b.md", "y" * 3000)])
    row = index.get("a.md")
    index.put([doc("b.md", "z" * 3000)])
    index.compact(0.1)
    assert row is not None and index.text(row) == b"x" * 100


def test_a_lost_segment_costs_the_text_only_until_the_next_put(index: Index) -> None:
    index.put([doc("a.md", "one"), doc("b.md", "two")])
    segment_files(index)[0].unlink()
    row = index.get("a.md")
    assert row is not None and index.text(row) is None
    index.put([doc("a.md", "one")])
    assert text_of(index, "a.md") == b"one"


@pytest.mark.parametrize("damage", ["truncate", "delete", "overwrite"])
def test_a_damaged_segment_is_noticed(tmp_path: Path, damage: str) -> None:
    index = Index.open(tmp_path)
    index.put([doc("a.md", "first text"), doc("b.md", "second text")])
    file = segment_files(index)[0]
    index.close()
    if damage == "truncate":
        file.write_bytes(file.read_bytes()[:15])
    elif damage == "delete":
        file.unlink()
    else:
        file.write_bytes(b"#" * file.stat().st_size)
    again = Index.open(tmp_path)
    again.put([doc("c.md", "appended after the damage")])
    texts = {path: text_of(again, path) for path in ("a.md", "b.md")}
    assert texts["b.md"] is None
    assert texts["a.md"] in (None, b"first text")
    if damage != "overwrite":
        assert [row.path for row in again.snapshot() if row.racy] == (
            ["b.md"] if damage == "truncate" else ["a.md", "b.md"]
        )
        assert all(row.etag is None for row in again.snapshot() if row.racy)
        again.put([doc("b.md", "second text")])
        assert text_of(again, "b.md") == b"second text"
        with again._read() as db:
            told = db.execute("SELECT count(*) FROM changes WHERE kind='modified'").get
        assert told == 0
    row = again.get("c.md")
    assert row is not None and row.segment is not None and row.offset is not None
    located = again.locate(row.segment, row.offset)
    assert located is not None and located.path == "c.md"
    again.close()


def test_segments_that_no_row_names_go_when_the_index_opens(tmp_path: Path) -> None:
    index = Index.open(tmp_path)
    index.put([doc("a.md", "text")])
    index.remove(["a.md"])
    file = segment_files(index)[0]
    index.close()
    Index.open(tmp_path).close()
    assert not file.exists()


def test_a_full_disk_joins_no_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut off stays a line of its own, even if the disk is still full when it is found."""
    first = Mirror(tmp_path, 0)
    first.append([b"whole", b"cut off"])
    first.close()
    with first.path(1).open("r+b") as file:
        file.truncate(10)
    mirror, write = Mirror(tmp_path, 0), os.pwrite

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="no space"):
        mirror.append([b"next"])
    monkeypatch.setattr(os, "pwrite", write)
    mirror.append([b"next"])
    assert mirror.path(1).read_bytes().split(b"\n") == [b"whole", b"cut ", b"next", b""]
    mirror.close()
