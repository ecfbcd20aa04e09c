"""The chain: whatever is done to one line of it is found, and said of the right line."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audit.chain import GENESIS, parse, seal
from server.audit.head import files_in
from server.audit.verification import Report, verify

from .build import add, filled, lines, newest, opened, raw


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit over several files, of which the oldest are gone already."""
    folder = tmp_path_factory.mktemp("audit") / "template"
    filled(folder, 60, max_bytes=1_500, max_files=6)
    assert verify(folder).ok
    assert len(files_in(folder)) == 6
    return folder


@contextmanager
def copied(template: Path) -> Iterator[Path]:
    with TemporaryDirectory() as place:
        folder = Path(place) / "audit"
        shutil.copytree(template, folder)
        yield folder


def rewrite(folder: Path, change: Callable[[list[bytes]], None]) -> None:
    """Change the list of all lines; every file keeps its number of them as far as that goes."""
    names = files_in(folder)
    counts = [len((folder / name).read_bytes().splitlines(True)) for name in names]
    changed = raw(folder)
    change(changed)
    counts[-1] += len(changed) - sum(counts)
    for name, count in zip(names, counts, strict=True):
        (folder / name).write_bytes(b"".join(changed[:count]))
        del changed[:count]


def seq_at(folder: Path, index: int) -> int:
    number = lines(folder)[index]["seq"]
    assert isinstance(number, int)
    return number


def found(report: Report, seq: int) -> None:
    assert not report.ok
    assert report.problems[0].seq == seq, report


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_removed_line_is_missed(template: Path, data: st.DataObject) -> None:
    with copied(template) as folder:
        index = data.draw(st.integers(0, len(raw(folder)) - 1))
        seq = seq_at(folder, index)
        rewrite(folder, lambda all_: all_.__delitem__(index))
        found(verify(folder), seq)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_edited_byte_is_found(template: Path, data: st.DataObject) -> None:
    with copied(template) as folder:
        all_ = raw(folder)
        index = data.draw(st.integers(0, len(all_) - 1))
        seq, line = seq_at(folder, index), bytearray(all_[index])
        position = data.draw(st.integers(0, len(line) - 1))
        line[position] = data.draw(st.integers(0, 255).filter(lambda new: new != line[position]))

        rewrite(folder, lambda all_: all_.__setitem__(index, bytes(line)))
        found(verify(folder), seq)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_swapped_lines_are_found(template: Path, data: st.DataObject) -> None:
    with copied(template) as folder:
        count = len(raw(folder))
        first = data.draw(st.integers(0, count - 2))
        second = data.draw(st.integers(first + 1, count - 1))
        seq = seq_at(folder, first)

        def swap(all_: list[bytes]) -> None:
            all_[first], all_[second] = all_[second], all_[first]

        rewrite(folder, swap)
        found(verify(folder), seq)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_doubled_line_is_found(template: Path, data: st.DataObject) -> None:
    with copied(template) as folder:
        count = len(raw(folder))
        index = data.draw(st.integers(0, count - 1))
        place = data.draw(st.integers(0, count))
        rewrite(folder, lambda all_: all_.insert(place, all_[index]))
        assert not verify(folder).ok


@pytest.mark.parametrize("fix_hash", [False, True])
def test_a_line_that_was_edited_with_its_hash_breaks_the_next(
    tmp_path: Path, fix_hash: bool
) -> None:
    filled(tmp_path, 5)

    def forge(all_: list[bytes]) -> None:
        entry = parse(all_[2].removesuffix(b"\n"))
        assert entry is not None
        fields = {k: v for k, v in entry.fields.items() if k not in ("seq", "prev", "hash")}
        forged, _ = seal({**fields, "tool": "note_delete"}, entry.seq, entry.prev)
        all_[2] = forged if fix_hash else forged.replace(b'"hash":"', b'"hash":"0', 1)

    rewrite(tmp_path, forge)
    found(verify(tmp_path), 4 if fix_hash else 3)


def test_the_last_line_edited_with_its_hash_is_not_what_the_head_knows(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    before = lines(tmp_path)[2]
    rewrite(tmp_path, lambda all_: all_.__setitem__(2, seal({"event": "x"}, 3, before["prev"])[0]))
    found(verify(tmp_path), 3)


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_removed_file_is_missed(template: Path, which: int) -> None:
    with copied(template) as folder:
        name = files_in(folder)[which]
        seq = json.loads((folder / name).read_bytes().splitlines()[0])["seq"]
        (folder / name).unlink()
        found(verify(folder), seq)


def test_an_oldest_file_that_the_head_was_told_to_forget_is_missed_too(template: Path) -> None:
    with copied(template) as folder:
        oldest, second = files_in(folder)[:2]
        was = lines(folder)[0]["seq"]
        (folder / oldest).unlink()
        first = json.loads((folder / second).read_bytes().splitlines()[0])
        head = json.loads((folder / "head.json").read_bytes())
        head.update(oldest=first["seq"], oldest_prev=first["prev"])
        (folder / "head.json").write_bytes(json.dumps(head).encode())
        found(verify(folder), was)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"seq": 1}', b"\xff" * 512])
def test_without_a_head_the_end_is_unknown_for_good(tmp_path: Path, content: bytes | None) -> None:
    filled(tmp_path, 3)
    head = tmp_path / "head.json"
    head.unlink() if content is None else head.write_bytes(content)
    assert "head.json" in verify(tmp_path).problems[0].what
    log = opened(tmp_path)
    assert add(log) == 5
    log.close()
    found(verify(tmp_path), 4)
    assert lines(tmp_path)[3]["event"] == "audit_head_lost"


def test_lines_cut_off_stay_missed_when_others_follow(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    rewrite(tmp_path, lambda all_: all_.__delitem__(-1))
    log = opened(tmp_path)
    add(log)
    log.close()
    found(verify(tmp_path), 5)
    assert [line["seq"] for line in lines(tmp_path)] == [1, 2, 3, 4, 6, 7]
    assert lines(tmp_path)[4]["event"] == "audit_gap"


def test_a_file_cut_in_the_middle_of_a_line_stays_broken(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    file = newest(tmp_path)
    file.write_bytes(file.read_bytes()[:-40])
    found(verify(tmp_path), 5)
    filled(tmp_path, 1)
    found(verify(tmp_path), 5)


def test_nothing_is_an_empty_audit(tmp_path: Path) -> None:
    assert verify(tmp_path / "absent") == Report()
    assert verify(tmp_path) == Report()


def test_the_first_line_follows_nothing(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    assert lines(tmp_path)[0]["prev"] == GENESIS
    assert verify(tmp_path) == Report(lines=1, oldest=1, last=1)


def test_a_flood_of_problems_is_counted(tmp_path: Path) -> None:
    filled(tmp_path, 300)

    def scramble(all_: list[bytes]) -> None:
        all_.reverse()

    rewrite(tmp_path, scramble)
    report = verify(tmp_path)
    assert (len(report.problems), report.more_problems > 100) == (100, True)
