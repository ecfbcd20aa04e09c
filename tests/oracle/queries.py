"""Questions made by chance: the arguments of a search, and beside them what they mean."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .notes import RawNote
from .vaults import ASIAN, DAYS, FOLDERS, RARE, STATES, TAGS, WORDS

Meaning = Callable[[RawNote], bool]
SORTS = ("relevance", "modified_desc", "path_asc", "created", "title")


@dataclass(frozen=True)
class Clause:
    """A part of a query as it is typed, and what it means."""

    text: str
    meaning: Meaning


@dataclass(frozen=True)
class Question:
    arguments: dict[str, Any]
    meaning: Meaning
    sort: str = "relevance"
    page: int = 20


def question(rng: random.Random) -> Question:
    """One call of search_notes, without limit and offset."""
    mode = rng.choice(
        ("tags", "properties", "full_text", "full_text", "hybrid", "hybrid", "hybrid")
    )
    arguments: dict[str, Any] = {"mode": mode}
    meanings: list[Meaning] = []
    chosen = (
        {"tags", "properties", "query"}
        if mode == "hybrid"
        else {mode.replace("full_text", "query")}
    )
    if mode == "hybrid":
        chosen = {part for part in sorted(chosen) if rng.random() < 0.6} or {"query"}
    if "query" in chosen:
        clause = _either(rng, 2)
        arguments["query"] = clause.text
        meanings.append(clause.meaning)
    if "tags" in chosen:
        meanings.append(_tags(rng, arguments))
    if "properties" in chosen:
        meanings.append(_properties(rng, arguments))
    if rng.random() < 0.25:
        meanings.append(_scope(rng, arguments))
    sort = rng.choice(SORTS)
    arguments["sort"] = sort
    page = rng.choice((1, 3, 7, 20, 50))
    return Question(arguments, lambda note: all(meaning(note) for meaning in meanings), sort, page)


def _tags(rng: random.Random, arguments: dict[str, Any]) -> Meaning:
    tags = [
        _spelled(rng, tag) for tag in rng.choices([*TAGS, "nothing", "proj"], k=rng.randint(1, 3))
    ]
    every = rng.random() < 0.5
    arguments.update(tags=tags, tags_match="all" if every else "any")
    return lambda note: (all if every else any)(note.has_tag(tag) for tag in tags)


def _properties(rng: random.Random, arguments: dict[str, Any]) -> Meaning:
    asked: dict[str, Any] = {}
    tests: list[tuple[str, str, Any]] = []
    for _ in range(rng.randint(1, 2)):
        key = rng.choice(("status", "STATUS", "rating", "done", "created", "due", "empty", "people", "mixed",
                          "two words", "nested", "date", "mood", "sleep", "role", "tags", "nokey"))  # fmt: skip
        op = rng.choice(("eq", "eq", "ne", "contains", "gt", "gte", "lt", "lte", "exists", "in"))
        value: Any = _value(rng)
        if op == "exists":
            value = rng.random() < 0.5
        elif op == "in":
            value = [_value(rng) for _ in range(rng.randint(1, 3))]
        elif op in ("eq", "ne") and rng.random() < 0.15:
            value = None
        plain = op == "eq" or (op == "in" and rng.random() < 0.5)
        asked[key] = value if plain else {op: value}
    for key, wanted in asked.items():
        if isinstance(wanted, dict):
            tests += [(key, op, value) for op, value in wanted.items()]
        else:
            tests.append((key, "in" if isinstance(wanted, list) else "eq", wanted))
    arguments["properties"] = asked
    return lambda note: all(note.passes(*test) for test in tests)


def _value(rng: random.Random) -> Any:
    return rng.choice(
        (
            rng.choice(STATES), rng.choice(STATES).upper(), rng.choice((1, 2, 3, 5, 10, 2.5, 5.0, -1, 0)),
            rng.choice(("5", "5.0", "10", "high", "o", "on", "")), rng.random() < 0.5, "true",
            rng.choice(DAYS), f"{rng.choice(DAYS)}T10:30", f"{rng.choice(DAYS)} 14:00", "2026-02", "2026", 2026,
            rng.choice(("Ann", "ann", "Chloé", "恵子", "two", "soon", "x", "null", "good", "engineer", "todo")),
        )
    )  # fmt: skip


def _scope(rng: random.Random, arguments: dict[str, Any]) -> Meaning:
    if rng.random() < 0.3:
        arguments["path_scope"] = ["*1*.md"]
        return lambda note: "1" in note.path.rpartition("/")[2].removesuffix(".md")
    folders = rng.sample([folder for folder in FOLDERS if folder], rng.randint(1, 2))
    arguments["path_scope"] = [_spelled(rng, folder) for folder in folders]
    return lambda note: any(note.is_below(folder) for folder in folders)


def _either(rng: random.Random, depth: int) -> Clause:
    sides = [_both(rng, depth) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return Clause(
        " OR ".join(side.text for side in sides),
        lambda note: any(side.meaning(note) for side in sides),
    )


def _both(rng: random.Random, depth: int) -> Clause:
    parts = [_one(rng, depth) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    between = rng.choice((" ", " ", "  ", " AND "))
    return Clause(
        between.join(part.text for part in parts),
        lambda note: all(part.meaning(note) for part in parts),
    )


def _one(rng: random.Random, depth: int) -> Clause:
    if rng.random() < 0.2:
        inner = _one(rng, depth - 1)
        if not inner.text.startswith("-"):
            return Clause(f"-{inner.text}", lambda note: not inner.meaning(note))
    if depth > 0 and rng.random() < 0.15:
        group = _either(rng, depth - 1)
        return Clause(f"({group.text})", group.meaning)
    return rng.choice((_word, _word, _word, _phrase, _begin, _asian, _tag, _place, _property))(rng)


def _word(rng: random.Random) -> Clause:
    word = _spelled(rng, rng.choice([*WORDS, *RARE, "missing"]))
    return Clause(word, lambda note: note.has_text(word))


def _phrase(rng: random.Random) -> Clause:
    words = f"{rng.choice(WORDS)} {_spelled(rng, rng.choice(WORDS))}"
    return Clause(f'"{words}"', lambda note: note.has_text(words))


def _begin(rng: random.Random) -> Clause:
    word = rng.choice([word for word in WORDS if word.isalpha()])
    begin = word[: rng.randint(3, max(3, len(word) - 1))]
    return Clause(f"{begin}*", lambda note: note.has_text(begin, prefix=True))


def _asian(rng: random.Random) -> Clause:
    run = rng.choice(ASIAN)
    start = rng.randrange(len(run))
    part = run[start : rng.randint(start + 1, len(run))]
    return Clause(part, lambda note: note.has_text(part))


def _tag(rng: random.Random) -> Clause:
    tag = _spelled(rng, rng.choice([*TAGS, "daily", "project/gamma", "none"]))
    typed = rng.choice((f"#{tag}", f"tag:{tag}", f"tag:#{tag}", f'tag:"{tag}"'))
    return Clause(typed, lambda note: note.has_tag(tag))


def _place(rng: random.Random) -> Clause:
    part = rng.choice(
        ("Alpha", "daily", "日記", "a b", "n1", "2026-01", "projects/alpha", ".md", "é", "n")
    )
    typed = f'"{part}"' if " " in part or rng.random() < 0.3 else part
    if rng.random() < 0.5:
        return Clause(f"path:{typed}", lambda note: note.path_has(part))
    return Clause(f"file:{typed}", lambda note: note.file_has(part))


def _property(rng: random.Random) -> Clause:
    key = rng.choice(
        ("status", "rating", "created", "due", "people", "two words", "done", "empty", "sleep")
    )
    typed = f'"{key}"' if rng.random() < 0.3 else key
    if rng.random() < 0.2:
        return Clause(f"[{typed}]", lambda note: note.has_property(key))
    if rng.random() < 0.15:
        return Clause(f"[{typed}:null]", lambda note: note.passes(key, "eq", None))
    texts = (*STATES, *DAYS, "5", "2.5", "10", "true", "Ann", "2026-02", "alpha", "x")
    if rng.random() < 0.4:
        sign, op = rng.choice(((">", "gt"), (">=", "gte"), ("<", "lt"), ("<=", "lte")))
        value = rng.choice(texts)
        return Clause(f"[{typed}:{sign}{value}]", lambda note: note.passes(key, op, value))
    values = rng.sample(texts, rng.randint(1, 3))
    listed = " OR ".join(f'"{value}"' if rng.random() < 0.3 else value for value in values)
    return Clause(f"[{typed}:{listed}]", lambda note: note.passes(key, "in", values))


def _spelled(rng: random.Random, text: str) -> str:
    return rng.choice((text, text, text.upper(), text.lower()))
