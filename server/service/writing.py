"""Writing, patching and deleting notes: precise edits, and nothing but them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from server.access import Access
from server.errors import Conflict, InvalidRequest, NotFound, TooLarge
from server.history.store import History
from server.index.store import Index
from server.markdown.differences import unified_all
from server.markdown.frontmatter import split
from server.markdown.line_breaks import in_breaks, line_break
from server.markdown.merging import merge
from server.markdown.patching import Target, Verb, patch
from server.markdown.property_lines import set_property
from server.models import Caller, Content, NotePath, etag_of
from server.service.editing import Batch, Edit, Editing
from server.service.once import AboutTo, Once
from server.service.texts import decoded, encoded, head
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import check_new_name, parse_note_path, parse_path, path_key
from server.vault.vault import Found, Vault

Mode = Literal["create", "overwrite", "append", "prepend"]
DIFF_CHARS = 2_000
MOST_EDITS = 100
_RIVALS = 20


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write; `diff` is there for patches and in a dry run."""

    path: str
    changed: bool
    created: bool
    etag: str
    bytes: int
    uploaded: bool = True
    merged: bool | None = None
    dry_run: bool | None = None
    version: int | None = None
    diff: str | None = None
    obsidian_url: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One edit of a note: by `mode` its whole text, or by `target` a part of it."""

    path: str
    content: str = ""
    mode: Mode | None = None
    frontmatter: Mapping[str, Any] | None = None
    target: Target | None = None
    selector: str = ""
    operation: Verb | None = None
    create_missing: bool = False
    if_match: str | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """The outcome of several edits."""

    notes: Sequence[Mapping[str, Any]]
    diff: str
    dry_run: bool | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a deletion."""

    path: str
    trashed_to: str | None
    broken_links: int
    version: int | None
    dry_run: bool | None


