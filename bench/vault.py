"""Makes a vault that is the same on every machine: the words of notes follow Zipf's law."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SEED = 20_260_728
_WORDS = 20_000
_CJK_SHARE = 0.08
_BODY_WORDS = 260
_CJK_BODY = 560
_FOLDERS = (
    "devlog", "adr", "notes", "people", "projects/alpha", "projects/beta", "projects/alpha/specs",
    "reading/papers", "reading/books", "daily/2025", "daily/2026", "日記",
)  # fmt: skip
_TAGS = ("devlog", "idea", "todo", "project/alpha", "project/beta", "reading", "people", "読書")
_STATES = ("draft", "open", "done")


@dataclass(frozen=True, slots=True)
class Vault:
    """Where it is, what is in it, and the words it is made of, the most frequent first."""

    folder: Path
    paths: Sequence[str]
    words: Sequence[str]
    signs: Sequence[str]
    bytes: int


def make_vault(folder: Path, notes: int) -> Vault:
    """Write `notes` notes of about 2 KB below `folder`."""
    rng = random.Random(_SEED)
    words = _spell(rng)
    signs = [chr(code) for code in rng.sample(range(0x4E00, 0x8E00), 2_000)]
    paths = [f"{_FOLDERS[n % len(_FOLDERS)]}/{words[n % 997]}-{n:06d}.md" for n in range(notes)]
    for name in (".obsidian", *_FOLDERS):
        (folder / name).mkdir(parents=True)
    size = 0
    writer = _Writer(rng, words, signs, [Path(path).stem for path in paths])
    for path in paths:
        data = writer.note().encode()
        (folder / path).write_bytes(data)
        size += len(data)
    return Vault(folder, paths, words, signs, size)


def _spell(rng: random.Random) -> list[str]:
    syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    # Frequent words are short, as in a language.
    spelled: dict[str, None] = {}
    while len(spelled) < _WORDS:
        length = 2 + (len(spelled) > 200) + (len(spelled) > 4_000)
        spelled["".join(rng.choices(syllables, k=length))] = None
    return list(spelled)


class _Writer:
    def __init__(
        self,
        rng: random.Random,
        words: Sequence[str],
        signs: Sequence[str],
        names: Sequence[str],
    ) -> None:
        self._rng = rng
        self._words, self._word_odds = words, _zipf(len(words))
        self._signs, self._sign_odds = signs, _zipf(len(signs))
        self._names = names

    def note(self) -> str:
        rng = self._rng
        asian = rng.random() < _CJK_SHARE
        title = " ".join(self._some(3)).capitalize()
        tags = ", ".join(rng.sample(_TAGS, 2))
        head = (
            f"---\ntitle: {title}\ntags: [{tags}]\nstatus: {rng.choice(_STATES)}\n"
            f"created: 20{rng.randint(20, 26)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}\n"
            f"---\n\n# {title}\n\n"
        )
        return head + "".join(self._asian() if asian else self._latin())

    def _latin(self) -> Iterator[str]:
        rng = self._rng
        left = int(_BODY_WORDS * rng.uniform(0.4, 1.6))
        while left > 0:
            if rng.random() < 0.15:
                yield f"## {' '.join(self._some(2)).capitalize()}\n\n"
            count = rng.randint(8, 40)
            words = self._some(count)
            words[rng.randrange(count)] = f"[[{rng.choice(self._names)}]]"
            if rng.random() < 0.2:
                words.append(f"#{rng.choice(_TAGS)}")
            yield ("- [ ] " if rng.random() < 0.06 else "") + " ".join(words).capitalize() + ".\n\n"
            left -= count

    def _asian(self) -> Iterator[str]:
        rng = self._rng
        left = int(_CJK_BODY * rng.uniform(0.4, 1.6))
        while left > 0:
            count = rng.randint(20, 80)
            yield "".join(rng.choices(self._signs, cum_weights=self._sign_odds, k=count)) + "。"
            yield f"[[{rng.choice(self._names)}]]\n\n"
            left -= count

    def _some(self, count: int) -> list[str]:
        return self._rng.choices(self._words, cum_weights=self._word_odds, k=count)


def _zipf(count: int) -> list[float]:
    return list(itertools.accumulate(1 / (rank + 2.7) for rank in range(1, count + 1)))
