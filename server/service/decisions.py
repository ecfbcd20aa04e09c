"""Decision records: numbered once, named in the index note, read from the index.

The row in the index note is what makes a number somebody's: it is written first, and a batch whose
index note is not what it was made from is made again with the next number.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from unicodedata import normalize

from server.access.decision import Access
from server.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.markdown import index_table
from server.markdown.decisions import (
    Decision,
    Part,
    Status,
    file_name,
    label,
    link_to,
    new_decision,
    number_of,
    parts_of,
    with_related,
    with_status,
)
from server.markdown.frontmatter import jsonable
from server.markdown.note import parse
from server.markdown.slugs import one_line
from server.models import Caller, NotePath, etag_of
from server.service.editing import Batch, Editing, Fate
from server.service.freshness import Clock, Freshness
from server.service.layout import Layout
from server.service.loading import Loaded, Loader
from server.service.making import Grounds
from server.service.records import Record, Records, link_of, row_of, stem, unlisted
from server.service.room import ROOM, fitting
from server.service.texts import decoded, diff_of, encoded
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path
from server.vault.vault import Vault
from server.workers import Deadline, Workers

T = TypeVar("T")

_SECONDS = 10.0
_TURN_SECONDS = 120.0
_TRIES = 40


@dataclass(frozen=True, slots=True)
class Created:
    """A new record, or what would be one."""

    path: str
    adr: int
    etag: str
    diff: str
    obsidian_url: str | None
    dry_run: bool | None = None
    pending: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Restated:
    """A record with another status."""

    path: str
    adr: int
    status: str
    changed: bool
    etag: str
    notes_changed: Sequence[str]
    diff: str
    dry_run: bool | None = None
    pending: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of records, the newest first."""

    records: Sequence[Record]
    total: int
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as it is read."""

    record: Record
    loaded: Loaded
    related: Any
    parts: Sequence[Part]
    obsidian_url: str | None


class Decisions:
    """The use cases around decision records. The caller comes first."""

    def __init__(
        self,
        editing: Editing,
        vault: Vault,
        records: Records,
        loader: Loader,
        grounds: Grounds,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        layout: Layout,
        now: Callable[[], datetime],
    ) -> None:
        self._editing = editing
        self._vault = vault
        self._records = records
        self._loader = loader
        self._grounds = grounds
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._layout = layout
        self._now = now
        self._turn = asyncio.Lock()

    async def create(self, caller: Caller, what: Decision) -> Created:
        """Write a record under the next number, and its row. Nobody else gets that number."""
        what = _checked(what)
        folder = self._layout.folder("adr", what.project)
        index_path = self._layout.index_of(f"{folder}/x.md")
        for path in (folder, index_path):
            self._access.require(caller, "write", path)
            self._access.require(caller, "read", path)
        sees = self._access.sees(caller)

        def make() -> tuple[Batch, Created]:
            index_note, before, text = self._index_note(caller, index_path)
            there, names = self._names(folder)
            known = self._records.all(what.project)
            taken = {record.number for record in known} | index_table.numbers_in(text)
            taken |= {number for name in names if (number := number_of(name)) is not None}
            number, now = max(taken, default=0) + 1, self._now().date()
            path = parse_note_path(f"{there}/{file_name(number, what.title)}")
            self._grounds.check_new(path)
            seen = [record for record in known if sees(record.path)]
            related = [link_of(one, seen) for one in what.related]
            data = encoded(new_decision(number, now, what, related))
            row = index_table.Row(
                number, stem(path), what.title, what.status, now.isoformat(), what.project
            )
            missing = unlisted(text, [one for one in seen if one.path.startswith(f"{there}/")])
            after = index_table.with_rows(text, [*missing, row])
            batch = Batch("edit")
            batch.replace(index_note, before, _bytes(after))
            batch.replace(path, None, data)
            diff = diff_of([(path, None, data), (index_note, before, _bytes(after))])
            url = self._obsidian().url(path)
            return batch, Created(path, number, etag_of(data), diff, url)

        told, fate = await self._apply(caller, "adr_create", make)
        return replace(told, **fate.marks)

    async def set_status(
        self,
        caller: Caller,
        number: int,
        status: Status,
        superseded_by: int | None,
        project: str | None,
    ) -> Restated:
        """Give a record another status: in its file, in its successor's and in the index note."""
        if (status == "superseded") != (superseded_by is not None) or superseded_by == number:
            raise InvalidRequest(
                "superseded_by goes with the status superseded, and names another ADR.",
                "Give both, or neither.",
            )

        def make() -> tuple[Batch, Restated]:
            batch = Batch("edit")
            path, before = self._writable(caller, number, project)
            text = decoded(before)
            after = with_status(text, parse(text, stem(path)), status)
            others: list[tuple[str, bytes | None, bytes]] = []
            if superseded_by is not None:
                successor, theirs = self._writable(caller, superseded_by, project)
                after = with_related(after, link_to(stem(successor)))
                changed = with_related(decoded(theirs), link_to(stem(path)))
                others.append((successor, theirs, _bytes(changed)))
            changes = [self._listed(caller, path, number, status, after)]
            changes += [(path, before, _bytes(after)), *others]
            changes = [change for change in changes if change[1] != change[2]]
            for change in changes:
                batch.replace(*change)
            names = [name for name, *_ in changes]
            etag = etag_of(_bytes(after))
            diff = diff_of(changes) if changes else ""
            return batch, Restated(path, number, status, bool(changes), etag, names, diff)

        told, fate = await self._apply(caller, "adr_set_status", make)
        return replace(told, **fate.marks)

    async def overview(
        self, caller: Caller, status: Status | None, project: str | None, limit: int, offset: int
    ) -> Listed:
        """The records that a caller may see, by number, the newest first."""
        sees = self._access.sees(caller)

        def run() -> Listed:
            found = [
                record
                for record in self._records.of(project, sees)
                if status is None or record.status == status
            ]
            page = fitting(found[offset : offset + limit], ROOM, asdict)
            return Listed(page, len(found), self._clock.now())

        return await self._local.run_async(Deadline.after(_SECONDS), run)

    async def read(self, caller: Caller, number: int, project: str | None, max_chars: int) -> Seen:
        """One record by its number. Raises `NotFound`, `Ambiguous`."""
        record = await self.find(caller, number, project)
        path = NotePath(record.path)
        loaded = await self._loader.load(path, self._access.permit(caller, path, "read"))
        if loaded is None:
            raise NotFound(f"{label(number)} is not there any more.", "Ask adr_list what is.")
        text = loaded.text()
        note = parse(text, stem(path))
        record = self._records.read(number, loaded.path, note)
        properties = {key.lower(): value for key, value in note.frontmatter.properties.items()}
        return Seen(
            record,
            loaded,
            jsonable(properties.get("related")),
            parts_of(text, note, max_chars),
            self._obsidian().url(loaded.path),
        )

    async def find(self, caller: Caller, number: int, project: str | None) -> Record:
        """The record of a number, as the index knows it. Raises `NotFound`, `Ambiguous`."""
        sees = self._access.sees(caller)
        return await self._local.run_async(
            Deadline.after(_SECONDS), self._records.one, number, project, sees
        )

    def _writable(self, caller: Caller, number: int, project: str | None) -> tuple[NotePath, bytes]:
        """A record's file and what it says now."""
        path = self._place(caller, number, project)
        self._access.require(caller, "read", path)
        self._access.require(caller, "write", path)
        found = self._vault.read(path, permit=self._access.permit(caller, path, "read"))
        if found is None:
            raise NotFound(f"{label(number)} is not there any more.", "Ask adr_list what is.")
        return NotePath(found.path), found.content.data

    def _place(self, caller: Caller, number: int, project: str | None) -> NotePath:
        sees = self._access.sees(caller)
        try:
            return NotePath(self._records.one(number, project, sees).path)
        except NotFound:
            # Another server may have made it a moment ago.
            there, names = self._names(self._layout.folder("adr", project))
            paths = [f"{there}/{name}" for name in names if number_of(name) == number]
            if len(paths) != 1 or not sees(paths[0]):
                raise
            return NotePath(paths[0])

    def _listed(
        self, caller: Caller, path: str, number: int, status: Status, text: str
    ) -> tuple[str, bytes | None, bytes]:
        """The index note, before and after it names the record with its status."""
        index_path = self._layout.index_of(path)
        for action in ("read", "write"):
            self._access.require(caller, action, index_path)
        name, before, old = self._index_note(caller, index_path)
        after = index_table.with_status(old, number, status)
        if number not in index_table.numbers_in(after):
            record = self._records.read(number, path, parse(text, stem(path)))
            after = index_table.with_rows(after, [row_of(record)])
        return name, before, _bytes(after)

    def _index_note(self, caller: Caller, path: NotePath) -> tuple[NotePath, bytes | None, str]:
        """The index note as it is spelled, what it holds, and its text or that of a new one."""
        found = self._vault.read(path, permit=self._access.permit(caller, path, "read", "write"))
        if found is None:
            return path, None, index_table.new_index()
        return NotePath(found.path), found.content.data, decoded(found.content.data)

    def _names(self, folder: str) -> tuple[str, list[str]]:
        """A folder as it is spelled, and the names of the notes in it, from the vault itself."""
        place = self._vault.find(folder)
        if place is None:
            return folder, []
        entries = self._vault.list_folder(place.disk)
        names = [entry.path.rpartition("/")[2] for entry in entries if entry.kind == "note"]
        return normalize("NFC", place.disk), names

    async def _apply(
        self, caller: Caller, tool: str, make: Callable[[], tuple[Batch, T]]
    ) -> tuple[T, Fate]:
        """One after another in this process, and again when another server was quicker."""
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("Too many decisions are being written.", "Try again.") from None
        try:
            for attempt in range(_TRIES):
                try:
                    return await self._editing.apply(caller, tool, make)
                except Conflict:
                    if caller.approval is not None or attempt == _TRIES - 1:
                        raise
                await asyncio.sleep(random.uniform(0.005, 0.05 * min(attempt + 1, 6)))  # noqa: S311
            raise AssertionError("the last try returns or raises")
        finally:
            self._turn.release()


def _checked(what: Decision) -> Decision:
    title = one_line(what.title)
    if not title:
        raise InvalidRequest("The title is empty.", "Say in a few words what was decided.")
    for text in (title, what.context, what.decision, what.consequences, *what.options):
        encoded(text, "text")
    return replace(what, title=title, project=one_line(what.project or "") or None)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
