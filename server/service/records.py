"""Decision records as the index knows them: found by number, whatever their files are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.access.decision import Sight
from server.errors import Ambiguous, NotFound
from server.index.finds import FoundNote
from server.index.store import Index
from server.markdown import index_table
from server.markdown.decisions import STATUSES, label, link_to, number_of, title_of
from server.markdown.frontmatter import jsonable
from server.markdown.note import Note
from server.markdown.slugs import one_line
from server.models import path_key
from server.service.layout import Layout

_MOST = 10_000
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Record:
    """A record, by what its name and its properties say."""

    number: int
    path: str
    title: str
    status: str | None
    date: str | None
    project: str | None


class Records:
    """Reads records from the index."""

    def __init__(self, index: Index, layout: Layout) -> None:
        self._index = index
        self._layout = layout

    def all(self, project: str | None) -> list[Record]:
        """Every record that shares its numbers with those of a project, seen or not."""
        if not self._layout.per_project or project:
            return self._found(project, None)
        # Without a project they lie at the top, beside the folders of projects.
        return [one for one in self._found(None, None) if path_key(one.path).startswith("adr/")]

    def of(self, project: str | None, sees: Sight) -> list[Record]:
        """The records of a project, or all, by number, the newest first."""
        found = self._found(None, sees)
        if project is not None:
            wanted = path_key(one_line(project))
            found = [one for one in found if self._is_of(one, wanted)]
        return sorted(found, key=lambda one: (-one.number, one.path))

    def one(self, number: int, project: str | None, sees: Sight) -> Record:
        """The record of a number. Raises `NotFound` or `Ambiguous` with what there is."""
        records = self.of(project if self._layout.per_project else None, sees)
        found = [record for record in records if record.number == number]
        if len(found) > 1:
            raise Ambiguous(
                f"{len(found)} files are {label(number)}.",
                "Give the project, or read one of them with note_read.",
                candidates=[record.path for record in found[:_SHOWN]],
            )
        if not found:
            known = [label(record.number) for record in records[:_SHOWN]]
            raise NotFound(
                f"There is no {label(number)}.",
                f"The newest are {', '.join(known)}." if known else "adr_create makes the first.",
            )
        return found[0]

    def read(self, number: int, path: str, note: Note) -> Record:
        """A record by what its text says now."""
        return _record(number, path, note.title, note.tags, note.frontmatter.properties)

    def _found(self, project: str | None, sees: Sight | None) -> list[Record]:
        scope = self._layout.scope("adr", project)
        found = self._index.find(None, scopes=[scope], sight=sees, sort="path_asc", limit=_MOST)
        return [record for note in found.hits if (record := _known(note)) is not None]

    def _is_of(self, record: Record, wanted: str) -> bool:
        below = path_key(record.path).startswith(f"{wanted}/adr/")
        return (self._layout.per_project and below) or path_key(record.project or "") == wanted


def link_of(name: str, records: Sequence[Record]) -> str:
    """A related thing as a link; a number is that of a record."""
    text = one_line(name)
    number = int(text) if text.isascii() and text.isdecimal() else number_of(text)
    named = {label(number), str(number)} if number is not None else set()
    found = [record for record in records if record.number == number]
    is_number = text.upper() in named or text.lstrip("0") in named
    return link_to(stem(found[0].path) if found and is_number else text)


def unlisted(text: str, records: Sequence[Record]) -> list[index_table.Row]:
    """Rows for records that the index note has none for: people lose lines."""
    listed = index_table.numbers_in(text)
    rows = {record.number: row_of(record) for record in records if record.number not in listed}
    return [rows[number] for number in sorted(rows)]


def row_of(record: Record) -> index_table.Row:
    """The row of a record."""
    return index_table.Row(
        record.number,
        stem(record.path),
        record.title,
        record.status or "",
        record.date or "",
        record.project,
    )


def stem(path: str) -> str:
    """A file's name without its folder and its ending."""
    return path.rpartition("/")[2].removesuffix(".md")


def _known(note: FoundNote) -> Record | None:
    path = note.row.path
    number = number_of(path.rpartition("/")[2], note.properties)
    if number is None:
        return None
    return _record(number, path, note.row.title or "", note.tags, note.properties)


def _record(
    number: int, path: str, title: str, tags: Sequence[str], properties: Mapping[str, Any]
) -> Record:
    said = {key.lower(): jsonable(value) for key, value in properties.items()}
    status = str(said.get("status") or "").strip().lower()
    if not status:
        status = next((tag.lower() for tag in tags if tag.lower() in STATUSES), "")
    return Record(
        number,
        path,
        title_of(one_line(title)),
        status or None,
        _text(said.get("date")),
        _text(said.get("project")),
    )


def _text(value: Any) -> str | None:
    text = one_line(str(value)) if value is not None and not isinstance(value, (list, dict)) else ""
    return text[:200] or None
