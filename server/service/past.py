"""Getting things back: what a note said before, and what a caller did, taken back as one."""

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from server.access.decision import Access
from server.errors import Conflict, InvalidRequest, NotFound, TooLarge
from server.history.store import Entry, History
from server.index.store import Index
from server.markdown.differences import unified_all
from server.models import Caller, Content, NotePath, path_key
from server.service.editing import Batch, Edit, Editing
from server.service.reversal import Reversal, Reverted
from server.service.vocabulary import moment
from server.vault.files import Permit
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_path
from server.vault.vault import Vault
from server.workers import Deadline, Workers

MOST_CHANGES = 20_000
"""Entries that one undo may look at, those of others among them."""
_ALL = 1 << 30
_DIFF, _UNDO_DIFF = 2_000, 4_000
_NAMED = 20
_TIMEOUT, _LOOK_SECONDS = 10.0, 300.0
_JITTER_NS = 60 * 10**9
"""Entries of several servers may be this much out of the order of their times."""
_VERSION = re.compile(r"\s*#(\d{1,18})\s*")


@dataclass(frozen=True, slots=True)
class Versions:
    """Some of a note's `total` versions, newest first."""

    path: str
    entries: Sequence[Entry]
    total: int
    obsidian_url: str | None


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome of a restoration."""

    path: str
    changed: bool
    created: bool
    etag: str
    version: int | None
    diff: str | None
    uploaded: bool | None
    dry_run: bool | None
    pending: dict[str, Any] | None
    obsidian_url: str | None


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of an undo; `version` is where the undo itself begins in the history."""

    changes: Sequence[Reverted]
    diff: str
    applied: bool = False
    dry_run: bool | None = None
    version: int | None = None
    pending: dict[str, Any] | None = None


