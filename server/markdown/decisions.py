"""Decision records as text: how they are named, written, read, and given another status. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from server.markdown.frontmatter import render
from server.markdown.note import Note
from server.markdown.property_lines import append_to_property, find_key, set_property
from server.markdown.slugs import one_line, slugify

Status = Literal["proposed", "accepted", "rejected", "deprecated", "superseded"]
STATUSES: tuple[Status, ...] = get_args(Status)

_NAMED = re.compile(r"adr[-_ ]?0*([0-9]{1,6})(?![0-9])", re.IGNORECASE)
_NUMBERED = re.compile(r"([0-9]{3,4})[-_ ](?![0-9]{2}[-_ ][0-9]{2}(?![0-9]))")
_TITLE = re.compile(r"(?:adr[-_ ]?)?[0-9]{1,6}[ \t]*[:.–—-][ \t]*", re.IGNORECASE)
_LINKED = re.compile(r"\[\[.*\]\]|[A-Za-z][A-Za-z0-9+.-]*://\S+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a new record says."""

    title: str
    context: str
    decision: str
    consequences: str
    options: Sequence[str] = ()
    status: Status = "accepted"
    project: str | None = None
    related: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a record; `chars` is how long it is."""

    heading: str
    text: str
    chars: int


def label(number: int) -> str:
    """How people name a record: ADR-007."""
    return f"ADR-{number:03d}"


def file_name(number: int, title: str) -> str:
    """The name of a new record's file."""
    return f"{label(number)}-{slugify(title)}.md"


def number_of(name: str, properties: Mapping[str, Any] | None = None) -> int | None:
    """The number that a file's name says, else its property; a date at the front is none."""
    found = _NAMED.match(name) or _NUMBERED.match(name)
    if found:
        return int(found[1])
    value = (properties or {}).get("adr")
    # The index keeps every number as a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 10**6:
        return None
    return int(value) if value == int(value) else None


def title_of(title: str) -> str:
    """A record's title without its number."""
    found = _TITLE.match(title)
    return (title[found.end() :] if found else "") or title


def new_decision(number: int, day: date, what: Decision, related: Sequence[str]) -> str:
    """The text of a new record."""
    head = render(
        {
            "tags": ["adr", what.status],
            "adr": number,
            "date": day,
            "status": what.status,
            "project": what.project,
            "related": list(related),
        }
    )
    sections = [("Context", what.context)]
    if what.options:
        sections.append(("Options", _numbered(what.options)))
    sections += [("Decision", what.decision), ("Consequences", what.consequences)]
    body = "".join(f"\n## {name}\n\n{text.strip()}\n" for name, text in sections)
    return f"{head}# {label(number)}: {one_line(what.title)}\n{body}"


def link_to(name: str) -> str:
    """A link to a note by its name or path; links and addresses stay what they are."""
    text = one_line(name)
    return text if _LINKED.fullmatch(text) else f"[[{text.removesuffix('.md')}]]"


def with_status(text: str, note: Note, status: Status) -> str:
    """The text with another status, its tag too; not a byte more changes."""
    properties = note.frontmatter.properties
    text = set_property(text, "status", status)
    key = find_key(properties, "tags") or "tags"
    tags = _tags(properties.get(key))
    folded = [tag.removeprefix("#").casefold() for tag in tags]
    old = [n for n, tag in enumerate(folded) if tag in STATUSES]
    if not tags:
        tags = ["adr", status]
    elif status in folded:
        tags = [tag for n, tag in enumerate(tags) if n not in old or folded[n] == status]
    elif old:
        tags[old[0]] = status
        tags = [tag for n, tag in enumerate(tags) if n not in old[1:]]
    else:
        tags.append(status)
    return set_property(text, key, tags)


def with_related(text: str, link: str) -> str:
    """The text with a link among its related ones, once; not a byte more changes."""
    return append_to_property(text, "related", [link])


def parts_of(text: str, note: Note, room: int) -> list[Part]:
    """The sections below the title, each cut to its share of `room` characters."""
    start = note.frontmatter.body
    marks = [heading for heading in note.headings if heading.level <= 2]
    whole: list[tuple[str, str]] = []
    above = text[start : marks[0].start if marks else len(text)].strip()
    if above:
        whole.append(("", above))
    for n, heading in enumerate(marks):
        end = marks[n + 1].start if n + 1 < len(marks) else len(text)
        body = text[heading.end : end].strip()
        if body or heading.level == 2:
            whole.append((heading.text if heading.level == 2 else "", body))
    limits = _shares([len(body) for _, body in whole], room)
    return [
        Part(name, body[:limit], len(body))
        for (name, body), limit in zip(whole, limits, strict=True)
    ]


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of each has room: short ones are whole, long ones get the same."""
    limits = [0] * len(sizes)
    left = sorted(range(len(sizes)), key=lambda n: sizes[n])
    while left:
        n = left.pop(0)
        limits[n] = min(sizes[n], room // (len(left) + 1))
        room -= limits[n]
    return limits


def _numbered(options: Sequence[str]) -> str:
    items = (option.strip().replace("\r\n", "\n").split("\n") for option in options)
    return "\n".join(f"{n}. " + "\n   ".join(lines) for n, lines in enumerate(items, 1))


def _tags(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    found = parts if isinstance(parts, list) else [parts]
    return [str(tag).strip() for tag in found if tag is not None and str(tag).strip()]
