"""Moving notes and folders, renaming headings: what links there follows, or nothing happens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from server.access.decision import Access, Sight
from server.errors import Conflict, InvalidPath, InvalidRequest, NotFound
from server.index.store import Index
from server.markdown import sections
from server.markdown.differences import unified
from server.markdown.forms import Ends, destination, follow
from server.markdown.rewriting import read, relink, resection, retitle
from server.models import Caller, NotePath, kind_of
from server.service.editing import Batch, Editing
from server.service.loading import Loaded, Loader
from server.service.making import Grounds
from server.service.texts import decoded, encoded
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_note_path, parse_path
from server.vault.relocation import Place
from server.vault.vault import Vault

_ATTEMPTS = 4
_SHOWN = 50


class _Linked(Protocol):
    @property
    def source(self) -> str: ...


T = TypeVar("T", bound=_Linked)
Targets = dict[str, dict[int, str]]
"""By source: the number of a link, and what it shall name."""


@dataclass(frozen=True, slots=True)
class Relocated:
    """The outcome of a move; `moved` counts files."""

    path: str
    moved_from: str
    moved: int
    links_updated: int
    notes_changed: Sequence[str]
    total_changed: int
    notes_left: Sequence[str] = ()
    """Notes whose links may not be rewritten."""
    dry_run: bool | None = None
    pending: dict[str, Any] | None = None
    obsidian_url: str | None = None


@dataclass(frozen=True, slots=True)
class Renamed:
    """The outcome of a heading's new name."""

    path: str
    heading: str
    etag: str
    links_updated: int
    notes_changed: Sequence[str]
    diff: str
    notes_left: Sequence[str] = ()
    dry_run: bool | None = None
    pending: dict[str, Any] | None = None


