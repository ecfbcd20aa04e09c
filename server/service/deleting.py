"""Deleting notes and attachments: to the trash, or for good."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from server.access.decision import Access
from server.errors import Conflict, InvalidRequest, NotFound, TooLarge
from server.index.store import Index
from server.models import Caller, NotePath
from server.service.editing import Batch, Editing
from server.service.trash import free_in_trash
from server.vault.files import Permit
from server.vault.paths import parse_path
from server.vault.vault import Found, Vault

_RIVALS = 20


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a deletion."""

    path: str
    trashed_to: str | None
    broken_links: int
    version: int | None
    dry_run: bool | None
    pending: dict[str, Any] | None = None


class Deleting:
    """The use case `note_delete`. The caller comes first."""

    def __init__(self, editing: Editing, vault: Vault, index: Index, access: Access) -> None:
        self._editing = editing
        self._vault = vault
        self._index = index
        self._access = access

    async def delete(self, caller: Caller, raw_path: str, *, permanent: bool) -> Deleted:
        """Move a note or an attachment to `.trash`, or delete it for good; the history keeps it."""
        path = parse_path(raw_path)
        self._access.require(caller, "write", path)
        self._access.require(caller, "read", path)
        sees, permit = self._access.sees(caller), self._access.permit(caller, path, "write", "read")

        def make() -> tuple[Batch, Deleted]:
            place = self._vault.find(path, permit=permit)
            if place is None or place.kind == "folder":
                raise self._absent(caller, path, is_folder=place is not None)
            found = self._small(path, permit)
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
                trashed = free_in_trash(self._vault, place.disk)
                batch.move(place.disk, trashed)
                if found is not None:
                    batch.gone(found.path, found.content.data)
            row = next(iter(self._index.match(path, sees)), None)
            broken = self._index.link_counts(row.path, sees)[0] if row is not None else 0
            # The name in the trash tells whether somebody threw away one of the same name before.
            where = trashed if sees.everything else None
            return batch, Deleted(found.path if found else path, where, broken, None, None)

        async def carry_out() -> Deleted:
            told, fate = await self._editing.apply(caller, "note_delete", make)
            return replace(told, **fate.marks)

        # Others may throw away a file of the same name at the same moment.
        for _ in range(0 if permanent or caller.approval else _RIVALS):
            with suppress(Conflict):
                return await carry_out()
        return await carry_out()

    def _absent(self, caller: Caller, path: NotePath, *, is_folder: bool) -> Exception:
        if is_folder:
            return InvalidRequest(
                f"{path!r} is a folder.", "Delete the notes in it one by one, or move the folder."
            )
        near = self._index.suggest(path, sight=self._access.sees(caller))
        hint = f"Did you mean {', '.join(near)}?" if near else "It may be deleted already."
        return NotFound(f"There is no {path!r}.", hint, did_you_mean=near)

    def _small(self, path: NotePath, permit: Permit) -> Found | None:
        """A file unless it is too large to be read."""
        try:
            return self._vault.read(path, permit=permit)
        except TooLarge:
            return None
