"""What a note's text says about itself, as plain data and no larger than an answer can carry."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from server.markdown.elements import Heading, Link, Task
from server.markdown.frontmatter import jsonable
from server.markdown.note import Note
from server.service.room import fitting, short

T = TypeVar("T")

_PART = 50_000
"""What one part may weigh, so that all of them leave room for the text."""
_MOST = 200


def metadata(note: Note) -> dict[str, Any]:
    """Title, tags, properties, aliases, headings, links and tasks; empty parts are left out.

    `cut` names the parts that hold only their first entries.
    """
    parts: dict[str, Any] = {"title": short(note.title)}
    incomplete: list[str] = []

    def add(name: str, whole: Sequence[T], shape: Callable[[T], Any]) -> None:
        parts[name] = fitting(map(shape, whole[:_MOST]), _PART)
        if len(parts[name]) < len(whole):
            incomplete.append(name)

    add("tags", note.tags, short)
    add("properties", list(note.frontmatter.properties.items()), jsonable)
    parts["properties"] = dict(parts["properties"])
    add("aliases", note.aliases, short)
    add("headings", note.headings, heading_row)
    add("links", note.links, _link)
    add("tasks", note.tasks, task_row)
    parts["cut"] = incomplete
    return {name: part for name, part in parts.items() if part}


def heading_row(heading: Heading) -> dict[str, Any]:
    """A heading as an answer has it."""
    return {"level": heading.level, "text": short(heading.text), "line": heading.line}


def task_row(task: Task) -> dict[str, Any]:
    """A task as an answer has it."""
    return {"done": task.done, "text": short(task.text), "line": task.line}


def _link(link: Link) -> dict[str, Any]:
    fields = {
        "target": short(link.target),
        "section": link.section and short(link.section),
        "alias": link.alias and short(link.alias),
        "embed": link.embed or None,
        "line": link.line,
    }
    return {name: value for name, value in fields.items() if value is not None}
