"""No text makes the parser slow: eight times the input takes about eight times the work."""

from collections.abc import Callable

import pytest

from server.markdown.note import parse
from server.markdown.sections import outline
from tests.unit.markdown.work import TIMES, assert_linear

SMALL = 15_000

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


def assert_parsed_in_linear_time(small: str, large: str) -> None:
    assert_linear(
        lambda: outline(small, parse(small, "n.md")), lambda: outline(large, parse(large, "n.md"))
    )


@pytest.mark.parametrize("piece", REPEATED.values(), ids=REPEATED.keys())
def test_repeated(piece: str) -> None:
    count = SMALL // len(piece)
    assert_parsed_in_linear_time(piece * count, piece * count * TIMES)


@pytest.mark.parametrize("shape", SHAPED.keys())
def test_shaped(shape: str) -> None:
    assert_parsed_in_linear_time(SHAPED[shape](SMALL), SHAPED[shape](SMALL * TIMES))
