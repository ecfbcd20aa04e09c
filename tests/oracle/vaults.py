"""Two vaults to search: one made by chance, one shaped like those that people keep."""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

WORDS = (
    "alpha", "beta", "gamma", "delta", "river", "stone", "cloud", "engine", "paper", "garden",
    "letter", "window", "market", "signal", "café", "Café", "naïve", "résumé", "RESUME",
    "Zürich", "zurich", "façade", "Straße", "привет", "Привет", "ελλάδα", "snake_case",
    "co-operate", "don't", "10:30", "v2.1", "e-mail", "C++", "node.js", "mañana",
)  # fmt: skip
RARE = ("quetzal", "zephyr", "Ångström", "xylophone", "Þór")
ASIAN = (
    "東京都に住む",
    "日本語の文章",
    "京都へ行く",
    "今日は晴れ",
    "한국어를",
    "배운다",
    "中文搜索",
    "カタカナ",
    "ガラス",
)
TAGS = (
    "project", "project/alpha", "project/alpha/specs", "project/beta", "Idea", "idea/Later", "todo",
    "読書", "読書/小説", "2026/plan", "inbox-zero",
)  # fmt: skip
STATES = ("draft", "Open", "done", "on hold", "Größe")
FOLDERS = (
    "",
    "daily",
    "Projects",
    "Projects/Alpha",
    "Projects/Alpha/specs",
    "people",
    "日記",
    "a b",
)
DAYS = [f"2026-{month:02d}-{day:02d}" for month in (1, 2, 3) for day in (1, 14, 28)]


def made_by_chance(folder: Path, notes: int = 300) -> None:
    """The same vault every time."""
    rng = random.Random(20_260_220)
    for number in range(notes):
        place = rng.choice(FOLDERS)
        name = (
            f"{rng.choice(WORDS).replace('/', '')} {number}" if rng.random() < 0.7 else f"n{number}"
        )
        text = _properties(rng) + _body(rng)
        ending = "\r\n" if rng.random() < 0.15 else "\n"
        data = ("\ufeff" if rng.random() < 0.05 else "") + text.replace("\n", ending)
        _write(folder, f"{place}/{name}.md".lstrip("/"), data.encode(), rng)
    for path in ("Projects/picture.png", "daily/café.pdf"):
        _write(folder, path, b"no note", rng)


