"""How the index compares paths and names: NFC and caseless."""

from server.models import Kind, path_key


def key_of(text: str) -> str:
    """The form in which two spellings of one path, name or tag are equal."""
    return path_key(text)


def folder_of(path: str) -> str:
    """The folder that holds `path`; "" is the vault itself."""
    return path.rpartition("/")[0]


def bare(key: str) -> str:
    """A key without `.md`: links name notes with or without it."""
    return key.removesuffix(".md")


def link_name(key: str, kind: Kind) -> str | None:
    """The last part of a file's key as a link would ask for it; folders can't be linked."""
    if kind == "folder":
        return None
    name = key.rpartition("/")[2]
    return bare(name) if kind == "note" else name


def target_name(target: str) -> str | None:
    """The name a link's target asks for, comparable with `link_name`; None when it names none."""
    return bare(key_of(target).rstrip().rpartition("/")[2]) or None
