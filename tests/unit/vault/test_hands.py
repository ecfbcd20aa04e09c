"""The child that touches a mount for us: it answers, asks back, fails as calls fail, and can be lost."""

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.errors import NotFound, PermissionDenied
from server.vault import files, folders
from server.vault.hands import OWN, ExpendableHands, Hands
from tests.drive.processes import wait_for


@pytest.fixture
def child() -> Iterator[ExpendableHands]:
    hands = ExpendableHands(patience=20)
    yield hands
    hands.abandon()
    wait_for(lambda: not hands.lingers, 10, "the child's end")


@pytest.fixture(params=["own", "child"])
def hands(request: pytest.FixtureRequest) -> Hands:
    found: Hands = OWN if request.param == "own" else request.getfixturevalue("child")
    return found


def opened(hands: Hands, folder: Path) -> files.Root:
    fd = hands.run(os.open, folder, os.O_RDONLY | os.O_DIRECTORY)
    return files.Root(fd, str(folder), hands)


def test_files_are_found_listed_and_read_by_either(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "Ä.md").write_bytes(b"said")
    (tmp_path / "link.md").symlink_to("sub/Ä.md")
    root = opened(hands, tmp_path)
    assert {entry.path for entry in folders.list_folder(root, "")} == {"sub", "link.md"}
    with files.spot(root, "SUB/ä.md") as at:
        found = files.read(at, 100)
    assert found is not None
    assert (at.disk, found.data) == ("sub/Ä.md", b"said")


def test_errors_arrive_with_what_they_say(hands: Hands, tmp_path: Path) -> None:
    root = opened(hands, tmp_path)
    with pytest.raises(NotFound, match="nowhere") as caught, files.spot(root, "nowhere/x.md"):
        pass
    assert caught.value.hint
    with pytest.raises(FileNotFoundError) as failed:
        hands.run(os.lstat, tmp_path / "x")
    assert failed.value.errno == errno.ENOENT


def test_leave_is_asked_on_our_side(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    (tmp_path / "open" / "way").symlink_to("../closed")
    asked: list[str] = []

    def permit(path: str) -> None:
        asked.append(path)
        if path.startswith("closed"):
            raise PermissionDenied("You may not.")

    root = opened(hands, tmp_path)
    with pytest.raises(PermissionDenied), files.spot(root, "open/way/x.md", permit=permit):
        pass
    with files.spot(root, "open/y.md", permit=permit) as at:
        assert not at.exists
    assert asked == ["closed/x.md", "open/y.md"]


def test_a_call_that_hangs_holds_up_no_other(child: ExpendableHands) -> None:
    slow = threading.Thread(target=lambda: child.run(time.sleep, 3))
    slow.start()
    assert child.run(os.getpid) == child.process.pid
    assert slow.is_alive(), "the other one was not waited for"
    slow.join()


def test_whoever_waits_is_released_when_it_is_abandoned(child: ExpendableHands) -> None:
    failures: list[int | None] = []

    def wait() -> None:
        try:
            child.run(time.sleep, 60)
        except OSError as error:
            failures.append(error.errno)

    waiting = [threading.Thread(target=wait) for _ in range(5)]
    for thread in waiting:
        thread.start()
    child.run(os.getpid)
    child.abandon()
    for thread in waiting:
        thread.join(10)
    assert failures == [errno.ENOTCONN] * 5
    with pytest.raises(OSError, match="gone"):
        child.run(os.getpid)


def test_a_child_that_is_stopped_is_given_up(tmp_path: Path) -> None:
    hands = ExpendableHands(patience=1)
    hands.run(os.getpid)
    os.kill(hands.process.pid, signal.SIGSTOP)
    with pytest.raises(OSError, match="gone"):
        hands.run(os.getpid)
    wait_for(lambda: not hands.lingers, 10, "its end")


def test_a_stop_of_everything_leaves_it_to_finish(child: ExpendableHands, tmp_path: Path) -> None:
    """A terminal or systemd tells every process to end; the write in flight must not be cut."""
    child.run(os.getpid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(child.process.pid, number)
    assert child.run(os.getpid) == child.process.pid


def test_it_ends_with_us(child: ExpendableHands) -> None:
    child.run(os.getpid)
    child.dismiss()
    assert child.process.wait(10) == 0


def test_descriptors_are_closed_where_they_are(child: ExpendableHands, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x")
    root = opened(child, tmp_path)
    before = len(child.run(os.listdir, "/proc/self/fd"))
    for _ in range(20):
        with files.spot(root, "a.md") as at:
            files.read(at, 10)
    wait_for(
        lambda: len(child.run(os.listdir, "/proc/self/fd")) == before, 5, "the descriptors' end"
    )
