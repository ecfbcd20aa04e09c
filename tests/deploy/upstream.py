"""A server behind the proxy that shows what arrives, and streams one event for each that was read."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Upstream:
    """Remembers every request. `GET /mcp` streams: an event for each `proceed.release()`.

    `POST` is answered while `answer` is set.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[tuple[str, str]] = []
        self.bytes = 0
        self.proceed = threading.Semaphore(0)
        self.answer = threading.Event()
        self.answer.set()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._remember()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for number in range(5):
                    if not upstream.proceed.acquire(timeout=60):
                        return
                    event = b"data: %d\n\n" % number
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                self.wfile.write(b"0\r\n\r\n")

            def do_POST(self) -> None:
                self._remember()
                left = int(self.headers["Content-Length"])
                while left > 0 and (part := self.rfile.read(min(left, 65536))):
                    left -= len(part)
                    upstream.bytes += len(part)
                upstream.answer.wait(60)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _remember(self) -> None:
                upstream.paths.append(self.path)
                upstream.headers += [(name.lower(), value) for name, value in self.headers.items()]

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Clients that go away are part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()
