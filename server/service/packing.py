"""A question in, the few best excerpts out, under a cap: what an agent should read first.

Notes are found by any of the question's words and cut into passages; passages are weighed by how
many of the words they hold and how rare those are, packed best first, and notes that the best ones
link to fill what room is left. Nothing is said twice.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from server.access.decision import Access, Sight
from server.errors import InvalidRequest
from server.index.finds import FoundNote, Scope
from server.index.rows import Row
from server.index.store import Index
from server.markdown.note import parse
from server.markdown.passages import passages
from server.models import Caller
from server.query.tree import Text, either
from server.service.freshness import Clock, Freshness
from server.service.searching import scopes_of
from server.service.snippets import fold
from server.vault.obsidian import ObsidianLinks
from server.workers import Deadline, Workers

_NOTES = 24
_PASSAGE, _SMALLEST = 900, 160
_NEIGHBOURS = 6
_MOST_WORDS = 24
_ALIKE = 0.8
_OVERHEAD = 80
"""What an excerpt costs besides its text: path, etag, heading."""

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2,}")
_FILLER_WORDS = (
    "a about all an and any are as at be been but by can could did do does for from had has have how i "
    "if in into is it its me my not of on or our should so such than that the their them then there "
    "these they this to us was we were what when where which who why will with would you your"
)
_FILLERS = frozenset(_FILLER_WORDS.split())


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage, where it stands and why it was chosen."""

    path: str
    heading: str | None
    line: int
    text: str
    etag: str
    score: float
    linked_from: str | None
    obsidian_url: str | None


@dataclass(frozen=True, slots=True)
class Pack:
    """What fits under the cap; `matched` counts the notes that hold any of the words."""

    excerpts: Sequence[Excerpt]
    matched: int
    chars: int
    truncated: bool
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: Row
    heading: str
    line: int
    text: str
    score: float
    linked_from: str | None = None


