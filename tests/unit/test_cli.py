"""The command line: one clear line per problem, exit codes that scripts can use, no secret shown."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from server import __version__
from server.app import open_app
from server.cli import main
from server.history.store import Author, Change, History
from server.index.store import Index
from server.models import etag_of
from server.settings import Settings, load
from server.vault.guard import Guard
from server.vault.identity import IdentityFile
from server.vault.journal import Journal, Record
from tests.drive.processes import free_port, wait_for

SECRET = "s3cret-s3cret-s3cret"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings but the test's own; logging is put back."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(f"{name.upper()}_FILE", raising=False)
    monkeypatch.delenv("VAULT_MCP_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("uvicorn.error", "mcp", "vault_mcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    monkeypatch.setenv("VAULT_PATH", str(folder))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    return folder


Capture = pytest.CaptureFixture[str]


def test_the_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"vault-mcp {__version__}\n"


@pytest.mark.parametrize(
    "argv", [[], ["fly"], ["config"], ["serve", "--nope"], ["journal", "--show"]]
)
def test_what_is_no_command(argv: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


# -- settings -------------------------------------------------------------------------------------


def test_the_settings_as_text(
    vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("AUTH_TOKEN", SECRET)
    monkeypatch.setenv("ALLOWED_HOSTS", "a.example, b.example")
    assert main(["config", "check"]) == 0
    out = capsys.readouterr().out
    said = dict(line.split("=", 1) for line in out.splitlines())
    assert set(said) == {name.upper() for name in Settings.model_fields}
    assert (said["VAULT_PATH"], said["PORT"], said["AUTH"]) == (str(vault), "1065", "token")
    assert said["ALLOWED_HOSTS"] == "a.example,b.example"
    assert said["RCLONE_RC"] == ""
    assert said["AUTH_TOKEN"] == "***"
    assert SECRET not in out


def test_the_settings_as_json(
    vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("AUTH_TOKEN", SECRET)
    assert main(["config", "check", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["VAULT_PATH"], said["PORT"], said["RCLONE_RC"]) == (str(vault), 1065, None)
    assert said["AUTH_TOKEN"] == "***"


@pytest.mark.parametrize(
    "argv",
    [
        ["config", "check"],
        ["serve"],
        ["stdio"],
        ["journal"],
        ["history"],
        ["adopt"],
        ["reindex"],
        ["config", "check", "--json"],
    ],
)
def test_every_problem_is_a_line_and_the_status_is_2(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PORT", "99999")
    monkeypatch.setenv("LOG_LEVEL", "loud")
    monkeypatch.setenv("AUTH_TOKEN", SECRET)
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("vault-mcp: ") for line in lines)
    assert {line.split(": ")[1] for line in lines} == {"VAULT_PATH", "PORT", "LOG_LEVEL"}
    assert SECRET not in said.err


def test_a_bad_secret_is_not_repeated(
    vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("AUTH_TOKEN", "tooshort")
    assert main(["config", "check"]) == 2
    assert "tooshort" not in capsys.readouterr().err


# -- the journal ----------------------------------------------------------------------------------


def put(state: Path, slot: int, number: int, data: bytes, path: str = "a.md") -> Record:
    record = Record(
        id=f"{number:016x}"[::-1], path=path, disk=path, base=None, etag=etag_of(data), md5="",
        size=len(data), protocol="mount", temp=None, created=1_700_000_000.0 + number,
    )  # fmt: skip
    Journal(state / f"slot-{slot}" / "journal").prepare(record, data)
    return record


@pytest.mark.usefixtures("vault")
def test_an_empty_journal(capsys: Capture, tmp_path: Path) -> None:
    assert main(["journal"]) == 0
    assert capsys.readouterr().out == "The journal is empty: every write is finished.\n"
    assert main(["journal", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert not (tmp_path / "state").exists(), "looking makes nothing"


@pytest.mark.usefixtures("vault")
def test_what_waits_in_the_journals_of_all_slots(tmp_path: Path, capsys: Capture) -> None:
    first = put(tmp_path / "state", 0, 1, b"one", "sub/é.md")
    second = put(tmp_path / "state", 2, 2, b"two two")
    Journal(tmp_path / "state" / "slot-2" / "journal").set_aside(second)
    assert main(["journal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].split() == [first.id, "prepared", "2023-11-14T22:13:21Z", "3", "B", "sub/é.md"]
    assert lines[1].split()[1] == "aside"
    assert main(["journal", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {
        "id": first.id, "state": "prepared", "path": "sub/é.md", "bytes": 3, "protocol": "mount",
        "created": "2023-11-14T22:13:21Z",
    }  # fmt: skip
    assert [row["id"] for row in rows] == [first.id, second.id]


@pytest.mark.usefixtures("vault")
def test_the_content_of_an_entry(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = b"\xff\r\n\0 as it is, without a newline"
    record = put(tmp_path / "state", 0, 1, data)
    for name in (record.id, record.id[:5]):
        assert main(["journal", "--show", name]) == 0
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == data
    assert main(["journal", "--show", "nope"]) == 1
    said = capfdbinary.readouterr()
    assert said.out == b""
    assert said.err == b"vault-mcp: no journal entry nope\n"
    assert len(Journal(tmp_path / "state" / "slot-0" / "journal")) == 1, "showing takes nothing"


# -- the history ----------------------------------------------------------------------------------


def change(state: Path, path: str, before: bytes | None, after: bytes, caller: str = "ann") -> int:
    """A change as a server would leave it."""
    history = History.open(state / "history", max_bytes=1 << 20, max_age_days=30)
    try:
        author = Author(caller, None, "note_write", path)
        ids = history.begin(author, [Change("overwrite", path, before, etag_of(after))])
        history.finish(ids)
        return ids[0]
    finally:
        history.close()


@pytest.mark.usefixtures("vault")
def test_an_empty_history(capsys: Capture, tmp_path: Path) -> None:
    assert main(["history"]) == 0
    assert capsys.readouterr().out == "The history is empty: nothing was changed.\n"
    assert main(["history", "a.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["history", "show", "1"]) == 1
    assert capsys.readouterr().err.startswith("vault-mcp: There is no version 1.")
    assert not (tmp_path / "state").exists(), "looking makes nothing"


@pytest.mark.usefixtures("vault")
def test_what_was_changed(tmp_path: Path, capsys: Capture) -> None:
    state = tmp_path / "state"
    ids = [
        change(state, "sub/é.md", None, b"one"),
        change(state, "sub/é.md", b"one", b"two", "bob"),
        change(state, "b.md", b"x", b"y"),
    ]
    assert main(["history"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [str(number) for number in reversed(ids)]
    assert lines[1][2:] == ["bob", "note_write", "overwrite", "sub/é.md"]
    for argv, expected in (
        (["SUB/É.md"], [ids[1], ids[0]]),
        (["sub/é.md", "--caller", "ann"], [ids[0]]),
        (["--caller", "ann"], [ids[2], ids[0]]),
        (["--limit", "1"], [ids[2]]),
        (["absent.md"], []),
    ):
        assert main(["history", "--json", *argv]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [row["version"] for row in found] == expected, argv
    assert main(["history", "../outside.md"]) == 1


@pytest.mark.usefixtures("vault")
def test_what_was_there_before(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = b"\xff\r\n\0 as it is, without a newline"
    version = change(tmp_path / "state", "a.md", data, b"new")
    made = change(tmp_path / "state", "b.md", None, b"new")
    assert main(["history", "show", str(version)]) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == data
    assert main(["history", "show", str(made)]) == 1
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize(
    "argv", [["show", "x"], ["restore", "a.md"], ["restore", "a.md", "x"], ["a.md", "b.md"]]
)
@pytest.mark.usefixtures("vault")
def test_what_the_history_is_not_asked(argv: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["history", *argv])
    assert caught.value.code == 2
    assert "vault-mcp history restore PATH VERSION" in capsys.readouterr().err


def test_a_note_is_restored_from_the_command_line(
    vault: Path, tmp_path: Path, capsys: Capture
) -> None:
    (vault / "a.md").write_bytes(b"new")
    version = change(tmp_path / "state", "a.md", b"\xff old\r\n", b"new")
    with open_app(load()):
        assert main(["history", "restore", "a.md", str(version)]) == 0, "beside a running server"
    assert (vault / "a.md").read_bytes() == b"\xff old\r\n"
    assert capsys.readouterr().out == f"a.md is what it was before version {version}.\n"
    assert main(["history", "restore", "a.md", str(version)]) == 0
    assert capsys.readouterr().out == "a.md says that already.\n"
    assert main(["history", "--json", "--limit", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["by"], row["change"], row["etag"]) == ("owner", "restore", etag_of(b"new"))
    assert main(["history", "restore", "a.md", "999"]) == 1
    assert f"Its last versions: {row['version']}, {version}." in capsys.readouterr().err


def test_nothing_is_restored_into_a_vault_that_is_away(
    vault: Path, tmp_path: Path, capsys: Capture
) -> None:
    version = change(tmp_path / "state", "a.md", b"old", b"new")
    vault.rmdir()
    assert main(["history", "restore", "a.md", str(version)]) == 1
    assert "The vault folder does not exist." in capsys.readouterr().err
    assert not vault.exists()


# -- adopting -------------------------------------------------------------------------------------


def guard_of(vault: Path, state: Path) -> Guard:
    from server.telemetry import Telemetry

    return Guard(
        vault,
        marker=".vault-mcp",
        require_mount="auto",
        identity=IdentityFile(state / "vault.json"),
        telemetry=Telemetry(),
    )


def test_adopting_another_vault(vault: Path, tmp_path: Path, capsys: Capture) -> None:
    (vault / "a.md").write_text("x")
    known = guard_of(vault, tmp_path / "state")
    assert known.probe().ok
    known.remember(populated=True)
    (vault / ".vault-mcp").write_text("another\n")
    assert guard_of(vault, tmp_path / "state").probe().state == "wrong_vault"
    assert main(["adopt"]) == 0
    assert "another" in capsys.readouterr().out
    assert guard_of(vault, tmp_path / "state").probe().ok
    (vault / ".vault-mcp").unlink()
    again = guard_of(vault, tmp_path / "state")
    assert again.probe().ok, "nothing binds until a scan has seen notes"


def test_there_is_nothing_to_adopt(vault: Path, capsys: Capture) -> None:
    vault.rmdir()
    assert main(["adopt"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    problems = [line for line in said.err.splitlines() if line.startswith("vault-mcp: ")]
    assert problems == [
        "vault-mcp: The vault folder does not exist. Create or mount it; VAULT_PATH names it."
    ]


# -- building the index anew ------------------------------------------------------------------------


def paths_of(state: Path) -> list[str]:
    index = Index.open(state / "slot-0" / "index")
    try:
        return index.paths()
    finally:
        index.close()


def test_the_index_is_built_anew(vault: Path, tmp_path: Path, capsys: Capture) -> None:
    for number in range(600):
        (vault / f"{number}.md").write_text(f"text {number}")
    assert main(["reindex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "The index is new: 600 notes."
    assert lines[-2] == "indexing 100 %"
    assert all(line.startswith("indexing ") for line in lines[:-1])
    first = paths_of(tmp_path / "state")
    assert len(first) == 600
    (vault / "0.md").unlink()
    assert main(["reindex"]) == 0
    assert capsys.readouterr().out.endswith("The index is new: 599 notes.\n")
    assert set(first) - set(paths_of(tmp_path / "state")) == {"0.md"}


def test_a_bar_on_a_terminal(vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    (vault / "a.md").write_text("text")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["reindex"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"\r[{'#' * 40}] 100 %\nThe index is new: 1 notes.\n")


def test_without_its_vault_the_old_index_stays(
    vault: Path, tmp_path: Path, capsys: Capture
) -> None:
    (vault / "a.md").write_text("text")
    assert main(["reindex"]) == 0
    vault.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main(["reindex"]) == 1
    said = capsys.readouterr().err
    assert "vault-mcp: The vault folder does not exist." in said
    assert "The old index stays." in said
    assert paths_of(tmp_path / "state") == ["a.md"]


def test_a_running_server_builds_its_index_anew(
    vault: Path, tmp_path: Path, capsys: Capture
) -> None:
    (vault / "a.md").write_text("text")
    with open_app(load()) as app:
        wait_for(lambda: app.scanner.progress.first_done)
        assert main(["reindex"]) == 0
        assert capsys.readouterr().out.startswith("slot-0: its server builds the index anew")
        wait_for(lambda: not app.index.needs_rebuild)
        assert app.index.paths() == ["a.md"]


# -- serving --------------------------------------------------------------------------------------


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, "HOST": "127.0.0.1", **more}


def run(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", *argv],
        env=environ(**more), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("vault")
def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", PORT=str(port), LOG_LEVEL="error")
    assert done.returncode not in (0, 2)
    assert done.stdout == ""
    assert done.stderr == f"vault-mcp: can't listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize("command", ["serve", "stdio"])
def test_a_state_folder_that_is_none_is_one_clear_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "state").write_text("a file")
    done = run(command, PORT="0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("vault-mcp: STATE_DIR can't be used")


def _answers(said: str) -> bool:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
    if found is None:
        return False
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/healthz", timeout=20) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def serve_once(folder: Path, *argv: str, **more: str) -> str:
    """Start a server, wait until it says where it is, stop it; returns what it printed."""
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "serve", *argv],
            env=environ(**more), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(lambda: _answers((folder / "out").read_text()), 60, "the server")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    return (folder / "out").read_text()


def test_a_sample_is_copied_once_and_never_overwritten(tmp_path: Path) -> None:
    sample, port = tmp_path / "sample vault", free_port()
    more = {"PORT": str(port), "STATE_DIR": str(tmp_path / "state")}
    said = serve_once(tmp_path, "--sample", str(sample), **more)
    assert f"Serving {sample}\n" in said
    assert f"http://127.0.0.1:{port}/mcp" in said
    assert (sample / "_index.md").exists()
    (sample / "_index.md").write_text("mine now")
    (sample / "notes").rename(sample / "renamed")
    serve_once(tmp_path, "--sample", str(sample), **more)
    assert (sample / "_index.md").read_text() == "mine now"
    assert not (sample / "notes").exists()


def test_a_vault_that_is_named_is_served_instead_of_the_sample(vault: Path, tmp_path: Path) -> None:
    said = serve_once(tmp_path, "--sample", str(tmp_path / "sample"), PORT="0", AUTH_TOKEN=SECRET)
    assert f"Serving {vault}\n" in said
    assert not (tmp_path / "sample").exists()
    assert SECRET not in said
    assert "$AUTH_TOKEN" in said
    assert ":0/" not in said, "the port that it really got"


def test_stdio_ends_with_its_input(vault: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server", "stdio"],
        env=environ(), input="", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.usefixtures("vault")
def test_what_the_system_refuses_is_a_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.delenv("VAULT_PATH")
    assert main(["serve", "--sample", str(tmp_path / "file" / "sample")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("vault-mcp: ")
    assert said.count("\n") == 1
