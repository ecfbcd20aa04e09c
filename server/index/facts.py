"""What a note's bytes say, as rows ready to be stored. Pure: bytes in, data out."""

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from server.index.names import key_of, target_name
from server.index.text import shadow
from server.markdown.frontmatter import jsonable
from server.markdown.note import Note, parse
from server.telemetry import LOG

Values = tuple[Any, ...]

_LETTERS = bytes(ord(" ") if chr(code).isspace() else ord("x") for code in range(256))
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of a note, each without its note's id. `text` is None when nothing was indexed."""

    title: str
    words: int = 0
    warning: str | None = None
    text: Values | None = None
    tags: tuple[Values, ...] = ()
    props: tuple[Values, ...] = ()
    aliases: tuple[Values, ...] = ()
    headings: tuple[Values, ...] = ()
    blocks: tuple[Values, ...] = ()
    tasks: tuple[Values, ...] = ()
    links: tuple[Values, ...] = ()


def derive(
    path: str, data: bytes, max_bytes: int, read_note: Callable[[str, str], Note] = parse
) -> Facts:
    """Read a note, by what does as `parse` does. What can't be read as text becomes a warning, never
    an error.
    """
    file = path.rpartition("/")[2]
    name = file[: -len(".md")]
    if len(data) > max_bytes:
        return Facts(name, warning=f"larger than {max_bytes} bytes: its text is not indexed")
    if b"\0" in data:
        return Facts(name, warning="binary content: its text is not indexed")
    text = data.decode(errors="replace").removeprefix("\ufeff")
    try:
        return _facts(read_note(text, file), text, name)
    except Exception:  # noqa: BLE001 - one odd note must not keep the others out of the index
        LOG.exception("a note could not be parsed")
        return Facts(
            name,
            _words(text),
            "could not be parsed: only its words are indexed",
            (shadow(name), "", "", "", shadow(text)),
        )


def _facts(note: Note, text: str, name: str) -> Facts:
    title = _clean(note.title)
    tags = [_clean(tag) for tag in note.tags]
    aliases = [_clean(alias) for alias in note.aliases]
    titles = title if title == name else f"{title}\n{name}"
    headings = "\n".join(heading.text for heading in note.headings)
    columns = (titles, "\n".join(aliases), headings, "\n".join(tags), text)
    return Facts(
        title=title,
        words=_words(text),
        warning="; ".join(map(_clean, note.warnings)) or None,
        text=tuple(map(shadow, columns)),
        tags=_tags(tags),
        props=tuple((n, *row) for n, row in enumerate(_props(note.frontmatter.properties))),
        aliases=tuple((n, key_of(alias), alias) for n, alias in enumerate(aliases)),
        headings=tuple((n, h.level, h.text, h.line, h.start) for n, h in enumerate(note.headings)),
        blocks=tuple((n, b.id, b.line, b.start) for n, b in enumerate(note.blocks)),
        tasks=tuple((n, t.mark, t.text, t.line, t.done) for n, t in enumerate(note.tasks)),
        links=tuple(_links(note)),
    )


def _words(text: str) -> int:
    """How many words there are: `len(text.split())`, but without making them where that is easy."""
    if not text.isascii():
        return len(text.split())
    return (b" " + text.encode().translate(_LETTERS)).count(b" x")


def _links(note: Note) -> Iterator[Values]:
    for n, link in enumerate(note.links):
        target = _clean(link.target)
        yield (
            n, link.kind, link.embed, target, target_name(target), _clean(link.section),
            _clean(link.alias), link.line, link.start, link.end,
        )  # fmt: skip


def _tags(tags: Iterable[str]) -> tuple[Values, ...]:
    """Every tag with all its ancestors, so that nested matching is equality."""
    rows: dict[str, Values] = {}
    for tag in tags:
        parts = [part for part in tag.split("/") if part]
        for depth in range(1, len(parts) + 1):
            shown = "/".join(parts[:depth])
            key, direct = key_of(shown), depth == len(parts)
            if key not in rows or (direct and not rows[key][2]):
                rows[key] = (key, shown, direct)
    return tuple(rows.values())


def _props(properties: Mapping[str, Any]) -> Iterator[Values]:
    """One row per value; a list gives one for each item, so that `contains` is equality."""
    for name, value in properties.items():
        key = _clean(str(name))
        if isinstance(value, list | tuple) and value:
            for item in value:
                yield (key_of(key), key, True, *_typed(item))
        else:
            yield (key_of(key), key, False, *_typed(value))


def _typed(value: Any) -> tuple[str, Any]:
    match value:
        case None:
            return "null", None
        case bool():
            return "bool", int(value)
        case int() | float():
            fits = math.isfinite(value) and abs(value) < 2**63
            return ("num", value) if fits else ("str", str(value))
        case datetime.date():
            return "date", value.isoformat()
        case str():
            is_date = _DATE.fullmatch(value)
            return ("date", value.replace(" ", "T")) if is_date else ("str", _clean(value))
        case _:
            return "json", _clean(json.dumps(jsonable(value), ensure_ascii=False))


def _clean(text: Any) -> Any:
    """Escapes in YAML and JSON can spell half a surrogate pair, which no database takes."""
    if not isinstance(text, str) or text.isascii():
        return text
    return text.encode(errors="replace").decode()
