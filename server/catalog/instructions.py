"""What a model is told about this server before it asks anything: the vault as this caller sees it."""

import json
from collections.abc import Sequence

from server.catalog.table import INSTRUCTIONS

MOST_CHARS = 1_200
"""About 300 tokens: every conversation pays for them."""
_FOLDERS = 8
_NAME = 30
_MODES = {
    "confirm": "Writes wait until a person approves them.",
    "dry-run": "Writes are only shown as a diff, never made.",
    "off": "Nothing can be written.",
}


def instructions(folders: Sequence[tuple[str, int]], write_mode: str) -> str:
    """The whole text; `folders` are those in the root with their notes, the fullest first."""
    parts = [INSTRUCTIONS]
    if write_mode in _MODES:
        parts.append(_MODES[write_mode])
    # A folder's name is somebody's text: quoted, short, and without line breaks.
    named = [
        f"{json.dumps(name, ensure_ascii=False)} {count}"
        for name, count in folders
        if len(name) <= _NAME and name.isprintable()
    ][:_FOLDERS]
    room = MOST_CHARS - len(" ".join(parts)) - len(" Folders by notes: .")
    while named and len(", ".join(named)) > room:
        named.pop()
    if named:
        parts.append(f"Folders by notes: {', '.join(named)}.")
    return " ".join(parts)
