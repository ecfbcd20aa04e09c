"""Reading single notes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from server.access.decision import Access
from server.errors import InvalidRequest, NotFound, PermissionDenied, TooLarge, VaultError
from server.index.store import Index
from server.markdown import sections
from server.markdown.block_edits import find_block
from server.markdown.frontmatter import split
from server.markdown.note import Note, parse
from server.models import Caller, NotePath, kind_of
from server.service.freshness import iso_ns
from server.service.globs import matcher
from server.service.loading import Loaded, Loader
from server.service.metadata import metadata
from server.service.room import ROOM, cut, short, weight
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path, parse_path
from server.workers import Deadline, Workers

T = TypeVar("T")

MANY = 50
_LONG = 100_000
_NAMES = 20_000
"""What a note's path, link, section and warnings may weigh at most."""


@dataclass(frozen=True, slots=True)
class NoteView:
    """A note, or a part of one, as a reader gets it."""

    path: str
    exists: bool
    content: str = ""
    etag: str | None = None
    modified: str | None = None
    section: str | None = None
    chars: int | None = None
    next_offset: int | None = None
    metadata: Mapping[str, Any] | None = None
    warnings: Sequence[str] | None = None
    obsidian_url: str | None = None
    did_you_mean: Sequence[str] | None = None
    stale: bool | None = None
    as_of: str | None = None
    conflict_copies: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class NoteViews:
    """Several notes. `failed` can't be read, `left_out` had no room; `total` is how many were meant."""

    notes: Sequence[NoteView]
    missing: Sequence[str]
    failed: Sequence[Mapping[str, str]]
    left_out: Sequence[str]
    total: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A note as loaded, its text, and what the text is made of."""

    loaded: Loaded
    text: str
    note: Note


class Notes:
    """The use cases around one note. Every method takes the caller first."""

    def __init__(
        self,
        index: Index,
        loader: Loader,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        copies: Callable[[str], Sequence[str]] = lambda _path: (),
    ) -> None:
        """`copies` names the conflict copies of a note."""
        self._copies = copies
        self._index = index
        self._loader = loader
        self._access = access
        self._obsidian = obsidian
        self._local = local

    async def read(
        self,
        caller: Caller,
        raw_path: str,
        *,
        section: str | None = None,
        offset: int = 0,
        max_chars: int = 20_000,
        include_metadata: bool = False,
    ) -> NoteView:
        """Read a note; an absent one is `exists: false`, never an error."""
        path = parse_path(raw_path)
        self._access.require(caller, "read", path)
        loaded = await self._loader.load(path, self._access.permit(caller, path, "read"))
        if loaded is None:
            return NoteView(
                path, exists=False, did_you_mean=await self._suggest(caller, path) or None
            )
        view = await self._apart(
            loaded, lambda: self._view(loaded, section, offset, max_chars, include_metadata)
        )
        copies = [path for path in self._copies(view.path) if self._access.sees(caller)(path)]
        return replace(view, conflict_copies=copies) if copies else view

    async def read_many(
        self,
        caller: Caller,
        raw_paths: Sequence[str],
        glob: str | None,
        max_chars_each: int,
        include_metadata: bool,
    ) -> NoteViews:
        """Several notes at once, in the order asked for, as many as one answer can carry."""
        if bool(raw_paths) == bool(glob):
            raise InvalidRequest(
                "Give either paths or a glob.", "paths=['a.md'] or glob='devlog/*.md'."
            )
        asked = list(dict.fromkeys(parse_path(raw) for raw in raw_paths))
        total = len(asked)
        if glob:
            asked, total = await self._local.run_async(
                Deadline.after(10), self._matching, caller, glob
            )
        room = ROOM - weight(asked)
        notes: list[NoteView] = []
        missing: list[str] = []
        failed: list[dict[str, str]] = []
        for number, path in enumerate(asked):
            # Short notes are read without a wait: others must come to their turn in between.
            await asyncio.sleep(0)
            try:
                view = await self.read(
                    caller, path, max_chars=max_chars_each, include_metadata=include_metadata
                )
            except (InvalidRequest, TooLarge) as error:
                failed.append({"path": path, "code": error.code, "message": short(error.message)})
                continue
            except PermissionDenied:
                if not glob:
                    raise
                # It became a link to something closed since the index saw it: it is not there.
                total -= 1
                continue
            if not view.exists:
                missing.append(view.path)
                continue
            room -= weight(asdict(view))
            if room < 0 and notes:
                return NoteViews(notes, missing, failed, asked[number:], total)
            notes.append(view)
        return NoteViews(notes, missing, failed, [], total)

    async def look(self, caller: Caller, raw_path: str, shape: Callable[[Seen], T]) -> T:
        """What `shape` makes of a note; where it runs, it holds nobody up. Raises `NotFound`."""
        path = parse_note_path(raw_path)
        self._access.require(caller, "read", path)
        loaded = await self._existing(caller, path)

        def run() -> T:
            text = _text(loaded)
            return shape(Seen(loaded, text, parse(text, _name(loaded.path))))

        return await self._apart(loaded, run)

    async def link_counts(self, caller: Caller, path: NotePath) -> tuple[int, int]:
        """How many links lead to a note and out of it."""
        self._access.require(caller, "read", path)
        sees = self._access.sees(caller)
        return await self._local.run_async(Deadline.after(10), self._index.link_counts, path, sees)

    def may_read(self, caller: Caller, raw_path: str) -> bool:
        """Whether the caller may be told what a note holds."""
        return self._access.may(caller, "read", parse_path(raw_path))

    async def _apart(self, loaded: Loaded, run: Callable[[], T]) -> T:
        """Run what takes long for a long note in a worker: the loop serves everybody."""
        if len(loaded.data) < _LONG:
            return run()
        return await self._local.run_async(Deadline.after(30), run)

    def url(self, path: str) -> str | None:
        """The obsidian:// link of a path, when the Obsidian vault is known."""
        return self._obsidian().url(path)

    async def _existing(self, caller: Caller, path: NotePath) -> Loaded:
        loaded = await self._loader.load(path, self._access.permit(caller, path, "read"))
        if loaded is not None:
            return loaded
        near = await self._suggest(caller, path)
        hint = (
            f"Did you mean {', '.join(near)}?"
            if near
            else "Use vault_list or vault_search to find it."
        )
        raise NotFound(f"There is no note {path!r}.", hint, did_you_mean=near)

    async def _suggest(self, caller: Caller, path: NotePath) -> list[str]:
        sees = self._access.sees(caller)
        try:
            return await self._local.run_async(
                Deadline.after(2), self._index.suggest, path, sight=sees
            )
        except VaultError:
            return []

    def _matching(self, caller: Caller, glob: str) -> tuple[list[NotePath], int]:
        sees, matches = self._access.sees(caller), matcher(glob)
        rows = self._index.paths(matches, kind="note", sight=sees)
        return [NotePath(row) for row in rows[:MANY]], len(rows)

    def _view(
        self,
        loaded: Loaded,
        section: str | None,
        offset: int,
        max_chars: int,
        include_metadata: bool,
    ) -> NoteView:
        text = _text(loaded)
        is_note = kind_of(loaded.path) == "note"
        if section is not None and not is_note:
            raise InvalidRequest("Only notes have sections.", "Leave `section` out.")
        is_odd = is_note and not loaded.sound
        warnings: Sequence[str | None] = (split(text).warning,) if is_odd else ()
        whole, facts = text, None
        if is_note and (section is not None or include_metadata):
            # A page of plain text does without: to read all of a long note takes a while.
            note = parse(text, _name(loaded.path))
            facts = metadata(note) if include_metadata else None
            if section is not None:
                found = _part(text, note, section)
                whole = text[found.start : found.end]
        content = cut(
            whole[offset : offset + max_chars], ROOM - _NAMES - (weight(facts) if facts else 0)
        )
        end = offset + len(content)
        return NoteView(
            path=loaded.path,
            exists=True,
            content=content,
            etag=loaded.etag,
            modified=iso_ns(loaded.stat.mtime_ns),
            section=section,
            chars=len(whole),
            next_offset=end if end < len(whole) else None,
            metadata=facts,
            warnings=[warning for warning in warnings if warning] or None,
            obsidian_url=self.url(loaded.path),
            stale=loaded.stale,
            as_of=loaded.as_of,
        )


def _part(text: str, note: Note, section: str) -> sections.Section:
    """What a section or `^block` covers, the same to a reader as to an edit."""
    if section.strip().lstrip("#").strip().startswith("^"):
        return find_block(text, note, section)[0]
    return sections.find(text, note, section)


def _text(loaded: Loaded) -> str:
    if b"\0" in loaded.data:
        raise InvalidRequest(
            f"{loaded.path!r} is not text.", "It is a binary file, whatever its name says."
        )
    return loaded.text()


def _name(path: str) -> str:
    return path.rpartition("/")[2]
