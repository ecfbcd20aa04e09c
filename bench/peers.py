"""The servers a user could pick instead: how each is installed, started and asked."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.server import Unmeasured
from server import __version__

Call = tuple[str, dict[str, Any]]

_LIMIT = 20
_INSTALL_SECONDS = 300
_NODE = "node@24"


@dataclass(frozen=True, slots=True)
class Peer:
    """A server over stdio, and its words for what all of them do."""

    name: str
    search: Callable[[str], Call]
    read: Callable[[str], Call]
    append: Callable[[str, str], Call]
    backlinks: Callable[[str], Call] | None = None
    command: Callable[[Path], Sequence[str]] = lambda _vault: ()
    """Installs what is missing, then tells how to start it over a vault."""
    release: Callable[[], str] = lambda: ""
    environ: Callable[[Path, Path], Mapping[str, str]] = field(default=lambda _vault, _state: {})


def _own(_vault: Path) -> Sequence[str]:
    return [sys.executable, "-m", "server", "stdio"]


def _npm(package: str, script: str) -> Callable[[Path], list[str]]:
    def command(vault: Path) -> list[str]:
        folder = _cache() / "npm"
        folder.mkdir(parents=True, exist_ok=True)
        entry = folder / "node_modules" / package / script
        node = folder / "node_modules" / "node" / "bin" / "node"
        if not (entry.exists() and node.exists()):
            _install(
                ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix",
                 str(folder), _NODE, f"{package}@latest"]
            )  # fmt: skip
        if not (entry.exists() and node.exists()):
            raise Unmeasured(f"{package} or {_NODE} did not install")
        return [str(node), str(entry), *_NPM_ARGUMENTS[package](vault)]

    return command


_NPM_ARGUMENTS: Mapping[str, Callable[[Path], list[str]]] = {
    "@bitbonsai/mcpvault": lambda vault: [str(vault)],
    "obsidian-mcp": lambda vault: ["serve", "--vault", f"notes={vault}"],
}


def _pypi(package: str) -> Callable[[Path], list[str]]:
    def command(_vault: Path) -> list[str]:
        folder = _cache() / "python"
        script = folder / "bin" / package
        if not script.exists():
            _install([sys.executable, "-m", "venv", str(folder)])
            _install([str(folder / "bin" / "pip"), "install", "--quiet", package])
        return [str(script), "serve"]

    return command


def _npm_release(package: str) -> str:
    manifest = _cache() / "npm" / "node_modules" / package / "package.json"
    return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


def _pypi_release(package: str) -> str:
    pattern = f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info"
    found = sorted((_cache() / "python").glob(pattern))
    return found[-1].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "vault-mcp-bench"


def _install(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unmeasured(f"not installed: {error}") from None
    if done.returncode:
        raise Unmeasured(f"not installed: {Path(command[0]).name} ended with {done.returncode}")


OURS = Peer(
    "vault-mcp",
    search=lambda query: ("search_notes", {"mode": "full_text", "query": query, "limit": _LIMIT}),
    read=lambda path: ("note_read", {"path": path}),
    append=lambda path, text: ("note_upsert", {"path": path, "content": text}),
    backlinks=lambda path: ("backlinks_search", {"path": path}),
    command=_own,
    release=lambda: __version__,
    environ=lambda vault, state: {
        "VAULT_PATH": str(vault),
        "STATE_DIR": str(state),
        "CALLS_PER_SECOND": "0",
        "CONCURRENT_CALLS": "0",
        "WRITE_MB_PER_HOUR": "0",
    },
)

PEERS: Sequence[Peer] = (
    Peer(
        "@bitbonsai/mcpvault",
        search=lambda query: ("search_notes", {"query": query, "limit": _LIMIT}),
        read=lambda path: ("read_note", {"path": path}),
        append=lambda path, text: (
            "write_note",
            {"path": path, "content": f"\n{text}", "mode": "append"},
        ),
        command=_npm("@bitbonsai/mcpvault", "dist/server.js"),
        release=partial(_npm_release, "@bitbonsai/mcpvault"),
    ),
    Peer(
        "obsidian-mcp",
        search=lambda query: (
            "obsidian_search_vault",
            {"vault": "notes", "query": query, "limit": _LIMIT},
        ),
        read=lambda path: ("obsidian_read_note", {"vault": "notes", "path": path}),
        append=lambda path, text: (
            "obsidian_edit_note",
            {"vault": "notes", "path": path, "operation": "append", "content": f"\n{text}"},
        ),
        command=_npm("obsidian-mcp", "dist/main.js"),
        release=partial(_npm_release, "obsidian-mcp"),
    ),
    Peer(
        "markdown-vault-mcp",
        search=lambda query: ("search", {"query": query, "mode": "keyword", "limit": _LIMIT}),
        read=lambda path: ("read", {"path": path}),
        append=lambda path, text: ("append", {"path": path, "content": f"\n{text}"}),
        backlinks=lambda path: ("get_backlinks", {"path": path, "limit": _LIMIT}),
        command=_pypi("markdown-vault-mcp"),
        release=partial(_pypi_release, "markdown-vault-mcp"),
        environ=lambda vault, state: {
            "MARKDOWN_VAULT_MCP_SOURCE_DIR": str(vault),
            "MARKDOWN_VAULT_MCP_INDEX_PATH": str(state / "index.db"),
        },
    ),
)
