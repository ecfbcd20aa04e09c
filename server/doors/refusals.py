"""Errors of requests that are no calls of tools: JSON-RPC errors, and nothing else goes out."""

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.catalog.dispatch import unexpected
from server.doors.errors import OUTWARD, payload
from server.errors import (
    InvalidPath,
    NotFound,
    PathNotAllowed,
    PermissionDenied,
    VaultError,
)

_RESOURCE_NOT_FOUND = -32002
"""What the session era has for it; later eras reserve the number and take invalid params."""
_MISSING = (NotFound, PermissionDenied, InvalidPath, PathNotAllowed)


@contextmanager
def answering() -> Iterator[None]:
    """Raise what the block raises as an error that a client may see."""
    try:
        yield
    except MCPError:
        raise
    except VaultError as error:
        raise _refusal(error) from None
    except Exception as error:  # noqa: BLE001 - the edge: nothing of it may reach a caller
        raise _refusal(unexpected(error)) from None


@contextmanager
def answering_about(uri: str, version: str) -> Iterator[None]:
    """`answering` for one resource; one that may not be read is one that isn't there."""
    with answering():
        try:
            yield
        except _MISSING:
            is_old = version in HANDSHAKE_PROTOCOL_VERSIONS
            code = _RESOURCE_NOT_FOUND if is_old else INVALID_PARAMS
            raise MCPError(code, "Resource not found", {"uri": uri[:8192]}) from None


def _refusal(error: VaultError) -> MCPError:
    return MCPError(OUTWARD[error.code].rpc, error.message, payload(error))
