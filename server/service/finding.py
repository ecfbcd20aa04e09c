"""Finding things: lists from the index, regex search by ripgrep over the local mirror.

Never touches the mount: what was last seen of the vault answers, and says how fresh it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from operator import itemgetter

from server.access.decision import Access, Sight
from server.errors import NotFound, VaultError
from server.index.reading import Gathered, Reading
from server.index.rows import Located, Row
from server.index.store import Index
from server.models import Caller, Kind
from server.search.hits import Hit
from server.search.ripgrep import Case, Ripgrep
from server.service.freshness import Clock, Freshness
from server.service.globs import fixed_folder, matcher
from server.service.room import ROOM, fitting, weight
from server.telemetry import Telemetry
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_folder
from server.workers import Deadline, Workers

COUNT_CAP = 2_000
"""Matches counted before a search stops: an agent that gets this many must ask more precisely."""
_PIPE_BYTES = 24 << 20
_STRAYS = 1_000
LINE_CHARS = 300
_FIELDS = "kind attachment size 9999999999 modified 2026-01-01T00:00:00Z" + 6 * '""'
"""As long as the rest of a listed file is."""


@dataclass(frozen=True, slots=True)
class Match:
    """One matching line."""

    path: str
    line: int
    text: str
    before: Sequence[str] | None
    after: Sequence[str] | None
    obsidian_url: str | None


@dataclass(frozen=True, slots=True)
class Matches:
    """A page of matching lines. `capped`: there are more than `total`."""

    results: Sequence[Match]
    total: int
    truncated: bool
    capped: bool
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of files and folders."""

    path: str
    entries: Sequence[Row]
    total: int
    freshness: Freshness


_Line = tuple[str, int, Hit]
"""A matching line: its note, its byte offset there, the hit. Thousands are made and sorted."""


class _Astray(Exception):
    """Too many hits were of notes that were not asked for."""


