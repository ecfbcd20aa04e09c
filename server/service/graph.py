"""Links between notes: who links where, what is near, and adding one.

Questions are answered from the index; only `link` touches the vault, through the one way to write.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from server.access.decision import Access, Sight
from server.errors import Ambiguous, Conflict, InvalidRequest, NotFound
from server.index.backlinks import Backlink
from server.index.graph import Direction, Missing, Neighbourhood
from server.index.rows import Row
from server.index.store import Index
from server.markdown import sections
from server.markdown.differences import unified
from server.markdown.note import Note, parse
from server.markdown.related import linkable, spell, unspell, with_item
from server.models import Caller, Content, NotePath, kind_of
from server.service.editing import Editing
from server.service.freshness import Clock, Freshness
from server.service.notes import Notes, Seen
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path, parse_path
from server.workers import Deadline, Workers

_TIMEOUT = 10.0
_MENTIONING = 100
"""Notes that are looked at for mentions: a common word is in all of them."""


@dataclass(frozen=True, slots=True)
class BacklinkPage:
    """A page of what speaks of a file. `capped`: not all notes were searched for mentions."""

    path: str
    items: Sequence[Backlink]
    total: int
    capped: bool
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class GraphView:
    """What was asked of the graph; parts that were not asked for are None."""

    near: Neighbourhood | None
    orphans: tuple[Sequence[Row], int] | None
    unresolved: tuple[Sequence[Missing], int] | None
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class LinkAdded:
    """The outcome of adding a link; `changed` is False when it was there already."""

    path: str
    changed: bool
    link: str
    etag: str
    uploaded: bool | None = None
    dry_run: bool | None = None
    diff: str | None = None
    pending: dict[str, Any] | None = None


class _AlreadyLinkedError(Exception):
    """Nothing has to be written."""

    def __init__(self, link: str, etag: str) -> None:
        super().__init__()
        self.link = link
        self.etag = etag


class Graph:
    """The use cases around links. Every method takes the caller first."""

    def __init__(
        self,
        index: Index,
        notes: Notes,
        editing: Editing,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
    ) -> None:
        self._index = index
        self._notes = notes
        self._editing = editing
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local

    def url(self, path: str) -> str | None:
        """The obsidian:// link of a path, when the Obsidian vault is known."""
        return self._obsidian().url(path)

    async def backlinks(
        self, caller: Caller, raw_path: str, *, mentions: bool, limit: int, offset: int
    ) -> BacklinkPage:
        """Who links to a file, or names it. Raises `NotFound`, with what may have been meant."""
        path = parse_path(raw_path)
        self._access.require(caller, "read", path)
        sees = self._access.sees(caller)

        def run() -> BacklinkPage:
            target = self._known(caller, path)
            items, links = self._index.backlinks(target, sees, limit=limit, offset=offset)
            spoken, capped = list[Backlink](), False
            if mentions:
                spoken, capped = self._index.mentions(target, sees, _MENTIONING)
                after = max(0, offset - links)
                items += spoken[after : after + limit - len(items)]
            total = links + len(spoken)
            evicted = self._index.evicted(sees) if mentions else 0
            freshness = self._clock.now(evicted=evicted)
            return BacklinkPage(target.path, items, total, capped, freshness)

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def neighbours(
        self,
        caller: Caller,
        raw_path: str | None,
        *,
        depth: int,
        direction: Direction,
        include: Collection[str],
        limit: int,
        offset: int,
    ) -> GraphView:
        """What is near a file; without one, what stands alone and what is missing."""
        path = None if raw_path is None else parse_path(raw_path)
        if path is not None:
            self._access.require(caller, "read", path)
        _check_asked(path, include)
        sees, index = self._access.sees(caller), self._index

        def run() -> GraphView:
            near = orphans = missing = within = None
            if path is not None:
                near = index.neighbours(
                    self._known(caller, path), sees,
                    depth=depth, direction=direction, limit=limit, tags="tags" in include,
                )  # fmt: skip
                within = [node.id for node in near.nodes]
            if "orphans" in include:
                orphans = index.orphans(sees, limit=limit, offset=offset)
            if "unresolved" in include:
                missing = index.unresolved(sees, limit=limit, offset=offset, within=within)
            return GraphView(near, orphans, missing, self._clock.now())

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def link(
        self, caller: Caller, raw_from: str, raw_to: str, alias: str | None, section: str | None
    ) -> LinkAdded:
        """Add a wikilink to a note, once. Raises `NotFound` for either note or the section."""
        source, wanted = parse_note_path(raw_from), parse_path(raw_to)
        sees = self._access.sees(caller)
        self._access.require(caller, "write", source)
        for path in (source, wanted):
            self._access.require(caller, "read", path)
        start, target = await self._file(caller, source), await self._file(caller, wanted)
        part = await self._part(caller, target, section)
        link = await self._local.run_async(
            Deadline.after(_TIMEOUT), self._spelled, start, target, part, alias, sees
        )

        def change(current: Content | None) -> bytes:
            if current is None:
                raise NotFound(f"There is no note {source!r}.", "Create it first: note_upsert.")
            return self._linked(current, start, target, link, sees)

        try:
            written = await self._editing.edit(
                caller, "link_add", NotePath(start.path), change, kind="patch"
            )
        except _AlreadyLinkedError as already:
            return LinkAdded(start.path, False, already.link, already.etag)
        if not written.dry_run:
            return LinkAdded(written.path, True, link, written.etag, written.uploaded)
        before, after = (
            (data or b"").decode(errors="replace") for data in (written.before, written.after)
        )
        diff = unified(before, after, written.path, max_chars=1_000)
        return LinkAdded(
            written.path, True, link, written.etag,
            dry_run=True, diff=diff, pending=written.pending,
        )  # fmt: skip

    async def _file(self, caller: Caller, path: NotePath) -> Row:
        """The row of a file; a note that nobody has seen yet is looked for in the vault."""
        if kind_of(path) == "note":
            path = await self._notes.look(caller, path, lambda seen: NotePath(seen.loaded.path))
        return await self._local.run_async(Deadline.after(_TIMEOUT), self._known, caller, path)

    def _known(self, caller: Caller, path: NotePath) -> Row:
        """The row of a file or folder, however its path is spelled."""
        sees = self._access.sees(caller)
        for wanted in (path, f"{path}.md"):
            rows = self._index.match(wanted, sees)
            exact = [row for row in rows if row.path == wanted] or rows
            if len(exact) > 1:
                raise Ambiguous(
                    f"{wanted!r} matches several files that differ only in case.",
                    "Spell the path exactly.", candidates=[row.path for row in exact],
                )  # fmt: skip
            if exact:
                return exact[0]
        near = self._index.suggest(path, sight=sees)
        hint = f"Did you mean {', '.join(near)}?" if near else "Use vault_list to find it."
        raise NotFound(f"There is no file {path!r}.", hint, did_you_mean=near)

    async def _part(self, caller: Caller, target: Row, section: str | None) -> str | None:
        """How a link names a section of the target, which must have it."""
        if section is None or not section.strip():
            return None
        if target.kind != "note":
            raise InvalidRequest("Only notes have sections.", "Leave `section` out.")

        def find(seen: Seen) -> str:
            found = sections.find(seen.text, seen.note, section)
            if found.heading is None:
                return section.strip().lstrip("#").strip()
            alone = linkable(found.heading.text)
            same = [h for h in seen.note.headings if linkable(h.text) == alone]
            parts = [linkable(part) for part in section.split("#") if part.strip()]
            return alone if len(same) == 1 else "#".join(parts)

        return await self._notes.look(caller, target.path, find)

    def _spelled(
        self, start: Row, target: Row, part: str | None, alias: str | None, sees: Sight
    ) -> str:
        """The link in the shortest form that leads to the target, proved by reading it again.

        Who doesn't see everything gets the whole path: a name that is the only one in sight may
        have others that are not, and a shorter form would tell.
        """
        shown = alias.strip() if alias else None
        whole = target.path.removesuffix(".md") if target.kind == "note" else target.path
        name = whole.rpartition("/")[2]
        is_unique = sees.everything and self._index.is_unique(target)
        for form in (name, whole) if is_unique else (whole, f"/{whole}"):
            link = spell(form, part, shown)
            read = unspell(link)
            if (
                read is not None
                and (read.section, read.alias) == (part, shown or None)
                and self._index.resolve(start, [read.target], sees) == [target.id]
            ):
                return link
        raise InvalidRequest(
            f"No wikilink can be written that leads to {target.path!r}.",
            "Names and aliases can't hold # ^ | [ ] or line breaks; folders can't be linked.",
        )

    def _linked(self, current: Content, start: Row, target: Row, link: str, sees: Sight) -> bytes:
        """The content with the link. What isn't UTF-8 stays the bytes it was."""
        if b"\0" in current.data:
            raise InvalidRequest(f"{start.path!r} is not text.", "Links go into notes.")
        text = current.data.decode("utf-8", "surrogateescape")
        note = parse(text, "")
        if there := self._finds(text, note, start, target, link, sees):
            raise _AlreadyLinkedError(there, current.etag)
        changed = with_item(text, note, link)
        if not self._finds(changed, parse(changed, ""), start, target, link, sees):
            raise Conflict(
                "The link would not be one where the note ends: code or a comment is left open.",
                "Close it first, or put the link into the text yourself.",
            )
        return changed.encode("utf-8", "surrogateescape")

    def _finds(
        self, text: str, note: Note, start: Row, target: Row, link: str, sees: Sight
    ) -> str | None:
        """The source of the note's link to the same place, if it has one."""
        wanted = unspell(link)
        part = _folded(wanted.section) if wanted else ""
        same = [found for found in note.links if _folded(found.section) == part]
        meant = self._index.resolve(start, [found.target for found in same], sees)
        for found, leads in zip(same, meant, strict=True):
            if leads == target.id:
                return text[found.start : found.end]
        return None


def _check_asked(path: str | None, include: Collection[str]) -> None:
    if path is None and not {"orphans", "unresolved"} & set(include):
        raise InvalidRequest(
            "Nothing is asked for.", "Give a path, or include=['orphans'] or ['unresolved']."
        )
    if path is None and "tags" in include:
        raise InvalidRequest("Tag nodes belong to notes.", "Give a path, or use list_tags.")
    if path is not None and "orphans" in include:
        raise InvalidRequest("Orphans are near nothing.", "Leave `path` out.")


def _folded(section: str | None) -> str:
    part = section or ""
    return ("^" if part.startswith("^") else "") + linkable(part).casefold()
