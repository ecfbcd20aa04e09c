"""Long work shows a bar on a terminal and lines elsewhere; short work says nothing."""

import os
import pty
import subprocess
import sys

import pytest

from server.commands.progress import Bar

WORK = (
    "from server.commands.progress import Bar\n"
    "bar = Bar('counting')\n"
    "for done in range(0, 101): bar.show(done, 100)\n"
    "bar.complete()\nprint('done')"
)


def test_lines_where_nobody_looks_on(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar("counting")
    for done in range(1001):
        bar.show(done, 1000)
    bar.complete()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"counting {percent:3d} %" for percent in range(0, 101, 10)]


def test_a_bar_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", WORK], stdout=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody writes any more
                break
            if not block:
                break
            said += block
        assert process.wait(30) == 0
    os.close(ours)
    steps = said.decode().split("\r[")
    assert steps[-1] == f"{'#' * 40}] 100 %\r\ndone\r\n"
    assert steps[51] == f"{'#' * 20}{' ' * 20}]  50 %"
    assert len(steps) == 102


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    bar = Bar("counting", after=1.0, clock=lambda: now)
    bar.show(1, 2)
    bar.complete()
    assert capsys.readouterr().out == ""
    now = 1.5
    bar.show(1, 2)
    bar.complete()
    assert capsys.readouterr().out == "counting  50 %\ncounting 100 %\n"
