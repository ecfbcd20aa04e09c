"""Files that are no notes: images, canvases, PDFs and whatever else lies in a vault."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.access.decision import Access
from server.access.rules import Verb
from server.errors import (
    Conflict,
    InvalidPath,
    InvalidRequest,
    NotFound,
    Timeout,
    TooLarge,
    Unavailable,
)
from server.index.store import Index
from server.models import Caller, Content, NotePath, kind_of
from server.service.editing import Edit, Editing
from server.service.freshness import iso_ns
from server.service.room import MESSAGE, ROOM, cut
from server.service.sniffing import IMAGES, mismatch, sniff, text_of, type_of
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_path
from server.vault.vault import Found, Vault
from server.workers import Deadline, Workers

MOST_CHARS = 400_000
"""So much of base64 still has room in one message, twice."""
IMAGE_BYTES = (MESSAGE - 60_000) * 3 // 4
"""An image travels once, as base64, beside what is said of it; it can't come in pages."""
_NAMES = 20_000
_LONGEST_HEAD = 200
_VERBS: tuple[Verb, Verb] = ("write", "read")
_BY_HAND = "Ask the user to put it into the vault"


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """An attachment as a reader gets it: an image, or a page of `text` or of `data` (base64)."""

    path: str
    type: str
    size: int
    etag: str
    modified: str
    text: str | None = None
    data: str | None = None
    next_offset: int | None = None
    """Characters of the text, bytes of the data."""
    obsidian_url: str | None = None
    image: bytes | None = None


