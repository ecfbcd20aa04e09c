"""JSON Web Tokens of an identity provider: checked against its public keys, named by one claim.

Only signatures that need a private key count: a shared secret would let whoever can check a token
make one. Imported only where an issuer is configured, because cryptography is slow to load.
"""

import json
import logging
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol

import jwt
from jwt import PyJWK

from server.access.files import SharedFile, Stamp
from server.telemetry import log

LEEWAY = 30
"""Seconds that the provider's clock and ours may differ."""

_ALGORITHMS: Final[Mapping[str, frozenset[str]]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA"}),
}
_LEAST_RSA_BITS = 2048
_MOST_KEYS_BYTES = 256 * 1024
_FETCH_SECONDS = 5.0
_PAUSE_SECONDS = 60.0
"""Between two fetches, whatever unknown keys are asked for."""
_AGE_SECONDS = 600.0
"""After this the keys are fetched again: one that was withdrawn must not count for ever."""
_MOST_NAME = 128


class _NotValid(Exception):
    """A token that is not to be believed; the reason is for the log alone."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key and the ways in which it may have signed."""

    kid: str | None
    algorithms: frozenset[str]
    public: Any


class Keys(Protocol):
    """The provider's public keys, by key id."""

    def find(self, kid: str | None) -> Key | None:
        """The key, or the only one there is when a token names none."""

    def may_wait(self, kid: str | None) -> bool:
        """Whether finding it may take as long as the network does."""


class Verifier:
    """Says whom a token is about."""

    def __init__(self, issuer: str, audience: str, keys: Keys, claim: str = "sub") -> None:
        self._issuer = issuer
        self._audience = audience
        self._keys = keys
        self._claim = claim

    def name(self, token: str) -> str | None:
        """The value of the claim that names the caller; None when the token is not valid."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            claims = jwt.decode(
                token,
                self._key(header, algorithm).public,
                algorithms=[str(algorithm)],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
            return self._named(claims)
        except (_NotValid, jwt.PyJWTError, ValueError, TypeError) as error:
            log(logging.DEBUG, "a JWT was refused", why=str(error) or type(error).__name__)
            return None

    def may_wait(self, token: str) -> bool:
        """Whether `name` may take as long as the network does."""
        try:
            return self._keys.may_wait(_kid(jwt.get_unverified_header(token)))
        except (_NotValid, jwt.PyJWTError, ValueError, TypeError):
            return False

    def _key(self, header: Mapping[str, Any], algorithm: Any) -> Key:
        if not any(algorithm in usual for usual in _ALGORITHMS.values()) or "crit" in header:
            raise _NotValid("its algorithm is not accepted")
        key = self._keys.find(_kid(header))
        if key is None or algorithm not in key.algorithms:
            raise _NotValid("there is no such key")
        return key

    def _named(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self._claim)
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME or not name.isprintable():
            raise _NotValid(f"no name in {self._claim}")
        return name


class KeyFile:
    """Keys from a file on local disk, read again whenever it changes."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError` or `ValueError` when there are no keys in it."""
        self._file = SharedFile(path)
        self._stamp: Stamp | None = self._file.stamp
        self._keys = parse_keys(path.read_bytes())

    def find(self, kid: str | None) -> Key | None:
        try:
            stamp = self._file.stamp
            if stamp != self._stamp:
                data = self._file.read()
                self._stamp = stamp
                self._keys = parse_keys(data or b"")
        except (OSError, ValueError) as error:
            log(logging.ERROR, "JWT_JWKS can't be used; the old keys stay", why=str(error))
        return _pick(self._keys, kid)

    def may_wait(self, kid: str | None) -> bool:  # noqa: ARG002 - a file is at hand
        return False


class KeyUrl:
    """Keys from the provider: fetched when they are needed, and then not again for a while."""

    def __init__(
        self,
        url: str,
        *,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._fetch = fetch or fetch_keys
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Mapping[str | None, Key] = {}
        self._tried = -_AGE_SECONDS
        self._fetched = -_AGE_SECONDS

    def find(self, kid: str | None) -> Key | None:
        if self.may_wait(kid):
            with self._lock:
                # Others waited for the same: one of them has fetched.
                if self.may_wait(kid):
                    self._refresh()
        return _pick(self._keys, kid)

    def may_wait(self, kid: str | None) -> bool:
        now = self._clock()
        wanted = _pick(self._keys, kid) is None or now - self._fetched >= _AGE_SECONDS
        return wanted and now - self._tried >= _PAUSE_SECONDS

    def _refresh(self) -> None:
        try:
            self._keys = parse_keys(self._fetch(self._url))
            self._fetched = self._clock()
        except (OSError, ValueError, HTTPException) as error:
            log(logging.ERROR, "JWT_JWKS can't be fetched; the old keys stay", why=str(error))
        finally:
            self._tried = self._clock()


def parse_keys(data: bytes) -> Mapping[str | None, Key]:
    """The public signing keys of a JWKS document, others left out. Raises `ValueError`."""
    try:
        listed = json.loads(data)["keys"]
        keys = [_usable(entry) for entry in listed]
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("no JWKS document") from None
    found = {key.kid: key for key in keys if key is not None}
    if not found:
        raise ValueError("no usable key in the JWKS document")
    return found


def fetch_keys(url: str) -> bytes:
    """A JWKS document over https, bounded in time and size. Raises `OSError` or `ValueError`."""
    if not url.startswith("https://"):
        raise ValueError("only https")
    deadline = time.monotonic() + _FETCH_SECONDS
    opener = urllib.request.build_opener(
        _NoRedirect, urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
    with opener.open(request, timeout=_FETCH_SECONDS) as response:
        data = bytearray()
        while chunk := response.read1(65536):
            data += chunk
            if len(data) > _MOST_KEYS_BYTES:
                raise ValueError("the JWKS document is too large")
            if time.monotonic() > deadline:
                raise TimeoutError("the JWKS document took too long")
        return bytes(data)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The keys come from the configured place or not at all."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _usable(entry: Mapping[str, Any]) -> Key | None:
    usual = _ALGORITHMS.get(entry.get("kty", ""))
    if usual is None or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    said = entry.get("alg")
    try:
        loaded = PyJWK.from_dict(dict(entry))
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if entry["kty"] == "RSA" and loaded.key.key_size < _LEAST_RSA_BITS:
        return None
    return Key(loaded.key_id, usual & {said} if said else usual, loaded.key)


def _pick(keys: Mapping[str | None, Key], kid: str | None) -> Key | None:
    if kid is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(kid)


def _kid(header: Mapping[str, Any]) -> str | None:
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise _NotValid("its key id is no text")
    return kid
