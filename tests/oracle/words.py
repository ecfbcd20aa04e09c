"""Words as the documentation of SQLite's unicode61 tokenizer defines them, spelled out slowly.

Letters and numbers make words, all else separates; case is folded, and Latin letters lose their
accents. Chinese, Japanese and Korean have no spaces between words: a text in them is found wherever
its characters follow one another.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_ASIAN = ("CJK ", "HIRAGANA ", "KATAKANA", "HANGUL ", "IDEOGRAPHIC ")


@dataclass(frozen=True)
class Unit:
    """A word, or a run of Asian characters."""

    text: str
    asian: bool


def units(text: str) -> list[Unit]:
    """What a text is made of, in order."""
    found: list[Unit] = []
    gap = True
    for char in unicodedata.normalize("NFC", text):
        asian = unicodedata.name(char, "").startswith(_ASIAN) and char.isalpha()
        if not asian and unicodedata.category(char)[0] not in "LN":
            gap = True
            continue
        if gap or found[-1].asian != asian:
            found.append(Unit("", asian))
        found[-1] = Unit(found[-1].text + _plain(char), asian)
        gap = False
    return found


def _plain(char: str) -> str:
    base = unicodedata.normalize("NFD", char)[0]
    return (base if base.isascii() else char).lower()


def holds(text: Sequence[Unit], asked: Sequence[Unit], prefix: bool = False) -> bool:
    """Whether what was asked for stands somewhere in the text, unit after unit."""
    return any(
        all(
            _fits(text[at + n], wanted, n == 0, n == len(asked) - 1, prefix)
            for n, wanted in enumerate(asked)
        )
        for at in range(len(text) - len(asked) + 1)
    )


def _fits(unit: Unit, wanted: Unit, first: bool, last: bool, prefix: bool) -> bool:
    if unit.asian != wanted.asian:
        return False
    if not unit.asian:
        return unit.text.startswith(wanted.text) if last and prefix else unit.text == wanted.text
    if first and last:
        return wanted.text in unit.text
    if first:
        return unit.text.endswith(wanted.text)
    return unit.text.startswith(wanted.text) if last else unit.text == wanted.text
