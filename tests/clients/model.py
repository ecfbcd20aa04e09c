"""A stand-in for the model behind an agent: it makes the calls that it was given, one at a turn.

It speaks just enough of the Messages API for Claude Code: server-sent events for a turn, an empty
object for everything else. What it was told is kept.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]


class Model:
    """What it will ask for, and every request that it got."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.turns: list[dict[str, Any]] = []
        self.url = ""

    @property
    def told(self) -> str:
        """All that the user's side said before the first answer."""
        return json.dumps(self.turns[0]["messages"], ensure_ascii=False)

    @property
    def results(self) -> list[dict[str, Any]]:
        """What became of the calls, in their order."""
        return _results(self.turns[-1])

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of the next turn."""
        done = len(_results(request))
        block: dict[str, Any] = {"type": "text", "text": ""}
        change: dict[str, Any] = {"type": "text_delta", "text": "Done."}
        reason = "end_turn"
        if request.get("tools"):
            self.turns.append(request)
            if done < len(self.calls):
                name, arguments = self.calls[done]
                block = {"type": "tool_use", "id": f"toolu_{done}", "name": name, "input": {}}
                change = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
                reason = "tool_use"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": f"msg_{done}", "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": change},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": usage,
            },
            {"type": "message_stop"},
        ]


def _results(request: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [part for one in request["messages"] for part in _parts(one["content"])]
    return [part for part in parts if part["type"] == "tool_result"]


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [] if isinstance(content, str) else content


@contextmanager
def serving(calls: Sequence[Call]) -> Iterator[Model]:
    """The model at a loopback address, as long as the block runs."""
    model = Model(calls)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.startswith("/v1/messages?") and body.get("stream"):
                events = model.answer(body)
                text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
                self._send(text, "text/event-stream")
            else:
                self._send("{}", "application/json")

        def do_GET(self) -> None:
            self._send("{}", "application/json")

        def do_HEAD(self) -> None:
            self._send("", "application/json")

        def _send(self, text: str, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)