def _properties(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return ""
    day, clock = rng.choice(DAYS), f"{rng.randint(0, 23):02d}:{rng.choice(('00', '30'))}"
    choices: list[Callable[[], str]] = [
        lambda: f"status: {rng.choice(STATES)}",
        lambda: f"Status: {rng.choice(STATES).upper()}",
        lambda: f"rating: {rng.choice((1, 2, 3, 5, 10, '2.5', '5.0', '-1'))}",
        lambda: f"rating: '{rng.choice((3, 5, 10, 'high', '5.0'))}'",
        lambda: f"done: {rng.choice(('true', 'false', 'True', chr(39) + 'true' + chr(39), 'yes'))}",
        lambda: f"created: {day}",
        lambda: f"created: {day}T{clock}",
        lambda: f"created: '{day} {clock}'",
        lambda: f"date: {day}",
        lambda: f"due: {rng.choice(DAYS)}T{clock}:15",
        lambda: f"due: {rng.choice(('soon', '2026', '2026-02', '2026-02-30'))}",
        lambda: "empty:",
        lambda: "empty: ''",
        lambda: "empty: []",
        lambda: (
            f"people: [{', '.join(rng.sample(('Ann', 'bob', 'Chloé', '恵子', '5', 'null'), 2))}]"
        ),
        lambda: f"people: {rng.choice(('Ann', 'Ann Lee', 'nobody'))}",
        lambda: f"mixed: [1, two, {day}, true]",
        lambda: "nested: {a: 1, b: [x]}",
        lambda: f"two words: {rng.choice(WORDS)}",
        lambda: f"title: {rng.choice(WORDS)} {rng.choice(WORDS)}",
        lambda: f"aliases: [{rng.choice(WORDS)} {rng.choice(RARE)}]",
    ]
    lines: dict[str, str] = {}
    for make in rng.sample(choices, rng.randint(1, 6)):
        line = make()
        lines[line.partition(":")[0]] = line
    tags = rng.sample(TAGS, rng.randint(0, 3))
    if tags:
        lines["tags"] = f"tags: [{', '.join(tags)}]"
    return "---\n" + "\n".join(lines.values()) + "\n---\n"


def _body(rng: random.Random) -> str:
    parts: list[str] = []
    if rng.random() < 0.6:
        parts.append(f"# {rng.choice(WORDS)} {rng.choice(WORDS)}\n\n")
    for _ in range(rng.randint(1, 4)):
        words = rng.choices(WORDS, k=rng.randint(3, 14))
        words += rng.choices(RARE, k=rng.random() < 0.1)
        words += rng.choices(ASIAN, k=rng.randint(0, 2) if rng.random() < 0.3 else 0)
        words += [f"#{tag}" for tag in rng.choices(TAGS, k=rng.random() < 0.3)]
        rng.shuffle(words)
        parts.append(" ".join(words) + rng.choice((".\n\n", "\n", "?\n- [ ] ")))
    return "".join(parts)


def kept_by_people(folder: Path) -> None:
    """Daily notes, people, projects, templates, and what goes wrong in such vaults."""
    rng = random.Random(7)
    for path, data in _kept():
        _write(folder, path, data, rng)


def _kept() -> Iterator[tuple[str, bytes]]:
    for number in range(60):
        day = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}"
        mood = ("good", "tired", "Great")[number % 3]
        yield (
            f"daily/{day}.md",
            (
                f"---\ndate: {day}\nmood: {mood}\nsleep: {6 + number % 4}.{number % 2 * 5}\ntags: [daily]\n---\n"
                f"# {day}\n\n- [{'x' if number % 2 else ' '}] call [[Ann Lee]]\n- met at 10:30 #meeting\n\n"
                f"Worked on alpha with signal {number}. {'東京都に住む' if number % 7 == 0 else ''}\n"
            ).encode(),
        )
    for name, role in (
        ("Ann Lee", "engineer"),
        ("Bob", "Designer"),
        ("Chloé Dupont", "engineer"),
        ("恵子", "PM"),
    ):
        yield (
            f"people/{name}.md",
            (
                f"---\naliases: [{name.split(maxsplit=1)[0]}]\nrole: {role}\nbirthday: 1990-02-14\n---\n"
                f"# {name}\n\nWorks on [[Projects/Alpha/Alpha]]. Résumé on file.\n"
            ).encode(),
        )
    states: Mapping[str, str] = {"Alpha": "Open", "Beta": "done", "Gamma": "on hold"}
    for number, (name, status) in enumerate(states.items()):
        yield (
            f"Projects/{name}/{name}.md",
            (
                f"---\nstatus: {status}\npriority: {number}\ndue: 2026-0{number + 1}-28T17:00\n"
                f"budget: {1000 * number}.50\n"
                f"tags:\n  - project/{name.lower()}\n  - project\n---\n\n# {name}\n\nShip the engine.\n"
            )
            .replace("\n", "\r\n")
            .encode(),
        )
        yield (
            f"Projects/{name}/log.md",
            f"# Log\n\n10:30 started {name} #project/{name}/log\n".encode(),
        )
    odd = {
        "Templates/daily.md": "---\ndate: {{date}}\ntags: daily\n---\n# {{title}}\n",
        "Templates/person.md": "---\nrole:\naliases: []\n---\n",
        "broken yaml.md": "---\nstatus: [open\nrating: 5\n---\nalpha in a broken note #todo\n",
        "tabs.md": "---\n\tstatus: open\n---\nalpha beta\n",
        "never closed.md": "---\nstatus: open\nalpha without an end\n",
        "twice.md": "---\nstatus: open\nstatus: done\n---\ntwice\n",
        "list.md": "---\n- a\n- b\n---\nlist on top\n",
        "json.md": '---\n{"status": "Open", "rating": 5, "tags": ["json", "project/json"]}\n---\nJSON note\n',
        "comma tags.md": "---\ntags: one, two, #three\nalias: First, Second\n---\nold style\n",
        "numbers.md": "---\nrating: 5\nzip: 007\nbig: 123456789012345678901\nratio: 1e3\nhex: 0x10\n---\n",
        "quoted.md": "---\nrating: '5'\nstatus: \"on hold\"\ndone: 'true'\ndue: '2026-02-28'\n---\n",
        "code.md": "```\n#notatag alpha\n```\nText with `#nor` this, but #real/Tag too\n",
        "empty.md": "",
        "only title.md": "# Только заголовок\n",
        "UPPER.md": "LOUD WORDS AND #SHOUT/LOUD\n",
        "deep/er/and/deeper/note.md": "[[Ann Lee]] deep alpha co-operate\n",
        "Projects/Alpha/specs/api.md": "---\nstatus: draft\nrating: 3\n---\nREST api for alpha #idea/later\n",
        "日記/二月.md": "---\ndate: 2026-02-01\n---\n今日は晴れ。京都へ行く #読書/小説\n",
        "a b/c d.md": "window garden alpha beta\n",
        "emoji 🎉.md": "party 🎉 #fun🎉\n",
    }  # fmt: skip
    for path, text in odd.items():
        yield path, text.encode()
    yield "not utf8.md", b"caf\xe9 alpha \xff"


def _write(folder: Path, path: str, data: bytes, rng: random.Random) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    # Some share a time, as files do that were copied together.
    moment = 1_700_000_000_000_000_000 + rng.randrange(200) * 86_400_000_000_000
    os.utime(file, ns=(moment, moment))