class Past:
    """The use cases that look back. The caller comes first."""

    def __init__(
        self,
        history: History,
        editing: Editing,
        vault: Vault,
        index: Index,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        mount: Workers,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._history = history
        self._editing = editing
        self._vault = vault
        self._index = index
        self._access = access
        self._obsidian = obsidian
        self._local = local
        self._mount = mount
        self._now = now

    async def versions(self, caller: Caller, raw_path: str, *, limit: int, offset: int) -> Versions:
        """What happened to a file, wherever it was before. Raises `NotFound` for an unknown path."""
        path = parse_path(raw_path)
        self._access.require(caller, "read", path)

        def run() -> Versions:
            entries = self._entries(caller, path)
            row = next(iter(self._index.match(path, self._access.sees(caller))), None)
            if not entries and row is None:
                raise self._unknown(caller, path)
            shown = row.path if row else _spelled(path, entries)
            url = self._obsidian().url(row.path) if row else None
            return Versions(shown, entries[offset : offset + limit], len(entries), url)

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    async def restore(
        self, caller: Caller, raw_path: str, version: int | None, if_match: str | None
    ) -> Restored:
        """Put back what a file held before a change; without `version`, before the last one.

        Raises `NotFound` for a version that isn't its own, `Conflict` when it has another etag.
        """
        path = parse_path(raw_path)
        self._access.require(caller, "read", path)
        spelled, data = await self._local.run_async(
            Deadline.after(_TIMEOUT), self._kept, caller, path, version
        )

        def change(current: Content | None) -> bytes:
            etag = current.etag if current else None
            if if_match is not None and if_match != etag:
                raise Conflict(
                    f"{path!r} is not what it was: somebody changed it.",
                    "Read it again; if it shall still go, pass its new etag as if_match.",
                    if_match=if_match,
                    etag=etag,
                )
            return data

        edit = await self._editing.edit(caller, "note_restore", spelled, change, kind="restore")
        return self._told(edit)

    async def undo(
        self,
        caller: Caller,
        since: str,
        *,
        of: str | None,
        session: str | None,
        skip: Collection[str],
        apply: bool,
    ) -> Undone:
        """Take back all that a caller did since a moment, or only show what that would change.

        Raises `Conflict` with the paths that others changed in the same places.
        """
        who = caller.name if of is None else of
        if who != caller.name:
            self._access.require(caller, "admin", "")
        left = [parse_path(raw) for raw in skip]

        def make() -> tuple[Batch, Undone]:
            mine, entries = self._since(since, who, session)
            entries = _in_sight(entries, mine, self._access.sees(caller))
            reversal = Reversal(self._vault, self._content, left, self._permit(caller))
            batch = reversal.replay(entries, lambda entry: entry.id in mine)
            self._check(caller, reversal)
            return batch, Undone(reversal.reverted, _diff(reversal.reverted, _UNDO_DIFF))

        if not apply:
            deadline = Deadline.after(_LOOK_SECONDS)
            return (await self._mount.run_async(deadline, make))[1]
        started = self._now()
        told, fate = await self._editing.apply(caller, "undo", make)
        if not fate.done or not told.changes:
            return replace(told, **fate.marks)
        version = await self._local.run_async(
            Deadline.after(_TIMEOUT), self._begun, caller, started
        )
        return Undone(told.changes, told.diff, applied=True, version=version)

    def _entries(self, caller: Caller, path: NotePath) -> list[Entry]:
        """A file's entries as far as the caller may read where it was."""
        sees = self._access.sees(caller)
        entries, _ = self._history.of(path, limit=_ALL)
        return [
            entry
            for entry in entries
            if sees(entry.path) and (entry.other is None or sees(entry.other))
        ]

    def _kept(self, caller: Caller, path: NotePath, version: int | None) -> tuple[NotePath, bytes]:
        """The content before a change, and how the path is spelled."""
        entries = self._entries(caller, path)
        known = [entry for entry in entries if entry.before is not None]
        if version is None:
            entry = next(iter(known), None)
        else:
            entry = next((entry for entry in entries if entry.id == version), None)
        if entry is None:
            if not entries and not self._index.match(path, self._access.sees(caller)):
                raise self._unknown(caller, path)
            what = "earlier version" if version is None else f"version {version}"
            raise _no_version(f"{path!r} has no {what}.", known)
        if entry.before is None:
            if entry.other is not None:
                raise _no_version(f"Version {entry.id} is a move, and kept no content.", known)
            raise InvalidRequest(
                f"{path!r} did not exist before version {entry.id}.",
                "Delete it with note_delete if it shall go.",
            )
        data = self._history.content(entry.before)
        if data is None:
            raise _no_version(f"The content of version {entry.id} is damaged.", known)
        return _spelled(path, entries), data

    def _since(self, since: str, who: str, session: str | None) -> tuple[set[int], list[Entry]]:
        """The ids of what is to be undone, and everything that happened from the first of it on."""
        first, begin = 0, 0
        if numbered := _VERSION.fullmatch(since):
            first = int(numbered[1])
            entry = self._history.entry(first)
            if entry is None:
                raise NotFound(
                    f"There is no version {first}.", "note_history tells the versions of a note."
                )
            begin = entry.at_ns - _JITTER_NS
        else:
            begin = moment(since, self._now())
        own = self._history.since(begin, caller=who, session=session, limit=MOST_CHANGES + 1)
        own = [entry for entry in own if entry.id >= first]
        if not own:
            return set(), []
        begin = min(entry.at_ns for entry in own) - _JITTER_NS
        entries = self._history.since(begin, limit=2 * MOST_CHANGES)
        entries = [entry for entry in entries if entry.id >= own[0].id]
        if len(entries) > MOST_CHANGES or own[-1].id > entries[-1].id:
            raise TooLarge(
                f"More than {MOST_CHANGES:,} changes were made since.",
                "Choose a later time, and go back step by step.",
            )
        return {entry.id for entry in own}, entries

    def _check(self, caller: Caller, reversal: Reversal) -> None:
        """Refuse what the caller may not see or write, and what others' work stands against."""
        refused = reversal.refused
        for path in refused:
            self._access.require(caller, "read", path)
        if refused:
            named = sorted(refused)[:_NAMED]
            raise Conflict(
                f"Nothing was undone, because of others' changes: {', '.join(named[:5])}"
                f"{' …' if len(refused) > 5 else ''}.",
                "Name these paths in skip to undo the rest; note_history tells who changed them.",
                paths=[{"path": path, "why": refused[path]} for path in named],
                total=len(refused),
            )
        for one in reversal.reverted:
            for path in (one.path, one.moved_from or one.path):
                self._access.require(caller, "read", path)
                self._access.require(caller, "write", path)

    def _permit(self, caller: Caller) -> Callable[[str], Permit]:
        return lambda path: self._access.permit(caller, path, "read")

    def _begun(self, caller: Caller, started: int) -> int | None:
        """The first entry of the undo that was just made."""
        own = self._history.since(started, caller=caller.name, limit=_ALL)
        undos = [entry for entry in own if entry.tool.startswith("undo")]
        return next((e.id for e in undos if e.operation == undos[-1].operation), None)

    def _content(self, path: str, etag: str) -> bytes | None:
        """A content that a file had, as long as somebody here remembers it."""
        data = self._history.content(etag)
        if data is None:
            data = self._index.former(etag)
        if data is None:
            row = self._index.get(path)
            data = self._index.text(row) if row is not None and row.etag == etag else None
        return data

    def _unknown(self, caller: Caller, path: NotePath) -> NotFound:
        near = self._index.suggest(path, sight=self._access.sees(caller))
        hint = f"Did you mean {', '.join(near)}?" if near else "Use vault_list to find it."
        return NotFound(f"Nothing is known of {path!r}.", hint, did_you_mean=near)

    def _told(self, edit: Edit) -> Restored:
        change = Reverted(edit.path, "restored", None, edit.before, edit.after)
        return Restored(
            edit.path,
            edit.changed,
            edit.created,
            edit.etag,
            edit.version,
            _diff([change], _DIFF) or None,
            edit.uploaded if edit.changed else None,
            edit.dry_run or None,
            edit.pending,
            self._obsidian().url(edit.path),
        )


def _in_sight(
    entries: Sequence[Entry], mine: Collection[int], sees: Callable[[str], bool]
) -> list[Entry]:
    """What happened as far as a caller may know: what others moved out of sight is gone for it.

    Its own changes stay as they are: it knows of them, and is refused what it may not read now.
    """
    found = []
    for entry in entries:
        if entry.id in mine or all(sees(path) for path in (entry.path, entry.other or entry.path)):
            found.append(entry)
        elif entry.other is not None and sees(entry.other):
            found.append(replace(entry, path=entry.other, other=None, after=None))
    return found


def _spelled(path: NotePath, entries: Sequence[Entry]) -> NotePath:
    """A path as it was last written, if only its case is another."""
    named = (name for entry in entries for name in (entry.path, entry.other) if name is not None)
    return next((NotePath(name) for name in named if path_key(name) == path_key(path)), path)


def _no_version(message: str, known: Sequence[Entry]) -> NotFound:
    ids = [entry.id for entry in known[:5]]
    hint = f"Its last versions: {', '.join(map(str, ids))}." if ids else "None is kept."
    return NotFound(message, hint, versions=ids)


def _diff(changes: Sequence[Reverted], most: int) -> str:
    texts = [(one.path, _shown(one.before), _shown(one.after)) for one in changes]
    return unified_all(texts, most)


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    return f"({len(data):,} bytes)\n" if b"\0" in data else data.decode("utf-8", "replace")
