"""Turns ripgrep's complaint about a pattern into an error that an agent can act on."""

import re

from server.errors import InvalidRequest

_ADVICE = re.compile(r"\n\s*\n?Consider enabling .*", re.DOTALL)
_HINTS = (
    ("look-around", "Lookaround is not supported: match the wider text and filter the results."),
    ("backreferences", "Backreferences are not supported: spell the repetition out."),
    (r'literal "\n"', "The search goes line by line: look for one line of the text."),
    ("size limit", "Use smaller repetition counts."),
)
_DEFAULT_HINT = (
    r"Escape special characters with a backslash to find them literally, as in \( or \[."
)
_LONGEST = 600


def complaint(words: str) -> InvalidRequest:
    """The error for what rg wrote to stderr; options and paths of the host stay out of it."""
    text = _ADVICE.sub("", words.removeprefix("rg: ")).strip()
    if len(text) > _LONGEST:
        # The verdict is the last line; what fills the rest is the pattern itself.
        text = "regex parse error: " + text.splitlines()[-1].removeprefix("error: ")[:_LONGEST]
    hint = next((hint for mark, hint in _HINTS if mark in text), _DEFAULT_HINT)
    return InvalidRequest(f"The pattern is not a valid regular expression: {text}", hint)
