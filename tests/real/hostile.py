"""The paths that try to leave a vault, and the arguments that they are tried on."""

import random
import unicodedata
from collections.abc import Iterator

from tests.real.ground import HIDDEN, NFD, NOTES, SWAPPED, Ground

SEPARATORS = (
    "/", "/", "/", "//", "/./", "\\", "%2f", "%2F", "%252f", "%5c", "\u2044", "\u2215", "\uff0f",
    "\u29f8", "\u29f5", "\ufe68", "\uff3c", "%c0%af", "\xc0\xaf", "%e0%80%af", "+AC8-", "&#47;",
    "\u2028", ":", "::", "\0", "/\u200b", ";/",
)  # fmt: skip
UPWARD = (
    "..", "..", ".", "...", "....", ". .", ".. ", "..\0", "%2e%2e", "%252e%252e", "%2e.", ".%2e",
    "\uff0e\uff0e", "\u2024\u2024", "\u2025", "\u2026", "%c0%ae%c0%ae", "\xc0\xae\xc0\xae",
    "\ufe52\ufe52", "..;", "..\u200b", ".\u200d.", "\u202e..", "..\u0301", "..%00", "..%01", "~",
    "~root", "$HOME", "${HOME}", "%USERPROFILE%", "*", "**", "?", "[.][.]", "{..,.}", "!..",
)  # fmt: skip
RESERVED = (
    "CON", "con.md", "NUL", "nul.md", "AUX.md", "PRN.txt", "COM1.md", "LPT9", "CONIN$", "COM¹.md",
    "CLOCK$", "desktop.ini", "Thumbs.db", "$MFT", "a.md::$DATA", "a.md:stream", "NUL .md",
)  # fmt: skip
DOTTED = (
    ".git", ".GIT", ".Git", ".g\u0131t", ".gi\u0307t", ".git ", ".git.", ".git::$INDEX_ALLOCATION",
    "GIT~1", ".obsidian", ".OBSIDIAN", ".ob\u017fidian", "\uff0egit", "\u2024git", ".git\u200c",
    ".trash", ".Trash", ".vault-mcp", ".hidden.md", ".secret.md", " .git", "\u200b.git", "%2egit",
)  # fmt: skip
INSERTS = (
    "\0", "\x01", "\x1b[2J", "\x7f", "\x85", "\n", "\r\n", "\t", " ", "\xa0", "\u200b", "\u200d",
    "\u202e", "\u2066", "\ufeff", "\u0301", "\u0308", "\u0327\u0301", "\ufe0f", "\U000e0041", "🗒",
    "\ud800", "\udfff", "\udc80", "\U0010ffff", "\ufffe", "\u2028", "%00", "%0a", "#", "^", "|",
    "[[", "]]", "*", "?", '"', "<", ">", ":", "`", "$(id)", "{}", "%s", "%n", "-", "--",
)  # fmt: skip
TWINS = {
    "k": "\u212a", "K": "\u212a", "i": "\u0131", "I": "\u0130", "s": "\u017f", "ss": "ß", "ß": "ẞ",
    "A": "\uff21", "å": "\u212b", "a": "\u0430", "e": "\u0435", "o": "\u03bf", "f": "\ufb00",
    "m": "\u217f", "d": "\u217e", ".": "\uff0e", "/": "\u2215",
}  # fmt: skip


