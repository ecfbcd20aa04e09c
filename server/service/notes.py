"""Reading and writing single notes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.access import Access
from server.errors import InvalidRequest, NotFound, TooLarge, VaultError
from server.index.store import Index
from server.markdown import sections
from server.markdown.frontmatter import jsonable, render
from server.markdown.note import Note, parse
from server.models import Caller, Content, NotePath, kind_of
from server.service.freshness import iso_ns
from server.service.globs import matcher
from server.service.loading import Loaded, Loader
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path, parse_path
from server.vault.vault import Change, Vault, Written
from server.workers import Deadline, Workers

MANY = 50


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


@dataclass(frozen=True, slots=True)
class NoteWritten:
    """The outcome of a write."""

    path: str
    created: bool
    etag: str
    bytes: int
    uploaded: bool
    obsidian_url: str | None


class Notes:
    """The use cases around one note. Every method takes the caller first."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        loader: Loader,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        mount: Workers,
        local: Workers,
        *,
        write_timeout: float,
        max_bytes: int,
    ) -> None:
        self._vault = vault
        self._index = index
        self._loader = loader
        self._access = access
        self._obsidian = obsidian
        self._mount = mount
        self._local = local
        self._write_timeout = write_timeout
        self._max_bytes = max_bytes

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
        loaded = await self._loader.load(path)
        if loaded is None:
            return NoteView(
                path, exists=False, did_you_mean=await self._suggest(caller, path) or None
            )
        self._access.require(caller, "read", loaded.path)
        return self._view(loaded, section, offset, max_chars, include_metadata)

    async def read_many(
        self,
        caller: Caller,
        raw_paths: Sequence[str],
        glob: str | None,
        max_chars_each: int,
        include_metadata: bool,
    ) -> tuple[list[NoteView], list[str], int]:
        """Several notes at once: (notes, missing paths, how many matched a glob)."""
        if bool(raw_paths) == bool(glob):
            raise InvalidRequest(
                "Give either paths or a glob.", "paths=['a.md'] or glob='devlog/*.md'."
            )
        paths, total = list(raw_paths), len(raw_paths)
        if glob:
            paths, total = await self._local.run_async(
                Deadline.after(10), self._matching, caller, glob
            )
        notes, missing = [], []
        for raw in dict.fromkeys(paths):
            view = await self.read(
                caller, raw, max_chars=max_chars_each, include_metadata=include_metadata
            )
            if view.exists:
                notes.append(view)
            else:
                missing.append(view.path)
        return notes, missing, total

    async def outline(self, caller: Caller, raw_path: str) -> tuple[Loaded, str, Note]:
        """A note's structure: what was loaded, its text and its parts. Raises `NotFound`."""
        path = parse_note_path(raw_path)
        self._access.require(caller, "read", path)
        loaded = await self._existing(caller, path)
        text = _text(loaded)
        return loaded, text, parse(text, _name(loaded.path))

    async def info(self, caller: Caller, raw_path: str) -> tuple[Loaded, Note, tuple[int, int]]:
        """Facts about a note without its content: (loaded, parts, (inlinks, outlinks))."""
        loaded, _, note = await self.outline(caller, raw_path)
        counts = await self._local.run_async(
            Deadline.after(10), self._index.link_counts, loaded.path
        )
        return loaded, note, counts

    async def upsert(
        self, caller: Caller, raw_path: str, content: str, frontmatter: Mapping[str, Any] | None
    ) -> NoteWritten:
        """Create the note with its frontmatter, or append a newline and the content to it."""
        path = parse_note_path(raw_path)
        self._access.require(caller, "write", path)
        body = _encoded(content)
        if len(body) > self._max_bytes:
            raise TooLarge(
                f"The content has {len(body):,} bytes; {self._max_bytes:,} is the limit.",
                "Split it.",
            )

        def change(current: Content | None) -> bytes:
            if current is not None:
                return current.data + b"\n" + body
            parse_note_path(raw_path, creating=True)
            return _encoded(render(frontmatter) + "\n") + body if frontmatter else body

        return await self._write(path, change)

    async def _write(self, path: NotePath, change: Change) -> NoteWritten:
        deadline = Deadline.after(self._write_timeout)

        def write() -> Written:
            written = self._vault.edit(path, change, deadline)
            # In the same thread: even when the caller has gone, the index knows of the write.
            self._loader.store_written(written)
            return written

        written = await self._mount.run_async(deadline, write)
        return NoteWritten(
            written.path, written.created, written.content.etag, len(written.content.data), written.uploaded,
            self.url(written.path),
        )  # fmt: skip

    def url(self, path: str) -> str | None:
        """The obsidian:// link of a path, when the Obsidian vault is known."""
        return self._obsidian().url(path)

    async def _existing(self, caller: Caller, path: NotePath) -> Loaded:
        loaded = await self._loader.load(path)
        if loaded is not None:
            self._access.require(caller, "read", loaded.path)
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
            near = await self._local.run_async(Deadline.after(2), self._index.suggest, path)
        except VaultError:
            return []
        return [other for other in near if sees(other)]

    def _matching(self, caller: Caller, glob: str) -> tuple[list[str], int]:
        sees, matches = self._access.sees(caller), matcher(glob)
        rows = self._index.paths(
            lambda path: sees(path) and (matches is None or matches(path)), kind="note"
        )
        return rows[:MANY], len(rows)

    def _view(
        self,
        loaded: Loaded,
        section: str | None,
        offset: int,
        max_chars: int,
        include_metadata: bool,
    ) -> NoteView:
        text = _text(loaded)
        note = parse(text, _name(loaded.path)) if kind_of(loaded.path) == "note" else None
        whole = text
        if section is not None:
            if note is None:
                raise InvalidRequest("Only notes have sections.", "Leave `section` out.")
            found = sections.find(text, note, section)
            whole = text[found.start : found.end]
        end = offset + max_chars
        return NoteView(
            path=loaded.path,
            exists=True,
            content=whole[offset:end],
            etag=loaded.etag,
            modified=iso_ns(loaded.stat.mtime_ns),
            section=section,
            chars=len(whole),
            next_offset=end if end < len(whole) else None,
            metadata=metadata(note) if include_metadata and note is not None else None,
            warnings=(note.warnings or None) if note is not None else None,
            obsidian_url=self.url(loaded.path),
            stale=loaded.stale,
            as_of=loaded.as_of,
        )


def metadata(note: Note) -> dict[str, Any]:
    """What a note's text says about itself, as plain data; empty parts are left out."""
    parts = {
        "title": note.title,
        "tags": list(note.tags),
        "properties": jsonable(note.frontmatter.properties),
        "aliases": list(note.aliases),
        "headings": [
            {"level": h.level, "text": h.text, "line": h.line} for h in note.headings[:200]
        ],
        "links": [
            _present(
                target=k.target,
                section=k.section,
                alias=k.alias,
                embed=k.embed or None,
                line=k.line,
            )
            for k in note.links[:200]
        ],
        "tasks": [{"done": t.done, "text": t.text, "line": t.line} for t in note.tasks[:200]],
    }
    return {name: part for name, part in parts.items() if part}


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(loaded: Loaded) -> str:
    if b"\0" in loaded.data:
        raise InvalidRequest(
            f"{loaded.path!r} is not text.", "It is a binary file, whatever its name says."
        )
    return loaded.text()


def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise InvalidRequest("The content holds a NUL character.", "Notes are text: leave it out.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequest(
            "The content is not valid Unicode.", "Send it as plain UTF-8."
        ) from None


def _name(path: str) -> str:
    return path.rpartition("/")[2]
