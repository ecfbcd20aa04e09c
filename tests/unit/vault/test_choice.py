"""Which writer is chosen, and how often rclone is asked."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from server.vault.choice import Writers
from server.vault.drive import DriveWriter
from server.vault.guard import Guard, Pin
from server.vault.writers import LocalWriter, MountWriter


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The generations for which remote control was asked; its answer is `asked_answer[0]`."""
    seen: list[int] = []

    def answers(_self: DriveWriter, pin: Pin) -> bool:
        seen.append(pin.generation)
        return ANSWER[0]

    monkeypatch.setattr(DriveWriter, "answers", answers)
    ANSWER[0] = True
    return seen


ANSWER = [True]


@pytest.fixture
def plain(guard: Guard) -> Pin:
    return guard.pin()


@pytest.fixture
def remote(plain: Pin) -> Pin:
    assert plain.mount is not None
    return replace(plain, mount=replace(plain.mount, fstype="fuse.rclone"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def writers(tmp_path: Path, address: str | None = "unix:///run/none.sock") -> Writers:
    return Writers(tmp_path / "staging", address, timeout=1)


def test_a_plain_folder_needs_no_rclone(tmp_path: Path, plain: Pin, asked: list[int]) -> None:
    chosen = writers(tmp_path)
    assert isinstance(chosen.choose(plain), LocalWriter)
    assert isinstance(chosen.choose(replace(plain, mount=None)), LocalWriter)
    assert asked == []


def test_a_mount_without_remote_control(tmp_path: Path, remote: Pin) -> None:
    assert isinstance(writers(tmp_path, None).choose(remote), MountWriter)
    assert not (tmp_path / "staging").exists()


def test_a_mount_whose_socket_is_not_there(tmp_path: Path, remote: Pin) -> None:
    address = f"unix://{tmp_path}/none.sock"
    assert isinstance(writers(tmp_path, address).choose(remote), MountWriter)


def test_remote_control_that_answers(tmp_path: Path, remote: Pin, asked: list[int]) -> None:
    assert isinstance(writers(tmp_path).choose(remote), DriveWriter)
    assert asked == [remote.generation]


def test_it_is_asked_once_per_mount_and_now_and_then(
    tmp_path: Path, remote: Pin, asked: list[int], clock: list[float]
) -> None:
    chosen = writers(tmp_path)
    for _ in range(5):
        chosen.choose(remote)
    assert len(asked) == 1
    clock[0] += 30
    chosen.choose(remote)
    assert len(asked) == 1
    clock[0] += 1
    ANSWER[0] = False
    assert isinstance(chosen.choose(remote), MountWriter)
    assert len(asked) == 2
    ANSWER[0] = True
    assert isinstance(chosen.choose(remote), MountWriter), "not asked again yet"
    clock[0] += 31
    assert isinstance(chosen.choose(remote), DriveWriter)
    again = replace(remote, generation=remote.generation + 1)
    ANSWER[0] = False
    assert isinstance(chosen.choose(again), MountWriter), "a new mount is asked at once"


def test_a_mount_that_stops_answering_is_told_once(
    tmp_path: Path,
    remote: Pin,
    asked: list[int],
    clock: list[float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = writers(tmp_path)
    chosen.choose(remote)
    ANSWER[0] = False
    for _ in range(3):
        clock[0] += 31
        chosen.choose(remote)
    assert caplog.text.count("does not serve") == 1


def test_the_writer_in_use_by_name(
    tmp_path: Path, guard: Guard, remote: Pin, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = writers(tmp_path)
    assert chosen.current(guard) == "local"
    monkeypatch.setattr(guard, "pin", lambda: remote)
    assert chosen.current(guard) == "mount", "told without asking"
    assert asked == []
    chosen.choose(remote)
    assert chosen.current(guard) == "drive"
    assert writers(tmp_path, None).current(guard) == "mount"
    monkeypatch.undo()
    guard._lost("dead")
    assert chosen.current(guard) == "none"
