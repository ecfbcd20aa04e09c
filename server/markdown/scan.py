"""One pass over a note's body: headings, links, tags, blocks and tasks, in linear time.

A single regular expression, whose branches all begin with a literal, jumps from one character of
interest to the next; the method for that character decides what it means and where to go on.
Code, math, HTML comments and HTML blocks are jumped over. `%%` comments are not: their links count.
"""

import re
from collections.abc import Callable
from operator import attrgetter

from server.markdown.elements import Block, Heading, Link, Task
from server.markdown.indented import find_code
from server.markdown.links import DESTINATION_SOURCE, WIKI_SOURCE, markdown, wiki

_TAG_END = r"\s\u2000-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\"
_SCAN = re.compile(
    r"\n(?=[ \t>*+0-9#=`~$<\[-])"
    r"(?: {0,3}(?:(?P<hashes>\#{1,6})(?=[ \t\r\n]|\Z)|(?P<rule>=++|-++)[ \t\r]*+(?=\n|\Z))"
    r"|(?P<lead>(?:[ \t>]++|(?:[-*+]|[0-9]{1,9}[.)])[ \t]++)*+)"
    r"(?P<open>`{3,}+|~{3,}+|\$\$|<(?:!--|/?[A-Za-z][A-Za-z0-9]*+)|\[[^\[\]\n]\](?=[ \t\r\n]|\Z)))"
    rf"|\#[^{_TAG_END}]++"
    rf"|{WIKI_SOURCE}"
    r"|\["
    rf"|\](?P<destination>{DESTINATION_SOURCE})?+"
    r"|``*+"
    r"|\$(?:\$(?:[^$\\\n]++|\\.|\$(?!\$))*+\$\$|(?![\s$])(?:[^$\\\n`]++|\\.)*+(?<!\s)\$(?![0-9]))"
    r"|<(?:!--|/?[A-Za-z][A-Za-z0-9-]*+(?:\s++[A-Za-z_:][\w.:-]*+"
    r"""(?:\s*+=\s*+(?:"[^"\n]*+"|'[^'\n]*+'|[^\s"'=<>`]++))?+)*+\s*+/?>)"""
    r"|\^[A-Za-z0-9-]++[ \t\r]*+(?=\n|\Z)"
    r"|\\[!-/:-@\[-`{-~]"
)
_BREAK = re.compile(
    r"\n(?=[ \t>\r]*+(?:\n|\Z|\#{1,6}[ \t]|[-*+][ \t]|[0-9]{1,9}[.)][ \t]|```|~~~|\|))"
)
_BLANK = re.compile(r"\n[ \t>\r]*+(?=\n|\Z)")
_FENCE_END = re.compile(r"\n([ \t>]*+)(`{3,}+|~{3,}+)[ \t\r]*+(?=\n|\Z)")
_BACKTICKS = re.compile("``*+")
_NEAR = 200  # a code span is hardly ever longer; longer ones are looked up
_ROW = re.compile(r"[ \t>]*+\|")
_QUOTE_END = re.compile(r"\n(?![ \t]*+>)")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+$")
_NOT_PARAGRAPH = re.compile(
    r"[ \t]*+(?:>|[-*+][ \t]|[0-9]{1,9}[.)][ \t]|\||\[\^)| {4}| {0,3}\t"
    r"| {0,3}([*_-])[ \t]*+(?:\1[ \t\r]*+){2,}$"
)
_RAW_HTML = frozenset(("script", "pre", "style", "textarea"))
_HTML_BLOCK = re.compile(
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details"
    "|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header"
    "|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param"
    "|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul",
    re.IGNORECASE,
)


