"""Writes that wait, for a page on which a person decides about them. JSON in, JSON out."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.errors import InvalidRequest
from server.models import Caller
from server.service.approving import Approving

Page = Callable[[Caller, Mapping[str, str], Any], Awaitable[Any]]
"""From the administrator, the parameters of the path and the body to what is answered."""
Admitted = Callable[[Page], Callable[[Request], Awaitable[Response]]]
"""Serves a page to administrators alone."""

PREFIX = "/admin/api/approvals"


class Decision(BaseModel):
    """What a person decided."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decision: Literal["approve", "deny"]
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None


def routes(approving: Approving, admitted: Admitted) -> list[Route]:
    """The pages: all writes that wait, one of them with its diff, and the decision about it."""

    async def listed(caller: Caller, _names: Mapping[str, str], _body: Any) -> Any:
        return {"approvals": await approving.listed(caller)}

    async def show(caller: Caller, names: Mapping[str, str], _body: Any) -> Any:
        return await approving.show(caller, names["id"])

    async def decide(caller: Caller, names: Mapping[str, str], body: Any) -> Any:
        given = _decision(body)
        if given.decision == "approve":
            return await approving.approve(caller, names["id"])
        return await approving.deny(caller, names["id"], given.reason)

    return [
        Route(PREFIX, admitted(listed), methods=["GET"]),
        Route(f"{PREFIX}/{{id}}", admitted(show), methods=["GET"]),
        Route(f"{PREFIX}/{{id}}", admitted(decide), methods=["POST"]),
    ]


def _decision(body: Any) -> Decision:
    try:
        return Decision.model_validate(body)
    except ValidationError:
        raise InvalidRequest(
            "That is no decision.", 'Send {"decision": "approve"} or {"decision": "deny"}.'
        ) from None
