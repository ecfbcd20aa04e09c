"""The one path validator: what an agent may name, and nothing else becomes a `NotePath`.

Pure text in, pure text out. Whether a path leaves the vault through a symbolic link is decided
where it is opened (`files.py`), because only the disk knows.
"""

import unicodedata

from server.errors import InvalidPath, PathNotAllowed
from server.models import NotePath

MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 240
"""Below the usual 255, so that a temporary name beside the note still fits."""
UNLINKABLE = '*"\\<>:|?#^[]'
"""Characters that Obsidian can't have in a name, or can't link to."""
DEVICES = frozenset(
    {
        *("CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"),
        *(f"{port}{number}" for port in ("COM", "LPT") for number in "123456789¹²³"),
    }
)
"""Names that Windows keeps for devices, whatever their ending: no sync can bring them there."""


def parse_path(raw: str, *, creating: bool = False) -> NotePath:
    """Validate a file's path. Raises `InvalidPath` or `PathNotAllowed`."""
    path = _normalised(raw)
    if not path:
        raise InvalidPath("The path is empty.", "Give a path inside the vault, like 'devlog/a.md'.")
    for name in path.split("/"):
        _check_name(name, creating)
    return NotePath(path)


def parse_note_path(raw: str, *, creating: bool = False) -> NotePath:
    """`parse_path` for a note: the name must end in `.md`."""
    path = parse_path(raw, creating=creating)
    if not path.lower().endswith(".md"):
        raise InvalidPath(f"{path!r} is not a note.", f"Notes end in .md: try {path + '.md'!r}.")
    return path


def parse_folder(raw: str | None) -> NotePath:
    """Validate a folder's path; None, '' and '/' are the vault's root, written ''."""
    path = (raw or "").rstrip("/")
    return parse_path(path) if path else NotePath("")


def is_hidden(name: str) -> bool:
    """Dot-files and dot-folders are Obsidian's, git's or ours, never an agent's."""
    return name.startswith(".")


def _normalised(raw: str) -> str:
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidPath("The path is not valid Unicode.", "Send it as plain UTF-8.") from None
    path = unicodedata.normalize("NFC", raw)
    if len(path.encode("utf-8")) > MAX_PATH_BYTES:
        raise InvalidPath(
            f"The path is longer than {MAX_PATH_BYTES} bytes.",
            "Use a shorter name or fewer folders.",
        )
    # Nothing that is printable is a control character, and most paths are.
    if not path.isprintable() and any(
        unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in path
    ):
        raise InvalidPath("The path has a control character in it.", "Remove it.")
    if "\\" in path:
        raise InvalidPath("The path has a backslash in it.", "Separate folders with '/'.")
    if path.startswith(("/", "~")) or (path[1:2] == ":" and path[:1].isalpha()):
        raise InvalidPath(
            "The path is absolute.", "Paths are relative to the vault's root, like 'devlog/a.md'."
        )
    return path


def _check_name(name: str, creating: bool) -> None:
    if name == "":
        raise InvalidPath("The path has an empty folder name in it.", "Remove the extra '/'.")
    if name in (".", ".."):
        raise InvalidPath(
            f"The path has {name!r} in it.", "Name the note from the vault's root, without dots."
        )
    if is_hidden(name):
        raise PathNotAllowed(
            "Names that begin with a dot are not reachable here.",
            "They belong to Obsidian, git or the server; use another name.",
        )
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        raise InvalidPath(
            f"A name in the path is longer than {MAX_NAME_BYTES} bytes.", "Shorten it."
        )
    if creating:
        check_new_name(name)


def check_new_name(name: str) -> None:
    """Refuse a name for a new file or folder that Obsidian or another system can't live with."""
    bad = sorted({char for char in name if char in UNLINKABLE})
    if bad:
        raise InvalidPath(
            f"A new name can't contain {' '.join(bad)}",
            f"Obsidian can't link to names with any of {UNLINKABLE}: leave them out.",
        )
    if name != name.strip() or name.endswith("."):
        raise InvalidPath(
            "A new name can't begin or end with a space, or end with a dot.", "Trim the name."
        )
    stem = name.partition(".")[0].strip()
    if stem.upper() in DEVICES:
        raise InvalidPath(
            f"A new name can't be {stem!r}: Windows keeps it for a device.", "Choose another name."
        )
