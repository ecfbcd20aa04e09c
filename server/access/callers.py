"""Who asks: the one place where a credential becomes a `Caller`."""

import hashlib
import hmac
import logging
from typing import Literal, Protocol

from server.access.tokens import TokenStore
from server.errors import Unauthorized
from server.models import Caller
from server.telemetry import log

_MOST_CHARACTERS = 8_192
"""Longer than any token of an identity provider that is meant for a header."""


class Verifier(Protocol):
    """Checks the tokens of an identity provider."""

    def name(self, token: str) -> str | None: ...

    def may_wait(self, token: str) -> bool: ...


class Callers:
    """Tells callers by what they bring, and never why somebody is none."""

    def __init__(
        self,
        auth: Literal["none", "token"],
        tokens: TokenStore,
        *,
        fixed: str | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        """`fixed` is a token that the settings name; `verifier` knows those of other parties."""
        self._auth = auth
        self._tokens = tokens
        self._fixed = _digest(fixed) if fixed else None
        self._verifier = verifier

    def authenticate(self, token: str | None, door: str = "mcp") -> Caller:
        """The caller that a bearer token stands for. Raises `Unauthorized`."""
        if self._auth == "none":
            return Caller("local" if door == "stdio" else "anyone", door=door, admin=True)
        caller = self._known(token, door) if token and len(token) <= _MOST_CHARACTERS else None
        if caller is None:
            raise Unauthorized(
                "A valid bearer token is needed.",
                "Send the header 'Authorization: Bearer <token>'."
                if door != "stdio"
                else "Start the server with a valid CALLER_TOKEN.",
            )
        return caller

    def may_wait(self, token: str | None) -> bool:
        """Whether to ask from a thread: the token may need keys that must be fetched first."""
        if self._auth == "none" or not token or not self._is_signed(token):
            return False
        return self._verifier is not None and self._verifier.may_wait(token)

    @property
    def is_closed(self) -> bool:
        """Whether nobody at all can come in as yet."""
        open_to_some = self._auth == "none" or self._fixed or self._verifier
        return not open_to_some and self._tokens.is_empty

    def tidy(self) -> None:
        """Write down when tokens were used; for a thread that nobody waits for."""
        try:
            self._tokens.save_uses()
        except OSError as error:
            log(logging.WARNING, "the last uses of tokens can't be written", why=error.strerror)

    def _known(self, token: str, door: str) -> Caller | None:
        if self._fixed is not None and hmac.compare_digest(_digest(token), self._fixed):
            return Caller("token", door=door, admin=True)
        if (own := self._tokens.find(token)) is not None:
            return Caller(own.name, door=door, grant=own.grant, admin=own.admin)
        if self._verifier is not None and self._is_signed(token):
            return self._vouched(self._verifier, token, door)
        return None

    @staticmethod
    def _vouched(verifier: Verifier, token: str, door: str) -> Caller | None:
        name = verifier.name(token)
        # No token of the store can have a colon in its name, so none can be taken for another.
        return None if name is None else Caller(f"jwt:{name}", door=door)

    @staticmethod
    def _is_signed(token: str) -> bool:
        return token.count(".") == 2


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="backslashreplace")).digest()