class Scan:
    """The elements of the body that starts at `origin`. Tags are keyed by their folded form."""

    def __init__(self, text: str, origin: int) -> None:
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.tags: dict[str, str] = {}
        self.blocks: list[Block] = []
        self.tasks: list[Task] = []
        self._s = "\n" + text[origin:]  # so that every line has a line break before it
        self._shift = origin - 1
        self._line = text.count("\n", 0, origin)
        self._counted = 0
        self._floor = 0  # where the last block ended that is no paragraph
        self._paragraph_end = 0
        self._quote_end = 0
        self._row_seen = 0
        self._in_row = False
        self._tag_end = 0
        self._escape_end = 0
        self._brackets: list[tuple[int, int, bool]] = []
        self._runs: dict[int, list[int]] | None = None
        self._hopeless: set[str] = set()
        self._run()

    def _run(self) -> None:
        s, search = self._s, _SCAN.search
        code = find_code(s)
        code.reverse()
        at = 0
        while found := search(s, at):
            start = found.start()
            while code and code[-1][1] <= start:
                code.pop()
            if code and code[-1][0] <= start:
                at = code.pop()[1]
                continue
            at = _METHODS[s[start]](self, found, start)
        self.links.sort(key=attrgetter("start"))

    def _line_at(self, at: int) -> int:
        """The line of an offset; offsets must come in order."""
        self._line += self._s.count("\n", self._counted, at)
        self._counted = at
        return self._line

    def _line_end(self, at: int) -> int:
        end = self._s.find("\n", at)
        return len(self._s) if end < 0 else end

    def _paragraph(self, at: int) -> int:
        """Where the paragraph around an offset ends; brackets left open before it are dropped."""
        if at >= self._paragraph_end:
            self._brackets.clear()
            found = _BREAK.search(self._s, at)
            self._paragraph_end = found.start() if found else len(self._s)
        return self._paragraph_end

    # Lines

    def _on_line(self, found: re.Match[str], at: int) -> int:
        if hashes := found["hashes"]:
            return self._atx(found, len(hashes))
        if found["rule"]:
            return self._setext(found, at)
        opener, start = found["open"], found.start("open")
        first = opener[0]
        if first == "[":
            return self._task(found, start)
        if first == "<":
            return self._html(found, opener, start)
        if first == "$":
            end = self._after("$$", start + 2)
            return start + 2 if end is None else self._block_until(end)
        return self._fence(found, opener, start)

    def _block_until(self, end: int) -> int:
        self._floor = self._line_end(end)
        return end

    def _after(self, closer: str, at: int) -> int | None:
        """The offset after the next `closer`; a search that failed once is never repeated."""
        if closer in self._hopeless:
            return None
        end = self._s.find(closer, at)
        if end < 0:
            self._hopeless.add(closer)
            return None
        return end + len(closer)

    def _atx(self, found: re.Match[str], level: int) -> int:
        start = found.start() + 1
        end = self._line_end(found.end())
        text = _CLOSING_HASHES.sub("", self._s[found.end() : end].strip()).strip()
        self._heading(level, text, self._line_at(start), start, end)
        return found.end()

    def _setext(self, found: re.Match[str], at: int) -> int:
        s, top = self._s, at
        while top > self._floor:
            above = s.rfind("\n", 0, top)
            line = s[above + 1 : top]
            if not line.strip():
                break
            if _NOT_PARAGRAPH.match(line):
                top = at
                break
            top = above
        if top < at:
            text = " ".join(s[top + 1 : at].split())
            line_number = self._line_at(at) - s.count("\n", top + 1, at)
            level = 1 if found["rule"][0] == "=" else 2
            self._heading(level, text, line_number, top + 1, found.end())
        self._floor = found.end()
        return found.end()

    def _heading(self, level: int, text: str, line: int, start: int, end: int) -> None:
        self._floor = end
        shift, below = self._shift, min(end + 1, len(self._s))
        self.headings.append(Heading(level, text, line, start + shift, below + shift))

    def _task(self, found: re.Match[str], start: int) -> int:
        lead = found["lead"].rstrip()
        if not lead or lead[-1] == ">":
            return start
        mark = self._s[start + 1]
        text = self._s[start + 3 : self._line_end(start)].strip()
        self.tasks.append(Task(mark, text, self._line_at(start), mark in "xX"))
        return start + 3

    def _fence(self, found: re.Match[str], opener: str, start: int) -> int:
        s, first = self._s, opener[0]
        info = self._line_end(start)
        if first == "`" and s.find("`", found.end(), info) >= 0:
            return start
        limit = self._container_end(found["lead"], info)
        for closing in _FENCE_END.finditer(s, info, limit):
            run = closing[2]
            if run[0] == first and len(run) >= len(opener):
                return self._block_until(closing.end())
        return self._block_until(limit)

    def _container_end(self, lead: str, at: int) -> int:
        """Where the quote that a line's lead opens ends, or the text."""
        if ">" not in lead:
            return len(self._s)
        if at >= self._quote_end:
            outside = _QUOTE_END.search(self._s, at)
            self._quote_end = outside.start() if outside else len(self._s)
        return self._quote_end

    def _html(self, found: re.Match[str], opener: str, start: int) -> int:
        if opener == "<!--":
            end = self._after("-->", start + 2)
            return self._block_until(len(self._s) if end is None else end)
        name = opener.strip("</").lower()
        if name in _RAW_HTML and opener[1] != "/":
            closed = re.compile(rf"</{name}>", re.IGNORECASE).search(self._s, start)
            return self._block_until(closed.end() if closed else len(self._s))
        if _HTML_BLOCK.fullmatch(name) and self._s[found.end() : found.end() + 1] in "\n\r\t />":
            limit = self._container_end(found["lead"], start)
            blank = _BLANK.search(self._s, start, limit)
            return self._block_until(blank.start() if blank else limit)
        return start

    # Inside lines

    def _on_comment(self, found: re.Match[str], at: int) -> int:
        if found[0] != "<!--":
            return found.end()
        return self._after("-->", at + 2) or found.end()

    def _on_code(self, found: re.Match[str], at: int) -> int:
        s, end = self._s, found.end()
        size = end - at
        near = s.find(found[0], end, end + _NEAR)
        if near > 0 and s[near + size : near + size + 1] != "`" and "\n" not in s[end:near]:
            return near + size
        if self._runs is None:
            self._runs = _backticks(s)
        starts = self._runs.get(size, [])
        while starts and starts[-1] < end:
            starts.pop()
        if starts and starts[-1] < self._paragraph(at):
            return starts[-1] + size
        return end

    def _on_tag(self, found: re.Match[str], at: int) -> int:
        s, end = self._s, found.end()
        name = s[at + 1 : end]
        before = s[at - 1]
        if not (before.isspace() or at == self._tag_end):
            if before in "*_~=" and self._is_emphasis(before, at):
                name = name.rstrip("_") if before == "_" else name
            elif before != "|" or not self._is_table_row(at):
                return end
        self._tag_end = end
        name = name.strip("/")
        if name and not name.isdecimal():
            self.tags.setdefault(name.casefold(), name)
        return end

    def _is_emphasis(self, mark: str, at: int) -> bool:
        s, start = self._s, at - 1
        while s[start - 1] == mark:
            start -= 1
        if s[start - 1].isalnum() or (mark in "~=" and at - start < 2):
            return False
        return s.find(mark, at, self._paragraph(at)) >= 0

    def _is_table_row(self, at: int) -> bool:
        start = self._s.rfind("\n", self._row_seen, at)
        self._row_seen = at
        if start >= 0:
            self._in_row = _ROW.match(self._s, start + 1) is not None
        return self._in_row

    def _on_open(self, found: re.Match[str], at: int) -> int:
        if found["target"] is None:
            self._paragraph(at)
            self._brackets.append((at, self._line_at(at), self._is_embed(at)))
            return at + 1
        shift, line = self._shift, self._line_at(at)
        embed = self._is_embed(at)
        link = wiki(found, "wiki", embed, line=line, at=at + shift, end=found.end() + shift)
        if link:
            self.links.append(link)
        return found.end()

    def _on_close(self, found: re.Match[str], at: int) -> int:
        self._paragraph(at)
        if not self._brackets:
            return at + 1
        start, line, embed = self._brackets.pop()
        if found["destination"] is None:
            return at + 1
        # No link holds another; an image may stand in a link. This also bounds the nesting.
        del self._brackets[: -1 if embed else None]
        alias, shift = self._s[start + 1 : at], self._shift
        link = markdown(found, alias, embed, line=line, at=start + shift, end=found.end() + shift)
        if link:
            self.links.append(link)
        return found.end()

    def _is_embed(self, at: int) -> bool:
        return self._s[at - 1] == "!" and self._escape_end != at

    def _on_block(self, found: re.Match[str], at: int) -> int:
        if self._s[at - 1].isspace():
            name = found[0][1:].rstrip()
            self.blocks.append(Block(name, self._line_at(at), at + self._shift))
        return found.end()

    def _on_escape(self, found: re.Match[str], at: int) -> int:  # noqa: ARG002
        self._escape_end = found.end()
        return found.end()

    def _on_math(self, found: re.Match[str], at: int) -> int:  # noqa: ARG002
        return found.end()


def _backticks(s: str) -> dict[int, list[int]]:
    """Where the runs of backticks start, by length, last first."""
    runs: dict[int, list[int]] = {}
    for run in reversed(list(_BACKTICKS.finditer(s))):
        runs.setdefault(run.end() - run.start(), []).append(run.start())
    return runs


_METHODS: dict[str, Callable[[Scan, re.Match[str], int], int]] = {
    "\n": Scan._on_line,
    "#": Scan._on_tag,
    "[": Scan._on_open,
    "]": Scan._on_close,
    "`": Scan._on_code,
    "<": Scan._on_comment,
    "^": Scan._on_block,
    "$": Scan._on_math,
    "\\": Scan._on_escape,
}
