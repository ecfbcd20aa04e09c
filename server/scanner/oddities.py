"""What is odd about a vault's files: nothing is broken by it, but its owner should know. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from server.models import Entry, path_key

_SHOWN = 5
_CONFLICT = re.compile(
    r"""(?ix) (?P<stem> .+? ) (?:
        \.sync-conflict-[0-9a-z-]+        # Syncthing
      | \.conflict-\d{8}-\d{6}-[0-9a-f]+   # this server
      | [ ]\( [^()]* conflicted[ ]copy [^()]* \)
      | [ ]\( (?: conflict | \d{1,3} ) \)  # Drive, and what it was downloaded by
    ) (?P<suffix> \.[^./]+ )? """
)


@dataclass(frozen=True, slots=True)
class Oddities:
    """Paths by what is odd about them: how many there are, and the first few."""

    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The conflict copies of a note, by its path."""


def find_oddities(entries: Sequence[Entry]) -> Oddities:
    """What is odd about the entries of a complete look, sorted by path."""
    found: dict[str, list[str]] = {}
    for kind, path in _odd(entries):
        found.setdefault(kind, []).append(path)
    copies: dict[str, tuple[str, ...]] = {}
    for path in found.get("conflict_copies", ()):
        original = conflict_of(path) or ""
        copies[original] = (*copies.get(original, ()), path)
    return Oddities(
        {kind: len(paths) for kind, paths in found.items()},
        {kind: tuple(paths[:_SHOWN]) for kind, paths in found.items()},
        copies,
    )


def conflict_of(path: str) -> str | None:
    """The path of the note that a conflict copy belongs to; None for any other name."""
    folder, slash, name = path.rpartition("/")
    # Few names are worth the pattern.
    if not (name.endswith((")", ").md")) or "conflict" in name):
        return None
    match = _CONFLICT.fullmatch(name)
    return f"{folder}{slash}{match['stem']}{match['suffix'] or ''}" if match else None


def _odd(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    shared = _shared(path_key(entry.path) for entry in entries)
    spellings: dict[str, Entry] = {}
    files = (entry.path for entry in entries if entry.kind != "folder")
    copies = {path: original for path in files if (original := conflict_of(path)) is not None}
    originals = set(copies.values())
    there = {entry.path for entry in entries if entry.path in originals}
    for entry in entries:
        key = path_key(entry.path)
        other = spellings.setdefault(key, entry) if hash(key) in shared else entry
        if other is not entry:
            if other.disk == entry.disk:
                yield "duplicate_names", entry.path
            elif other.path == entry.path:
                yield "same_but_for_unicode_form", entry.path
            else:
                yield "same_but_for_case", entry.path
        if copies.get(entry.path) in there:
            yield "conflict_copies", entry.path
        if entry.kind == "note" and entry.stat.size == 0:
            yield "empty_notes", entry.path


def _shared(keys: Iterable[str]) -> set[int]:
    """The hashes of the keys that come more than once, and of few others: the keys of a large vault
    would take as much memory as all else that a scan knows of its files.
    """
    seen: set[int] = set()
    again: set[int] = set()
    for number in map(hash, keys):
        (again if number in seen else seen).add(number)
    return again
