"""The vault's notes and folders as resources: their templates, and what their URIs mean.

A URI is `vault://note/` or `vault://folder/` and a path, percent-encoded. Clients that fill in a
template leave some characters as they are, so everything behind the prefix is the path.
"""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from server.errors import InvalidPath
from server.models import NotePath
from server.vault.paths import parse_folder, parse_path

Kind = Literal["note", "folder"]

MARKDOWN = "text/markdown"
_LONGEST = 8 * 1024


@dataclass(frozen=True, slots=True)
class Template:
    """A family of resources with one variable, `path`."""

    kind: Kind
    name: str
    title: str
    uri: str
    description: str
    mime: str | None = None


TEMPLATES: tuple[Template, ...] = (
    Template(
        "note",
        "note",
        "Note or attachment",
        "vault://note/{+path}",
        "A note as markdown, or an attachment, by its path in the vault.",
    ),
    Template(
        "folder",
        "folder",
        "Folder",
        "vault://folder/{+path}",
        "What is in a folder of the vault; an empty path is the vault itself.",
        MARKDOWN,
    ),
)


def uri_of(kind: Kind, path: str) -> str:
    """The URI of a note or folder."""
    return f"vault://{kind}/{quote(path, safe='/')}"


def parse_uri(uri: str) -> tuple[Kind, NotePath]:
    """What a URI names. Raises `InvalidPath`, `PathNotAllowed`."""
    for template in TEMPLATES:
        prefix = f"vault://{template.kind}/"
        if uri.startswith(prefix) and len(uri) <= _LONGEST:
            raw = _decoded(uri.removeprefix(prefix))
            return template.kind, parse_folder(raw) if template.kind == "folder" else parse_path(
                raw
            )
    raise InvalidPath(
        "That is no resource of this vault.", "URIs begin with vault://note/ or vault://folder/."
    )


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise InvalidPath("The URI is not UTF-8.", "Percent-encode the path as UTF-8.") from None
