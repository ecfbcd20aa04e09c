"""Queries as Obsidian users type them.

    words side by side    all of them            "a phrase"   begin*   -without   #tag
    this OR that          one of them; OR binds weaker than words side by side
    ( … )                 a group, also after an operator: path:(this OR that)
    tag:x  path:x  file:x  content:x
    [key]  [key:value]  [key:null]  [key:>5]  [key:a OR b]

What can't be understood is an `InvalidRequest` that points at the character. Words of signs alone
(&, ---) ask for nothing. One pass, so the time is linear in the length.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Literal

from server.query.cursor import Cursor
from server.query.tree import (
    FileHas,
    Node,
    Not,
    Op,
    PathHas,
    PropertyTest,
    TagIs,
    Text,
    both,
    either,
)

MAX_CHARS = 2_000
MAX_DEPTH = 20
MAX_TERMS = 100
MIN_PREFIX = 3

Field = Literal["content", "tag", "path", "file"]

_OPERATOR = re.compile(r"([A-Za-z][A-Za-z-]*):")
_REGEX = re.compile(r"/(?=\S)[^/\n]+/(?=[\s)]|$)")
_KEY = re.compile(r'[^"\[\]:]+')
_COMPARISON = re.compile(r"\s*(?:>=|<=|>|<)?\s*")
_VALUE = re.compile(r'[^"\]]+')
_OR = re.compile(r"\s+OR(?=\s)")
_NOT_IN_TAG = re.compile("[\\s'!\"#$%&()*+,.:;<=>?@^`{|}~\\[\\]\\\\\u2000-\u206f\u2e00-\u2e7f]")
_FIELDS: dict[str, Field] = {"content": "content", "tag": "tag", "path": "path", "file": "file"}
_OPS: dict[str, Op] = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_INSTEAD = {
    **dict.fromkeys(("line", "block", "section"), "Leave it out: notes are searched as a whole."),
    "task": r"Use vault_search with a regex like '- \[.\] .*word'.",
    "task-todo": r"Use vault_search with a regex like '- \[ \] .*word'.",
    "task-done": r"Use vault_search with a regex like '- \[x\] .*word'.",
    "match-case": "Use vault_search with case 'sensitive'.",
    "ignore-case": "Leave it out: case is always ignored.",
}


def parse_query(text: str) -> Node | None:
    """The tree that a query stands for; None when it is blank. Raises `InvalidRequest`."""
    return _Parser(text).parse()


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._terms = 0

    def parse(self) -> Node | None:
        if len(self.text) > MAX_CHARS:
            self.fail(f"More than {MAX_CHARS} characters", MAX_CHARS, "Ask more briefly.")
        for at, char in enumerate(self.text):
            if "\ud800" <= char <= "\udfff":
                self.fail("Half a character", at, "Send the query as plain UTF-8.")
        self.skip()
        if self.ended:
            return None
        node = self._either(None)
        if self.char:
            self.fail("This ) closes nothing", self.at, "Remove it, or put it in quotes.")
        if node is None:
            self.fail("No word to search for", 0, "Use words; vault_search finds signs.")
        return node

    def _either(self, field: Field | None) -> Node | None:
        """Conditions with OR between them, up to the end or a closing parenthesis."""
        sides = [self._both(field)]
        while self.takes_word("OR"):
            sides.append(self._both(field))
        found = [side for side in sides if side is not None]
        return either(found) if found else None

    def _both(self, field: Field | None) -> Node | None:
        """Conditions side by side, with or without AND between them."""
        parts: list[Node | None] = []
        missing = True
        while not self.ended and self.char != ")" and not self.sees_word("OR"):
            if not missing and self.takes_word("AND"):
                missing = True
                continue
            parts.append(self._one(field))
            missing = False
            self.skip()
        if missing:
            self.fail(
                "Something to search for is missing", self.at,
                'OR, AND and ( ) need something beside them; as text they stand in quotes: "OR".',
            )  # fmt: skip
        found = [part for part in parts if part is not None]
        return both(found) if found else None

    def _one(self, field: Field | None) -> Node | None:
        start = self.at
        if self.char == "-" and not self.text.startswith("--", start):
            self.at += 1
            if not self.char.strip() or self.char == ")":
                self.fail("This - stands alone", start, 'Write -word to leave notes out, or "-".')
            inner = self._nested(start, lambda: self._one(field))
            return None if inner is None else Not(inner)
        if self.takes("("):
            return self._nested(start, lambda: self._group(start, field))
        self._terms += 1
        if self._terms > MAX_TERMS:
            self.fail(f"More than {MAX_TERMS} conditions", start, "Ask in several queries.")
        special = self._special() if field is None else None
        return special if self.at > start else self._leaf(field or "content")

    def _group(self, start: int, field: Field | None) -> Node | None:
        self.skip()
        node = self._either(field)
        if not self.takes(")"):
            self.fail("This ( is never closed", start, "Close it, or put it in quotes.")
        return node

    def _nested(self, start: int, parse: Callable[[], Node | None]) -> Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(f"Nested deeper than {MAX_DEPTH} levels", start, "Ask more simply.")
        node = parse()
        self._depth -= 1
        return node

    def _special(self) -> Node | None:
        """What is more than text: a property, a tag, an operator. None, unmoved, for text."""
        start = self.at
        if self.takes("["):
            return self._property(start)
        if self.char == "#":
            return self._bare_tag()
        if _REGEX.match(self.text, start):
            self.fail(
                "A regex is not served here", start,
                "Use vault_search for a regex; put text between slashes in quotes.",
            )  # fmt: skip
        operator = _OPERATOR.match(self.text, start)
        name = operator[1].lower() if operator else ""
        if name in _INSTEAD:
            self.fail(f"{name}: is not served here", start, _INSTEAD[name])
        if operator is None or name not in _FIELDS:
            return None
        self.at = operator.end()
        return self._operand(name, start)

    def _operand(self, name: str, start: int) -> Node | None:
        self.skip()
        if self.ended or self.char == ")":
            self.fail(f"{name}: has no value", start, f"Write {name}:value.")
        opening = self.at
        if self.takes("("):
            return self._nested(opening, lambda: self._group(opening, _FIELDS[name]))
        return self._leaf(_FIELDS[name])

    def _leaf(self, field: Field) -> Node | None:
        """A word or a phrase, as its field takes it."""
        start = self.at
        quoted = self.char == '"'
        written = self.quoted() if quoted else self.word()
        text = written if quoted else written.rstrip("*")
        prefix = self.takes("*") if quoted else written.endswith("*")
        if field == "tag":
            name = written.removeprefix("#")
            return self._tag(name, start + quoted + len(written) - len(name))
        if field == "content":
            if not quoted and "*" in text:
                self.fail(
                    "A * may only end a word", start + text.index("*"),
                    "Parts inside words are found by vault_search.",
                )  # fmt: skip
            return self._text(text, prefix, start)
        if not text.strip():
            self.fail(f"{field}: has no value", start, f"Write {field}:value.")
        return PathHas(text.strip()) if field == "path" else FileHas(text.strip())

    def _text(self, text: str, prefix: bool, start: int) -> Node | None:
        if not any(map(_in_words, text)):
            return None
        if prefix and len(text.strip()) < MIN_PREFIX and text.isascii():
            self.fail(f"Fewer than {MIN_PREFIX} characters before *", start, "Write more of it.")
        return Text(text.strip(), prefix)

    def _bare_tag(self) -> Node | None:
        """`#x` as a tag; None, unmoved, when no tag is written so, as in #1."""
        start = self.at
        name = self.word()[1:]
        if name.isdecimal() or not any(map(_in_words, name)):
            self.at = start
            return None
        return self._tag(name, start + 1)

    def _tag(self, name: str, start: int) -> Node:
        wrong = _NOT_IN_TAG.search(name)
        if wrong:
            self.fail(
                f"No tag has {wrong[0]!r} in it", start + wrong.start(),
                "Tags hold letters, digits, _, - and /; tags below a tag are found with it.",
            )  # fmt: skip
        if not name.strip("/"):
            self.fail("The tag is missing", start, "Write tag:name.")
        return TagIs(name.strip("/"))

    def _property(self, start: int) -> Node:
        self.skip()
        key = (self.quoted() if self.char == '"' else self.match(_KEY)).strip()
        if not key:
            self.fail("The name of a property is missing", self.at, "Write [name:value].")
        self.skip()
        tests: list[Node] = [PropertyTest(key, "exists", True)]
        if self.takes(":"):
            tests = [self._test(key, start)]
            while self.match(_OR):
                self._terms += 1
                tests.append(self._test(key, start))
        self.skip()
        if self.ended:
            self.fail("This [ is never closed", start, "Close it with ], or put it in quotes.")
        if not self.takes("]"):
            self.fail("This does not belong in [ ]", self.at, 'Write [name:"any value"].')
        return either(tests)

    def _test(self, key: str, start: int) -> PropertyTest:
        op = _OPS.get(self.match(_COMPARISON).strip(), "eq")
        if self.char == '"':
            return PropertyTest(key, op, self.quoted())
        at, value = self.at, self.match(_VALUE)
        if self.ended:
            self.fail("This [ is never closed", start, "Close it with ], or put it in quotes.")
        if another := _OR.search(value):
            value = value[: another.start()]
            self.at = at + another.start()
        if not value.strip():
            self.fail(
                "The value is missing", at,
                "Write [name] for any value, [name:null] for an empty one.",
            )  # fmt: skip
        if op == "eq" and value.strip() == "null":
            return PropertyTest(key, op, None)
        return PropertyTest(key, op, value.strip())


def _in_words(char: str) -> bool:
    """Whether the index has words with this character in them."""
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Co"
