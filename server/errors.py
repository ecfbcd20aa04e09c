"""The one tree of errors. Protocol-free: `doors/errors.py` maps the codes onto each door.

    VaultError
    ├── InvalidRequest    invalid_request     the arguments make no sense
    ├── InvalidPath       invalid_path        the path is malformed
    ├── Unauthorized      unauthorized        no valid credentials
    ├── PermissionDenied  permission_denied   the caller may not do this
    ├── PathNotAllowed    path_not_allowed    nobody may go there
    ├── NotFound          not_found
    ├── Ambiguous         ambiguous           several things match
    ├── Conflict          conflict            the note is not what the caller thought
    ├── TooLarge          too_large
    ├── Unavailable       unavailable         the vault can't be reached just now
    ├── Timeout           timeout             it took longer than it may
    ├── RateLimited       rate_limited
    └── InternalError     internal_error      our fault; only an id goes out

A message says what is wrong, a hint what to do next. Neither carries a host path.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class VaultError(Exception):
    """The root: a code, a message for the agent, a hint, and details as plain data."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses may take other arguments; between processes an error goes by what it says.
        return _again, (type(self), self.message, self.hint, dict(self.details))


def _again(
    kind: type[VaultError], message: str, hint: str, details: Mapping[str, Any]
) -> VaultError:
    error = kind.__new__(kind)
    VaultError.__init__(error, message, hint, **details)
    return error


class InvalidRequest(VaultError):
    code = "invalid_request"


class InvalidPath(VaultError):
    code = "invalid_path"


class Unauthorized(VaultError):
    code = "unauthorized"


class PermissionDenied(VaultError):
    code = "permission_denied"


class PathNotAllowed(VaultError):
    code = "path_not_allowed"


class NotFound(VaultError):
    code = "not_found"


class Ambiguous(VaultError):
    code = "ambiguous"


class Conflict(VaultError):
    code = "conflict"


class TooLarge(VaultError):
    code = "too_large"


class Unavailable(VaultError):
    code = "unavailable"


class Timeout(VaultError):
    code = "timeout"


class RateLimited(VaultError):
    code = "rate_limited"


class InternalError(VaultError):
    code = "internal_error"


CODES: tuple[str, ...] = tuple(
    sorted({"internal_error", *(error.code for error in VaultError.__subclasses__())})
)