class Finding:
    """The use cases that answer from the index and the mirror."""

    def __init__(
        self,
        index: Index,
        ripgrep: Ripgrep,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        telemetry: Telemetry,
        *,
        timeout: float = 10.0,
    ) -> None:
        self._index = index
        self._ripgrep = ripgrep
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._telemetry = telemetry
        self._timeout = timeout

    async def browse(
        self,
        caller: Caller,
        raw_path: str | None,
        *,
        depth: int,
        glob: str | None,
        kind: Kind | None,
        limit: int,
        offset: int,
    ) -> Listing:
        """What is below a folder, in path order. Raises `NotFound` for a folder that isn't there."""
        folder = parse_folder(raw_path)
        self._access.require_reach(caller, folder)
        sees, matches = self._access.sees(caller), matcher(glob)

        def run() -> Listing:
            actual = self._actual_folder(folder, sees)
            rows, total = self._index.children(
                actual, depth, kind, matches, sight=sees, limit=limit, offset=offset
            )
            shown = fitting(rows, ROOM, self._entry_parts)
            return Listing(actual, shown, total, self._clock.now())

        return await self._local.run_async(Deadline.after(self._timeout), run)

    def _entry_parts(self, row: Row) -> Sequence[object]:
        return (row.path, self._obsidian().url(row.path), _FIELDS)

    def _actual_folder(self, folder: str, sees: Sight) -> str:
        if not folder:
            return folder
        rows = [row for row in self._index.match(folder, sees) if row.kind == "folder"]
        exact = [row.path for row in rows if row.path == folder] or [row.path for row in rows]
        if exact:
            return exact[0]
        near = self._index.suggest(folder, sight=sees)
        raise NotFound(
            f"There is no folder {folder!r}.",
            f"Did you mean {', '.join(near)}?"
            if near
            else "List the vault's root to see what is there.",
        )

    async def search(
        self,
        caller: Caller,
        query: str,
        *,
        path_filter: str | None,
        case: Case,
        context: int,
        limit: int,
        offset: int,
    ) -> Matches:
        """Lines that match a regex, by path and line. Raises `InvalidRequest` for a bad regex."""
        sees, matches = self._access.sees(caller), matcher(path_filter)
        allowed = sees if matches is None else lambda path: sees(path) and matches(path)

        deadline = Deadline.after(self._timeout + 2)

        def run() -> Matches:
            # A filter is cheapest to apply to hits; only when most are in vain, to notes.
            if matches is not None or not sees.everything:
                with suppress(_Astray):
                    return whole(_STRAYS)
                with self._index.reading() as look:
                    part = look.gather(fixed_folder(path_filter), allowed, _PIPE_BYTES)
                if part is not None:
                    found = self._grep_texts(query, part, case, deadline)
                    return self._page(found, part.text, context, limit, offset)
            return whole(None)

        def whole(strays: int | None) -> Matches:
            with self._index.reading() as look:
                places: dict[str, tuple[int, Located]] = {}
                found = self._grep_segments(query, look, places, allowed, case, strays, deadline)
                # Still inside: the text must be the one that was searched, or line numbers lie.
                return self._page(
                    found, lambda path: look.text(*places[path]) or b"", context, limit, offset
                )

        return await self._local.run_async(deadline, run)

    def _grep_segments(
        self,
        query: str,
        look: Reading,
        places: dict[str, tuple[int, Located]],
        allowed: Callable[[str], bool],
        case: Case,
        strays: int | None,
        deadline: Deadline,
    ) -> list[_Line]:
        """Search the whole mirror; `places` learns where each matching note's text is.

        Raises `_Astray` after more than `strays` hits in notes that are not allowed.
        """
        found: list[_Line] = []
        numbers = [number for number, _ in look.segments]
        denied: set[str] = set()
        astray = 0

        def on_hit(hit: Hit) -> bool:
            nonlocal astray
            segment = numbers[hit.file]
            note = look.locate(segment, hit.offset)
            if note is None:
                return True
            path = note.path
            if path not in places and path not in denied:
                if allowed(path):
                    places[path] = (segment, note)
                else:
                    denied.add(path)
            if path in places:
                found.append((path, hit.offset - note.start, hit))
                return len(found) <= COUNT_CAP
            astray += 1
            return strays is None or astray <= strays

        files = [file for _, file in look.segments]
        with self._counted():
            self._ripgrep.search(
                query, files, case=case, timeout=self._timeout, on_hit=on_hit, deadline=deadline
            )
        if strays is not None and astray > strays:
            raise _Astray
        return found

    def _grep_texts(
        self, query: str, gathered: Gathered, case: Case, deadline: Deadline
    ) -> list[_Line]:
        found: list[_Line] = []

        def on_hit(hit: Hit) -> bool:
            owner = gathered.owner(hit.offset)
            if owner is not None:
                found.append((*owner, hit))
            return len(found) <= COUNT_CAP

        if gathered.data:
            with self._counted():
                self._ripgrep.search_bytes(
                    query,
                    gathered.data,
                    case=case,
                    timeout=self._timeout,
                    on_hit=on_hit,
                    deadline=deadline,
                )
        return found

    @contextmanager
    def _counted(self) -> Iterator[None]:
        outcome = "internal_error"
        with self._telemetry.rg_seconds.time():
            try:
                yield
                outcome = "ok"
            except VaultError as error:
                outcome = error.code
                raise
            finally:
                self._telemetry.rg_runs.labels(outcome).inc()

    def _page(
        self,
        found: list[_Line],
        text_of: Callable[[str], bytes],
        context: int,
        limit: int,
        offset: int,
    ) -> Matches:
        capped = len(found) > COUNT_CAP
        del found[COUNT_CAP:]
        # Within a note they came in order already.
        found.sort(key=itemgetter(0))
        page = found[offset : offset + limit]
        matches: list[Match] = []
        data, room = b"", ROOM
        for path, start, hit in page:
            first = not matches or matches[-1].path != path
            if first:
                data = text_of(path)
            number = data.count(b"\n", 0, start) + 1
            before, after = _around(data, number, context) if context else (None, None)
            match = Match(
                path, number, clip(hit.text, _span(hit)), before, after,
                self._obsidian().url(path) if first else None,
            )  # fmt: skip
            room -= weight(asdict(match))
            if room < 0:
                break
            matches.append(match)
        self._index.use(match.path for match in reversed(matches))
        truncated = capped or offset + len(matches) < len(found)
        return Matches(matches, len(found), truncated, capped, self._clock.now())


def _span(hit: Hit) -> tuple[int, int]:
    return hit.spans[0] if hit.spans else (0, 0)


def clip(line: bytes, span: tuple[int, int]) -> str:
    """A line as text without its ending, cut to a window around the match when it is long."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if len(text) <= LINE_CHARS:
        return text
    at = len(line[: span[0]].decode("utf-8", "replace"))
    start = max(0, min(at - LINE_CHARS // 3, len(text) - LINE_CHARS))
    cut = text[start : start + LINE_CHARS]
    return ("…" if start else "") + cut + ("…" if start + LINE_CHARS < len(text) else "")


def _around(data: bytes, number: int, context: int) -> tuple[list[str], list[str]]:
    # What follows the last newline is no line.
    lines = data.removesuffix(b"\n").split(b"\n")
    before = lines[max(0, number - 1 - context) : number - 1]
    after = lines[number : number + context]
    return [clip(line, (0, 0)) for line in before], [clip(line, (0, 0)) for line in after]