class Packing:
    """The use case `context_pack`."""

    def __init__(
        self,
        index: Index,
        access: Access,
        clock: Clock,
        obsidian: Callable[[], ObsidianLinks],
        local: Workers,
        *,
        timeout: float = 10.0,
    ) -> None:
        self._index = index
        self._access = access
        self._clock = clock
        self._obsidian = obsidian
        self._local = local
        self._timeout = timeout

    async def pack(
        self, caller: Caller, question: str, *, max_chars: int, path_scope: Sequence[str]
    ) -> Pack:
        """The best excerpts for a question. Raises `InvalidRequest` when it has no words."""
        words = question_words(question)
        if not words:
            raise InvalidRequest(
                "The question has no words to look for.", "Ask with a few telling words."
            )
        scopes = scopes_of(path_scope)
        for scope in scopes:
            if not scope.glob:
                self._access.require_reach(caller, scope.path)
        return await self._local.run_async(
            Deadline.after(self._timeout), self._pack, caller, words, scopes, max_chars
        )

    def _pack(
        self, caller: Caller, words: list[str], scopes: Sequence[Scope], max_chars: int
    ) -> Pack:
        sees = self._access.sees(caller)
        node = either([Text(word) for word in words])
        found = self._index.find(node, scopes=scopes, sight=sees, limit=_NOTES)
        hits = found.hits
        rarity = self._rarity(words, sees)
        # Passages are cut so that a few of them fit under a small cap, too.
        size = max(_SMALLEST, min(_PASSAGE, max_chars // 3))
        candidates = [c for hit in hits for c in self._candidates(hit, rarity, size)]
        candidates += self._neighbours(hits, rarity, size, sees)
        candidates.sort(key=lambda c: (-c.score, c.row.path, c.line))
        chosen, left = _fitting(candidates, max_chars)
        excerpts = self._excerpts(chosen)
        self._index.use(excerpt.path for excerpt in excerpts)
        return Pack(
            excerpts,
            found.total,
            sum(len(excerpt.text) for excerpt in excerpts),
            left or found.total > len(hits),
            self._clock.now(evicted=self._index.evicted(sees)),
        )

    def _rarity(self, words: Iterable[str], sees: Sight) -> dict[str, float]:
        notes = max(1, self._index.count(sees))
        totals = {word: self._index.find(Text(word), sight=sees, limit=0).total for word in words}
        return {fold(word): math.log(1 + notes / (1 + total)) for word, total in totals.items()}

    def _candidates(
        self, hit: FoundNote, rarity: dict[str, float], size: int, linked_from: str | None = None
    ) -> list[_Candidate]:
        """The passages of a note that hold any of the words, weighed."""
        text = self._text(hit.row)
        if text is None:
            return []
        name = hit.row.path.rpartition("/")[2]
        note = parse(text, name)
        whole = sum(rarity.values()) or 1.0
        about = _share(fold(f"{hit.row.title} {' '.join(hit.tags)}"), rarity)
        found = []
        for passage in passages(text, note, size):
            piece = text[passage.start : passage.end]
            inside = _share(fold(f"{passage.heading}\n{piece}"), rarity)
            if inside == 0:
                continue
            # How much of the question the passage answers counts most; what the note is about, and
            # how well search ranked it, decide between passages that answer the same.
            worth = inside / whole + 0.35 * about / whole + 0.15 * (hit.score or 0.0)
            line = text.count("\n", 0, passage.start) + 1
            found.append(_Candidate(hit.row, passage.heading, line, piece, worth, linked_from))
        return found

    def _neighbours(
        self,
        hits: Sequence[FoundNote],
        rarity: dict[str, float],
        size: int,
        sees: Sight,
    ) -> list[_Candidate]:
        """Passages of notes that the best hits link to, or are linked from, and that fit as well."""
        known = {hit.row.path for hit in hits}
        linked: Counter[str] = Counter()
        source: dict[str, str] = {}
        for hit in hits[:4]:
            out, into = self._index.linked(hit.row.path, sees)
            for path in dict.fromkeys([*out, *into[:50]]):
                if path not in known:
                    linked[path] += 1
                    source.setdefault(path, hit.row.path)
        found: list[_Candidate] = []
        for path, _ in sorted(linked.items(), key=lambda item: (-item[1], item[0]))[:_NEIGHBOURS]:
            row = self._index.get(path)
            if row is not None and row.kind == "note":
                neighbour = FoundNote(row, (), {}, None)
                found += self._candidates(neighbour, rarity, size, source[path])[:1]
        return found

    def _text(self, row: Row) -> str | None:
        data = self._index.text(row)
        return data.decode("utf-8", "replace").removeprefix("\ufeff") if data is not None else None

    def _excerpts(self, chosen: Sequence[_Candidate]) -> list[Excerpt]:
        shown: set[str] = set()
        excerpts = []
        for one in chosen:
            url = None if one.row.path in shown else self._obsidian().url(one.row.path)
            shown.add(one.row.path)
            excerpts.append(
                Excerpt(
                    one.row.path, one.heading or None, one.line, one.text, one.row.etag or "",
                    round(min(1.0, one.score / 1.5), 3), one.linked_from, url,
                )
            )  # fmt: skip
        return excerpts


def question_words(question: str) -> list[str]:
    """The words that say what a question is about; CJK runs in pairs, fillers left out."""
    words: dict[str, None] = {}
    for run in _CJK.findall(question):
        words.update(dict.fromkeys(run[at : at + 2] for at in range(len(run) - 1)))
    for word in _WORD.findall(_CJK.sub(" ", question)):
        if word.casefold() not in _FILLERS and (len(word) > 1 or not word.isascii()):
            words.setdefault(word)
    if not words:
        words = dict.fromkeys(_WORD.findall(question))
    return list(words)[:_MOST_WORDS]


def _share(folded: str, rarity: dict[str, float]) -> float:
    """How much of the question a text holds: the rarities of the words that are in it."""
    tokens = set(_WORD.findall(folded))
    return sum(
        worth
        for word, worth in rarity.items()
        if word in tokens or (not word.isascii() and word in folded)
    )


def _fitting(candidates: Sequence[_Candidate], max_chars: int) -> tuple[list[_Candidate], bool]:
    """The best candidates under the cap, none twice; and whether some had to stay out."""
    chosen: list[_Candidate] = []
    fingerprints: list[set[str]] = []
    room, left = max_chars, False
    per_note: Counter[str] = Counter()
    for one in candidates:
        words = set(_WORD.findall(fold(one.text)))
        if any(_alike(words, other) for other in fingerprints):
            continue
        cost = len(one.text) + len(one.row.path) + len(one.heading) + _OVERHEAD
        if cost > room or per_note[one.row.path] >= 3:
            left = True
            continue
        room -= cost
        per_note[one.row.path] += 1
        chosen.append(one)
        fingerprints.append(words)
    return chosen, left


def _alike(words: set[str], others: set[str]) -> bool:
    union = len(words | others)
    return union > 0 and len(words & others) / union >= _ALIKE
