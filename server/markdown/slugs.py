"""Names of files made from what people call things, in any language. Pure."""

import hashlib
import unicodedata

MOST_CHARS = 60
_MOST_BYTES = 200
"""A name on disk has 240 bytes at most, and letters of some scripts take four."""
_SHORTEST = 20


def slugify(text: str) -> str:
    """Letters and digits of any script in lower case, with dashes between; never empty."""
    lowered = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    slug = "-".join("".join(map(_kept, lowered)).split())
    if not slug:
        # Two topics without a letter are still two topics.
        return "untitled-" + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6]
    return _shortened(slug)


def one_line(text: str) -> str:
    """The text without line breaks: each, with the blanks around it, becomes a space."""
    parts = (part.strip() for part in text.splitlines())
    return " ".join(part for part in parts if part)


def _kept(char: str) -> str:
    category = unicodedata.category(char)
    if category[0] in "LNM":
        return char
    # What joins letters, or is not to be seen, divides no word.
    return "" if category == "Cf" else " "


def _shortened(slug: str) -> str:
    end = len(slug)
    while end > MOST_CHARS or len(slug[:end].encode()) > _MOST_BYTES:
        end -= 1
    if end < len(slug) and slug[end] != "-":
        word = slug.rfind("-", _SHORTEST, end)
        end = word if word > 0 else end
        # A letter keeps its marks.
        while end > 1 and unicodedata.category(slug[end])[0] == "M":
            end -= 1
    return unicodedata.normalize("NFC", slug[:end]).strip("-")
