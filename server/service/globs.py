"""Globs as people write them: the rules of .gitignore, matched by a library."""

import re
from collections.abc import Callable
from itertools import takewhile

from pathspec import GitIgnoreSpec

from server.errors import InvalidRequest

_WILD = re.compile(r"[*?\[\]!\\]")


def fixed_folder(pattern: str | None) -> str:
    """The folder that everything lies in which a glob matches; "" when that may be anywhere."""
    parts = (pattern or "").strip().removeprefix("./").split("/")
    # A glob is tied to the root by any slash but one at its end; only then its folders are known.
    if len(parts) < 2 or parts[1:] == [""]:
        return ""
    fixed = takewhile(lambda part: not _WILD.search(part), parts[:-1])
    return "/".join(part for part in fixed if part)


def matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """A predicate over vault paths, or None for no filter. Raises `InvalidRequest`."""
    if pattern is None or not pattern.strip() or pattern.strip() in ("*", "**", "**/*"):
        return None
    if len(pattern) > 500 or "\0" in pattern:
        raise InvalidRequest(
            "The glob is too long or holds a NUL.", "Use a glob like 'devlog/*.md'."
        )
    try:
        spec = GitIgnoreSpec.from_lines([pattern.strip().removeprefix("./")])
    except (ValueError, re.error) as error:
        raise InvalidRequest(
            f"The glob {pattern!r} can't be understood: {error}",
            "Use 'devlog/*.md' or '**/2026-*.md'.",
        ) from None
    return spec.match_file
