"""What agents ask for: calls with arguments by chance, and what each would make of a note."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from server.models import etag_of
from tests.faults.model import Effect, Impossible, Model, Text, lines_of

Answer = dict[str, Any]
FOLDERS = ("", "", "a/", "a/b/", "c c/")
NAMES = ("one", "two", "three", "four", "Ängste")
KEPT = 9
"""The number of the note that nobody touches."""
_BIG = 0.06


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `made` hears the answer to a write, `begun` that there was none or an open one."""

    tool: str
    arguments: dict[str, Any]
    paths: tuple[str, ...] = ()
    made: Callable[[Answer], None] = lambda _answer: None
    begun: Callable[[], None] = lambda: None
    effect: Effect | None = None
    """Of a write of a single note."""

    def __str__(self) -> str:
        shown = {k: v if len(str(v)) < 60 else f"{str(v)[:50]}…" for k, v in self.arguments.items()}
        return f"{self.tool} {shown}"


class Author:
    """Thinks of contents and calls. No two lines that it writes are the same."""

    def __init__(self, chance: random.Random, model: Model) -> None:
        self.chance, self.model = chance, model
        self._count = 0

    def line(self) -> str:
        self._count += 1
        return f"k{self._count}. " + "x" * self.chance.randrange(120)

    def content(self) -> str:
        """A line, at times some hundred of them."""
        many = self.chance.random() < _BIG
        return "\n".join(self.line() for _ in range(300 if many else 1))

    def path(self) -> str:
        return f"{self.chance.choice(FOLDERS)}{self.chance.choice(NAMES)}.md"

    def note(self) -> str:
        """A path where there may be a note, mostly."""
        spared = (".", f"note{KEPT}.")
        notes = [path for path in self.model.notes if not path.startswith(spared)]
        return self.chance.choice(notes) if notes and self.chance.random() < 0.9 else self.path()

    def fresh(self) -> str:
        """A path where there never was a note."""
        self._count += 1
        return f"{self.chance.choice(FOLDERS)}new{self._count}.md"

    def call(self) -> Call:
        """Any of the calls."""
        kinds: Sequence[tuple[Callable[[], Call], int]] = (
            (self.upsert, 8), (self.overwrite, 3), (self.create, 2), (self.append, 3),
            (self.prepend, 2), (self.patch, 4), (self.move, 3), (self.delete, 2),
            (self.edit_two, 3), (self.read, 5), (self.search, 2), (self.find, 2),
        )  # fmt: skip
        weights = [weight for _, weight in kinds]
        return self.chance.choices([kind for kind, _ in kinds], weights)[0]()

    # -- writes ------------------------------------------------------------------------------------

    def upsert(self, path: str | None = None) -> Call:
        path, content = path or self.note(), self.content()
        return self._write("note_upsert", path, upserted(content), content=content)

    def overwrite(self) -> Call:
        path, content = self.note(), self.content()
        options: dict[str, str] = {}
        effect: Effect = lambda _before: content.encode()  # noqa: E731
        was = self.model.known(path) if self.model.is_certain(path) else None
        if was is not None and self.chance.random() < 0.5:
            options["if_match"] = etag_of(was)
            effect = _only(was, content)
        return self._write("note_write", path, effect, content=content, mode="overwrite", **options)

    def create(self) -> Call:
        path = self.fresh() if self.chance.random() < 0.7 else self.path()
        content = self.content()
        return self._write("note_write", path, created(content), content=content, mode="create")

    def append(self) -> Call:
        path, content = self.note(), self.content()
        return self._write("note_write", path, appended(content), content=content, mode="append")

    def prepend(self) -> Call:
        path, content = self.note(), self.content()
        return self._write("note_write", path, prepended(content), content=content, mode="prepend")

    def patch(self) -> Call:
        path = self.note()
        lines = sorted(set().union(*(lines_of(text) for text in self.model.place(path).may)))
        if not lines:
            return self.upsert()
        was, now = self.chance.choice(lines).decode(), self.line()
        return self._write(
            "note_patch", path, patched(was, now),
            target="text", selector=was, operation="replace", content=now,
        )  # fmt: skip

    def edit_two(self) -> Call:
        paths = {self.note(), self.note()}
        contents = {path: self.content() for path in sorted(paths)}
        edits = [{"path": p, "mode": "append", "content": c} for p, c in contents.items()]

        def made(answer: Answer) -> None:
            told = {note["path"]: note["etag"] for note in answer["notes"]}
            for path, content in contents.items():
                self.model.made(path, appended(content), told.get(path))

        def begun() -> None:
            for path, content in contents.items():
                self.model.begun(path, appended(content))

        return Call("notes_edit", {"edits": edits}, tuple(contents), made, begun)

    def move(self) -> Call:
        old, new = self.note(), self.fresh()

        def made(_answer: Answer) -> None:
            self.model.moved(old, new)

        def begun() -> None:
            self.model.move_begun(old, new)

        return Call("note_move", {"from": old, "to": new}, (old, new), made, begun)

    def delete(self) -> Call:
        path, permanent = self.note(), self.chance.random() < 0.3

        def made(answer: Answer) -> None:
            if permanent:
                self.model.made(path, lambda _before: None, None)
            else:
                self.model.moved(path, answer["trashed_to"])

        def begun() -> None:
            if permanent:
                self.model.begun(path, lambda _before: None)
            else:
                self.model.move_begun(path, None)

        return Call("note_delete", {"path": path, "permanent": permanent}, (path,), made, begun)

    def _write(self, tool: str, path: str, effect: Effect, **arguments: Any) -> Call:
        return Call(
            tool,
            {"path": path, **arguments},
            (path,),
            lambda answer: (self.model.made(path, effect, answer["etag"]), None)[1],
            lambda: self.model.begun(path, effect),
            effect,
        )

    # -- reads -------------------------------------------------------------------------------------

    def read(self) -> Call:
        return Call("note_read", {"path": self.note(), "max_chars": 100_000})

    def search(self) -> Call:
        return Call("vault_search", {"query": f"^k{self.chance.randrange(1, self._count + 2)}\\. "})

    def find(self) -> Call:
        word = f"k{self.chance.randrange(1, self._count + 2)}"
        return Call("search_notes", {"mode": "full_text", "query": word})


def upserted(content: str) -> Effect:
    body = content.encode()
    return lambda before: body if before is None else before + b"\n" + body


def created(content: str) -> Effect:
    def effect(before: Text) -> Text:
        if before is not None:
            raise Impossible
        return content.encode()

    return effect


def _only(was: bytes, content: str) -> Effect:
    def effect(before: Text) -> Text:
        if before != was:
            raise Impossible
        return content.encode()

    return effect


def appended(content: str) -> Effect:
    def effect(before: Text) -> Text:
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        return (before or b"") + gap + content.encode()

    return effect


def prepended(content: str) -> Effect:
    return lambda before: content.encode() + (b"\n" + before if before else b"")


def patched(was: str, now: str) -> Effect:
    def effect(before: Text) -> Text:
        if before is None or before.count(was.encode()) != 1:
            raise Impossible
        return before.replace(was.encode(), now.encode())

    return effect
