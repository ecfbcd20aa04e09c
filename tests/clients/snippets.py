"""The configurations of deploy/clients, with the variables that each client documents filled in."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy/clients"
URL = "http://127.0.0.1:1065"
COMMAND = "/path/to/obsidian-vault-mcp/.venv/bin/vault-mcp"
VAULT = "/path/to/vault"
TOKEN = "Bearer PUT-THE-TOKEN-HERE"
_VARIABLES = {
    # `${NAME}` and `${NAME:-default}`
    "claude-code": re.compile(r"\$\{(?P<name>[A-Z_]+)(?::-(?P<default>[^}]*))?\}"),
    "cursor": re.compile(r"\$\{env:(?P<name>[A-Z_]+)\}(?P<default>)"),
    "vscode": re.compile(r"\$\{input:(?P<name>[a-z-]+)\}(?P<default>)"),
}


@dataclass(frozen=True)
class Snippet:
    """One file: whose it is, and how it reaches the server."""

    client: str
    transport: str
    path: Path

    def __str__(self) -> str:
        return f"{self.client}-{self.transport}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def entry(self, text: str | None = None) -> dict[str, Any]:
        """What it says about the server."""
        servers = json.loads(text or self.text)[
            "servers" if self.client == "vscode" else "mcpServers"
        ]
        found: dict[str, Any] = servers["obsidian-vault"]
        assert len(servers) == 1
        return found

    def filled(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The same, with variables replaced as the client does it, and nothing left to replace."""

        def value(found: re.Match[str]) -> str:
            return given.get(found["name"]) or found["default"] or f"<no {found['name']}>"

        text = self.text
        if self.client in _VARIABLES:
            text = _VARIABLES[self.client].sub(value, text)
            assert "${" not in text, "a variable that the client doesn't know"
        return self.entry(text)


SNIPPETS = [
    Snippet(path.parents[1].name, path.parent.name, path) for path in sorted(FOLDER.rglob("*.json"))
]
HTTP = [one for one in SNIPPETS if "url" in one.entry()]
STDIO = [one for one in SNIPPETS if one.transport == "stdio"]