class Moving:
    """The use cases after which links lead where they led. The caller comes first."""

    def __init__(
        self,
        editing: Editing,
        vault: Vault,
        index: Index,
        loader: Loader,
        grounds: Grounds,
        access: Access,
        obsidian: Callable[[], ObsidianLinks],
    ) -> None:
        self._editing = editing
        self._vault = vault
        self._index = index
        self._loader = loader
        self._grounds = grounds
        self._access = access
        self._obsidian = obsidian

    async def move(
        self, caller: Caller, raw_from: str, raw_to: str, *, update_links: bool
    ) -> Relocated:
        """Give a note, an attachment or a folder another path.

        Raises `NotFound`, or `Conflict` when something is there already.
        """
        old, new = parse_path(raw_from.rstrip("/")), parse_path(raw_to.rstrip("/"))
        for path in (old, new):
            self._require(caller, path)

        def make() -> tuple[Batch, Relocated]:
            source = self._place(caller, old)
            target = self._target(caller, source, new)
            moves = self._moves(source, target)
            batch = Batch("move")
            batch.move(source.disk, target)
            if source.kind == "folder":
                for folder in (old, new):
                    self._access.require_whole(caller, "write", folder)
                    self._access.require_whole(caller, "read", folder)
            loaded = {path: self._text(path) for path in moves if kind_of(path) == "note"}
            for path, after in moves.items():
                note = loaded.get(path)
                batch.moved(path, after, note.data if note else None)
            wanted = self._led(moves, self._access.sees(caller)) if update_links else {}
            left = self._leave(caller, wanted, moves)
            changed = self._rewritten(batch, wanted, relink, moves)
            return batch, Relocated(
                target,
                source.disk,
                len(moves) or 1,
                sum(map(len, wanted.values())),
                changed[:_SHOWN],
                len(changed),
                left[:_SHOWN],
                obsidian_url=self._obsidian().url(target) if source.kind != "folder" else None,
            )

        told, fate = await self._editing.apply(caller, "note_move", make)
        return replace(told, **fate.marks)

    async def rename_heading(
        self, caller: Caller, raw_path: str, heading: str, new: str
    ) -> Renamed:
        """Rename a heading; every link to it follows. Raises `NotFound`, `Ambiguous`."""
        path = parse_note_path(raw_path)
        self._require(caller, path)
        sees = self._access.sees(caller)
        encoded(new, "heading")

        def make() -> tuple[Batch, Renamed]:
            place = self._place(caller, path)
            loaded = self._text(place.disk)
            if loaded is None:
                raise NotFound(f"There is no note {path!r}.", "List the folder to see what is.")
            text = decoded(loaded.data)
            note = read(text)
            found = sections.find(text, note, heading).heading
            if found is None:
                raise InvalidRequest("That is a block, not a heading.", "Name a heading.")
            number = note.headings.index(found)
            headings = read(retitle(text, found, new)).headings
            wanted: Targets = {}
            links = self._steady(lambda: self._index.references_to(loaded.path, sight=sees))
            for link in links:
                section = follow(link.section, note.headings, headings)
                if section is not None:
                    wanted.setdefault(link.source, {})[link.n] = section
            own = wanted.pop(loaded.path, {})
            left = self._leave(caller, wanted, {})
            text = resection(text, note, own)
            text = retitle(text, read(text).headings[number], new)
            data = text.encode("utf-8", "surrogateescape")
            batch = Batch("patch")
            if data != loaded.data:
                batch.replace(loaded.path, loaded.data, data)
            changed = self._rewritten(batch, wanted, resection, {})
            diff = unified(decoded(loaded.data), text, loaded.path, max_chars=1_000)
            count = len(own) + sum(map(len, wanted.values()))
            etag = loaded.etag if data == loaded.data else batch.kept[0].after_etag or ""
            return batch, Renamed(
                loaded.path,
                headings[number].text,
                etag,
                count,
                changed[:_SHOWN],
                diff,
                left[:_SHOWN],
            )

        told, fate = await self._editing.apply(caller, "heading_rename", make)
        return replace(told, **fate.marks)

    def _require(self, caller: Caller, path: str) -> None:
        self._access.require(caller, "write", path)
        self._access.require(caller, "read", path)

    def _leave(self, caller: Caller, wanted: Targets, moves: Mapping[str, str]) -> list[str]:
        """Take out the notes that the caller may not write, and name them: their links stay."""
        left = [
            source
            for source in sorted(wanted)
            if not self._access.may(caller, "write", moves.get(source, source))
        ]
        for source in left:
            del wanted[source]
        return left

    def _place(self, caller: Caller, path: NotePath) -> Place:
        found = self._vault.find(path, permit=self._access.permit(caller, path, "write", "read"))
        if found is not None:
            return found
        near = self._index.suggest(path, sight=self._access.sees(caller))
        hint = f"Did you mean {', '.join(near)}?" if near else "Use vault_list to find it."
        raise NotFound(f"There is no {path!r}.", hint, did_you_mean=near)

    def _target(self, caller: Caller, source: Place, new: NotePath) -> NotePath:
        """Where it goes: into a folder that is there, or to the very path."""
        permit = self._access.permit(caller, new, "write", "read")
        there = self._vault.find(new, permit=permit)
        name = source.disk.rpartition("/")[2]
        if there is not None and there.kind == "folder" and source.kind != "folder":
            new = parse_path(f"{new}/{name}")
            self._require(caller, new)
            there = self._vault.find(new, permit=permit)
        if there is not None and there.disk != source.disk:
            raise Conflict(f"{there.disk!r} is there already.", "Choose another name.")
        if source.kind != "folder" and kind_of(new) != source.kind:
            suffix = ".md" if source.kind == "note" else f".{name.rpartition('.')[2]}"
            raise InvalidPath(
                f"{new!r} would be another kind of file.", f"Keep the ending: try '{new}{suffix}'."
            )
        self._grounds.check_new(new)
        return new

    def _moves(self, source: Place, new: str) -> dict[str, str]:
        """Every file that gets another path, by its old one."""
        old = NotePath(source.disk)
        rows = self._index.match(old)
        known = next((row.path for row in rows if row.disk == source.disk), str(old))
        if source.kind != "folder":
            return {known: new}
        return {row.path: new + row.path[len(known) :] for row in self._index.files_below(known)}

    def _led(self, moves: Mapping[str, str], sees: Sight) -> Targets:
        """What links shall name so that they lead where they led."""
        after = self._index.after(moves, sight=sees)
        wanted: Targets = {}
        for doubt in self._steady(lambda: self._index.links_in_doubt(moves, sight=sees)):
            source = moves.get(doubt.source, doubt.source)
            ends = Ends(doubt.source, source, doubt.now, doubt.wanted)
            target = destination(
                doubt.target,
                doubt.kind,
                ends,
                lambda text, at=source: after(text, at),  # type: ignore[misc]
            )
            if target is not None:
                wanted.setdefault(doubt.source, {})[doubt.n] = target
        return wanted

    def _steady(self, ask: Callable[[], list[T]]) -> list[T]:
        """What the index says of links, asked again while the notes that hold them have changed."""
        for _ in range(_ATTEMPTS):
            found = ask()
            behind = [path for path in {link.source for link in found} if self._is_behind(path)]
            if not behind:
                return found
        raise Conflict("The notes that link there keep changing.", "Try again in a moment.")

    def _is_behind(self, path: str) -> bool:
        """Whether the index had another content of a note; then it has the present one now."""
        row = self._index.get(path)
        loaded = self._text(path)
        return row is None or loaded is None or row.etag != loaded.etag

    def _text(self, path: str) -> Loaded | None:
        return self._loader.load_now(NotePath(path))

    def _rewritten(
        self,
        batch: Batch,
        wanted: Targets,
        rewrite: Callable[..., str],
        moves: Mapping[str, str],
    ) -> list[str]:
        """Put the changed notes into the batch; where they will be."""
        changed = []
        for source, targets in sorted(wanted.items()):
            loaded = self._text(source)
            if loaded is None:
                continue
            text = decoded(loaded.data)
            data = rewrite(text, read(text), targets).encode("utf-8", "surrogateescape")
            path = moves.get(source, source)
            if data != loaded.data:
                batch.replace(path, loaded.data, data)
                changed.append(path)
        return changed
