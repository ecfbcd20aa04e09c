"""Devlogs as text: a file of dated lines, read as they are and added to at the end. Pure.

[impl]    2026-02-20  what was built
[problem] 2026-02-20  what went wrong → what helped
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, get_args

from server.errors import VaultError
from server.markdown.frontmatter import render, split
from server.markdown.line_breaks import line_break
from server.markdown.property_lines import find_key, set_property
from server.markdown.slugs import one_line

EntryType = Literal["impl", "problem", "insight", "verify"]
TYPES: tuple[EntryType, ...] = get_args(EntryType)

_WIDTH = len("[problem] ")
_LINE = re.compile(
    r"^(?P<lead>[ \t>]*(?:[-*+][ \t]+)?)(?:\[[ xX]\][ \t]+)?(?:\*\*)?"
    rf"\[(?P<type>{'|'.join(TYPES)})\](?:\*\*)?:?[ \t]*"
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
    r"[ \t]*[:–—-]?[ \t]+(?P<text>[^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_ARROW = re.compile(r"[ \t]+(?:→|->|=>|⇒)[ \t]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a devlog."""

    type: str
    date: str
    text: str
    resolution: str | None = None


def entry_line(kind: EntryType, day: date, text: str, resolution: str | None = None) -> str:
    """The line of an entry, its date under those of other types."""
    outcome = one_line(resolution or "")
    words = one_line(text) + (f" → {outcome}" if outcome else "")
    return f"[{kind}]".ljust(_WIDTH) + f"{day.isoformat()}  {words}"


def read_entries(text: str) -> Iterator[Entry]:
    """The entries of a devlog in its order; other lines, and dates that are none, are passed over."""
    for found in _LINE.finditer(text):
        try:
            date.fromisoformat(found["date"])
        except ValueError:
            continue
        words, _, resolution = _parted(found["text"].strip())
        yield Entry(found["type"].lower(), found["date"], words, resolution or None)


def new_devlog(topic: str, project: str | None, day: date, lines: Sequence[str]) -> str:
    """The text of a new devlog."""
    head = render(
        {"tags": ["devlog"], "topic": topic, "project": project, "created": day, "updated": day}
    )
    return f"{head}# {topic}\n\n" + "".join(line + "\n" for line in lines)


def add_entries(text: str, lines: Sequence[str], now: datetime) -> str:
    """The text with the lines at its end and its `updated` of today; not a byte more changes."""
    eol = line_break(text)
    text = _bumped(text, now)
    last = text.rstrip("\r\n").rpartition("\n")[2].rstrip("\r")
    entry = _LINE.match(last)
    gap = "" if not text.strip("\ufeff") or text.endswith("\n") else eol
    if last.strip() and entry is None and not text.endswith(("\n\n", "\n\r\n")):
        # What stands above may be a table or a list, which the lines must not become part of.
        gap += eol
    lead = entry["lead"] if entry else ""
    return text + gap + "".join(f"{lead}{line}{eol}" for line in lines)


def _parted(words: str) -> tuple[str, str, str]:
    arrow = _ARROW.search(words)
    if arrow is None:
        return words, "", ""
    return words[: arrow.start()], arrow[0], words[arrow.end() :]


def _bumped(text: str, now: datetime) -> str:
    """Properties that can't be read stay as they are: an entry matters more than its date."""
    block = split(text)
    if not block.body:
        return text
    try:
        name = find_key(block.properties, "updated") or "updated"
        return set_property(text, name, _later(block.properties.get(name), now))
    except VaultError:
        return text


def _later(known: Any, now: datetime) -> Any:
    """Now, in the type that the property has; what is later already stays."""
    if isinstance(known, datetime):
        moment = now.replace(tzinfo=None, microsecond=0) if known.tzinfo is None else now
        moment = moment.replace(microsecond=0)
        return max(known, moment)
    if isinstance(known, date):
        return max(known, now.date())
    return now.date()
