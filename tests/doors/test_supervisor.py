"""What systemd hears of the server, on a socket like systemd's."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from server.doors.supervisor import Supervisor
from server.settings import Supervision, supervision

from .connect import ENVIRONMENT, running


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def heard(ear: socket.socket) -> list[str]:
    return ear.recv(4096).decode().split("\n")


def drain(ear: socket.socket) -> int:
    """Take all that waits; how many that were."""
    count = 0
    ear.setblocking(False)
    try:
        while True:
            ear.recv(4096)
            count += 1
    except BlockingIOError:
        return count
    finally:
        ear.settimeout(60)


def test_the_server_tells_when_it_serves_beats_and_stops(
    ear: socket.socket, tmp_path: Path
) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    environ = {
        **ENVIRONMENT,
        "VAULT_PATH": str(vault),
        "STATE_DIR": str(tmp_path / "state"),
        "PORT": "0",
        "LOG_FORMAT": "json",
        "NOTIFY_SOCKET": ear.getsockname(),
        "WATCHDOG_USEC": "300000",
    }
    command = ("env", *(f"{name}={value}" for name, value in environ.items()), sys.executable)
    with running("-m", "server", "serve", command=command) as server:
        first = heard(ear)
        assert first[0] == "READY=1"
        with closing(socket.create_connection(("127.0.0.1", server.port), 20)):
            pass
        words = first
        while f"STATUS=Serving {vault}." not in words:
            words = heard(ear)
        while heard(ear) != ["WATCHDOG=1"]:
            pass
        os.kill(server.process.pid, signal.SIGSTOP)
        os.waitpid(server.process.pid, os.WUNTRACED)
        drain(ear)
        ear.settimeout(1.5)
        with pytest.raises(TimeoutError):  # a process that stands still is silent
            heard(ear)
        ear.settimeout(60)
        os.kill(server.process.pid, signal.SIGCONT)
        while "WATCHDOG=1" not in heard(ear):
            pass
        server.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in heard(ear):
            pass
        code, said = server.end()
    assert code == 0, said


def test_beats_come_three_times_as_often_as_they_are_asked_for(ear: socket.socket) -> None:
    supervisor = Supervisor(Supervision(ear.getsockname(), 9.0))
    for tenth in range(100):
        supervisor.beat(tenth / 10)
    assert drain(ear) == 4  # at 0, 3, 6 and 9 s


def test_a_status_is_one_line_and_told_when_it_changes(ear: socket.socket) -> None:
    lines = iter(["well", "well", "the mount\nREADY=0 died", "well"])
    supervisor = Supervisor(Supervision(ear.getsockname()), lambda: next(lines))
    supervisor.ready()
    assert heard(ear) == ["READY=1", "STATUS=well"]
    supervisor.beat(0)
    supervisor.beat(10)
    assert heard(ear) == ["STATUS=the mount READY=0 died"]
    supervisor.beat(20)
    assert heard(ear) == ["STATUS=well"]


def test_a_supervisor_that_does_not_listen_is_no_trouble(
    ear: socket.socket, tmp_path: Path
) -> None:
    Supervisor(Supervision(str(tmp_path / "nobody"), 1)).ready()
    supervisor = Supervisor(Supervision(ear.getsockname(), 1))
    for second in range(10_000):  # far more than the socket holds
        supervisor.beat(second)
    assert 0 < drain(ear) < 10_000


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, Supervision()),
        ({"WATCHDOG_USEC": "1000000"}, Supervision()),
        ({"NOTIFY_SOCKET": "relative"}, Supervision()),
        ({"NOTIFY_SOCKET": "/run/n"}, Supervision("/run/n")),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "500000"}, Supervision("\0n", 0.5)),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"}, Supervision("/run/n")),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}, Supervision("/n")),
    ],
)
def test_what_is_wanted(environ: dict[str, str], wanted: Supervision) -> None:
    assert supervision(environ) == wanted
