"""The process around the HTTP door: how it starts and how it stops."""

import inspect
import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from server.doors.serve import serve_http
from server.doors.stdio import serve_stdio

from .connect import Running, running
from .wire import INITIALIZE, JSON, META, call, modern_headers

STREAM = {"Accept": "text/event-stream"}


def session_of(client: httpx2.Client, url: str) -> dict[str, str]:
    answer = client.post(url, json=INITIALIZE, headers=JSON)
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"]}


def started(client: httpx2.Client, url: str, number: int) -> bool:
    body = call("seen")
    body["params"]["_meta"] = META
    answer = client.post(url, json=body, headers={**JSON, **modern_headers(body)})
    return bool(answer.json()["result"]["structuredContent"]["counts"].get("started", 0) >= number)


def stopped(server: Running, number: signal.Signals) -> tuple[int, str]:
    """Send a signal; what runs for 600 s must not be waited for."""
    server.process.send_signal(number)
    return server.end(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_open_streams_and_lets_calls_finish(number: signal.Signals) -> None:
    answers: list[str] = []
    with running("http") as server, httpx2.Client(timeout=20) as client:
        url = f"http://127.0.0.1:{server.port}/mcp"
        session = session_of(client, url)
        modern = call("wait", 1, seconds=1)
        modern["params"]["_meta"] = META

        def wait(body: object, headers: dict[str, str]) -> None:
            answers.append(
                httpx2.post(url, json=body, headers={**JSON, **headers}, timeout=20).text
            )

        calls = [
            threading.Thread(target=wait, args=(modern, modern_headers(modern))),
            threading.Thread(target=wait, args=(call("wait", 2, seconds=1), session)),
        ]
        with client.stream("GET", url, headers={**session, **STREAM}) as stream:
            assert stream.status_code == 200
            for thread in calls:
                thread.start()
            while not started(client, url, 2):
                time.sleep(0.01)
            code, said = stopped(server, number)
            assert list(stream.iter_lines()) == []
        for thread in calls:
            thread.join()
    assert (code, "Traceback" in said) == (0, False), said
    assert len(answers) == 2
    assert all('"structuredContent":{"done":true}' in answer for answer in answers), answers


def test_a_stop_does_not_wait_for_streams_that_never_end() -> None:
    with (
        running("http", json.dumps({"grace_seconds": 600})) as server,
        httpx2.Client(timeout=20) as client,
    ):
        url = f"http://127.0.0.1:{server.port}/mcp"
        headers = {**session_of(client, url), **STREAM}
        with client.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            code, said = stopped(server, signal.SIGTERM)
            assert list(stream.iter_lines()) == []
    assert (code, "Traceback" in said) == (0, False), said


def test_a_stop_does_not_wait_for_calls_that_never_end() -> None:
    with running("http") as server, httpx2.Client(timeout=20) as client:
        url = f"http://127.0.0.1:{server.port}/mcp"
        session = session_of(client, url)
        modern = call("wait", 1, seconds=600)
        modern["params"]["_meta"] = META
        head = "".join(
            f"{name}: {value}\r\n" for name, value in {**JSON, **modern_headers(modern)}.items()
        )
        body = json.dumps(modern)
        with (
            client.stream("GET", url, headers={**session, **STREAM}),
            socket.create_connection(("127.0.0.1", server.port)) as slow,
            client.stream(
                "POST", url, json=call("wait", 2, seconds=600), headers={**JSON, **session}
            ),
        ):
            slow.sendall(
                f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:1\r\n{head}"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            while not started(client, url, 2):
                time.sleep(0.01)
            code, said = stopped(server, signal.SIGTERM)
    assert (code, "Traceback" in said) == (0, False), said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait_and_is_no_error(number: signal.Signals) -> None:
    body = call("wait", 1, seconds=600)
    body["params"]["_meta"] = META
    with (
        running("http", json.dumps({"grace_seconds": 600})) as server,
        httpx2.Client(timeout=20) as client,
    ):
        url = f"http://127.0.0.1:{server.port}/mcp"
        headers = {**JSON, **modern_headers(body)}
        with ThreadPoolExecutor() as threads:
            answer = threads.submit(httpx2.post, url, json=body, headers=headers, timeout=60)
            while not started(client, url, 1):
                time.sleep(0.01)
            server.process.send_signal(number)
            time.sleep(0.3)
            code, said = stopped(server, number)
            answer.exception(60)
    assert (code, "Traceback" in said) == (0, False), said


@pytest.mark.parametrize("door", [serve_http, serve_stdio])
def test_calls_get_less_than_the_five_seconds_that_a_supervisor_gives(
    door: Callable[..., object],
) -> None:
    assert inspect.signature(door).parameters["grace_seconds"].default < 5


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running("http", json.dumps({"port": port})) as server:
            code, said = server.end()
    assert code == 69
    assert said == f"vault-mcp: can't listen on 127.0.0.1:{port}: Address already in use\n"
