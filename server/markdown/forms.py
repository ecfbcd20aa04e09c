"""How a link names a file or a heading, and how it names the same one after a move. Pure.

A link keeps its form: a name stays a name while it is enough, a path stays a path, a relative path
stays relative. Which file a target leads to, the caller knows; nothing here resolves links.
"""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from server.errors import InvalidRequest
from server.markdown.elements import Heading, LinkKind
from server.markdown.related import linkable
from server.models import kind_of

Form = Literal["name", "ending", "whole", "absolute", "relative"]
Leads = Callable[[str], str | None]
"""Which file a target means, in the note that will hold it and after the moves."""

_UNLINKABLE = re.compile(r"[#|\[\]\n]")
_DOTS = ("./", "../")
_BLOCK_ID = re.compile(r"(?<=[ \t])\^[A-Za-z0-9-]+$")


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a link before and after a move; `path` is None when it leads nowhere."""

    source: str
    new_source: str
    path: str | None
    new_path: str | None


def form_of(target: str, kind: LinkKind, path: str, source: str) -> Form:
    """The form in which a target in the note `source` names the file `path`.

    A markdown link that can be read as relative is: every other reader takes it so.
    """
    if target.startswith("/"):
        return "absolute"
    if _is_dotted(target):
        return "relative"
    if kind == "markdown" and _key(_join(source, target)) == _key(path):
        return "relative"
    if "/" not in target:
        return "name"
    return "whole" if _key(target) == _key(path) else "ending"


def is_stale(target: str, kind: LinkKind, ends: Ends) -> bool:
    """Whether the target, taken in its form, no longer spells where the file is.

    It may still lead there: `[[a/Note]]` does when `a` becomes `z/a`. One that was spelled in
    another case than the file is not expected to follow the file's case.
    """
    if ends.path is None or ends.new_path is None:
        return False
    form = form_of(target, kind, ends.path, ends.source)
    exact = _spells(target, form, ends.path, ends.source, _bare)
    return not _spells(target, form, ends.new_path, ends.new_source, _bare if exact else _key)


def destination(target: str, kind: LinkKind, ends: Ends, leads: Leads) -> str | None:
    """The new target in the form of the old one; None when the link can stay as it is.

    Raises `InvalidRequest` when no target leads to the file. What led nowhere stays as it is, but
    for a relative path that would now lead to some other file.
    """
    if ends.path is None:
        return _still_nowhere(target, ends, leads)
    if ends.new_path is None:
        return None
    if leads(target) == ends.new_path and not is_stale(target, kind, ends):
        return None
    form = form_of(target, kind, ends.path, ends.source)
    for candidate in _candidates(target, form, kind, ends.new_path, ends.new_source):
        if _is_writable(candidate, kind) and leads(candidate) == ends.new_path:
            return candidate
    raise InvalidRequest(
        f"No link in {ends.new_source!r} could lead to {ends.new_path!r}.",
        "Choose a place without # | [ ] in its path and without a file of the same name.",
        source=ends.source,
        target=target,
    )


def follow(section: str, before: Sequence[Heading], after: Sequence[Heading]) -> str | None:
    """The section of a link by which it names the same heading in the changed list of headings.

    None when it can stay: it names a block, nothing, or what is still called so. Both lists have
    the same headings in the same order. Raises `InvalidRequest` when no link can name the heading.
    """
    parts = section.split("#")
    trail = next(_found(before, parts), None)
    if trail is None:
        parts, trail = [section], next(_found(before, [section]), None)
    if trail is None or parts[-1].lstrip().startswith("^"):
        return None
    named = [
        part if before[n].text == after[n].text else _linkable(after[n])
        for part, n in zip(parts, trail, strict=True)
    ]
    if named != parts or next(_found(after, named), [-1])[-1] != trail[-1]:
        named = _tell_apart(after, named, trail[-1])
    return None if named == parts else "#".join(named)


@lru_cache(maxsize=2048)  # many links name the headings of one note
def folded(heading: str) -> str:
    """What the spellings of a heading's name in links have in common."""
    return unicodedata.normalize("NFC", linkable(heading)).casefold()


