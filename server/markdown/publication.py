"""A decision record as a repository wants it: plain markdown, without what only a vault knows. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from server.markdown.frontmatter import render
from server.markdown.note import Link, Note

_KEPT = ("status", "date")
_CODE_OR_COMMENT = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=fence)[^\n]*$|\Z)|(?P<ticks>`+)[^\n]*?(?P=ticks)"
    r"|(?P<comment>[ \t]*%%.*?(?:%%|\Z))",
    re.DOTALL | re.MULTILINE,
)
_BLOCK = re.compile(r"[ \t]*\^[A-Za-z0-9-]+")


def published(text: str, note: Note, address: Callable[[str], str | None]) -> str:
    """The text for a repository; `address` is where a link's target is there, or None."""
    edits = [
        (link.start, link.end, _spelled(link, address))
        for link in note.links
        if link.kind != "property"
    ]
    for block in note.blocks:
        start = len(text[: block.start].rstrip(" \t"))
        if found := _BLOCK.match(text, start):
            edits.append((start, found.end(), ""))
    body = text
    for start, end, words in sorted(edits, reverse=True):
        body = body[:start] + words + body[end:]
    body = body[note.frontmatter.body :].replace("\r\n", "\n").removeprefix("\ufeff")
    body = _CODE_OR_COMMENT.sub(lambda found: "" if found["comment"] else found[0], body)
    return f"{_head(note.frontmatter.properties)}{body.strip()}\n"


def _head(properties: Mapping[str, Any]) -> str:
    said = {key.lower(): value for key, value in properties.items()}
    return render({key: said[key] for key in _KEPT if said.get(key) is not None})


def _spelled(link: Link, address: Callable[[str], str | None]) -> str:
    name = link.target.rpartition("/")[2].removesuffix(".md")
    shown = link.alias or " > ".join(part for part in (name, link.section) if part)
    place = address(link.target) if link.target else None
    if place is None:
        return shown
    escaped = shown.replace("[", "\\[").replace("]", "\\]")
    return f"[{escaped}]({place})"
