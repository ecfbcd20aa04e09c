"""The sessions of the HTTP door: one caller can't take them all."""

from typing import Any

from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class Sessions(StreamableHTTPSessionManager):
    """The SDK's sessions, of which one caller may have a part only; None is all of them."""

    def __init__(self, *args: Any, most_of_one_caller: int | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most_of_one_caller = most_of_one_caller

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        most = self._most_of_one_caller
        if most is not None and list(self._session_owners.values()).count(requestor) >= most:
            return None
        return super()._admit_session(requestor)