class Attachments:
    """The use cases around one attachment. The caller comes first."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        editing: Editing,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        mount: Workers,
        local: Workers,
        *,
        check_new: Callable[[NotePath], None],
        max_bytes: int,
        timeout: float,
    ) -> None:
        self._vault = vault
        self._index = index
        self._editing = editing
        self._access = access
        self._obsidian = obsidian
        self._mount = mount
        self._local = local
        self._check_new = check_new
        self._max_bytes = max_bytes
        self._timeout = timeout

    async def read(
        self, caller: Caller, raw_path: str, *, offset: int, max_chars: int
    ) -> AttachmentView:
        """Read an attachment. Raises `NotFound`, `TooLarge`; there is no stale copy of any."""
        path = _parsed(raw_path, "note_read")
        self._access.require(caller, "read", path)
        try:
            return await self._mount.run_async(
                Deadline.after(self._timeout), self._read, caller, path, offset, max_chars
            )
        except (Unavailable, Timeout):
            self._vault.guard.wake()
            raise

    async def write(
        self, caller: Caller, raw_path: str, raw: str, *, if_match: str | None, overwrite: bool
    ) -> dict[str, Any]:
        """Store bytes that come as base64. Raises `Conflict` with both etags."""
        path = _parsed(raw_path, "note_write")
        for verb in _VERBS:
            self._access.require(caller, verb, path)
        data = await self._local.run_async(Deadline.after(30), self._checked, path, raw)

        def change(current: Content | None) -> bytes:
            if current is None:
                return self._created(path, data, if_match)
            # What is there already needs no permission to be put there: a call may be repeated.
            if current.data != data:
                self._check_replaceable(caller, path, current, if_match, overwrite)
            return data

        edit = await self._editing.edit(caller, "attachment_write", path, change, kind="attachment")
        return self._told(edit, data)

    def _read(self, caller: Caller, path: NotePath, offset: int, max_chars: int) -> AttachmentView:
        found = self._found(caller, path)
        # A symbolic link may lead to another file, which may be a note.
        if kind_of(found.path) == "note":
            raise _is_note(found.path, "note_read")
        data, stat = found.content.data, found.content.stat
        kind = type_of(found.path, data)
        image = text = page = more = None
        if kind in IMAGES and sniff(data) == kind:
            image = self._fitting_image(found)
        elif (whole := text_of(kind, data)) is not None:
            text = cut(whole[offset : offset + max_chars], ROOM - _NAMES)
            more = _more(offset + len(text), len(whole))
        else:
            # Whole groups of three bytes, so that the pages joined are the base64 of the file.
            end = offset + max(3, max_chars // 4 * 3)
            page = base64.b64encode(data[offset:end]).decode()
            more = _more(end, len(data))
        return AttachmentView(
            path=found.path,
            type=kind,
            size=len(data),
            etag=found.content.etag,
            modified=iso_ns(stat.mtime_ns),
            text=text,
            data=page,
            next_offset=more,
            obsidian_url=self._obsidian().url(found.path),
            image=image,
        )

    def _found(self, caller: Caller, path: NotePath) -> Found:
        permit = self._access.permit(caller, path, "read")
        place = self._vault.find(path, permit=permit)
        if place is not None and place.kind == "folder":
            raise InvalidRequest(f"{path!r} is a folder.", "vault_list tells what is in it.")
        if place is not None and place.stat.size > self._max_bytes:
            raise self._too_large(path, place.stat.size, "Open it in Obsidian")
        found = self._vault.read(path, permit=permit) if place is not None else None
        if found is None:
            near = self._index.suggest(path, sight=self._access.sees(caller))
            hint = f"Did you mean {', '.join(near)}?" if near else "vault_list tells what there is."
            raise NotFound(f"There is no attachment {path!r}.", hint, did_you_mean=near)
        return found

    def _too_large(self, path: str, size: int, instead: str) -> TooLarge:
        return TooLarge(
            f"{path!r} has {size:,} bytes; {self._max_bytes:,} is the limit.",
            f"{instead}; MAX_ATTACHMENT_MB sets the limit.",
            size=size,
            limit=self._max_bytes,
        )

    def _fitting_image(self, found: Found) -> bytes:
        size = len(found.content.data)
        if size > IMAGE_BYTES:
            raise TooLarge(
                f"The image has {size:,} bytes; clients take {IMAGE_BYTES:,} at most.",
                "Ask the user to open it in Obsidian, or for a smaller copy of it.",
                size=size,
                limit=IMAGE_BYTES,
            )
        return found.content.data

    def _checked(self, path: NotePath, raw: str) -> bytes:
        """The bytes that shall be at a path. Raises what is wrong with them."""
        limit = 4 * (-(-self._max_bytes // 3))
        # Line breaks and the head of a data: URL may come on top.
        if len(raw) > limit + limit // 32 + _LONGEST_HEAD:
            raise self._too_large(path, len(raw) * 3 // 4, _BY_HAND)
        data = decoded(raw)
        if len(data) > self._max_bytes:
            raise self._too_large(path, len(data), _BY_HAND)
        if (differ := mismatch(path, data)) is not None:
            named, found = differ
            raise InvalidRequest(
                f"{path!r} is named like {named}, but the data is {found}.",
                "Obsidian could not show it: give the name the ending of what it is.",
                named=named,
                found=found,
            )
        return data

    def _created(self, path: NotePath, data: bytes, if_match: str | None) -> bytes:
        if if_match is not None:
            raise Conflict(
                f"{path!r} is not there.",
                "Leave if_match out to create it.",
                if_match=if_match,
                etag=None,
            )
        name = path.rpartition("/")[2]
        if "." not in name:
            raise InvalidPath(
                f"{name!r} has no ending, so Obsidian can't show it.",
                f"Name what it is, like .png or .pdf; the data is {type_of(name, data)}.",
            )
        self._check_new(path)
        return data

    def _check_replaceable(
        self,
        caller: Caller,
        path: NotePath,
        current: Content,
        if_match: str | None,
        overwrite: bool,
    ) -> None:
        place = self._vault.find(path, permit=self._access.permit(caller, path, *_VERBS))
        if place is not None and place.kind == "note":
            raise _is_note(place.disk, "note_write")
        if if_match is not None and if_match != current.etag:
            raise Conflict(
                f"{path!r} is not what it was: somebody changed it.",
                "Read it again, and pass its etag as if_match if it shall still be replaced.",
                if_match=if_match,
                etag=current.etag,
            )
        if if_match is None and not overwrite:
            raise Conflict(
                f"{path!r} is there already.",
                "Use another name, or overwrite=true to replace it.",
                etag=current.etag,
            )

    def _told(self, edit: Edit, data: bytes) -> dict[str, Any]:
        was = "no file" if edit.before is None else f"{len(edit.before):,} bytes"
        shown = f"{edit.path}: {was} -> {len(data):,} bytes"
        return {
            "path": edit.path,
            "type": type_of(edit.path, data),
            "changed": edit.changed,
            "created": edit.created,
            "etag": edit.etag,
            "bytes": len(data),
            "uploaded": edit.uploaded,
            "version": edit.version,
            "dry_run": edit.dry_run or None,
            "pending": edit.pending,
            "diff": shown if edit.dry_run and edit.changed else None,
            "obsidian_url": self._obsidian().url(edit.path),
        }


def decoded(raw: str) -> bytes:
    """The bytes of base64, plain or in a data: URL. Raises `InvalidRequest`."""
    text = raw.strip()
    if text[:5].lower() == "data:":
        head, comma, text = text.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise InvalidRequest("The data: URL has no base64.", "It begins data:TYPE;base64,")
    try:
        # Tools that print base64 break its lines.
        return base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest(
            "The data is not base64.", "Send the file's bytes in standard base64, with its padding."
        ) from None


def _parsed(raw_path: str, instead: str) -> NotePath:
    path = parse_path(raw_path)
    if kind_of(path) == "note":
        raise _is_note(path, instead)
    return path


def _is_note(path: str, instead: str) -> InvalidRequest:
    return InvalidRequest(f"{path!r} is a note.", f"Use {instead} for notes.")


def _more(end: int, size: int) -> int | None:
    return end if end < size else None