class Writing:
    """The use cases that change what notes say. The caller comes first."""

    def __init__(
        self,
        editing: Editing,
        once: Once,
        vault: Vault,
        index: Index,
        history: History,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        *,
        max_bytes: int,
    ) -> None:
        self._editing = editing
        self._once = once
        self._vault = vault
        self._index = index
        self._history = history
        self._access = access
        self._obsidian = obsidian
        self._max_bytes = max_bytes

    async def upsert(
        self,
        caller: Caller,
        raw_path: str,
        content: str,
        frontmatter: Mapping[str, Any] | None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Create the note with its frontmatter, or append a newline and the content to it."""
        path = parse_note_path(raw_path)
        body = self._body(content)

        def change(current: Content | None) -> bytes:
            if current is not None:
                return current.data + b"\n" + body
            self._check_new(path)
            return head(frontmatter) + body if frontmatter else body

        async def make(about_to: AboutTo | None) -> dict[str, Any]:
            edit = await self._editing.edit(
                caller, "note_upsert", path, change, kind="append", about_to=about_to
            )
            return self._told(edit, diff=False)

        request = {"path": path, "content": content, "frontmatter": frontmatter}
        return await self._once.run(caller, key, "note_upsert", request, path, make)

    async def write(self, caller: Caller, request: Request, key: str | None) -> dict[str, Any]:
        """Create, overwrite, append or prepend. Raises `Conflict` with both etags."""
        path = parse_note_path(request.path)
        self._body(request.content)
        made = _Making(self, caller, path, request)

        async def make(about_to: AboutTo | None) -> dict[str, Any]:
            edit = await self._editing.edit(
                caller, "note_write", path, made, kind=request.mode or "write", about_to=about_to
            )
            return self._told(edit, diff=False, merged=made.merged)

        fields = (path, request.content, request.mode, request.frontmatter, request.if_match)
        return await self._once.run(caller, key, "note_write", {"fields": fields}, path, make)

    async def patch(self, caller: Caller, request: Request) -> dict[str, Any]:
        """Change a part of a note. Raises `NotFound` or `Ambiguous` with the candidates."""
        path = parse_note_path(request.path)
        made = _Making(self, caller, path, request)
        edit = await self._editing.edit(caller, "note_patch", path, made, kind="patch")
        return self._told(edit, diff=True, merged=made.merged)

    async def edit_many(self, caller: Caller, requests: Sequence[Request]) -> Edited:
        """Apply edits to several notes, all or none; several to one note follow each other."""
        if not 1 <= len(requests) <= MOST_EDITS:
            raise InvalidRequest(
                f"Give 1 to {MOST_EDITS} edits.", "Split a longer list into several calls."
            )
        paths = [parse_note_path(request.path) for request in requests]
        for path in paths:
            self._access.require(caller, "write", path)

        def make() -> tuple[Batch, Edited]:
            names: dict[NotePath, NotePath] = {}
            before: dict[NotePath, bytes | None] = {}
            after: dict[NotePath, bytes] = {}
            for path, request in zip(paths, requests, strict=True):
                if path not in names:
                    found = self._vault.read(path)
                    # Two spellings of one note are one note, new or not.
                    new = next((name for name in before if path_key(name) == path_key(path)), path)
                    names[path] = NotePath(found.path) if found else new
                    before.setdefault(names[path], found.content.data if found else None)
                name = names[path]
                making = _Making(self, caller, name, request)
                after[name] = making.of(after.get(name, before[name]), first=before[name])
            batch = Batch("edit")
            for path, data in after.items():
                if data != before[path]:
                    batch.replace(path, before[path], data)
            return batch, self._summed(before, after)

        told, done = await self._editing.apply(caller, "notes_edit", make)
        return told if done else replace(told, dry_run=True)

    async def delete(self, caller: Caller, raw_path: str, *, permanent: bool) -> Deleted:
        """Move a note or an attachment to `.trash`, or delete it for good; the history keeps it."""
        path = parse_path(raw_path)
        self._access.require(caller, "write", path)

        def make() -> tuple[Batch, Deleted]:
            place = self._vault.find(path)
            if place is None or place.kind == "folder":
                raise self._absent(caller, path, is_folder=place is not None)
            found = self._small(path)
            batch = Batch("delete")
            trashed = None
            if permanent:
                if found is None:
                    raise TooLarge(
                        "The file is too large to be kept in the history.",
                        "Delete it with permanent=false: then it goes to the trash.",
                    )
                batch.remove(found.path, found.content.data)
            else:
                trashed = self._free_in_trash(place.disk)
                batch.move(place.disk, trashed)
                if found is not None:
                    batch.gone(found.path, found.content.data)
            row = next(iter(self._index.match(path)), None)
            broken = self._index.link_counts(row.path)[0] if row is not None else 0
            return batch, Deleted(found.path if found else path, trashed, broken, None, None)

        async def carry_out() -> Deleted:
            told, done = await self._editing.apply(caller, "note_delete", make)
            return told if done else replace(told, dry_run=True)

        # Others may throw away a file of the same name at the same moment.
        for _ in range(0 if permanent else _RIVALS):
            with suppress(Conflict):
                return await carry_out()
        return await carry_out()

    def base_of(self, path: NotePath, etag: str) -> bytes | None:
        """A content that a note once had, as long as somebody here remembers it."""
        kept = self._history.content(etag)
        if kept is None:
            kept = self._index.former(etag)
        if kept is not None:
            return kept
        # What was changed behind our back may still be the present content to the index.
        rows = [row for row in self._index.match(path) if row.etag == etag]
        return self._index.text(rows[0]) if rows else None

    def _body(self, content: str) -> bytes:
        body = encoded(content)
        if len(body) > self._max_bytes:
            raise TooLarge(
                f"The content has {len(body):,} bytes; {self._max_bytes:,} is the limit.",
                "Split it.",
            )
        return body

    def _check_new(self, path: NotePath) -> None:
        """Refuse names that Obsidian can't link to; folders that are there already may have them."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            if depth == len(parts) or not self._index.match("/".join(parts[:depth])):
                check_new_name(parts[depth - 1])

    def check_new(self, path: NotePath) -> None:
        """Raise `InvalidPath` when a new note can't have this name."""
        self._check_new(path)

    def absent(self, caller: Caller, path: NotePath) -> NotFound:
        """What to say when a note that is to be changed isn't there."""
        near = self._index.suggest(path, match=self._access.sees(caller))
        hint = (
            f"Did you mean {', '.join(near)}?" if near else "note_write with mode=create makes it."
        )
        return NotFound(f"There is no note {path!r}.", hint, did_you_mean=near)

    def _absent(self, caller: Caller, path: NotePath, *, is_folder: bool) -> Exception:
        if is_folder:
            return InvalidRequest(
                f"{path!r} is a folder.", "Delete the notes in it one by one, or move the folder."
            )
        near = self._index.suggest(path, match=self._access.sees(caller))
        hint = f"Did you mean {', '.join(near)}?" if near else "It may be deleted already."
        return NotFound(f"There is no {path!r}.", hint, did_you_mean=near)

    def _small(self, path: NotePath) -> Found | None:
        """A file unless it is too large to be read."""
        try:
            return self._vault.read(path)
        except TooLarge:
            return None

    def _free_in_trash(self, disk: str) -> str:
        """A name in the trash that nobody has; Obsidian numbers them, too."""
        stem, dot, suffix = disk.rpartition("/")[2].rpartition(".")
        stem, dot, suffix = (stem, dot, suffix) if stem else (suffix, "", "")
        number = 1
        while True:
            name = stem if number == 1 else f"{stem} {number}"
            if self._vault.find(f".trash/{name}{dot}{suffix}") is None:
                return f".trash/{name}{dot}{suffix}"
            number += 1

    def _told(self, edit: Edit, *, diff: bool, merged: bool = False) -> dict[str, Any]:
        shown = None
        if edit.changed and (diff or edit.dry_run):
            shown = _diff([(edit.path, edit.before, edit.after)])
        return {
            "path": edit.path,
            "changed": edit.changed,
            "written": edit.changed and not edit.dry_run,
            "created": edit.created,
            "etag": edit.etag,
            "bytes": len(edit.after or b""),
            "uploaded": edit.uploaded,
            "merged": merged or None,
            "dry_run": edit.dry_run or None,
            "version": edit.version,
            "diff": shown,
            "obsidian_url": self._obsidian().url(edit.path),
        }

    def _summed(
        self, before: Mapping[NotePath, bytes | None], after: Mapping[NotePath, bytes]
    ) -> Edited:
        changed = [path for path in after if after[path] != before[path]]
        notes = [
            {
                "path": path,
                "created": before[path] is None,
                "etag": etag_of(after[path]),
            }
            for path in changed
        ]
        return Edited(notes, _diff([(path, before[path], after[path]) for path in changed]), None)


class _Making:
    """What a request makes of the content that is there, three-way when it was made for another."""

    def __init__(self, writing: Writing, caller: Caller, path: NotePath, request: Request) -> None:
        self._writing = writing
        self._caller = caller
        self._path = path
        self._request = request
        self.merged = False

    def __call__(self, current: Content | None) -> bytes:
        return self.of(current.data if current else None)

    def of(self, now: bytes | None, first: bytes | None = None) -> bytes:
        """The new content; `first` is what was there before earlier edits of the same call."""
        self.merged = False
        request = self._request
        etag = etag_of(now) if now is not None else None
        if now is not None and request.mode == "create":
            raise Conflict(
                f"{self._path!r} is there already.",
                "Use mode=overwrite with if_match, append, or another path.",
                etag=etag,
            )
        known = (None, etag, etag_of(first) if first is not None else None)
        return self._apply(now) if request.if_match in known else self._merge(now, etag)

    def _merge(self, now: bytes | None, etag: str | None) -> bytes:
        """Ours on top of what somebody else made of the same base, if the two don't touch."""
        wanted = self._request.if_match or ""
        base = self._writing.base_of(self._path, wanted) if now is not None else None
        if base is not None and now is not None:
            ours = self._apply(base)
            found = merge(decoded(base), decoded(ours), decoded(now))
            if found is not None:
                self.merged = True
                return found.encode("utf-8", "surrogateescape")
        raise Conflict(
            f"{self._path!r} is not what it was: somebody changed it.",
            "Read it again, redo the edit on what it says now, and pass the new etag as if_match.",
            if_match=wanted,
            etag=etag,
            diff=_diff([(self._path, base, now)]) if base is not None else None,
        )

    def _apply(self, now: bytes | None) -> bytes:
        request = self._request
        encoded(request.content)
        if request.target is not None:
            encoded(request.selector, "selector")
            if now is None:
                raise self._writing.absent(self._caller, self._path)
            name = self._path.rpartition("/")[2]
            text = patch(
                decoded(now), name, request.target, request.selector, request.operation or "append",
                request.content, create_missing=request.create_missing,
            )  # fmt: skip
            return _checked(text)
        if now is None:
            if request.mode not in ("create", "overwrite", "append", "prepend"):
                raise self._writing.absent(self._caller, self._path)
            self._writing.check_new(self._path)
            return (head(request.frontmatter) if request.frontmatter else b"") + encoded(
                request.content
            )
        return self._whole(decoded(now))

    def _whole(self, text: str) -> bytes:
        request = self._request
        if request.mode == "overwrite":
            above = head(request.frontmatter) if request.frontmatter else b""
            return above + encoded(request.content)
        for key, value in (request.frontmatter or {}).items():
            text = set_property(text, key, value)
        eol = line_break(text)
        content = in_breaks(request.content, eol)
        if not content:
            return _checked(text)
        if request.mode == "append":
            gap = "" if text in ("", "\ufeff") or text.endswith("\n") else eol
            return _checked(f"{text}{gap}{content}")
        at = split(text).body or (1 if text.startswith("\ufeff") else 0)
        gap = "" if content.endswith("\n") or at == len(text) else eol
        start = "" if at == 0 or text[at - 1] in "\n\ufeff" else eol
        return _checked(f"{text[:at]}{start}{content}{gap}{text[at:]}")


def _checked(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _diff(changes: Sequence[tuple[str, bytes | None, bytes | None]]) -> str:
    texts = [(path, _shown(before), _shown(after)) for path, before, after in changes]
    return unified_all(texts, DIFF_CHARS)


def _shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
