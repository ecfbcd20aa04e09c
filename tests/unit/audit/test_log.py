"""Appending: rotation, retention, and what a writer that died or a stranger left behind."""

import fcntl
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audit.chain import seal
from server.audit.head import Head, files_in
from server.audit.log import Log
from server.audit.verification import verify

from .build import NOW, add, filled, lines, newest, opened, raw, writer

FOREVER = """
while True:
    log.append({**now, "event": "call", "paths": ["x" * 300] * 20}, now=now, patience=5)
    print("written", flush=True)
"""
THOUSAND = """
for _ in range(1000):
    log.append({**now, "event": "call"}, now=now, patience=30)
log.close()
"""


def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    filled(tmp_path, 100, max_bytes=2_000, max_files=3)
    names = files_in(tmp_path)
    assert len(names) == 3
    assert max((tmp_path / name).stat().st_size for name in names) < 2_000 + 400
    told = lines(tmp_path)
    numbers = [line["seq"] for line in told]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert sum(line["event"] == "call" for line in told) < 100
    report = verify(tmp_path)
    assert report.ok and report.notes == []
    assert (report.oldest, report.last) == (numbers[0], numbers[-1])


def test_the_chain_goes_on_after_a_restart_and_with_other_limits(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    filled(tmp_path, 30, max_bytes=1_000, max_files=2)
    filled(tmp_path, 5)
    assert verify(tmp_path).ok


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    filled(folder, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("step", ["file", "head", "kept"])
def test_a_death_in_the_middle_of_a_rotation(tmp_path: Path, step: str) -> None:
    """After the new file was made, after the head moved on, before the oldest file was removed."""
    filled(tmp_path, 10, max_bytes=1_000, max_files=3)
    head = Head.parse((tmp_path / "head.json").read_bytes())
    assert head is not None
    new = f"audit-{head.seq + 1:012d}.jsonl"
    (tmp_path / new).touch()
    if step != "file":
        moved = Head(head.seq, head.hash, new, 0, head.oldest, head.oldest_prev)
        (tmp_path / "head.json").write_bytes(moved.encode())
    if step == "kept":
        (tmp_path / "audit-000000000000.jsonl").write_bytes(b"left over\n")
        assert "past its time" in verify(tmp_path).notes[0]
    assert verify(tmp_path).ok
    filled(tmp_path, 10, max_bytes=1_000, max_files=3)
    report = verify(tmp_path)
    assert report.ok and report.notes == []
    assert len(files_in(tmp_path)) == 3


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_torn_line_is_closed_and_told(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A write that stopped anywhere, once or several times on a full disk."""
    folder = tmp_path_factory.mktemp("torn")
    filled(folder, 2)
    head = Head.parse((folder / "head.json").read_bytes())
    assert head is not None
    line, _ = seal({**NOW, "event": "call"}, 3, head.hash)
    tears = data.draw(st.lists(st.integers(1, len(line) - 2), min_size=1, max_size=3))
    with newest(folder).open("ab") as file:
        for length in tears:
            file.write(line[:length])
    assert verify(folder).ok
    filled(folder, 2)
    report = verify(folder)
    assert report.ok, report
    events = [told["event"] for told in lines_or_torn(folder)]
    assert events == ["call", "call", "torn", "audit_repaired", "call", "call"]
    assert report.notes == ["torn line repaired at seq 3"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_is_a_line_even_without_its_end(tmp_path: Path, end: bytes) -> None:
    filled(tmp_path, 2)
    head = Head.parse((tmp_path / "head.json").read_bytes())
    assert head is not None
    line, _ = seal({**NOW, "event": "whole"}, 3, head.hash)
    with newest(tmp_path).open("ab") as file:
        file.write(line.removesuffix(b"\n") + end)
    assert verify(tmp_path).ok
    filled(tmp_path, 1)
    assert [told["event"] for told in lines(tmp_path)] == ["call", "call", "whole", "call"]
    assert verify(tmp_path).notes == []


def lines_or_torn(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for line in raw(folder):
        try:
            found.append(json.loads(line))
        except ValueError:
            if not found or found[-1]["event"] != "torn":
                found.append({"event": "torn"})
    return found


def test_a_repair_is_part_of_the_chain(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    with newest(tmp_path).open("ab") as file:
        file.write(b'{"seq":3,"to')
    filled(tmp_path, 1)
    file_ = newest(tmp_path)
    file_.write_bytes(file_.read_bytes().replace(b'"seq":3,"to\n', b'"seq":3,"TO\n'))
    report = verify(tmp_path)
    assert [problem.seq for problem in report.problems] == [3]
    assert report.notes == []


def test_whole_lines_that_the_head_was_not_told_of_are_taken_over(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    head = (tmp_path / "head.json").read_bytes()
    filled(tmp_path, 2)
    (tmp_path / "head.json").write_bytes(head)
    report = verify(tmp_path)
    assert report.ok
    assert "2 lines at the end" in report.notes[0]
    filled(tmp_path, 1)
    assert verify(tmp_path).notes == []
    assert [line["seq"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_two_writers_in_one_process_take_turns(tmp_path: Path) -> None:
    first, second = opened(tmp_path, 3_000, 4), opened(tmp_path, 3_000, 4)
    for log in (first, second) * 40:
        add(log)
    threads = [threading.Thread(target=add, args=(log, 50)) for log in (first, first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.close()
    second.close()
    report = verify(tmp_path)
    assert report.ok and report.notes == []


def test_a_folder_that_is_deleted_under_a_server_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    log = opened(folder)
    add(log, 3)
    shutil.rmtree(folder)
    add(log)
    log.close()
    told = lines(folder)
    assert [line["event"] for line in told] == ["audit_rotated", "audit_head_lost", "call"]
    assert told[0]["seq"] == 4
    assert not verify(folder).ok


def test_a_file_that_is_replaced_under_a_server_is_noticed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    add(log, 3)
    file = newest(tmp_path)
    kept = file.read_bytes().splitlines(True)[:2]
    file.unlink()
    file.write_bytes(b"".join(kept))
    add(log)
    log.close()
    assert [line["seq"] for line in lines(tmp_path)] == [1, 2, 4, 5]
    assert [problem.seq for problem in verify(tmp_path).problems] == [3]


def test_no_descriptor_is_left(tmp_path: Path, open_descriptors: None) -> None:
    for _ in range(5):
        filled(tmp_path, 20, max_bytes=1_000, max_files=3)
        broken = Log(tmp_path / "head.json", max_bytes=1, max_files=2)
        with pytest.raises(OSError):
            add(broken)


def test_two_processes_append_a_thousand_lines_each(tmp_path: Path) -> None:
    writers = [writer(THOUSAND, tmp_path) for _ in range(2)]
    for process in writers:
        process.communicate(timeout=100)
    assert [process.returncode for process in writers] == [0, 0]
    report = verify(tmp_path)
    assert report.ok and report.notes == []
    told = lines(tmp_path)
    assert sum(line["event"] == "call" for line in told) == 2_000
    assert [line["seq"] for line in told] == list(range(1, len(told) + 1))


def test_writers_that_are_killed_leave_nothing_worse_than_a_torn_line(tmp_path: Path) -> None:
    said = 0
    for _ in range(4):
        pair = [writer(FOREVER, tmp_path) for _ in range(2)]
        for number, process in enumerate(pair):
            assert process.stdout is not None
            for _ in range(20 + 7 * number):
                said += process.stdout.readline() == "written\n"
        for process in pair:
            process.kill()
        for process in pair:
            rest, _ = process.communicate(timeout=30)
            said += rest.count("written\n")
        check(tmp_path)
    filled(tmp_path, 1, max_bytes=20_000, max_files=10_000)
    check(tmp_path)
    written = sum(
        line.startswith(b'{"seq"') and b'"event":"call"' in line for line in raw(tmp_path)
    )
    assert written >= said, "what was said to be written is there"


def check(folder: Path) -> None:
    report = verify(folder)
    assert report.ok, report
    allowed = ("torn line", "lines at the end")
    assert all(any(words in note for words in allowed) for note in report.notes), report.notes


def test_a_lock_that_somebody_keeps_ends_in_an_error_not_in_waiting(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    log = opened(tmp_path)
    with pytest.raises(BlockingIOError):
        log.append({"event": "call"}, now=NOW, patience=0.01)
    os.close(fd)
    assert add(log) == 2
    log.close()
