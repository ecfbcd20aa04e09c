"""Devlogs: dated lines that agents leave for each other. Added on the vault, read from the index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from server.access.decision import Access, Sight
from server.errors import InvalidRequest, NotFound
from server.index.finds import FoundNote
from server.index.store import Index
from server.markdown.devlogs import (
    Entry,
    EntryType,
    add_entries,
    entry_line,
    new_devlog,
    read_entries,
)
from server.markdown.slugs import one_line, slugify
from server.models import Caller, Content, NotePath, path_key
from server.service.editing import Edit, Editing
from server.service.freshness import Clock, Freshness
from server.service.layout import Layout
from server.service.making import Grounds
from server.service.once import AboutTo, Once
from server.service.room import ROOM, fitting
from server.service.texts import decoded, diff_of, encoded
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path
from server.workers import Deadline, Workers

_MOST_FILES = 1_000
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A line to be added."""

    type: EntryType
    text: str
    resolution: str | None = None


@dataclass(frozen=True, slots=True)
class TailEntry:
    """A line, and the devlog that it stands in."""

    path: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Tail:
    """The last of `total` entries, the newest first."""

    entries: Sequence[TailEntry]
    total: int
    freshness: Freshness


class Devlogs:
    """The use cases around devlogs. The caller comes first."""

    def __init__(
        self,
        editing: Editing,
        once: Once,
        index: Index,
        grounds: Grounds,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        layout: Layout,
        now: Callable[[], datetime],
    ) -> None:
        self._editing = editing
        self._once = once
        self._index = index
        self._grounds = grounds
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._layout = layout
        self._now = now

    async def append(
        self,
        caller: Caller,
        topic: str,
        project: str | None,
        entries: Sequence[NewEntry],
        key: str | None = None,
    ) -> dict[str, Any]:
        """Add dated lines to a topic's devlog, which is made when there is none."""
        topic, project = _named(topic, "topic"), one_line(project or "") or None
        path = await self._path(caller, topic, project)
        said = [_checked(entry) for entry in entries]

        def change(current: Content | None) -> bytes:
            now = self._now()
            lines = [entry_line(one.type, now.date(), one.text, one.resolution) for one in said]
            if current is None:
                self._grounds.check_new(path)
                return encoded(new_devlog(topic, project, now.date(), lines))
            text = add_entries(decoded(current.data), lines, now)
            return text.encode("utf-8", "surrogateescape")

        async def make(about_to: AboutTo | None) -> dict[str, Any]:
            edit = await self._editing.edit(
                caller, "devlog_append", path, change, kind="append", about_to=about_to
            )
            return self._told(caller, path, edit, len(said))

        fields = (path, topic, project, [(e.type, e.text, e.resolution) for e in said])
        return await self._once.run(caller, key, "devlog_append", {"fields": fields}, path, make)

    async def tail(
        self, caller: Caller, topic: str | None, project: str | None, limit: int
    ) -> Tail:
        """The last entries of a topic, of a project, or of all. Raises `NotFound` for a topic."""
        sees = self._access.sees(caller)

        def run() -> Tail:
            notes = self._notes(project, sees)
            if topic is not None:
                notes = self._about(notes, slugify(topic))
            found = [
                (entry.date, note.row.mtime_ns, n, note.row.path, entry)
                for note in notes
                for n, entry in enumerate(read_entries(self._text(note)))
            ]
            found.sort(key=lambda one: one[:4], reverse=True)
            shown = [TailEntry(path, entry) for *_, path, entry in found[:limit]]
            shown = fitting(
                shown, ROOM, lambda one: (one.path, one.entry.text, one.entry.resolution)
            )
            self._index.use(dict.fromkeys(one.path for one in reversed(shown)))
            return Tail(shown, len(found), self._clock.now())

        return await self._local.run_async(Deadline.after(_SECONDS), run)

    def _notes(self, project: str | None, sees: Sight) -> list[FoundNote]:
        scope = self._layout.scope("devlog", None)
        found = self._index.find(
            None, scopes=[scope], sight=sees, sort="modified_desc", limit=_MOST_FILES
        )
        return [note for note in found.hits if project is None or self._is_of(note, project)]

    def _is_of(self, note: FoundNote, project: str) -> bool:
        wanted = path_key(one_line(project))
        below = path_key(note.row.path).startswith(f"{wanted}/devlog/")
        said = {key.lower(): value for key, value in note.properties.items()}.get("project")
        return (self._layout.per_project and below) or path_key(str(said or "").strip()) == wanted

    @staticmethod
    def _about(notes: Sequence[FoundNote], slug: str) -> list[FoundNote]:
        found = [note for note in notes if slugify(_stem(note.row.path)) == slug]
        if not found:
            topics = [_stem(note.row.path) for note in notes[:10]]
            raise NotFound(
                f"There is no devlog {slug!r}.",
                f"There are {', '.join(topics)}." if topics else "devlog_append makes one.",
                topics=topics,
            )
        return found

    def _text(self, note: FoundNote) -> str:
        return (self._index.text(note.row) or b"").decode("utf-8", "replace")

    async def _path(self, caller: Caller, topic: str, project: str | None) -> NotePath:
        """The devlog of a topic: one that is there and is called so, or the one to be made."""
        folder, slug = self._layout.folder("devlog", project), slugify(topic)
        path = parse_note_path(f"{folder}/{slug}.md")
        self._access.require(caller, "write", path)
        sees = self._access.sees(caller)

        def run() -> NotePath:
            if self._index.match(path, sees):
                return path
            folders = [row.path for row in self._index.match(folder, sees) if row.kind == "folder"]
            for name in folders:
                rows, _ = self._index.children(
                    name,
                    1,
                    "note",
                    lambda other: slugify(_stem(other)) == slug,
                    sight=sees,
                    limit=1,
                )
                if rows:
                    return NotePath(rows[0].path)
            return path

        return await self._local.run_async(Deadline.after(_SECONDS), run)

    def _told(self, caller: Caller, asked: NotePath, edit: Edit, lines: int) -> dict[str, Any]:
        sees = self._access.sees(caller)
        told: dict[str, Any] = {"lines": lines, "dry_run": edit.dry_run or None}
        if not (sees(asked) and sees(edit.path)):
            # Who may only write learns nothing of what was there, not even how it is spelled.
            pending = {k: v for k, v in (edit.pending or {}).items() if k != "diff"}
            return told | {"path": asked, "pending": pending or None}
        return told | {
            "path": edit.path,
            "created": edit.created,
            "etag": edit.etag,
            "uploaded": edit.uploaded,
            "pending": edit.pending,
            "diff": diff_of([(edit.path, edit.before, edit.after)]) if edit.dry_run else None,
            "obsidian_url": self._obsidian().url(edit.path),
        }


def _named(text: str, what: str) -> str:
    name = one_line(text)
    if not name:
        raise InvalidRequest(f"The {what} is empty.", "Give it a short name, like 'api limits'.")
    encoded(name, what)
    return name


def _checked(entry: NewEntry) -> NewEntry:
    if not one_line(entry.text):
        raise InvalidRequest("An entry has no text.", "Say in one line what happened.")
    encoded(entry.text + (entry.resolution or ""), "text")
    return entry


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[:-3] if name.lower().endswith(".md") else name
