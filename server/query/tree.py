"""What a query asks for, as a tree. Every node is a condition that a note meets or doesn't."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Op = Literal["eq", "ne", "contains", "gt", "gte", "lt", "lte", "exists", "in"]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Text:
    """These words follow one another in the note; with `prefix` the last one is a beginning."""

    words: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class TagIs:
    """The note has this tag, or one below it."""

    tag: str


@dataclass(frozen=True, slots=True)
class PathHas:
    """The note's path contains this."""

    part: str


@dataclass(frozen=True, slots=True)
class FileHas:
    """The note's file name contains this."""

    part: str


@dataclass(frozen=True, slots=True)
class PropertyTest:
    """A value of the property compares so. `in` takes a tuple, `exists` a boolean.

    `eq` with None asks for a property that is there and empty. `ne` is whatever `eq` is not, so a
    note without the property passes it.
    """

    key: str
    op: Op
    value: Scalar | tuple[Scalar, ...] = None


@dataclass(frozen=True, slots=True)
class Not:
    node: "Node"


@dataclass(frozen=True, slots=True)
class And:
    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    nodes: tuple["Node", ...]


Node: TypeAlias = Text | TagIs | PathHas | FileHas | PropertyTest | Not | And | Or


def both(nodes: list[Node]) -> Node:
    """All of the conditions, as flat as can be."""
    parts: list[Node] = []
    for node in nodes:
        parts.extend(node.nodes if isinstance(node, And) else (node,))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def either(nodes: list[Node]) -> Node:
    """One of the conditions, as flat as can be."""
    parts: list[Node] = []
    for node in nodes:
        parts.extend(node.nodes if isinstance(node, Or) else (node,))
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def walk(node: Node | None) -> Iterator[Node]:
    """A node and all nodes inside it."""
    if node is not None:
        yield node
    match node:
        case Not(inner):
            yield from walk(inner)
        case And(nodes) | Or(nodes):
            for inner in nodes:
                yield from walk(inner)


def wanted_texts(node: Node | None) -> Iterator[Text]:
    """The texts that speak for a note: all but those that are negated."""
    match node:
        case Text():
            yield node
        case And(nodes) | Or(nodes):
            for inner in nodes:
                yield from wanted_texts(inner)
        case _:
            return
