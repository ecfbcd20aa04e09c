"""What an edit makes of a note: its whole text by a mode, or a part of it by a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from server.access.decision import Access
from server.errors import Conflict, NotFound
from server.history.store import History
from server.index.store import Index
from server.markdown.frontmatter import split
from server.markdown.line_breaks import in_breaks, line_break
from server.markdown.merging import merge
from server.markdown.note import Note
from server.markdown.patching import Target, Verb, patch
from server.markdown.property_lines import set_property
from server.models import Caller, Content, NotePath, etag_of, path_key
from server.service.texts import decoded, diff_of, encoded, head
from server.vault.paths import check_new_name

_ENTRIES = 1_000
Mode = Literal["create", "overwrite", "append", "prepend"]


@dataclass(frozen=True, slots=True)
class Request:
    """One edit of a note: by `mode` its whole text, or by `target` a part of it."""

    path: str
    content: str = ""
    mode: Mode | None = None
    frontmatter: Mapping[str, Any] | None = None
    target: Target | None = None
    selector: str = ""
    operation: Verb | None = None
    create_missing: bool = False
    if_match: str | None = None


class Grounds:
    """What has to be known of a note's past and surroundings before it is edited."""

    def __init__(self, index: Index, history: History, access: Access) -> None:
        self._index = index
        self._history = history
        self._access = access

    def require_read(self, caller: Caller, path: NotePath) -> None:
        """Raise `PermissionDenied` for who may write a note but not know what it says."""
        self._access.require(caller, "read", path)

    def base_of(self, caller: Caller, path: NotePath, etag: str) -> bytes | None:
        """A content that a note once had, as long as somebody here remembers it."""
        # Contents are kept by etag alone: who doesn't see all might name one of another note.
        kept = None
        if self._access.sees(caller).everything or self._had(path, etag):
            kept = self._history.content(etag)
            if kept is None:
                kept = self._index.former(etag)
        if kept is not None:
            return kept
        # What was changed behind our back may still be the present content to the index.
        rows = [row for row in self._index.match(path) if row.etag == etag]
        return self._index.text(rows[0]) if rows else None

    def _had(self, path: NotePath, etag: str) -> bool:
        """Whether the history knows that a note held this; where it was before doesn't count."""
        key = path_key(path)
        entries, _ = self._history.of(path, limit=_ENTRIES)
        return any(
            etag in (entry.before, entry.after) and path_key(entry.path) == key for entry in entries
        )

    def read_note(self, text: str, name: str) -> Note:
        """What a note's text says; that of a note which was just written is known."""
        return self._index.readings.parse(text, name)

    def check_new(self, path: NotePath) -> None:
        """Refuse names that Obsidian can't link to; folders that are there already may have them."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            if depth == len(parts) or not self._index.match("/".join(parts[:depth])):
                check_new_name(parts[depth - 1])

    def absent(self, caller: Caller, path: NotePath) -> NotFound:
        """What to say when a note that is to be changed isn't there."""
        near = self._index.suggest(path, sight=self._access.sees(caller))
        hint = (
            f"Did you mean {', '.join(near)}?" if near else "note_write with mode=create makes it."
        )
        return NotFound(f"There is no note {path!r}.", hint, did_you_mean=near)


class Making:
    """What a request makes of the content that is there, three-way when it was made for another."""

    def __init__(self, grounds: Grounds, caller: Caller, path: NotePath, request: Request) -> None:
        grounds.require_read(caller, path)
        self._grounds = grounds
        self._caller = caller
        self._path = path
        self._request = request
        self.merged = False

    def __call__(self, current: Content | None) -> bytes:
        return self.of(current.data if current else None)

    def of(self, now: bytes | None, first: bytes | None = None) -> bytes:
        """The new content; `first` is what was there before earlier edits of the same call."""
        self.merged = False
        request = self._request
        if request.if_match is None and request.mode != "create":
            return self._apply(now)
        etag = etag_of(now) if now is not None else None
        if now is not None and request.mode == "create":
            raise Conflict(
                f"{self._path!r} is there already.",
                "Use mode=overwrite with if_match, append, or another path.",
                etag=etag,
            )
        known = (None, etag, etag_of(first) if first is not None else None)
        return self._apply(now) if request.if_match in known else self._merge(now, etag)

    def _merge(self, now: bytes | None, etag: str | None) -> bytes:
        """Ours on top of what somebody else made of the same base, if the two don't touch."""
        wanted = self._request.if_match or ""
        base = self._grounds.base_of(self._caller, self._path, wanted) if now is not None else None
        if base is not None and now is not None:
            ours = self._apply(base)
            found = merge(decoded(base), decoded(ours), decoded(now))
            if found is not None:
                self.merged = True
                return found.encode("utf-8", "surrogateescape")
        raise Conflict(
            f"{self._path!r} is not what it was: somebody changed it.",
            "Read it again, redo the edit on what it says now, and pass the new etag as if_match.",
            if_match=wanted,
            etag=etag,
            diff=diff_of([(self._path, base, now)]) if base is not None else None,
        )

    def _apply(self, now: bytes | None) -> bytes:
        request = self._request
        encoded(request.content)
        if request.target is not None:
            encoded(request.selector, "selector")
            if now is None:
                raise self._grounds.absent(self._caller, self._path)
            name = self._path.rpartition("/")[2]
            text = patch(
                decoded(now), name, request.target, request.selector, request.operation or "append",
                request.content, create_missing=request.create_missing,
                read_note=self._grounds.read_note,
            )  # fmt: skip
            return _bytes(text)
        if now is None:
            if request.mode not in ("create", "overwrite", "append", "prepend"):
                raise self._grounds.absent(self._caller, self._path)
            self._grounds.check_new(self._path)
            return (head(request.frontmatter) if request.frontmatter else b"") + encoded(
                request.content
            )
        return self._whole(decoded(now))

    def _whole(self, text: str) -> bytes:
        request = self._request
        if request.mode == "overwrite":
            above = head(request.frontmatter) if request.frontmatter else b""
            return above + encoded(request.content)
        for key, value in (request.frontmatter or {}).items():
            text = set_property(text, key, value)
        eol = line_break(text)
        content = in_breaks(request.content, eol)
        if not content:
            return _bytes(text)
        if request.mode == "append":
            gap = "" if text in ("", "\ufeff") or text.endswith("\n") else eol
            return _bytes(f"{text}{gap}{content}")
        at = split(text).body or (1 if text.startswith("\ufeff") else 0)
        gap = "" if content.endswith("\n") or at == len(text) else eol
        start = "" if at == 0 or text[at - 1] in "\n\ufeff" else eol
        return _bytes(f"{text[:at]}{start}{content}{gap}{text[at:]}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
