"""The MCP bundle (.mcpb) for desktop clients: the server over stdio, started by uv.

uv, because half of the dependencies are compiled: with a vendored folder a bundle would run with one version of
Python on one kind of machine. So it carries the server and exact versions, and uv fetches what fits.
"""

import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from server import __version__

NAME = "obsidian-vault-mcp"
# What a file in the zip says about its age: the same bundle from the same sources.
_EPOCH = (2020, 1, 1, 0, 0, 0)
_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)(?: *; *([^\\]+?))? *\\?$", re.MULTILINE)
_MAIN = '''"""Where the bundle begins: the server over stdin and stdout."""

import sys

from server.cli import main

sys.exit(main(["stdio"]))
'''


def build_bundle(root: Path, dist: Path) -> Path:
    """Write the bundle into `dist`."""
    with (root / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    texts = {
        "manifest.json": json.dumps(manifest(project), ensure_ascii=False, indent=2) + "\n",
        "pyproject.toml": _project(project, (root / "requirements.lock").read_text("utf-8")),
        "main.py": _MAIN,
    }
    target = dist / f"{NAME}-{__version__}.mcpb"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in texts.items():
            _add(archive, name, text.encode())
        for name in ("LICENSE", *_sources(root)):
            _add(archive, name, (root / name).read_bytes())
    return target


def manifest(project: dict[str, Any]) -> dict[str, Any]:
    """What a client reads of the bundle: how to start it and what to ask the user for."""
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": "Obsidian vault",
        "version": __version__,
        "description": project["description"],
        "author": project["authors"][0],
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "main.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--quiet", "--directory", "${__dirname}", "main.py"],
                "env": {
                    "VAULT_PATH": "${user_config.vault}",
                    "WRITE_MODE": "${user_config.write_mode}",
                },
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        # The server pins folders with O_PATH, which other systems don't have.
        "compatibility": {
            "platforms": ["linux"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {
            "vault": {
                "type": "directory",
                "title": "Vault",
                "description": "The vault's folder, or a folder inside it.",
                "required": True,
            },
            "write_mode": {
                "type": "string",
                "title": "Writing",
                "description": "on; confirm (you approve each write); dry-run (shows only); off (reads only).",
                "required": False,
                "default": "on",
            },
        },
    }


def _project(project: dict[str, Any], lock: str) -> str:
    """The pyproject.toml that uv reads: exactly the versions of the lock."""
    pins = [
        f"{name}=={version}" + (f"; {marker}" if marker else "")
        for name, version, marker in _PIN.findall(lock)
    ]
    listed = "".join(f"    {json.dumps(pin)},\n" for pin in pins)
    return (
        f'[project]\nname = "{NAME}-bundle"\nversion = "{__version__}"\n'
        f'requires-python = "{project["requires-python"]}"\ndependencies = [\n{listed}]\n\n'
        "[tool.uv]\npackage = false\nenvironments = [\"sys_platform == 'linux'\"]\n"
    )


def _sources(root: Path) -> list[str]:
    """Every file of the server, the sample vault included."""
    return sorted(
        file.relative_to(root).as_posix()
        for file in (root / "server").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)
