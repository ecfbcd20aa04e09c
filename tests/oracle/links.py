"""Vaults full of links to move things in, and where their links lead by a slow reading of the files.

Nothing of the server is used here. The reader knows the forms that the maker writes and no others:
a link stands on a line of its own, behind a mark that says what it is.
"""

import posixpath
import random
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

Files = dict[str, bytes]
"""A vault: paths and contents."""

FOLDERS = ("", "Box", "Box/inner", "Box/inner/deep", "Café", "日記", "a b", "a b/inner", "z")
NAMES = (
    "Note", "Plan B", "Zürich", "Cafe\u0301", "東京", "it's", "v1.2", "(draft)", "half (open", "50% off",
    "100%25", "UPPER", "ß", "émile & co",
)  # fmt: skip
PICTURES = ("pic.png", "Bild ü.jpg", "scan (1).pdf", "Note.png")
SECTIONS = ("", "", "#Part one", "#Part one#Sub", "#^block-1")
CODE = (
    "```\n[[{name}]] and [x]({path})\n```\n"
    "Not a link: `[[{name}]]`.\n\n"
    "    [[{name}]]\n\n"
    "$[[{name}]]$ <!-- [[{name}]] -->\n"
)


@dataclass(frozen=True, order=True)
class Led:
    """A link as it was found: where it stands and leads, and what it has besides."""

    source: str
    place: int
    path: str
    rest: tuple[str, ...]
    target: str
    kind: str


