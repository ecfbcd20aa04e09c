"""The rc client against a socket that answers like rclone, and like a broken one."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from server.errors import Unavailable
from server.vault.rc import Rc, RcError, RemoteStat, Upload

Answers = Callable[[int, object], list[tuple[str, Any]]]

STAT = {
    "Path": "claude/a.md",
    "Size": 5,
    "ModTime": "2025-01-02T03:04:05.678Z",
    "IsDir": False,
    "Hashes": {"md5": "ce771bb33a2a445c8e616a88ec29c517"},
    "ID": "1F",
}


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "rc.sock"


@pytest.fixture
def rc(socket_path: Path) -> Rc:
    return Rc(f"unix://{socket_path}", timeout=5)


@pytest.fixture
def answers(socket_path: Path) -> Iterator[Answers]:
    """`answers(status, body)` starts a server that always answers so; gives the calls it got."""
    servers = []

    def serve(status: int, body: object) -> list[tuple[str, Any]]:
        calls: list[tuple[str, Any]] = []
        data = body if isinstance(body, bytes) else json.dumps(body).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                calls.append((self.path, json.loads(self.rfile.read(length))))
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None: ...

            def address_string(self) -> str:
                return "unix"

        server = ThreadingUnixStreamServer(str(socket_path), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        servers.append((server, thread))
        return calls

    yield serve
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join(30)


@pytest.mark.parametrize(
    "address", ["http://localhost:5572", "unix://relative", "/run/rc.sock", ""]
)
def test_only_a_unix_socket_is_accepted(address: str) -> None:
    with pytest.raises(ValueError, match="unix"):
        Rc(address)


def test_a_call_posts_its_parameters_as_json(rc: Rc, answers: Answers) -> None:
    calls = answers(200, {"a": 1})
    assert rc.call("x/y", fs="gd:", opt={"n": [1]}) == {"a": 1}
    assert calls == [("/x/y", {"fs": "gd:", "opt": {"n": [1]}})]


def test_what_rclone_says_stays_out_of_the_message(rc: Rc, answers: Answers) -> None:
    answers(500, {"error": "lstat /home/me/x: not a directory", "input": {"srcFs": "/srv"}})
    with pytest.raises(RcError) as caught:
        rc.call("operations/copyfile")
    error = caught.value
    assert isinstance(error, Unavailable)
    assert (error.code, error.status, error.command) == ("unavailable", 500, "operations/copyfile")
    assert error.reason == "lstat /home/me/x: not a directory"
    assert "/home" not in error.message + error.hint + repr(error.details)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"\xff"])
def test_an_answer_that_is_no_object_is_an_error(rc: Rc, answers: Answers, body: bytes) -> None:
    answers(200, body)
    with pytest.raises(RcError):
        rc.call("core/version")


def test_no_socket_no_rclone(rc: Rc, socket_path: Path) -> None:
    with pytest.raises(RcError) as caught:
        rc.version()
    assert caught.value.status is None
    assert str(socket_path) not in caught.value.message
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(socket_path))
        with pytest.raises(RcError):
            rc.version()


def test_silence_ends_at_the_timeout(rc: Rc, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(socket_path))
        silent.listen()
        with pytest.raises(RcError) as caught:
            rc.call("core/version", timeout=0.05)
    assert "TimeoutError" in caught.value.reason


def test_a_connection_that_breaks_off_is_an_error(rc: Rc, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(RcError):
            rc.call("core/version")
        thread.join(30)


def test_stat_reads_what_drive_knows(rc: Rc, answers: Answers) -> None:
    calls = answers(200, {"item": STAT})
    assert rc.stat("gd:vault", "claude/a.md") == RemoteStat(
        size=5, md5="ce771bb33a2a445c8e616a88ec29c517", mtime_ns=1735787045678000000, id="1F"
    )
    (path, params), *_ = calls
    assert (path, params["fs"], params["remote"]) == ("/operations/stat", "gd:vault", "claude/a.md")
    assert params["opt"]["hashTypes"] == ["md5"]


@pytest.mark.parametrize(
    ("moment", "mtime_ns"),
    [
        ("2025-01-02T03:04:05Z", 1735787045_000000000),
        ("2025-01-02T03:04:05.678901234Z", 1735787045_678901234),
        ("2025-01-02T04:04:05.5+01:00", 1735787045_500000000),
        ("1969-12-31T23:59:59.25Z", -750000000),
    ],
)
def test_times_keep_their_nanoseconds(rc: Rc, answers: Answers, moment: str, mtime_ns: int) -> None:
    answers(200, {"item": {"Size": 0, "ModTime": moment}})
    assert rc.stat("gd:", "a") == RemoteStat(size=0, md5="", mtime_ns=mtime_ns, id="")


def test_nothing_there_is_none(rc: Rc, answers: Answers) -> None:
    answers(200, {"item": None})
    assert rc.stat("gd:", "a") is None
    assert not rc.has_folder("gd:", "a")


@pytest.mark.parametrize("item", [{}, {"Size": "x", "ModTime": "y"}, [], 7])
def test_a_stat_of_another_shape_is_an_error(rc: Rc, answers: Answers, item: object) -> None:
    answers(200, {"item": item})
    with pytest.raises(RcError):
        rc.stat("gd:", "a")


def test_the_queue_tells_what_waits(rc: Rc, answers: Answers) -> None:
    entry = {"name": "a.md", "id": 3, "size": 7, "tries": 2, "uploading": True, "expiry": -1.5}
    answers(200, {"queue": [{**entry, "delay": 1}]})
    assert rc.queue("gd:") == [
        Upload(name="a.md", id=3, size=7, tries=2, uploading=True, expiry=-1.5)
    ]


@pytest.mark.parametrize("queue", [[{}], [7], [{"name": "a"}]])
def test_a_queue_of_another_shape_is_an_error(rc: Rc, answers: Answers, queue: object) -> None:
    answers(200, {"queue": queue})
    with pytest.raises(RcError):
        rc.queue("gd:")


def test_a_file_that_is_not_there_needs_no_deleting(rc: Rc, answers: Answers) -> None:
    answers(404, {"error": "object not found"})
    assert rc.delete_file("gd:", "a.md") is False


def test_a_refused_delete_is_an_error(rc: Rc, answers: Answers) -> None:
    answers(500, {"error": "no"})
    with pytest.raises(RcError):
        rc.delete_file("gd:", "a.md")


@pytest.mark.parametrize(("result", "known"), [("OK", True), ("file does not exist", False)])
def test_refresh_tells_an_unknown_folder(
    rc: Rc, answers: Answers, result: str, known: bool
) -> None:
    calls = answers(200, {"result": {"claude": result}})
    assert rc.refresh("gd:", "claude") is known
    assert calls == [("/vfs/refresh", {"fs": "gd:", "dir": "claude"})]


def test_an_upload_ignores_times(rc: Rc, answers: Answers) -> None:
    calls = answers(200, {})
    rc.copy_file("/stage", "s1", "gd:vault", "claude/a.md")
    assert calls == [
        (
            "/operations/copyfile",
            {
                "srcFs": "/stage",
                "srcRemote": "s1",
                "dstFs": "gd:vault",
                "dstRemote": "claude/a.md",
                "_config": {"IgnoreTimes": True},
            },
        )
    ]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("gd{QY4zj}:vault", "gd:vault"),
        ("gd:vault", "gd:vault"),
        (":local{x}:/srv/a{b}:c", ":local:/srv/a{b}:c"),
        ("/srv/a{b}:c", "/srv/a{b}:c"),
    ],
)
def test_a_mounted_name_is_one_that_rclone_can_parse(
    rc: Rc, answers: Answers, told: str, name: str
) -> None:
    answers(200, {"vfses": [told]})
    assert rc.vfs_list() == [name]


def test_the_rest_of_the_wrappers(rc: Rc, answers: Answers) -> None:
    calls = answers(
        200, {"version": "v1.75.2", "vfses": ["gd:vault"], "lastError": "quota", "item": STAT}
    )
    assert rc.version() == "v1.75.2"
    assert rc.vfs_list() == ["gd:vault"]
    assert rc.stats_last_error() == "quota"
    assert rc.has_folder("gd:", "claude")
    rc.set_expiry("gd:vault", 3)
    assert calls[-1][0] == "/vfs/queue-set-expiry"
    assert calls[-1][1]["id"] == 3
    assert calls[-1][1]["expiry"] < 0