class Paths:
    """Hostile paths without end, the same for the same seed."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self._random = random.Random(seed)
        self._known = (
            *NOTES, NFD, *HIDDEN, *ground.links, "files/picture.png", "files/data.txt",
            "links/inside/Beta.md", "links/out/secret.md", "links/out/inner/note.md",
            "links/out/new.md", "links/gate/secret.md",
            "links/gate/new/new.md", "links/up/notes/Alpha.md", "links/upup/secret.md",
            "links/root/.git/note.md", "links/evil/secret.md", "links/fd/3", "links/cwd/x.md",
            "links/proc/environ", "links/through/config", "links/loop-a/x.md", "links/trash/old.md",
            "links/slash/etc/passwd", "away/secret.md", "away/mid/inner/note.md", "new.md",
            "new folder/deep/er/new.md", "notes", "swap", "links", "swap/dir/new.md",
        )  # fmt: skip
        self._swapped = (
            *SWAPPED, "swap/dir/note.md", "swap/dir/inner/note.md", "swap/dir/inner",
            "swap/deep/mid/inner/note.md", "swap/deep/mid/inner", "swap/new/mid/note.md",
            "swap/new/mid", "swap/new/made.md", "swap/dir/made/made.md", "swap/way-0/note.md",
            "swap/way-0", "swap/way-1", "swap/deep/mid/inner/made.md", "swap/dir/secret.md",
        )  # fmt: skip
        self.seeds = tuple(self._seeds(ground))
        self._untried = list(self.seeds)

    def take(self, count: int, *, swapping: bool) -> Iterator[str]:
        """So many paths; while things are swapped, many that lead there."""
        for _ in range(count):
            if swapping and self._random.random() < 0.6:
                path = self._random.choice(self._swapped)
                yield path if self._random.random() < 0.8 else self._mutated(path)
            else:
                yield self._one()

    def _seeds(self, ground: Ground) -> Iterator[str]:
        yield from self._known
        yield from (*UPWARD, *RESERVED, *DOTTED, "", " ", "/", "//", "\\", ".md", "a" * 300 + ".md")
        yield from (
            "a/" * 600 + "x.md",
            "é" * 130 + ".md",
            "x" * 5000,
            "../" * 300,
            "notes/Alpha.md/",
        )
        yield from (f"{way}/outside/secret.md" for way in UPWARD)
        yield from (f"..{between}outside{between}secret.md" for between in SEPARATORS)
        yield from (f"{dot}/config" for dot in DOTTED)
        yield from (f"notes/{name}" for name in (*RESERVED, *DOTTED))
        for away in (*ground.beyond, ground.outside / "secret.md", ground.vault / "notes/Alpha.md"):
            yield from (
                f"{away}", f"/{away}", f"///{away}", f"file://{away}", f"file://localhost{away}",
                f"vault://{away}", f"obsidian://open?path={away}", f"{away}".replace("/", "\\"),
                f"C:{away}", f"\\\\?\\{away}", f"\\\\localhost\\{away}", f"//localhost{away}",
                f"{away}".replace("/", "%2f"), f"{away}".upper(), f"./{away}", f"notes/..{away}",
                f" {away}", f"{away} ", f"\t{away}", f"\ufeff{away}", f"~/..{away}",
                f"/proc/self/root{away}", f"/dev/fd/3{away}", f"{away}\0.md", f"{away}/",
            )  # fmt: skip
        yield from (f"/proc/self/fd/{n}" for n in range(12))
        yield from ("/proc/self/environ", "/dev/stdin", "/dev/zero", "/etc/passwd", "/", "NUL:")
        yield from (
            "**/../**",
            "!**",
            "[",
            "[!",
            "[]",
            "{",
            "***",
            "\\",
            "!",
            "[[:alpha:]",
            "[z-a]",
            "**/.git/**",
        )

    def _one(self) -> str:
        if self._untried:
            return self._untried.pop()
        way = self._random.random()
        if way < 0.15:
            return self._random.choice(self.seeds)
        if way < 0.5:
            return self._mutated(self._random.choice(self._known))
        if way < 0.75:
            return self._mutated(self._random.choice(self.seeds))
        return self._joined() if way < 0.95 else self._noise()

    def _joined(self) -> str:
        draw = self._random
        parts = (*UPWARD, *UPWARD, *RESERVED, *DOTTED, "notes", "links", "out", "outside", "vault-evil",
                 "secret.md", "Alpha.md", "swap", "dir", "", "x", "x.md", "vault", "links/up")  # fmt: skip
        path = draw.choice(parts)
        for _ in range(draw.randint(1, 7)):
            path += draw.choice(SEPARATORS) + draw.choice(parts)
        return draw.choice(("", "", "", "/", "./", "C:\\", "file:///", "vault://", "~/")) + path

    def _noise(self) -> str:
        draw = self._random
        spans = (
            (0x20, 0x7F),
            (0x80, 0x24F),
            (0x300, 0x36F),
            (0x2000, 0x206F),
            (0xFE00, 0xFFFF),
            (1, 0x10FFFF),
        )
        low, high = draw.choice(spans)
        return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 40))) + ".md"

    def _mutated(self, path: str) -> str:
        for _ in range(self._random.randint(1, 3)):
            path = self._random.choice(self._MUTATIONS)(self, path)
        return path[:6000]

    def _inserted(self, path: str) -> str:
        at = self._random.randint(0, len(path))
        return path[:at] + self._random.choice(INSERTS) + path[at:]

    def _climbed(self, path: str) -> str:
        parts = path.split("/")
        at = self._random.randint(0, len(parts))
        return "/".join(
            [*parts[:at], *[self._random.choice(UPWARD)] * self._random.randint(1, 4), *parts[at:]]
        )

    def _twin(self, path: str) -> str:
        text = self._random.choice(tuple(TWINS))
        return path.replace(text, TWINS[text], self._random.randint(1, 3))

    def _renormalised(self, path: str) -> str:
        return unicodedata.normalize(self._random.choice(("NFC", "NFD", "NFKC", "NFKD")), path)

    def _recased(self, path: str) -> str:
        return self._random.choice((str.upper, str.lower, str.swapcase, str.casefold, str.title))(
            path
        )

    def _encoded(self, path: str) -> str:
        kept = self._random.choice(("", "/", "/."))
        data = path.encode("utf-8", "surrogatepass")
        return "".join(chr(b) if chr(b) in kept or chr(b).isalnum() else f"%{b:02x}" for b in data)

    def _separated(self, path: str) -> str:
        return path.replace("/", self._random.choice(SEPARATORS), self._random.randint(1, 9))

    def _ended(self, path: str) -> str:
        return path + self._random.choice(
            (".", " ", "/", "//", "/.", "/..", ".md", ".md/", "~", "\0", "%00", "/new.md", ":$DATA")
        )

    def _begun(self, path: str) -> str:
        return (
            self._random.choice(
                (
                    "/",
                    "//",
                    "./",
                    "../",
                    " ",
                    "C:",
                    "~/",
                    "\\\\",
                    "file://",
                    "vault://",
                    "-",
                    "\ufeff",
                )
            )
            + path
        )

    def _grown(self, path: str) -> str:
        name = self._random.choice(("x", "é", "\u0301", "🗒")) * self._random.choice(
            (60, 120, 241, 256, 1100)
        )
        return self._random.choice((f"{name}/{path}", f"{path}/{name}.md", f"{name}{path}"))

    def _latin(self, path: str) -> str:
        return path.encode("utf-8", "surrogatepass").decode("latin-1")

    _MUTATIONS = (
        _inserted, _inserted, _climbed, _climbed, _twin, _renormalised, _recased, _encoded, _separated,
        _ended, _begun, _grown, _latin,
    )  # fmt: skip
