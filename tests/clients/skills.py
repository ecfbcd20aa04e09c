"""The skills of deploy/clients as data: what they say of themselves, and the calls that they show."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.clients.snippets import FOLDER

PREFIX = "mcp__obsidian-vault__"


@dataclass(frozen=True)
class Skill:
    """One skill: its folder's name, its frontmatter and its text."""

    name: str
    head: dict[str, Any]
    body: str

    @property
    def tools(self) -> list[str]:
        """The tools that it may use without a question."""
        return [str(tool).removeprefix(PREFIX) for tool in self.head["allowed-tools"]]

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls of its examples, in their order."""
        return calls_in(self.body)


def calls_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Every `{"tool": …, "arguments": …}` in the JSON blocks of a text; a block may have several."""
    found: list[tuple[str, dict[str, Any]]] = []
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        rest = block.strip()
        while rest:
            call, end = json.JSONDecoder().raw_decode(rest)
            assert set(call) == {"tool", "arguments"}
            found.append((call["tool"], call["arguments"]))
            rest = rest[end:].lstrip()
    return found


def read(path: Path) -> Skill:
    """A SKILL.md as Claude Code reads it: YAML between two lines, then what the model is told."""
    text = path.read_text(encoding="utf-8")
    found = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    assert found is not None
    return Skill(path.parent.name, yaml.safe_load(found[1]), found[2])


SKILLS = [read(path) for path in sorted((FOLDER / "skills").glob("*/SKILL.md"))]
