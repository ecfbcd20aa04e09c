"""The shadow text that full-text search indexes, and phrases that match it.

FTS5 takes a run of Chinese, Japanese or Korean for one word. Such a run is written as overlapping
pairs instead, followed by its last character, so that any part of it can be found: two characters
and more as a phrase, a single one as the beginning of a pair.
"""

import re
import unicodedata

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_CJK}]+")
_LAST_RUN = re.compile(f"([{_CJK}]+)[^\\w]*$")


def shadow(text: str) -> str:
    """What is indexed in place of `text`."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return _RUN.sub(_pairs, text)


def phrase(text: str) -> str:
    """An FTS5 phrase that matches wherever `text` occurs, its last CJK run also inside a run."""
    text = unicodedata.normalize("NFC", text)
    last = _LAST_RUN.search(text)
    if last is None:
        return _quoted(shadow(text))
    run = last[1]
    if len(run) == 1:
        return _quoted(shadow(text[: last.start()]) + " " + run) + " *"
    return _quoted(shadow(text[: last.start()]) + " " + _overlapping(run))


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    return f" {_overlapping(run)} {run[-1]} " if len(run) > 1 else f" {run} "


def _overlapping(run: str) -> str:
    return " ".join(run[at : at + 2] for at in range(len(run) - 1))


def _quoted(words: str) -> str:
    return '"' + words.replace('"', '""').replace("\0", " ") + '"'
