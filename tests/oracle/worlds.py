"""Two worlds for one caller: a vault, and the same vault without what the caller may not read.

Nothing of the server's access code is used here: who may read what is looked up rule by rule.
"""

import json
import os
import random
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDERS = ("", "Plans", "Plans/deep", "Plans/deep/er", "log", "log/2026", "Übung", "x y", "secret")
NAMES = (
    "Plan",
    "plan b",
    "Note",
    "Ärger",
    "2026-01-01",
    "index",
    "todo",
    "Readme",
    "x1",
    "x2",
    "x3",
)
WORDS = ("alpha", "beta", "gamma", "delta", "river", "stone", "zebra", "Plan", "Note", "東京都")
TAGS = ("work", "Work/api", "WORK", "work/api/v2", "home", "Home", "idea/late")
KEYS = ("status", "Status", "rating", "people", "due", "Only")
VALUES = ("open", "Done", "3", "2.5", "2026-02-03", "[a, b]", "true", "[3, open]")

Rule = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Files, and the rules for the caller."""

    files: Mapping[str, bytes]
    rules: Sequence[Rule]

    def may(self, verb: str, path: str) -> bool:
        """The rules with the longest path that say something decide; denial first."""
        best, verdict = -1, False
        for rule in self.rules:
            place = [] if rule["path"] == "/" else _key(rule["path"]).split("/")
            allow, deny = rule.get(f"{verb}_allow", False), rule.get(f"{verb}_deny", False)
            if not (allow or deny) or _key(path).split("/")[: len(place)] != place:
                continue
            if len(place) > best:
                best, verdict = len(place), not deny
            elif len(place) == best:
                verdict = verdict and not deny
        return verdict

    @property
    def visible(self) -> dict[str, bytes]:
        return {path: data for path, data in self.files.items() if self.may("read", path)}

    @property
    def hidden(self) -> list[str]:
        return [path for path in self.files if not self.may("read", path)]

    @property
    def folders(self) -> list[str]:
        found = {
            "/".join(path.split("/")[:n]) for path in self.files for n in range(path.count("/") + 1)
        }
        return sorted(found - {""})

    def policy(self) -> str:
        everything = {"path": "/", "read_allow": True, "write_allow": True}
        owner = {"rules": [everything], "admin": True}
        return json.dumps({"callers": {"owner": owner, "eve": {"rules": list(self.rules)}}})

    def lay_out(self, folder: Path, *, whole: bool) -> None:
        """Write the files, or only those that the caller may read and the folders it may."""
        for place in self.folders:
            if whole or self.may("read", place):
                (folder / place).mkdir(parents=True, exist_ok=True)
        for number, (path, data) in enumerate(sorted(self.files.items())):
            if whole or path in self.visible:
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                moment = 1_750_000_000_000_000_000 + number * 3_600_000_000_000
                os.utime(file, ns=(moment, moment))


def make_world(rng: random.Random, notes: int = 40) -> World:
    """A vault of namesakes and links, and rules for folders and for single notes."""
    paths: set[str] = set()
    while len(paths) < notes:
        paths.add(f"{rng.choice(FOLDERS)}/{rng.choice(NAMES)}.md".lstrip("/"))
    paths |= {f"{rng.choice(FOLDERS)}/pic.png".lstrip("/") for _ in range(4)}
    ordered = sorted(paths)
    files = {
        path: _note(rng, ordered) if path.endswith(".md") else b"\x89PNG\r\n\x1a\n" + path.encode()
        for path in ordered
    }
    kept = _conventions(rng)
    single = [_rule(rng, path, rng.random() < 0.5) for path in rng.sample(sorted(kept), 2)]
    return World(files | kept, [*make_rules(rng, ordered), *single])


def _conventions(rng: random.Random) -> dict[str, bytes]:
    """Work logs and decisions."""
    files = {}
    for topic in ("api", "deploy", "search"):
        head = f"---\ntags: [devlog]\ntopic: {topic}\nproject: {rng.choice('xy')}\n---\n"
        lines = [f"[impl]    2026-02-{day:02d}  {rng.choice(WORDS)} {topic}" for day in (3, 9, 20)]
        files[f"devlog/{topic}.md"] = (head + "\n".join(lines) + "\n").encode()
    for number in (1, 2, 3):
        head = f"---\ntags: [adr, accepted]\nadr: {number}\ndate: 2026-01-0{number}\nstatus: accepted\n---\n"
        files[f"adr/ADR-00{number}-one.md"] = f"{head}# ADR-00{number} One\n".encode()
    return files


def make_rules(rng: random.Random, paths: Sequence[str]) -> list[Rule]:
    """Rules for folders and for some of the notes."""
    rules: list[Rule] = [{"path": "/", "read_allow": True, "write_allow": True}]
    if rng.random() < 0.4:
        rules = [_rule(rng, folder, True) for folder in rng.sample(FOLDERS[1:], 3)]
    rules += [_rule(rng, folder, rng.random() < 0.3) for folder in rng.sample(FOLDERS[1:], 3)]
    rules += [_rule(rng, path, rng.random() < 0.4) for path in rng.sample(list(paths), 5)]
    return rules


def _rule(rng: random.Random, path: str, allow: bool) -> Rule:
    spelled = rng.choice((path, path.upper(), unicodedata.normalize("NFD", path)))
    if not allow:
        return {"path": spelled, "read_deny": True, "write_deny": True}
    write = {"write_allow": True} if rng.random() < 0.7 else {"write_deny": True}
    return {"path": spelled, "read_allow": True, **write}


def _note(rng: random.Random, paths: Sequence[str]) -> bytes:
    head = [f"{key}: {rng.choice(VALUES)}" for key in rng.sample(KEYS, rng.randint(0, 3))]
    head = list({line.partition(":")[0].lower(): line for line in head}.values())
    if rng.random() < 0.5:
        head.append(f"tags: [{', '.join(rng.sample(TAGS, 2))}]")
    lines = ["---", *head, "---"] if head else []
    lines += [f"# {rng.choice(WORDS)}", "", "## Part", ""]
    for _ in range(rng.randint(0, 4)):
        lines.append(" ".join(rng.choices(WORDS, k=5)) + " " + _link(rng, rng.choice(paths)))
    if rng.random() < 0.4:
        lines.append(f"#{rng.choice(TAGS)} and {rng.choice(NAMES)}")
    return ("\n".join(lines) + "\n").encode()


def _link(rng: random.Random, path: str) -> str:
    bare = path.removesuffix(".md")
    name = bare.rpartition("/")[2]
    section = rng.choice(("", "", "#Part"))
    form = rng.choice((name, name, bare, f"/{bare}", name.upper(), f"{name}x", name))
    return rng.choice((f"[[{form}{section}]]", f"[[{form}|shown]]", f"![[{form}]]"))


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
