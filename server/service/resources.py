"""Notes, attachments and folders as whole things that a client may keep at hand."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from server.access.decision import Access
from server.errors import InvalidRequest, NotFound, TooLarge, VaultError
from server.index.rows import Row
from server.index.store import Index
from server.models import Caller, NotePath, kind_of
from server.service.attachments import MOST_CHARS, Attachments
from server.service.finding import Finding, Listing
from server.service.notes import Notes
from server.workers import Deadline, Workers

PAGE = 100
MOST_ENTRIES = 500
_WHOLE = 1 << 40
_TIMEOUT = 10.0
_QUICK = 2.0


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a file: text, or bytes as base64."""

    path: str
    type: str
    text: str | None = None
    data: str | None = None
    stale: bool | None = None


@dataclass(frozen=True, slots=True)
class NotePage:
    """Some notes, the latest first, and where the next page begins."""

    notes: Sequence[Row]
    cursor: str | None


class Resources:
    """The use cases behind resources. The caller comes first."""

    def __init__(
        self,
        index: Index,
        notes: Notes,
        attachments: Attachments,
        finding: Finding,
        access: Access,
        local: Workers,
    ) -> None:
        self._index = index
        self._notes = notes
        self._attachments = attachments
        self._finding = finding
        self._access = access
        self._local = local

    async def page(self, caller: Caller, cursor: str | None) -> NotePage:
        """Notes that the caller may read. Raises `InvalidRequest` for a cursor of somebody else's."""
        after = None if cursor is None else _place(cursor)
        sees = self._access.sees(caller)
        rows = await self._local.run_async(
            Deadline.after(_TIMEOUT), self._index.newest, after, PAGE + 1, sees
        )
        more = len(rows) > PAGE
        return NotePage(rows[:PAGE], _cursor(rows[PAGE - 1]) if more else None)

    async def file(self, caller: Caller, path: NotePath) -> Whole:
        """A whole note or attachment. Raises `NotFound`, `TooLarge`."""
        if kind_of(path) == "note":
            note = await self._notes.read(caller, path, max_chars=_WHOLE)
            if not note.exists:
                raise NotFound(f"There is no note {path!r}.", did_you_mean=note.did_you_mean)
            if note.next_offset is not None:
                raise _too_large(path, "note_read")
            return Whole(note.path, "text/markdown", text=note.content, stale=note.stale)
        found = await self._attachments.read(caller, path, offset=0, max_chars=MOST_CHARS)
        if found.next_offset is not None:
            raise _too_large(path, "attachment_read")
        data = found.data
        if found.image is not None:
            data = base64.b64encode(found.image).decode()
        return Whole(found.path, found.type, text=found.text, data=data)

    async def folder(self, caller: Caller, path: NotePath) -> Listing:
        """What is in a folder. Raises `NotFound`."""
        return await self._finding.browse(
            caller, path, depth=1, glob=None, kind=None, limit=MOST_ENTRIES, offset=0
        )

    async def top_folders(self, caller: Caller) -> list[tuple[str, int]]:
        """The folders in the root that the caller sees, with their notes; none when in doubt."""
        sees = self._access.sees(caller)
        try:
            return await self._local.run_async(
                Deadline.after(_QUICK), self._index.top_folders, sees
            )
        except VaultError:
            return []


def _too_large(path: str, instead: str) -> TooLarge:
    return TooLarge(
        f"{path!r} is too long to be read as a resource.", f"Read it in pages with {instead}."
    )


def _cursor(row: Row) -> str:
    place = f"{row.mtime_ns}:{row.path}".encode(errors="surrogatepass")
    return base64.urlsafe_b64encode(place).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        raw = base64.b64decode(cursor, altchars=b"-_", validate=True)
        time_ns, colon, path = raw.decode(errors="surrogatepass").partition(":")
        place = int(time_ns)
        if colon and -(1 << 63) <= place < 1 << 63:
            return place, path
    except (ValueError, binascii.Error):
        pass
    raise InvalidRequest("That cursor is not one of this list.", "Begin without a cursor.")
