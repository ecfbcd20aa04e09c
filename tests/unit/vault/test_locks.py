"""Locks: one writer at a time, a deadline for those who wait, nothing left behind."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.errors import Timeout
from server.vault.locks import PathLocks, folder_lock
from server.workers import Deadline


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_one_at_a_time_for_a_path() -> None:
    paths = PathLocks()
    inside: list[int] = []
    most: list[int] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(50):
            with paths.hold("a", Deadline.after(30)):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (max(most), len(most)) == (1, 400)
    assert paths._held == {}, "locks nobody holds are forgotten"


def test_other_paths_do_not_wait() -> None:
    paths = PathLocks()
    with paths.hold("a", Deadline.after(1)), paths.hold("b", Deadline.after(0)):
        assert sorted(paths._held) == ["a", "b"]


def test_a_lock_that_is_kept_too_long() -> None:
    paths = PathLocks()
    with paths.hold("a", Deadline.after(1)):
        with (
            pytest.raises(Timeout, match="nothing was written"),
            paths.hold("a", Deadline.after(0.01)),
        ):
            raise AssertionError
        assert paths._held["a"].users == 1
    with paths.hold("a", Deadline.after(0)):
        pass
    assert paths._held == {}


def test_a_lock_is_released_by_an_error() -> None:
    paths = PathLocks()
    with pytest.raises(ValueError), paths.hold("a", Deadline.after(1)):
        raise ValueError
    with paths.hold("a", Deadline.after(0)):
        pass


def test_one_at_a_time_for_a_folder(folder: int) -> None:
    with (
        folder_lock(folder, Deadline.after(1)),
        pytest.raises(Timeout),
        folder_lock(folder, Deadline.after(0.01)),
    ):
        raise AssertionError
    with folder_lock(folder, Deadline.after(0)):
        pass


def test_a_folder_is_held_against_other_processes(folder: int, tmp_path: Path) -> None:
    code = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Timeout), folder_lock(folder, Deadline.after(0.05)):
            raise AssertionError
    finally:
        other.kill()
        other.communicate()
    with folder_lock(folder, Deadline.after(20)):
        pass


def test_a_waiting_writer_gets_the_folder_when_it_is_free(folder: int) -> None:
    got = threading.Event()

    def wait() -> None:
        with folder_lock(folder, Deadline.after(30)):
            got.set()

    thread = threading.Thread(target=wait)
    with folder_lock(folder, Deadline.after(1)):
        thread.start()
        assert not got.is_set()
    thread.join(20)
    assert got.is_set()


@pytest.mark.usefixtures("open_descriptors")
def test_no_descriptor_is_left_open(folder: int) -> None:
    for _ in range(30):
        with (
            folder_lock(folder, Deadline.after(1)),
            pytest.raises(Timeout),
            folder_lock(folder, Deadline.after(0)),
        ):
            raise AssertionError


@pytest.mark.parametrize("code", ["ENOTSUP", "ENOLCK", "EINVAL", "ENOSYS"])
def test_a_file_system_without_flock_is_written_all_the_same(
    folder: int, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refuse(_fd: int, _how: int) -> None:
        raise OSError(getattr(errno, code), "no")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with folder_lock(folder, Deadline.after(0)):
        pass


def test_any_other_failure_is_told(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _how: int) -> None:
        raise OSError(107, "not connected")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="not connected"), folder_lock(folder, Deadline.after(1)):
        raise AssertionError
