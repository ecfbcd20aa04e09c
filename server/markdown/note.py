"""A note's text as data. Pure, and total: every text is a note, whatever is wrong with it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from server.markdown.elements import Block, Heading, Link, LinkKind, Task
from server.markdown.frontmatter import Frontmatter, split
from server.markdown.links import WIKI, wiki
from server.markdown.scan import Scan

_SPACE = re.compile(r"\s")

__all__ = ["Block", "Heading", "Link", "LinkKind", "Note", "Task", "parse"]


@dataclass(frozen=True, slots=True)
class Note:
    """What the index and the answers know of a note. Elements stand in the order of the text."""

    title: str
    frontmatter: Frontmatter
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    headings: tuple[Heading, ...]
    links: tuple[Link, ...]
    blocks: tuple[Block, ...]
    tasks: tuple[Task, ...]
    warnings: tuple[str, ...]


def parse(text: str, name: str) -> Note:
    """Read a note; `name` is its file's name. Never raises."""
    frontmatter = split(text)
    scan = Scan(text, frontmatter.body or text.startswith("\ufeff"))
    tags: dict[str, str] = {}
    aliases: dict[str, None] = {}
    for key, value in frontmatter.properties.items():
        meaning = key.lower()
        if meaning in ("tags", "tag"):
            for tag in _property_tags(value):
                tags.setdefault(tag.casefold(), tag)
        elif meaning in ("aliases", "alias"):
            aliases.update(dict.fromkeys(_property_aliases(value)))
    for folded, tag in scan.tags.items():
        tags.setdefault(folded, tag)
    if frontmatter.linked:
        scan.links[:0] = _property_links(text, frontmatter)
    return Note(
        _title(frontmatter, scan.headings, name),
        frontmatter,
        tuple(tags.values()),
        tuple(aliases),
        tuple(scan.headings),
        tuple(scan.links),
        tuple(scan.blocks),
        tuple(scan.tasks),
        (frontmatter.warning,) if frontmatter.warning else (),
    )


def _title(frontmatter: Frontmatter, headings: list[Heading], name: str) -> str:
    title = frontmatter.properties.get("title")
    if isinstance(title, str) and (title := title.strip()):
        return title
    for heading in headings:
        if heading.level == 1 and heading.text:
            return heading.text
    return name[:-3] if name.lower().endswith(".md") else name


def _property_tags(value: Any) -> Iterator[str]:
    """A list of tags, or one text; old notes put commas between them. Spaces make no tag."""
    for item in value if isinstance(value, list) else (value,):
        text = item.isoformat() if isinstance(item, date) else item
        for part in text.split(",") if isinstance(text, str) else ():
            tag = part.strip().removeprefix("#").strip("/")
            if tag and not tag.isdecimal() and not _SPACE.search(tag):
                yield tag


def _property_aliases(value: Any) -> Iterator[str]:
    """A list of names, or one text; old notes put commas between them."""
    items = value.split(",") if isinstance(value, str) else value
    for item in items if isinstance(items, list) else (items,):
        if item is not None and not isinstance(item, (list, dict)) and (alias := str(item).strip()):
            yield alias


def _property_links(text: str, frontmatter: Frontmatter) -> Iterator[Link]:
    """The links in properties: named by the value, placed by the source it was written as."""
    line, counted = 1, 0
    for start, end, value in frontmatter.linked:
        for meant, source in zip(
            WIKI.finditer(value), WIKI.finditer(text, start, end), strict=False
        ):
            at = source.start()
            line += text.count("\n", counted, at)
            counted = at
            embed = text[at - 1] == "!"
            if link := wiki(meant, "property", embed, line=line, at=at, end=source.end()):
                yield link
