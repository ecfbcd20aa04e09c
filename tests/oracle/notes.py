"""Notes as the raw files have them; every question is answered by looking at each of them."""

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from server.markdown.note import parse

from .values import compares, moment_of
from .words import Unit, holds, units


@dataclass(frozen=True)
class RawNote:
    path: str
    mtime_ns: int
    title: str
    tags: tuple[str, ...]
    properties: tuple[tuple[str, Any], ...]
    texts: tuple[list[Unit], ...]

    def has_text(self, words: str, prefix: bool = False) -> bool:
        asked = units(words)
        return any(holds(text, asked, prefix) for text in self.texts)

    def has_tag(self, tag: str) -> bool:
        wanted = same(tag.removeprefix("#"))
        return any(f"{own}/".startswith(f"{wanted}/") for own in self.tags)

    def has_property(self, key: str) -> bool:
        return any(own == same(key) for own, _ in self.properties)

    def passes(self, key: str, op: str, asked: Any) -> bool:
        """An operator of the contract; a list passes when an item does."""
        if op == "exists":
            return self.has_property(key) is asked
        if op == "ne":
            return not self.passes(key, "eq", asked)
        if op == "in":
            return any(self.passes(key, "eq", one) for one in asked)
        values = [value for own, value in self.properties if own == same(key)]
        items = [item for value in values for item in _items(value)]
        return any(compares(item, op, asked) for item in items)

    def path_has(self, part: str) -> bool:
        return same(part) in same(self.path)

    def file_has(self, part: str) -> bool:
        return same(part) in same(self.path.rpartition("/")[2])

    def is_below(self, folder: str) -> bool:
        return f"{same(self.path)}/".startswith(f"{same(folder)}/") if folder else True

    @property
    def created_ns(self) -> int:
        said = dict(self.properties)
        for key in ("created", "date"):
            if (moment := moment_of(said.get(key))) is not None:
                return int(datetime.fromisoformat(f"{moment}+00:00").timestamp()) * 10**9
        return self.mtime_ns


def same(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) and value else [value]


def read_vault(folder: Path) -> list[RawNote]:
    """Every note of a folder."""
    return [_read(file, folder) for file in sorted(folder.rglob("*.md"))]


def _read(file: Path, folder: Path) -> RawNote:
    text = file.read_bytes().decode(errors="replace").removeprefix("\ufeff")
    note = parse(text, file.name)
    columns = (
        f"{note.title}\n{file.stem}",
        "\n".join(note.aliases),
        "\n".join(heading.text for heading in note.headings),
        "\n".join(note.tags),
        text,
    )
    return RawNote(
        unicodedata.normalize("NFC", file.relative_to(folder).as_posix()),
        file.stat().st_mtime_ns,
        note.title,
        tuple(same(tag) for tag in note.tags),
        tuple((same(str(key)), value) for key, value in note.frontmatter.properties.items()),
        tuple(units(column) for column in columns),
    )