def key(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def without_md(path: str) -> str:
    return path.removesuffix(".md")


# Where a target leads

Places = list[tuple[str, str]]


def places(files: Iterable[str]) -> Places:
    """Every path with what a target is compared to, the shortest first."""
    return [(path, without_md(key(path))) for path in sorted(files, key=lambda p: (len(p), p))]


def lead(everything: Places, target: str, source: str) -> str | None:
    """By the rules: the path itself, the source's folder, the shortest path that ends in it."""
    asked = without_md(key(target))
    folder = key(posixpath.dirname(source))

    def at(place: str) -> str | None:
        return next((path for path, there in everything if there == place), None)

    if target.startswith("/"):
        return at(asked[1:])
    if target.startswith(("./", "../")):
        return at(posixpath.normpath(posixpath.join(folder, asked)))
    return (
        at(asked)
        or at(posixpath.join(folder, asked))
        or next((path for path, there in everything if f"/{there}".endswith(f"/{asked}")), None)
    )


# Reading


def read_links(files: Mapping[str, bytes]) -> list[Led]:
    """Every link of every note, those that lead nowhere with an empty path."""
    found, everything = [], places(files)
    for source, data in files.items():
        if not source.endswith(".md"):
            continue
        for place, line in enumerate(data.decode("utf-8", "surrogateescape").splitlines()):
            link = read_line(line)
            if link is None:
                continue
            target, rest, kind = link
            path = source if not target else lead(everything, target, source) or ""
            found.append(Led(source, place, path, rest, target, kind))
    return sorted(found)


def read_line(line: str) -> tuple[str, tuple[str, ...], str] | None:
    """Target, what stands around it, and its kind; the mark is the first word of the line."""
    mark = next((mark for mark in MARKS if line.startswith(mark)), None)
    if mark is None:
        return None
    if mark in ("md:", "angled:", "image:"):
        before, _, inside = line.partition("](")
        inside, _, after = inside.rpartition(")")
        inside, title = (inside[:-4], inside[-4:]) if inside.endswith(' "t"') else (inside, "")
        angled = inside.startswith("<")
        address, hash_, section = inside.strip("<>").partition("#")
        target = unquote(address)
        rest = (before, hash_ + unquote(section), title + after)
        return target, rest, "angled" if angled else "md"
    start, end = line.index("[["), line.index("]]")
    before, inside, after = line[:start], line[start + 2 : end], line[end:]
    bar = "\\|" if "\\|" in inside else "|"
    named, bar, alias = inside.partition(bar)
    if "'[[" in line:
        named = named.replace("''", "'")
    target, hash_, section = named.partition("#")
    return target, (before, hash_ + section, bar + alias, after), "wiki"


MARKS = (
    "wiki:",
    "embed:",
    "| table",
    "md:",
    "angled:",
    "image:",
    "up: ",
    "  - '",
    '  - "',
    "bare: ",
)


# Making


def make_vault(rng: random.Random, notes: int, links: int) -> Files:
    """Notes and pictures in all folders, namesakes among them, and links of every form."""
    paths = make_paths(rng, FOLDERS, notes)
    for picture in PICTURES:
        paths |= {inside(folder, picture) for folder in rng.sample(FOLDERS, 2)}
    return make_links(rng, sorted(paths), sorted(paths), links)


def make_box(rng: random.Random, folder: str, notes: int, links: int) -> Files:
    """A vault with so many notes below one folder and so many links to them, from all over."""
    below = [folder, *(f"{folder}/{n}" for n in range(9)), f"{folder}/1/Projekt ü"]
    there = make_paths(rng, below, notes)
    paths = there | make_paths(rng, FOLDERS, notes // 4)
    return make_links(rng, sorted(paths), sorted(there), links)


def make_paths(rng: random.Random, folders: Sequence[str], count: int) -> set[str]:
    paths: set[str] = set()
    while len(paths) < count:
        name = rng.choice(NAMES) + rng.choice(("", "", f" {rng.randrange(count)}"))
        paths.add(inside(rng.choice(folders), f"{name}.md"))
    return paths


def inside(folder: str, name: str) -> str:
    return unicodedata.normalize("NFC", f"{folder}/{name}".lstrip("/"))


def make_links(
    rng: random.Random, paths: Sequence[str], wanted: Sequence[str], links: int
) -> Files:
    sources = [path for path in paths if path.endswith(".md")]
    lines: dict[str, list[str]] = {source: [] for source in sources}
    for _ in range(links):
        source = rng.choice(sources)
        lines[source].append(make_link(rng, source, rng.choice(wanted)))
    return {
        path: make_note(rng, lines[path], rng.choice(paths)) if path in lines else b"\x89PNG"
        for path in paths
    }


def make_note(rng: random.Random, links: list[str], other: str) -> bytes:
    above = [link for link in links if link.startswith(("up: ", "  - ", "bare: "))]
    tops = ("up: ", "bare: ")
    single = {mark: link for mark in tops for link in above if link.startswith(mark)}
    head = [*single.values(), "list:", *(link for link in above if link.startswith("  - "))]
    if head[-1] == "list:":
        head[-1] = "list: []"
    body = [link for link in links if link not in above]
    code = CODE.format(name=without_md(posixpath.basename(other)), path=quote(other))
    text = "\n".join(["---", *head, "---", "# Part one ^h", "", *body, "", code, "end ^block-1"])
    if rng.random() < 0.3:
        text = text.replace("\n", "\r\n")
    if rng.random() < 0.2:
        text = "\ufeff" + text
    return text.encode() + (b" \xff\xfe" if rng.random() < 0.1 else b"")


def make_link(rng: random.Random, source: str, path: str) -> str:
    """A line with a link to the path, or to nowhere, or to whatever the target happens to mean."""
    target = make_target(rng, source, path)
    section = rng.choice(SECTIONS) if path.endswith(".md") else ""
    quoted = target.replace("'", "''")
    encoded = quote(target, safe="/ß&'") + section.replace(" ", "%20")
    raw = quote(target, safe="/üßéõ&'東京日記") + section.replace(" ", "%20")
    lines = [
        f"wiki: [[{target}{section}]] after",
        f"wiki: see [[{target}{section}|the alias]]",
        f"wiki: - [ ] [[{target}{section}]] %% comment %%",
        f"embed: ![[{target}{section}]]",
        f"embed: ![[{target}|300]]",
        f"| table | [[{target}{section}\\|cell]] | x |",
        f"md: [text]({encoded})",
        f'md: [text]({encoded} "t") after',
        f"md: [text]({raw})",
        f"angled: [text](<{target.replace('%', '%25')}{section}>)",
        f"image: ![alt]({encoded})",
        f"up: '[[{quoted}{section}]]'",
        f'up: "[[{target}{section}|x]]" # comment',
        f"  - '[[{quoted}{section}|al]]'",
        f'  - "[[{target}{section}]]"',
        f"bare: see [[{target}]]",
    ]
    return rng.choice(lines)


def make_target(rng: random.Random, source: str, path: str) -> str:
    folder = posixpath.dirname(source)
    relative = posixpath.relpath(f"/{path}", f"/{folder}")
    base = posixpath.basename(path)
    ways = [base, base, path, relative, f"/{path}", "/".join(path.split("/")[-2:])]
    if not relative.startswith("."):
        ways.append(f"./{relative}")
    target = rng.choice(ways)
    if rng.random() < 0.1:
        target = rng.choice(("Missing", "Missing.md", "../Missing", "Box/Missing", target + "x"))
    if rng.random() < 0.1:
        target = rng.choice((target.upper(), unicodedata.normalize("NFD", target)))
    return target if rng.random() < 0.4 else without_md(target)


def make_moves(rng: random.Random, files: Mapping[str, bytes]) -> dict[str, str]:
    """A folder to another place, or single files to others; nothing is overwritten."""
    if rng.random() < 0.5:
        folder = rng.choice([folder for folder in FOLDERS if folder])
        place = rng.choice(("Moved", "z/Box", "Box it's", "日記/新しい", "inner", f"{folder} 2"))
        below = [path for path in files if path.startswith(f"{folder}/")]
        moves = {path: place + path[len(folder) :] for path in below}
    else:
        moves = {}
        for path in rng.sample(sorted(files), min(len(files), rng.randint(1, 4))):
            ending = ".md" if path.endswith(".md") else path[path.rindex(".") :]
            names = (*NAMES, "Missing", "New", posixpath.basename(path).removesuffix(ending))
            moves[path] = inside(rng.choice(FOLDERS), rng.choice(names) + ending)
    return without_collisions(files, moves)


def without_collisions(files: Iterable[str], moves: dict[str, str]) -> dict[str, str]:
    """The moves that leave no two files at one place, whatever their case and extension."""
    while True:
        stay = [path for path in files if path not in moves]
        taken = Counter(without_md(key(path)) for path in (*stay, *moves.values()))
        fine = {old: new for old, new in moves.items() if taken[without_md(key(new))] == 1}
        if fine == moves:
            return moves
        moves = fine
