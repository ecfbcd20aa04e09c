"""How a link's source reads: target, section, alias. Whether it is one, `scan` decides."""

import re
from urllib.parse import unquote

from server.markdown.elements import Link, LinkKind

WIKI_SOURCE = (
    r"\[\[(?P<target>[^\[\]\n|]*+)"
    r"(?:\|(?P<alias>(?:[^\[\]\n]++|\[(?!\[)|\](?!\]))*+))?\]\]"
)
DESTINATION_SOURCE = (
    r"\([ \t]*+(?:<(?P<angled>[^<>\n]*+)>"
    r"|(?P<bare>(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*+\))(?:[^\s()\\]++|\\.|\((?:[^\s()\\]|\\.)*+\))*+))"
    r"""(?:[ \t]++(?:"[^"\n]*+"|'[^'\n]*+'|\([^()\n]*+\)))?+[ \t]*+\)"""
)
WIKI = re.compile(WIKI_SOURCE)
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def wiki(
    source: re.Match[str], kind: LinkKind, embed: bool, *, line: int, at: int, end: int
) -> Link | None:
    """The link that `[[…]]` makes, or None when it names nothing; `at` is where the `[[` stands."""
    target, _, section = source["target"].partition("#")
    alias = source["alias"]
    if alias is not None:
        # In a table the bar is written as `\|`.
        target, section = target.removesuffix("\\"), section.removesuffix("\\")
    target, section = target.strip(), section.lstrip("#").strip()
    if not (target or section) or "://" in target:
        return None
    shown = alias.strip() if alias is not None else ""
    return Link(target, section or None, shown or None, embed, kind, line, at - embed, end)


def markdown(
    source: re.Match[str], alias: str, embed: bool, *, line: int, at: int, end: int
) -> Link | None:
    """The link that `[alias](destination)` makes, or None when it leaves the vault."""
    destination = source["angled"]
    if destination is None:
        destination = source["bare"]
    destination = _ESCAPED.sub(r"\1", destination).strip()
    if _EXTERNAL.match(destination):
        return None
    target, _, section = destination.partition("#")
    target, section = unquote(target), unquote(section).lstrip("#")
    if not (target or section):
        return None
    shown = alias.strip()
    return Link(target, section or None, shown or None, embed, "markdown", line, at - embed, end)
