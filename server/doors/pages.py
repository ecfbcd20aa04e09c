"""Pages of JSON for administrators: who may see them, what they get, and errors as everywhere."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.catalog.dispatch import unexpected
from server.doors.errors import OUTWARD, payload
from server.doors.guards import Refusal, check_json, read_body
from server.doors.identity import Administrators
from server.errors import InvalidRequest, VaultError
from server.models import Caller

Page = Callable[[Caller, Mapping[str, str], Any], Awaitable[Any]]

_MOST_BYTES = 65_536
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def admitted(
    administrators: Administrators,
) -> Callable[[Page], Callable[[Request], Awaitable[Response]]]:
    """What serves pages to administrators alone."""

    def serve(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                caller = await administrators.admit(request.scope)
                body = await _body(request) if request.method == "POST" else None
                found = await page(caller, request.path_params, body)
            except Refusal as refusal:
                return refusal.response
            except VaultError as error:
                return _failed(error)
            except Exception as error:  # noqa: BLE001 - the edge: nothing of it may go out
                return _failed(unexpected(error))
            return JSONResponse(found, headers=_HEADERS)

        return answer

    return serve


async def _body(request: Request) -> Any:
    # A form of a foreign page can't say that it is JSON.
    check_json(request.headers)
    body = await read_body(request.receive, request.headers, _MOST_BYTES)
    try:
        return from_json(body or b"")
    except ValueError:
        raise InvalidRequest("The body is not JSON.", "Send a JSON object.") from None


def _failed(error: VaultError) -> Response:
    return JSONResponse(payload(error), OUTWARD[error.code].status, _HEADERS)
