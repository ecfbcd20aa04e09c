"""The pages, and what can be read off them: blocks of code, words in backticks, links, headings."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<mark>[a-z-]+) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>[a-z]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Code between fences; `mark` is the comment before it, which no reader sees."""

    language: str
    code: str
    mark: str | None


@dataclass(frozen=True)
class Page:
    """One Markdown file of the repository."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """Everything but the blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> Iterator[Block]:
        """Every block of code, without the indentation of a list that it may be in."""
        for found in _FENCE.finditer(self.text):
            lines = found["code"].splitlines()
            code = "\n".join(line.removeprefix(found["indent"]) for line in lines) + "\n"
            yield Block(found["language"], code, found["mark"])

    def words(self) -> list[str]:
        """What stands in backticks."""
        return re.findall(r"`([^`\n]+)`", self.prose)

    def links(self) -> list[str]:
        """Where its links and pictures lead, apart from the web."""
        prose = re.sub(r"`[^`\n]*`", "", self.prose)
        return [to for to in _LINK.findall(prose) if not re.match(r"[a-z]+:", to)]

    def anchors(self) -> set[str]:
        """What a link can point at, as GitHub makes it of the headings."""
        found: set[str] = set()
        for heading in _HEADING.findall(self.prose):
            anchor = _anchor(heading)
            number = 0
            while (unique := f"{anchor}-{number}" if number else anchor) in found:
                number += 1
            found.add(unique)
        return found


def _anchor(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    kept = (char for char in text if char in " -_" or unicodedata.category(char)[0] in "LN")
    return "".join(kept).replace(" ", "-")


PAGES = [
    Page(path)
    for path in [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "deploy").rglob("*.md")),
    ]
]


def page(name: str) -> Page:
    """One page by its path."""
    return Page(ROOT / name)
