"""A deterministic vault of notes of about 2 KB: two levels of folders, links, tags, frontmatter.

python -m tests.drive.mkvault FOLDER NOTES
"""

import os
import random
import sys
from pathlib import Path

WORDS = [
    "project",
    "meeting",
    "idea",
    "review",
    "server",
    "network",
    "storage",
    "python",
    "rclone",
    "drive",
    "vault",
    "note",
    "daily",
    "garden",
    "recipe",
    "travel",
    "budget",
    "health",
    "reading",
    "music",
    "kernel",
    "fuse",
    "cache",
    "index",
    "search",
    "query",
    "token",
    "agent",
    "memory",
    "context",
    "window",
    "prompt",
    "model",
    "plan",
    "risk",
    "owner",
    "status",
    "due",
    "backlog",
    "sprint",
    "design",
    "sketch",
    "alpha",
    "beta",
    "gamma",
    "delta",
]
NOTES_PER_FOLDER = 35
NEEDLE = "needle-zq42"
"""Stands in one note of every 500."""


def make_vault(folder: Path, notes: int) -> None:
    """Write the notes, with modification times spread over 2025."""
    rng = random.Random(42)
    topics = max(1, notes // NOTES_PER_FOLDER)
    areas = max(1, topics // 10)
    folders = [folder / f"Area {i % areas:02d}" / f"Topic {i:03d}" for i in range(topics)]
    for topic in folders:
        topic.mkdir(parents=True, exist_ok=True)
    for number in range(notes):
        path = folders[number % topics] / f"Note {number:05d} {rng.choice(WORDS)}.md"
        path.write_text(_note(rng, number, notes), encoding="utf-8")
        moment = 1735689600 + rng.random() * 3e7
        os.utime(path, (moment, moment))


def _note(rng: random.Random, number: int, notes: int) -> str:
    lines = [
        "---",
        f"tags: [{rng.choice(WORDS)}, {rng.choice(WORDS)}]",
        f"created: 2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        "---",
        f"# Note {number:05d}",
        "",
    ]
    size, target = 0, max(300, int(rng.gauss(2000, 700)))
    while size < target:
        lines.append(_line(rng, notes))
        size += len(lines[-1]) + 1
    if number % 500 == 7:
        lines.append(NEEDLE)
    return "\n".join(lines) + "\n"


def _line(rng: random.Random, notes: int) -> str:
    line = " ".join(rng.choice(WORDS) for _ in range(rng.randint(8, 16))).capitalize() + ". "
    if rng.random() < 0.2:
        line += f"[[Note {rng.randrange(notes):05d}]] "
    if rng.random() < 0.1:
        line += f"#{rng.choice(WORDS)}"
    return line


if __name__ == "__main__":
    make_vault(Path(sys.argv[1]), int(sys.argv[2]))
