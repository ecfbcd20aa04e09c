"""Writing and patching notes: precise edits, and nothing but them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from server.access.decision import Access
from server.errors import InvalidRequest, TooLarge
from server.models import Caller, Content, NotePath, etag_of, path_key
from server.service.editing import Batch, Edit, Editing
from server.service.making import Grounds, Making, Request
from server.service.once import AboutTo, Once
from server.service.texts import diff_of, encoded, head
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path
from server.vault.vault import Vault

MOST_EDITS = 100


@dataclass(frozen=True, slots=True)
class Edited:
    """The outcome of several edits."""

    notes: Sequence[Mapping[str, Any]]
    diff: str
    dry_run: bool | None
    pending: dict[str, Any] | None = None


class Writing:
    """The use cases that change what notes say. The caller comes first."""

    def __init__(
        self,
        editing: Editing,
        once: Once,
        vault: Vault,
        grounds: Grounds,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        uploads: Callable[[str, bytes, float], Awaitable[bool]],
        *,
        max_bytes: int,
    ) -> None:
        """`uploads` waits until the remote holds a note's content, and tells whether it does."""
        self._editing = editing
        self._once = once
        self._vault = vault
        self._grounds = grounds
        self._access = access
        self._obsidian = obsidian
        self._uploads = uploads
        self._max_bytes = max_bytes

    async def upsert(
        self,
        caller: Caller,
        raw_path: str,
        content: str,
        frontmatter: Mapping[str, Any] | None,
        key: str | None = None,
        wait: float = 0,
    ) -> dict[str, Any]:
        """Create the note with its frontmatter, or append a newline and the content to it.

        `wait` is how many seconds its upload may take.
        """
        # To who can't read there, a name must be refused the same whether a note has it or not.
        path = parse_note_path(raw_path, creating=not self._access.may(caller, "read", raw_path))
        self._access.require(caller, "write", path)
        body = self._body(content)

        def change(current: Content | None) -> bytes:
            if current is not None:
                return current.data + b"\n" + body
            self._grounds.check_new(path)
            return head(frontmatter) + body if frontmatter else body

        async def make(about_to: AboutTo | None) -> dict[str, Any]:
            edit = await self._editing.edit(
                caller, "note_upsert", path, change, kind="append", about_to=about_to
            )
            return self._told(caller, await self._uploaded(edit, wait), diff=False)

        request = {"path": path, "content": content, "frontmatter": frontmatter}
        return await self._once.run(caller, key, "note_upsert", request, path, make)

    async def write(
        self, caller: Caller, request: Request, key: str | None, wait: float = 0
    ) -> dict[str, Any]:
        """Create, overwrite, append or prepend. Raises `Conflict` with both etags."""
        path = parse_note_path(request.path)
        self._body(request.content)
        made = Making(self._grounds, caller, path, request)

        async def make(about_to: AboutTo | None) -> dict[str, Any]:
            edit = await self._editing.edit(
                caller, "note_write", path, made, kind=request.mode or "write", about_to=about_to
            )
            shown = await self._uploaded(edit, wait)
            return self._told(caller, shown, diff=False, merged=made.merged)

        fields = (path, request.content, request.mode, request.frontmatter, request.if_match)
        return await self._once.run(caller, key, "note_write", {"fields": fields}, path, make)

    async def patch(self, caller: Caller, request: Request) -> dict[str, Any]:
        """Change a part of a note. Raises `NotFound` or `Ambiguous` with the candidates."""
        path = parse_note_path(request.path)
        made = Making(self._grounds, caller, path, request)
        edit = await self._editing.edit(caller, "note_patch", path, made, kind="patch")
        return self._told(caller, edit, diff=True, merged=made.merged)

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
                    found = self._vault.read(
                        path, permit=self._access.permit(caller, path, "write", "read")
                    )
                    # Two spellings of one note are one note, new or not.
                    new = next((name for name in before if path_key(name) == path_key(path)), path)
                    names[path] = NotePath(found.path) if found else new
                    before.setdefault(names[path], found.content.data if found else None)
                name = names[path]
                making = Making(self._grounds, caller, name, request)
                after[name] = making.of(after.get(name, before[name]), first=before[name])
            batch = Batch("edit")
            for path, data in after.items():
                if data != before[path]:
                    batch.replace(path, before[path], data)
            return batch, self._summed(caller, before, after)

        told, fate = await self._editing.apply(caller, "notes_edit", make)
        return replace(told, **fate.marks)

    async def _uploaded(self, edit: Edit, wait: float) -> Edit:
        if not wait or edit.uploaded or edit.dry_run or edit.after is None:
            return edit
        done = await self._uploads(edit.path, edit.after, wait)
        return replace(edit, uploaded=True, ack="drive") if done else edit

    def _body(self, content: str) -> bytes:
        body = encoded(content)
        if len(body) > self._max_bytes:
            raise TooLarge(
                f"The content has {len(body):,} bytes; {self._max_bytes:,} is the limit.",
                "Split it.",
            )
        return body

    def _told(
        self, caller: Caller, edit: Edit, *, diff: bool, merged: bool = False
    ) -> dict[str, Any]:
        shown = None
        # A diff quotes the note: who may only write gets none.
        if edit.changed and (diff or edit.dry_run) and self._access.sees(caller)(edit.path):
            shown = diff_of([(edit.path, edit.before, edit.after)])
        return {
            "path": edit.path,
            "changed": edit.changed,
            "written": edit.changed and not edit.dry_run,
            "created": edit.created,
            "etag": edit.etag,
            "bytes": len(edit.after or b""),
            "uploaded": edit.uploaded,
            "ack": edit.ack,
            "merged": merged or None,
            "dry_run": edit.dry_run or None,
            "pending": edit.pending,
            "version": edit.version,
            "diff": shown,
            "obsidian_url": self._obsidian().url(edit.path),
        }

    def _summed(
        self,
        caller: Caller,
        before: Mapping[NotePath, bytes | None],
        after: Mapping[NotePath, bytes],
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
        sees = self._access.sees(caller)
        readable = [path for path in changed if sees(path)]
        diff = diff_of([(path, before[path], after[path]) for path in readable])
        return Edited(notes, diff, None)
