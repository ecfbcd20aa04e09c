"""The one table that maps the tree of errors onto every door. No door has numbers of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from server.errors import VaultError


@dataclass(frozen=True, slots=True)
class Outward:
    """What one code is called outside: HTTP status, JSON-RPC error number, a command's exit."""

    status: int
    rpc: int
    exit: int


# The JSON-RPC numbers keep clear of those that JSON-RPC, MCP and its SDKs give a meaning to. The
# exit codes are those of sysexits(3).
OUTWARD: Mapping[str, Outward] = MappingProxyType(
    {
        "invalid_request": Outward(400, -32602, 64),
        "invalid_path": Outward(400, -32602, 64),
        "unauthorized": Outward(401, -32070, 77),
        "permission_denied": Outward(403, -32071, 77),
        "path_not_allowed": Outward(403, -32072, 77),
        "not_found": Outward(404, -32073, 66),
        "ambiguous": Outward(409, -32074, 65),
        "conflict": Outward(409, -32075, 75),
        "too_large": Outward(413, -32076, 65),
        "unavailable": Outward(503, -32077, 69),
        "timeout": Outward(504, -32078, 75),
        "rate_limited": Outward(429, -32079, 75),
        "internal_error": Outward(500, -32603, 70),
    }
)


def payload(error: VaultError) -> dict[str, Any]:
    """The one shape of an error: code and message, hint and details where there are any."""
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.hint:
        said["hint"] = error.hint
    if error.details:
        said["details"] = dict(error.details)
    return said
