"""Adding a link to a note: one list item, and not a byte of the rest changed. Pure."""

import re

from server.markdown.links import WIKI, wiki
from server.markdown.note import Link, Note

_PLACES = ("related", "related notes", "links", "see also")
_ITEM = re.compile(r"[ \t]*([-*+]|[0-9]{1,9}[.)])[ \t]")
_LINE_BELOW = re.compile(r"\r?\n[^\r\n]")
_BREAKING = re.compile(r"[#|^:%\[\]\\]+")


def spell(target: str, section: str | None, alias: str | None) -> str:
    """The wikilink."""
    return f"[[{target}{f'#{section}' if section else ''}{f'|{alias}' if alias else ''}]]"


def unspell(link: str) -> Link | None:
    """What a wikilink says when it is read again; None when it isn't one."""
    source = WIKI.fullmatch(link)
    return wiki(source, "wiki", False, line=1, at=0, end=len(link)) if source else None


def linkable(heading: str) -> str:
    """A heading as a link can name it."""
    return " ".join(_BREAKING.sub(" ", heading).split())


def with_item(text: str, note: Note, link: str) -> str:
    """The text with the link as a list item: below its heading for links, else at the end."""
    eol = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    kept = text[: _last_line_end(text, _place(text, note))]
    rest = text[len(kept) :]
    item = _ITEM.match(kept[kept.rfind("\n") + 1 :])
    bullet = item[1] if item and item[1] in "-*+" else "-"
    if not kept.strip("\ufeff"):
        return f"{kept}{bullet} {link}{rest}"
    gap = eol if item else eol + eol
    # A line right below could be read as part of the item.
    below = eol if _LINE_BELOW.match(rest) else ""
    return f"{kept}{gap}{bullet} {link}{below}{rest}"


def _place(text: str, note: Note) -> int:
    """Where the part of the text ends that the item goes into."""
    for n, heading in enumerate(note.headings):
        if heading.text.strip().rstrip(":").casefold() in _PLACES:
            below = note.headings[n + 1 :]
            return below[0].start if below else len(text)
    return len(text)


def _last_line_end(text: str, stop: int) -> int:
    """The end of the last line that isn't blank."""
    last = len(text[:stop].rstrip())
    end = text.find("\n", last, stop)
    end = stop if end < 0 else end
    return end - 1 if text[end - 1 : end] == "\r" and end > last else end
