"""Small documents and entries for the index tests."""

from dataclasses import dataclass, field

from server.index.store import Document, Index
from server.models import Entry, FileStat, Kind, path_key


@dataclass(frozen=True)
class Seeing:
    """Who sees everything but some folders and notes."""

    named: frozenset[str] = field(default=frozenset())

    @property
    def everything(self) -> bool:
        return not self.named

    def __call__(self, path: str) -> bool:
        return not any(f"{path_key(path)}/".startswith(f"{hidden}/") for hidden in self.named)


def hiding(*paths: str) -> Seeing:
    return Seeing(frozenset(map(path_key, paths)))


everything = Seeing()
outside_secret = hiding("secret")


def doc(path: str, text: str | bytes = "", mtime_ns: int = 1, racy: bool = False) -> Document:
    data = text.encode() if isinstance(text, str) else text
    return Document(path, path, data, FileStat(len(data), mtime_ns), racy)


def entry(path: str, kind: Kind = "attachment", size: int = 0, mtime_ns: int = 1) -> Entry:
    return Entry(path, path, kind, FileStat(size, mtime_ns))


def text_of(index: Index, path: str) -> bytes | None:
    row = index.get(path)
    assert row is not None
    return index.text(row)


def target_of(index: Index, path: str) -> list[str | None]:
    """Where a note's links lead, in their order."""
    return [link.dst for link in index.outbound(path)]