def _is_dotted(target: str) -> bool:
    return target.startswith(_DOTS) or "/../" in target


def _is_writable(target: str, kind: LinkKind) -> bool:
    return kind == "markdown" or (target == target.strip() and not _UNLINKABLE.search(target))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _join(source: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(_folder(source), target))


def _relative(path: str, source: str) -> str:
    # With a slash in front neither path depends on where the process runs.
    return posixpath.relpath(f"/{path}", f"/{_folder(source)}")


def _bare(path: str) -> str:
    text = unicodedata.normalize("NFC", path).rstrip()
    return text[:-3] if text[-3:].lower() == ".md" else text


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", _bare(path).casefold())


def _spells(target: str, form: Form, path: str, source: str, spelled: Callable[[str], str]) -> bool:
    if form == "relative":
        return spelled(_join(source, target)) == spelled(path)
    if form in ("absolute", "whole"):
        return spelled(target.lstrip("/")) == spelled(path)
    return f"/{spelled(path)}".endswith(f"/{spelled(target)}")


def _candidates(target: str, form: Form, kind: LinkKind, path: str, source: str) -> Iterator[str]:
    """Targets for a path, the one that is most like the old target first."""
    short = path
    if kind_of(path) == "note" and not target.lower().endswith(".md"):
        short = path[: -len(".md")]
    # A name that itself ends in .md needs the extension.
    for whole in dict.fromkeys((short, path)):
        if form == "relative":
            near = _relative(whole, source)
            ways = [near] if near.startswith("../") else [near, f"./{near}"]
            if target.startswith("./") or kind != "markdown":
                ways.reverse()
            yield from ways
        elif form == "whole":
            yield whole
        elif form != "absolute":
            parts = whole.split("/")
            for count in range(min(target.count("/") + 1, len(parts)), len(parts) + 1):
                yield "/".join(parts[-count:])
        yield f"/{whole}"


def _still_nowhere(target: str, ends: Ends, leads: Leads) -> str | None:
    if not _is_dotted(target) or target.startswith("/") or leads(target) is None:
        return None
    near = _relative(_join(ends.source, target), ends.new_source)
    near = near if near.startswith("../") else f"./{near}"
    return near if leads(near) is None else None


# Headings


def _name(heading: Heading) -> str:
    """A heading without its block id."""
    return _BLOCK_ID.sub("", heading.text).rstrip()


def _linkable(heading: Heading) -> str:
    name = linkable(_name(heading))
    if not name:
        raise InvalidRequest(
            f"No link can name the heading {heading.text!r}.", "Use letters or digits in it."
        )
    return name


def _trails(headings: Sequence[Heading]) -> Iterator[list[int]]:
    """For every heading, the positions of those it stands under and its own."""
    above: list[int] = []
    for n, heading in enumerate(headings):
        above = [*(i for i in above if headings[i].level < heading.level), n]
        yield above


def _found(headings: Sequence[Heading], parts: Sequence[str]) -> Iterator[list[int]]:
    """The headings that the parts of a section name, in every way; Obsidian takes the first."""
    wanted = [folded(part) for part in parts]
    names = [(folded(_name(heading)), folded(heading.text)) for heading in headings]
    for path in _trails(headings):
        if not all(wanted) or wanted[-1] not in names[path[-1]]:
            continue
        above = iter(path[:-1])
        found = [next((n for n in above if name in names[n]), -1) for name in wanted[:-1]]
        if -1 not in found:
            yield [*found, path[-1]]


def _tell_apart(headings: Sequence[Heading], named: list[str], position: int) -> list[str]:
    """The name, with as many of the headings above as no other heading shares, if any do."""
    path = next(path for path in _trails(headings) if path[-1] == position)
    names = [linkable(_name(headings[n])) for n in path]
    ways = [named, *(names[-count:] for count in range(2, len(names) + 1) if all(names[-count:]))]
    leads = [[trail[-1] for trail in _found(headings, way)] for way in ways]
    alone = [way for way, found in zip(ways, leads, strict=True) if found == [position]]
    first = [way for way, found in zip(ways, leads, strict=True) if found[:1] == [position]]
    return next(iter(alone or first), named)
