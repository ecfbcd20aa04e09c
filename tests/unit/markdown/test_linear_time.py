"""No text makes the parser slow: eight times the input takes about eight times the work.

CPU time is compared with itself, so a slow machine changes nothing: linear work gives a ratio
around 8, quadratic work one around 64.
"""

import time
from collections.abc import Callable

import pytest

from server.markdown.note import parse
from server.markdown.sections import outline

SMALL = 15_000
TIMES = 8

REPEATED = {
    "brackets": "[",
    "double brackets": "[[",
    "open links": "[[a",
    "open aliases": "[[a|b [",
    "closing brackets": "]",
    "links": "[[a]]",
    "embeds": "![[a]]",
    "markdown links": "[a](b)",
    "open markdown links": "[a](b",
    "destinations": "](b)",
    "destinations with parentheses": "](a(b)",
    "open titles": '[a](b "',
    "images": "![a](b)",
    "backticks": "`",
    "backticks apart": "` ",
    "double and single backticks": "`` ` a\n\n",
    "fences": "```\n",
    "open fences": "``` a\n~~~\n",
    "quoted fences": "> ```\n> ```\n",
    "quoted open fences": "> ```\n\n",
    "hashes": "#",
    "hashes apart": "# ",
    "tags": "#a ",
    "tags in a row": "#a",
    "tags in cells": "|#a",
    "tags in emphasis": "*#a ",
    "tags after stars": "***#a",
    "headings": "# a\n",
    "underlined": "a\n---\n",
    "underlines": "---\n",
    "quoted underlines": "> a\n---\n",
    "quotes": ">",
    "quotes apart": "> ",
    "quoted lines": "> a\n",
    "nested lists": "- ",
    "numbers": "1. ",
    "list lines": "- a\n",
    "tasks": "- [ ] a\n",
    "boxes": "[x] ",
    "dollars": "$",
    "open math": "$a ",
    "math blocks": "$$\n",
    "math blocks apart": "$$ a\n\n",
    "less-than": "<",
    "open tags": "<a b='",
    "open tags with names": "<a b ",
    "open comments": "a <!-- ",
    "comments": "<!-- -->\n",
    "blocks of HTML": "<div>\n\n",
    "quoted HTML": "> <div>\n>\n",
    "carets": "^",
    "block ids": "a ^b\n",
    "backslashes": "\\",
    "blanks": " ",
    "line breaks": "\n",
    "blank lines": " \n\t\n",
    "indented code": "\n    a\n",
    "indented in lists": "- a\n\n      b\n",
    "carriage returns": "\r\n",
    "percent signs": "%%",
    "one long line": "a",
    "wide characters": "🎉 ",
}
SHAPED: dict[str, Callable[[int], str]] = {
    "nested links": lambda n: "[" * (n // 5) + "\n](b)" * (n // 5),
    "nested images": lambda n: "![" * (n // 6) + "](b)" * (n // 6),
    "brackets, then links in the next paragraph": lambda n: (
        "[" * (n // 2) + "\n\n" + "](b)" * (n // 8)
    ),
    "backticks of every length": lambda n: " ".join("`" * k for k in range(1, int((2 * n) ** 0.5))),
    "nested quotes": lambda n: "\n".join(">" * k + " a" for k in range(1, int((2 * n) ** 0.5))),
    "quote of one line with cells": lambda n: ">" * (n // 2) + "|#a" * (n // 6),
    "a long paragraph above a rule": lambda n: (
        "a\n" * (n // 4) + "---\n" + "b\n" * (n // 4) + "---"
    ),
    "dashes below a quote": lambda n: "> a" + "\n-" * (n // 2),
    "closed by one comment": lambda n: "x <!-- " * (n // 7) + "-->",
    "properties": lambda n: "---\n" + "".join(f"k{i}: '[[v]]'\n" for i in range(n // 16)) + "---\n",
    "open frontmatter": lambda n: "---\n" + "\n--- a" * (n // 6),
    "nested headings": lambda n: "".join(f"{'#' * (i % 6 + 1)} a\n" for i in range(n // 6)),
}


def cost(text: str) -> float:
    spent = []
    for _ in range(3):
        start = time.process_time()
        outline(text, parse(text, "n.md"))
        spent.append(time.process_time() - start)
    return min(spent)


def assert_linear(small: str, large: str) -> None:
    before = cost(small)
    assert cost(large) <= 3 * TIMES * before + 0.03


@pytest.mark.parametrize("piece", REPEATED.values(), ids=REPEATED.keys())
def test_repeated(piece: str) -> None:
    count = SMALL // len(piece)
    assert_linear(piece * count, piece * count * TIMES)


@pytest.mark.parametrize("shape", SHAPED.keys())
def test_shaped(shape: str) -> None:
    assert_linear(SHAPED[shape](SMALL), SHAPED[shape](SMALL * TIMES))
