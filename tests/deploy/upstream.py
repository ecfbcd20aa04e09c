"""A server behind the proxy that shows what arrives, and streams one event for each that was read."""

import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Upstream:
    """Remembers every request. `GET /mcp` streams: an event for each `proceed.release()`.

    `left` is set when the client of a stream has gone. `POST` is answered while `answer` is set.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[tuple[str, str]] = []
        self.bytes = 0
        self.proceed = threading.Semaphore(0)
        self.left = threading.Event()
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
                    if not self._may_go_on():
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

            def _may_go_on(self) -> bool:
                for _ in range(600):
                    if upstream.proceed.acquire(timeout=0.1):
                        return True
                    if select.select([self.connection], [], [], 0)[0]:
                        upstream.left.set()  # a client that listens to a stream says nothing more
                        return False
                return False

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
