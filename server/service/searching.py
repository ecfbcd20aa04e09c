"""Ranked search by words, tags and properties, from the index and its mirror alone."""

import difflib
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from server.access.decision import Access, Sight
from server.errors import InvalidRequest, NotFound
from server.index.finds import Found, FoundNote, Scope, Sort
from server.index.store import Index
from server.models import Caller
from server.query.tree import Node, PropertyTest, Text, walk, wanted_texts
from server.service.asking import Mode, condition
from server.service.freshness import Clock, Freshness, iso_ns
from server.service.globs import fixed_folder, matcher
from server.service.room import ROOM, fitting, short
from server.service.snippets import CHARS, Snippets
from server.service.trimming import LEAST, few_properties, few_tags, shares
from server.vault.obsidian import ObsidianLinks
from server.vault.paths import parse_folder
from server.workers import Deadline, Workers

MOST_SCOPES = 50
_NAMES = 110
"""The bytes of an item's field names, its score and its time."""
_TEXT_BYTES = 1 << 20
"""Snippets come from the beginning of huge notes."""


@dataclass(frozen=True, slots=True)
class Item:
    """A hit as it is shown."""

    path: str
    title: str
    score: float | None
    snippet: str
    tags: Sequence[str]
    properties: Mapping[str, Any]
    modified_time: str
    obsidian_url: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the `total` hits."""

    items: Sequence[Item]
    total: int
    truncated: bool
    freshness: Freshness


class Searching:
    """The use case behind `search_notes`. The caller comes first."""

    def __init__(
        self,
        index: Index,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        *,
        timeout: float = 10.0,
        hurry: Callable[[Node | None], None] = lambda _node: None,
    ) -> None:
        """`hurry` has the notes indexed first that a query may be about."""
        self._hurry = hurry
        self._index = index
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._timeout = timeout

    async def search(
        self,
        caller: Caller,
        *,
        mode: Mode = "hybrid",
        query: str | None = None,
        tags: Sequence[str] = (),
        tags_match: Literal["all", "any"] = "all",
        properties: Mapping[str, Any] | None = None,
        path_scope: Sequence[str] = (),
        sort: Sort = "relevance",
        limit: int = 20,
        offset: int = 0,
        full: bool = False,
    ) -> Page:
        """A page of the notes that meet all conditions. `full` shows more of each.

        Raises `InvalidRequest` for conditions that make no sense and `NotFound` for a scope that
        isn't there.
        """
        node = condition(mode, query, tags, tags_match, properties or {})
        scopes = scopes_of(path_scope)
        if node is None and not scopes:
            raise InvalidRequest(
                "Nothing to search for.", "Give query, tags, properties or path_scope."
            )
        for scope in scopes:
            if not scope.glob:
                self._access.require_reach(caller, scope.path)
        sees = self._access.sees(caller)
        by_text = any(isinstance(part, Text) for part in walk(node))

        def run() -> Page:
            self._hurry(node)
            self._check(scopes, sees)
            found = self._index.find(
                node,
                scopes=scopes,
                sight=sees,
                sort=sort,
                limit=limit,
                offset=offset,
            )
            items = self._full(found, node) if full else self._brief(found, node, sort)
            truncated = offset + len(items) < found.total
            self._index.use(hit.row.path for hit in reversed(found.hits))
            evicted = self._index.evicted(sees) if by_text else 0
            return Page(items, found.total, truncated, self._clock.now(evicted=evicted))

        return await self._local.run_async(Deadline.after(self._timeout), run)

    def _check(self, scopes: Sequence[Scope], sees: Sight) -> None:
        """Raise `NotFound` for a scope that names nothing: a typo must not look like no match."""
        if self._clock.now().incomplete:
            return
        for scope in scopes:
            if scope.path and not scope.glob and not self._index.match(scope.path, sees):
                folders = self._index.paths(kind="folder", sight=sees)
                near = difflib.get_close_matches(scope.path, folders, n=3)
                near += self._index.suggest(scope.path, sight=sees)
                raise NotFound(
                    f"There is no folder or note {scope.path!r}.",
                    f"Did you mean {', '.join(near[:3])}?"
                    if near
                    else "List folders with vault_list, or use a glob like 'log/2026-*'.",
                )

    def _brief(self, found: Found, node: Node | None, sort: Sort) -> list[Item]:
        """Items that spare an agent's context; only the first one has a link."""
        asked = {part.key.lower() for part in walk(node) if isinstance(part, PropertyTest)}
        snippets = Snippets(list(wanted_texts(node)))
        bare = [
            self._item(
                hit,
                tags=few_tags(hit.tags),
                properties=few_properties(hit.properties, asked),
                url=self._obsidian().url(hit.row.path) if hit is found.hits[0] else None,
            )
            for hit in found.hits
        ]
        lengths = shares([_weight(item) for item in bare], ranked=sort == "relevance")
        return [
            replace(item, snippet=_within(snippets, self._text(hit), room))
            for item, hit, room in zip(bare, found.hits, lengths, strict=True)
        ]

    def _full(self, found: Found, node: Node | None) -> list[Item]:
        """Items with all that is known of them, as many as an answer can carry."""
        snippets = Snippets(list(wanted_texts(node)))
        items = [
            self._item(
                hit,
                tags=hit.tags,
                properties=hit.properties,
                url=self._obsidian().url(hit.row.path),
                snippet=snippets.of(self._text(hit), 2 * CHARS),
            )
            for hit in found.hits
        ]
        return fitting(items, ROOM, asdict)

    def _item(
        self,
        hit: FoundNote,
        *,
        tags: Sequence[str],
        properties: Mapping[str, Any],
        url: str | None,
        snippet: str = "",
    ) -> Item:
        row, score = hit.row, hit.score
        return Item(
            row.path,
            short(row.title or row.path.rpartition("/")[2]),
            None if score is None else round(score, 3),
            snippet,
            tags,
            properties,
            iso_ns(row.mtime_ns),
            url,
        )

    def _text(self, hit: FoundNote) -> str:
        """The beginning of a note; "" while the mirror doesn't have it."""
        data = self._index.text(hit.row) or b""
        return data[:_TEXT_BYTES].decode(errors="replace")


def scopes_of(raw: Sequence[str]) -> list[Scope]:
    """Folders, notes or globs as scopes. Raises `InvalidPath`, `PathNotAllowed`, `InvalidRequest`."""
    if len(raw) > MOST_SCOPES:
        raise InvalidRequest(f"More than {MOST_SCOPES} scopes.", "Use a folder above them.")
    return [_scope(scope) for scope in raw]


def _scope(raw: str) -> Scope:
    if "*" not in raw and "?" not in raw:
        return Scope(parse_folder(raw))
    pattern = unicodedata.normalize("NFC", raw.strip())
    return Scope(parse_folder(fixed_folder(pattern)), pattern, matcher(pattern))


def _within(snippets: Snippets, text: str, room: int) -> str:
    """A snippet of about `room` bytes: in some scripts a character takes three of them."""
    snippet = snippets.of(text, room)
    size = len(snippet.encode())
    return (
        snippet if size <= room else snippets.of(text, max(LEAST // 2, room * len(snippet) // size))
    )


def _weight(item: Item) -> int:
    """The bytes of an item without its snippet."""
    told = (item.path, item.title, item.tags, item.properties, item.obsidian_url)
    return len(json.dumps(told, ensure_ascii=False).encode()) + _NAMES
