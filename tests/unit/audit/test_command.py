"""`vault-mcp audit`: what it prints, and an exit code that a cron job can use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.audit.calls import CallRecord
from server.cli import main
from server.models import Caller
from server.settings import Settings

from .build import audit, filled, lines, newest

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("VAULT_MCP_CONFIG", raising=False)
    (tmp_path / "vault").mkdir()
    monkeypatch.setenv("VAULT_PATH", str(tmp_path / "vault"))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state" / "audit"


def fill(folder: Path) -> None:
    made = audit(folder)
    for number, (name, tool, allowed) in enumerate(
        [("ana", "note_read", True), ("bob", "note_write", False), ("ana", "note_write", True)]
    ):
        record = CallRecord()
        record.decided("write", f"a{number}.md", allowed, f"rules[{number}] (/)")
        made.call(tool, Caller(name), record, "ok" if allowed else "permission_denied", 0.002)
    made.refused("mcp", "unauthorized", "192.0.2.7")
    made.record("token_created", name="eve\x1b[2J\u202e")
    made.close()


def tail(capsys: Capture, *options: str) -> list[str]:
    assert main(["audit", "tail", *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_an_empty_audit(capsys: Capture, state: Path) -> None:
    assert main(["audit", "verify"]) == 0
    assert capsys.readouterr().out == "The audit is empty.\n"
    assert tail(capsys) == ["The audit has no such lines."]
    assert tail(capsys, "--json") == []
    assert not state.exists(), "looking makes nothing"


def test_a_whole_chain(capsys: Capture, state: Path) -> None:
    fill(state)
    assert main(["audit", "verify"]) == 0
    assert capsys.readouterr().out == "5 lines, 1 to 5: the chain is whole.\n"


def test_a_broken_chain(capsys: Capture, state: Path) -> None:
    fill(state)
    file = newest(state)
    kept = file.read_bytes().splitlines(True)
    file.write_bytes(b"".join(kept[:1] + kept[2:]))
    assert main(["audit", "verify"]) == 1
    assert capsys.readouterr().out == "seq 2: missing: 2 before 3\n4 lines: THE CHAIN IS BROKEN.\n"
    assert main(["audit", "verify", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["problems"] == [{"seq": 2, "what": "missing: 2 before 3"}]


def test_a_torn_line_is_told_and_no_failure(capsys: Capture, state: Path) -> None:
    fill(state)
    with newest(state).open("ab") as file:
        file.write(b'{"seq":6,')
    assert main(["audit", "verify"]) == 0
    assert "torn line after seq 5 (9 bytes)" in capsys.readouterr().out
    audit(state).record("again")
    assert main(["audit", "verify"]) == 0
    assert "torn line repaired at seq 6" in capsys.readouterr().out


def test_the_last_lines(capsys: Capture, state: Path) -> None:
    fill(state)
    said = tail(capsys)
    assert len(said) == 5
    for word in (
        "2",
        "bob",
        "note_write",
        "denied",
        "permission_denied",
        "a1.md",
        "[rules[1] (/)]",
    ):
        assert word in said[1]
    assert "denied" not in said[0]
    assert "192.0.2.7" in said[3]
    assert all(line.isprintable() for line in said), "what others worded doesn't steer a terminal"
    assert len(tail(capsys, "-n", "2")) == 2


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--caller", "ana"], [1, 3]),
        (["--denied"], [2, 4]),
        (["--tool", "note_write"], [2, 3]),
        (["--caller", "ana", "--tool", "note_write"], [3]),
        (["--caller", "ana", "-n", "1"], [3]),
        (["--caller", "an"], []),
        (["-n", "0"], []),
    ],
)
def test_some_of_the_lines(
    capsys: Capture, state: Path, options: list[str], found: list[int]
) -> None:
    fill(state)
    assert [json.loads(line)["seq"] for line in tail(capsys, "--json", *options)] == found


def test_json_lines_are_the_lines_of_the_file(capsys: Capture, state: Path) -> None:
    fill(state)
    assert [json.loads(line) for line in tail(capsys, "--json")] == lines(state)


def test_lines_from_several_files(capsys: Capture, state: Path) -> None:
    filled(state, 50, max_bytes=1_000, max_files=40)
    said = [json.loads(line)["seq"] for line in tail(capsys, "--json", "-n", "30")]
    last = lines(state)[-1]["seq"]
    assert said == list(range(last - 29, last + 1))


def test_following(state: Path) -> None:
    fill(state)
    with subprocess.Popen(
        [sys.executable, "-m", "server", "audit", "tail", "-n", "1", "--follow", "--json"],
        stdout=subprocess.PIPE, text=True, env=dict(os.environ),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["seq"] == 5
            filled(state, 3, max_bytes=600, max_files=40)
            said = [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
            assert said == [6, 7, 8]
        finally:
            process.kill()
