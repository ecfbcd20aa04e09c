"""Words as the documentation of SQLite's unicode61 tokenizer defines them, spelled out slowly.

Letters, numbers and private-use characters make words, all else separates; case is folded, and
accents are dropped from Latin letters. Chinese, Japanese and Korean have no words: there a text is
found wherever its characters follow one another.
"""

import unicodedata
from collections.abc import Sequence

_ASIAN = ("CJK ", "HIRAGANA ", "KATAKANA", "HANGUL ", "IDEOGRAPHIC ")


def is_asian(char: str) -> bool:
    return unicodedata.name(char, "").startswith(_ASIAN) and char.isalpha()


def tokens(text: str) -> list[str]:
    """Words in order; each Asian character is one of its own, and "" parts runs of them."""
    found: list[str] = []
    word, before = "", ""
    for char in [*unicodedata.normalize("NFC", text), " "]:
        asian = is_asian(char)
        wordy = not asian and unicodedata.category(char)[0] in "LN"
        if not wordy and word:
            found.append(word)
            word = ""
        if asian:
            found += [char] if before == "asian" or not found else ["", char]
        elif wordy:
            if before == "asian":
                found.append("")
            word += _plain(char)
        before = "asian" if asian else "word" if wordy else ""
    return found


def _plain(char: str) -> str:
    base = unicodedata.normalize("NFD", char)[0]
    return (base if base.isascii() else char).lower()


def holds(words: Sequence[str], asked: str, prefix: bool) -> bool:
    """Whether the words asked for follow one another; the last one may be a beginning."""
    wanted = tokens(asked)
    return any(_fits(words, wanted, at, prefix) for at in range(len(words)))
