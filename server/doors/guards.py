"""What an HTTP request must be before anything else looks at it: pure ASGI, no protocol state.

A refusal is a JSON-RPC error without an id whose data is the same payload that every other door
gives, so that neither clients nor people ever meet a bare status or a traceback.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from server.doors.errors import OUTWARD, payload
from server.errors import InvalidRequest, PermissionDenied, TooLarge, VaultError


class Refusal(Exception):
    """Ends a request with an answer; the error's own status unless HTTP knows a better one."""

    def __init__(
        self,
        error: VaultError,
        status: int | None = None,
        rpc: int | None = None,
        challenge: str | None = None,
    ) -> None:
        """`challenge` is what `WWW-Authenticate` says: how a client could get in."""
        super().__init__(error.message)
        self._error = error
        self._challenge = challenge
        self._status = status or OUTWARD[error.code].status
        self._rpc = rpc or OUTWARD[error.code].rpc

    @property
    def response(self) -> Response:
        body = {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": self._rpc,
                "message": self._error.message,
                "data": payload(self._error),
            },
        }
        challenge = self._challenge or ("Bearer" if self._status == 401 else None)
        headers = {"WWW-Authenticate": challenge} if challenge else {}
        if "retry_after" in self._error.details:
            headers["Retry-After"] = str(math.ceil(self._error.details["retry_after"]))
        # Escapes keep whatever a client sent printable, half surrogate pairs included.
        text = json.dumps(body, separators=(",", ":"), default=str)
        return Response(text, self._status, headers, "application/json")


def tidied(scope: Scope) -> Headers:
    """The headers as they are meant: httptools keeps white space that trails a value.

    `Last-Event-ID` is dropped: there is nothing to replay, and the SDK would not answer at all.
    """
    scope["headers"] = [
        (name, value.strip(b" \t")) for name, value in scope["headers"] if name != b"last-event-id"
    ]
    return Headers(scope=scope)


@dataclass(frozen=True, slots=True)
class Origins:
    """Which hosts this server answers to and which web pages may call it; `name:*` is any port."""

    hosts: Sequence[str]
    origins: Sequence[str]

    def check(self, headers: Headers) -> None:
        """Refuse what a web page could send through a name that it bound to this address."""
        if not self.answers_to(headers):
            raise Refusal(
                PermissionDenied(
                    "This server does not answer to that host name.",
                    "Add the name to the allowed hosts.",
                ),
                status=421,
            )
        origin = headers.get("origin")
        if origin is not None and not _listed(origin, self.origins):
            raise Refusal(
                PermissionDenied(
                    "Pages of that origin may not call this server.",
                    "Add the origin to the allowed origins.",
                )
            )

    def answers_to(self, headers: Headers) -> bool:
        """Whether the request names a host that this server goes by."""
        return _listed(headers.get("host", ""), self.hosts)


def _listed(value: str, allowed: Sequence[str]) -> bool:
    value = value.lower()
    name, _, port = value.rpartition(":")
    named = (value, f"{name}:*" if port.isdigit() else f"{value}:*")
    return any(entry == "*" or entry.lower() in named for entry in allowed)


def check_json(headers: Headers) -> None:
    """Refuse a body that doesn't say it is JSON: a form on a web page can send the others."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(
            InvalidRequest("The body must be JSON.", "Send Content-Type: application/json."),
            status=415,
        )


def bearer(headers: Headers) -> str | None:
    """The token that a request carries, if it carries one; refused when it may be one of two."""
    given = headers.getlist("authorization")
    if len(given) > 1:
        raise Refusal(
            InvalidRequest("There is more than one Authorization header.", "Send one."),
            challenge='Bearer error="invalid_request"',
        )
    scheme, _, token = (given[0] if given else "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes | None:
    """The whole body, None when the client left; refused beyond `limit` before it is held."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` for whoever reads the body next."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def _too_large(limit: int) -> Refusal:
    return Refusal(
        TooLarge(f"A request may have {limit} bytes.", "Send less at once.", limit=limit)
    )
