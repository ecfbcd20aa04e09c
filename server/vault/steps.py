"""The steps that a plan is made of: what each needs to be made and taken back, and how it is written down."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Replace:
    """A file's content becomes another; None before: the file is new."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Move:
    """A file or folder gets another path, at which nothing is."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A file goes for good."""

    path: str
    before: bytes


Step = Replace | Move | Remove


def inverse(step: Step) -> Step:
    """What takes a step back."""
    match step:
        case Replace(path, None, after):
            return Remove(path, after)
        case Replace(path, bytes() as before, after):
            return Replace(path, after, before)
        case Move(old, new):
            return Move(new, old)
        case Remove(path, before):
            return Replace(path, None, before)
    raise AssertionError


def paths_of(steps: Sequence[Step]) -> Iterator[str]:
    """Every path that the steps name."""
    for step in steps:
        if isinstance(step, Move):
            yield step.old
            yield step.new
        else:
            yield step.path


def written_down(steps: Sequence[Step]) -> list[bytes]:
    """Steps as the parts of a file: a JSON header line, then the contents."""
    blobs: list[bytes] = []
    header = json.dumps([_described(step, blobs) for step in steps], ensure_ascii=False)
    return [header.encode("utf-8", "surrogateescape") + b"\n", *blobs]


def _described(step: Step, blobs: list[bytes]) -> dict[str, Any]:
    """A step as JSON; contents go to `blobs` in their order, and only their sizes stay."""
    match step:
        case Replace(path, before, after):
            blobs += [before or b"", after]
            size = None if before is None else len(before)
            return {"replace": path, "before": size, "after": len(after)}
        case Move(old, new):
            return {"move": old, "to": new}
        case Remove(path, before):
            blobs.append(before)
            return {"remove": path, "before": len(before)}


def read_steps(data: bytes) -> Iterator[Step]:
    """The steps of a file's content. Raises `ValueError`, `KeyError` or `TypeError` when it is damaged."""
    header, _, rest = data.partition(b"\n")
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(rest):
            raise ValueError("cut short")
        return rest[at - size : at]

    for item in json.loads(header.decode("utf-8", "surrogateescape")):
        if "replace" in item:
            size = item["before"]
            before = take(size or 0)
            yield Replace(item["replace"], None if size is None else before, take(item["after"]))
        elif "move" in item:
            yield Move(item["move"], item["to"])
        else:
            yield Remove(item["remove"], take(item["before"]))
