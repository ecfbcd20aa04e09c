"""Who sent an HTTP request: its bearer token, or for admin pages the word of a trusted proxy.

A refusal says how to do better, as RFC 6750 and RFC 9728 have it, and never why a token is not valid.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from server.doors.guards import Origins, Refusal, bearer, tidied
from server.errors import PermissionDenied, VaultError
from server.models import Caller

Refused = Callable[[str, str, str | None], None]
"""Told of everyone who is not let in: the door, the reason and the peer's address."""
METADATA = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_LOGIN = "tailscale-user-login"


@dataclass(frozen=True, slots=True)
class Resource:
    """What this server tells clients about its tokens; `public_url` unless the request knows it."""

    name: str
    public_url: str | None = None
    issuer: str | None = None

    def base(self, scope: Scope, headers: Headers) -> str | None:
        """The address of this server, as far as a client has a use for it."""
        host = headers.get("host", "")
        if self.public_url is not None:
            return self.public_url
        return f"{scope.get('scheme', 'http')}://{host}" if _HOST.fullmatch(host) else None

    def document(self, url: str) -> dict[str, Any]:
        """The metadata of RFC 9728 for one address of this server."""
        servers = {"authorization_servers": [self.issuer]} if self.issuer else {}
        return {
            "resource": url,
            **servers,
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }


@dataclass(frozen=True, slots=True)
class Reception:
    """Lets callers in by their bearer tokens; every page but `/healthz` asks here."""

    authenticate: Callable[[str | None], Caller]
    origins: Origins
    resource: Resource | None = None
    """None: clients are not told where to get a token."""
    may_wait: Callable[[str | None], bool] = lambda _token: False
    """Whether a token's check may have to wait for the network."""
    refused: Refused | None = None
    _waiting: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(4))

    async def admit(self, scope: Scope, headers: Headers) -> Caller:
        """The caller. Raises `Refusal`."""
        token = bearer(headers)
        try:
            if self.may_wait(token):
                return await anyio.to_thread.run_sync(
                    self.authenticate, token, limiter=self._waiting
                )
            return self.authenticate(token)
        except VaultError as error:
            if self.refused is not None:
                peer = (scope.get("client") or (None,))[0]
                self.refused("mcp", str(error.details.get("reason", error.code)), peer)
            said = "invalid_token" if token is not None else None
            raise Refusal(error, challenge=self.challenge(scope, headers, said)) from None

    def is_welcome(self, headers: Headers) -> bool:
        """Whether the request would still be let in; without waiting for anything."""
        token = bearer(headers)
        try:
            return self.may_wait(token) or self.authenticate(token) is not None
        except VaultError:
            return False

    def challenge(self, scope: Scope, headers: Headers, error: str | None = None) -> str:
        """The value of `WWW-Authenticate`."""
        parts = [f'error="{error}"'] if error else []
        base = self._base(scope, headers)
        if base is not None:
            parts.append(f'resource_metadata="{base}{METADATA}/mcp"')
        return f"Bearer {', '.join(parts)}".rstrip()

    def routes(self) -> list[Route]:
        """The metadata for `/mcp` and for the server as a whole; for everyone."""

        async def tell(request: Request) -> Response:
            headers = tidied(request.scope)
            try:
                self.origins.check(headers)
            except Refusal as refusal:
                return refusal.response
            base = self._base(request.scope, headers)
            if self.resource is None or base is None:
                return Response(status_code=404)
            about = request.url.path.removeprefix(METADATA)
            return JSONResponse(self.resource.document(base + about))

        paths = (METADATA, f"{METADATA}/mcp") if self.resource is not None else ()
        return [Route(path, tell, methods=["GET"]) for path in paths]

    def _base(self, scope: Scope, headers: Headers) -> str | None:
        if self.resource is None or not self.origins.answers_to(headers):
            return None
        return self.resource.base(scope, headers)


@dataclass(frozen=True, slots=True)
class Administrators:
    """Lets people into the admin pages, and never into `/mcp`.

    Either a bearer token whose caller may administer, or a login that the trusted proxy vouches for.
    """

    reception: Reception
    may_administer: Callable[[Caller], bool]
    proxy: str | None = None
    logins: frozenset[str] = frozenset()

    async def admit(self, scope: Scope) -> Caller:
        """The administrator who sent a request. Raises `Refusal`."""
        headers = tidied(scope)
        # A login comes with every request of a browser: pages of others must not send any.
        self.reception.origins.check(headers)
        login = None if "authorization" in headers else self._login(scope, headers)
        if login is not None:
            if login not in self.logins:
                raise Refusal(_no_admin())
            return Caller(f"tailscale:{login}", door="admin", admin=True)
        caller = await self.reception.admit(scope, headers)
        if not self.may_administer(caller):
            challenge = self.reception.challenge(scope, headers, "insufficient_scope")
            raise Refusal(_no_admin(), challenge=challenge)
        return caller

    def _login(self, scope: Scope, headers: Headers) -> str | None:
        """Whom the proxy names; None when it is not the proxy that asks."""
        peer = (scope.get("client") or ("",))[0]
        if self.proxy is None or _address(peer) != _address(self.proxy):
            return None
        named = headers.getlist(_LOGIN)
        return ",".join(named).strip().lower() or None


def _no_admin() -> PermissionDenied:
    return PermissionDenied(
        "You may not administer this server.", "Ask the owner of the vault for access."
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
