"""Who speaks of a file: links that lead to it, links that only have its name, plain mentions."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import apsw

from server.index.names import bare, key_of, link_name
from server.index.rows import Row
from server.index.schema import at_once, select
from server.index.sets import Sets
from server.index.text import phrase, shadow
from server.index.visible import Detours, Sight, Visible, Visibles
from server.markdown.mentions import excerpt, mentions, naming

LINE_CHARS = 160
Form = Literal["wiki", "markdown", "property", "embed", "mention"]

_TO = (
    "SELECT s.path, l.src, l.n, 0, l.target FROM links l JOIN notes s ON s.id=l.src "
    "WHERE l.dst=?1 AND l.src<>?1"
)
_NAMED = (
    "SELECT s.path, l.src, l.n, coalesce(l.dst, 0), l.target "
    "FROM links l JOIN notes s ON s.id=l.src WHERE l.name_lc=?2 AND l.dst IS NOT ?1 AND l.src<>?1"
)
_LINK = "SELECT kind, embed, sub, alias, line, pos, end FROM links WHERE src=? AND n=?"
_PLACE = "SELECT segment, offset, length, etag FROM notes WHERE id=?"
_MENTIONING = (
    "SELECT n.id, n.path FROM fts JOIN notes n ON n.id=fts.rowid WHERE fts MATCH ? AND n.id<>?"
)


@dataclass(frozen=True, slots=True)
class Backlink:
    """One line that speaks of a file. `by_name`: the link leads elsewhere or nowhere."""

    path: str
    line: int
    text: str
    kind: Form
    section: str | None = None
    alias: str | None = None
    by_name: bool = False


class _Found(NamedTuple):
    path: str
    src: int
    n: int
    name: int
    """0: the link leads here, 1: elsewhere, 2: nowhere."""
    target: str


class Backlinks(Visibles):
    """Questions about one file, answered from one moment of the index, as far as it may be seen."""

    def backlinks(
        self, target: Row, sight: Sight | None = None, *, limit: int, offset: int
    ) -> tuple[list[Backlink], int]:
        """A page of the links of other notes, those that resolve first, and how many there are."""
        with self._read() as db, at_once(db):
            sets = Sets(db, self._sets)
            seen, detours = self._visible(sets, sight), self._detours(sets, sight)
            links = _links_to(db, target, detours)
            found = [link for link in links if seen is None or seen.has(link.src)]
            found.sort(key=lambda link: (link.name > 0, link.path, link.n))
            page = found[offset : offset + limit]
            return list(self._lines(db, page)), len(found)

    def mentions(self, target: Row, sight: Sight | None, most: int) -> tuple[list[Backlink], bool]:
        """Lines that name the file without a link, by path, from at most `most` notes.

        True when there are more notes to look at.
        """
        names = [target.path.rpartition("/")[2]]
        with self._read() as db, at_once(db):
            if target.kind == "note":
                aliases = select(db, "SELECT alias FROM aliases WHERE note=?", target.id)
                names = [names[0][:-3], target.title or "", *(alias for (alias,) in aliases)]
            pattern = naming(names, _is_spaceless)
            if pattern is None:
                return [], False
            seen = self._visible(Sets(db, self._sets), sight)
            rows = _mentioning(db, names, target.id, seen)
            notes = sorted((path, note) for _, (note, path) in zip(range(most), rows, strict=False))
            found: list[Backlink] = []
            for path, note in notes:
                text = unicodedata.normalize("NFC", self._text(db, note))
                lines: dict[int, Backlink] = {}
                for start, end in mentions(text, pattern):
                    line = text.count("\n", 0, start) + 1
                    shown = excerpt(text, start, end, LINE_CHARS)
                    lines.setdefault(line, Backlink(path, line, shown, "mention"))
                found += lines.values()
            return found, next(rows, None) is not None

    def _lines(self, db: apsw.Connection, links: list[_Found]) -> Iterator[Backlink]:
        texts: dict[int, str] = {}
        for link in links:
            if link.src not in texts:
                texts[link.src] = self._text(db, link.src)
            kind, embed, sub, alias, line, start, end = select(db, _LINK, link.src, link.n)[0]
            text = excerpt(texts[link.src], start, end, LINE_CHARS)
            form: Form = "embed" if embed else kind
            yield Backlink(link.path, line, text, form, sub, alias, link.name > 0)

    def _text(self, db: apsw.Connection, note: int) -> str:
        """A note's text as its offsets count it; empty when the mirror lost it."""
        place: tuple[Any, ...] = select(db, _PLACE, note)[0]
        data = self._mirror.text(*place) or b""
        return data.decode(errors="replace").removeprefix("\ufeff")


def _links_to(db: apsw.Connection, target: Row, detours: Detours) -> Iterator[_Found]:
    key = key_of(target.path)
    name = link_name(key, target.kind) or key.rpartition("/")[2]
    own = bare(key) if target.kind == "note" else key
    yield from map(_Found._make, select(db, _TO, target.id))
    for detour in detours.to.get(target.id, ()):
        if detour.src != target.id:
            yield _Found(detour.path, detour.src, detour.n, 0, detour.target)
    for path, src, n, dst, spelled in select(db, _NAMED, target.id, name):
        meant = next((link.dst or 0 for link in detours.of.get(src, ()) if link.n == n), dst)
        if meant == target.id:
            continue
        # What leads to a namesake speaks of that one, unless it could as well mean this one.
        if not meant or f"/{own}".endswith("/" + bare(key_of(spelled).strip())):
            yield _Found(path, src, n, 1 if meant else 2, spelled)


def _mentioning(
    db: apsw.Connection, names: list[str], but: int, seen: Visible | None
) -> Iterator[tuple[int, str]]:
    wanted = " OR ".join(phrase(name) for name in names if any(map(str.isalnum, name)))
    for note, path in db.execute(_MENTIONING, (f"body : ({wanted})", but)):
        if seen is None or seen.has(note):
            yield note, path


@lru_cache(maxsize=1024)
def _is_spaceless(char: str) -> bool:
    """Whether the index splits runs of this character, as their script has no spaces."""
    return shadow(char) != char
