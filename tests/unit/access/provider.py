"""An identity provider for tests: keys, the document that publishes them, tokens signed with them."""

import json
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

ISSUER, AUDIENCE = "https://id.example", "https://vault.example/mcp"


def key(algorithm: str, which: str = "") -> Any:
    """A private key; another one for every `which`."""
    return _made(algorithm, which)


@cache
def _made(algorithm: str, which: str) -> Any:
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 1024 if which == "weak" else 2048)


def published(algorithm: str, kid: str | None, which: str = "", **more: Any) -> dict[str, Any]:
    """The public half as an entry of a JWKS document."""
    made = get_default_algorithms()[algorithm].to_jwk(key(algorithm, which).public_key())
    entry: dict[str, Any] = json.loads(made)
    named = {} if kid is None else {"kid": kid}
    return {**entry, **named, **more}


def document(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def signed(
    algorithm: str = "ES256",
    kid: str | None = "k1",
    which: str = "",
    headers: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """A token that is valid but for what is given; a claim of None is left out."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600}
    body = {name: value for name, value in (usual | claims).items() if value is not None}
    head = {**({} if kid is None else {"kid": kid}), **(headers or {})}
    return jwt.encode(body, key(algorithm, which), algorithm, headers=head)
