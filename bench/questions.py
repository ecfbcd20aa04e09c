"""What is asked of a vault: one table, put to the tool and to the service alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from bench.vault import Vault

Arguments = Mapping[str, Any]

HALF = 30
"""The rank of a word that half of the notes have."""


@dataclass(frozen=True, slots=True)
class Question:
    """A tool with arguments for one call after another; `promised`: the service's own limits hold."""

    what: str
    tool: str
    ask: Callable[[], Arguments]
    promised: bool = False


def questions(vault: Vault, some_paths: Callable[[int], Sequence[str]]) -> list[Question]:
    """Every reading operation that answers from the index."""
    return [*_searches(vault), *_surveys(vault), *_graph(some_paths)]


def behind_rules(vault: Vault) -> list[Question]:
    """Of a caller who may not read everything: nothing else is counted, ranked or told."""
    half, status = vault.words[HALF], {"status": "open"}
    return [
        _search("word in half, path rules", mode="full_text", query=half),
        _search("word in half, path rules, property", query=half, properties=status),
        _search("property, path rules", mode="properties", properties=status),
        _search("two tags, path rules", mode="tags", tags=["project/alpha", "idea"]),
    ]


def _searches(vault: Vault) -> list[Question]:
    words, signs = vault.words, vault.signs
    half, often, seldom = words[HALF], words[230], words[2_500]
    text = "full_text"
    return [
        _search("one word", mode=text, query=often),
        _search("one rare word", mode=text, query=words[9_000]),
        _search("two words", mode=text, query=f"{often} {words[180]}"),
        _search("two words, either", mode=text, query=f"{often} OR {seldom}"),
        _search("phrase", mode=text, query=f'"{words[5]} {words[9]}"'),
        _search("prefix", mode=text, query=f"{often[:4]}*"),
        _search("CJK, two signs", mode=text, query=signs[40] + signs[2]),
        _search("word in half the notes", mode=text, query=half),
        _search("word in half, by date", mode=text, query=half, sort="modified_desc"),
        _search("word in half, page 11", mode=text, query=half, offset=200),
        _search("word in half, property, scope", query=half, properties={"status": "open"},
                path_scope=["projects", "notes"]),
        _search("no match", mode=text, query="qxqxqx"),
        _search("tag", mode="tags", tags=["project"]),
        _search("two tags", mode="tags", tags=["project/alpha", "idea"]),
        _search("property", mode="properties", properties={"status": "draft"}),
        _search("property range", mode="properties", properties={"created": {"gte": "2025-06-01"}}),
        _search("hybrid, property and scope", query=often, tags=["reading"],
                properties={"status": {"in": ["open", "done"]}}, path_scope=["devlog"]),
    ]  # fmt: skip


def _surveys(vault: Vault) -> list[Question]:
    words = vault.words
    asked = f"what did we decide about {words[230]} and {words[2_500]} in {words[400]}?"
    return [
        _same("context_pack", "context_pack", question=asked),
        _same("list_tags", "list_tags"),
        _same("list_tags, one folder", "list_tags", path_scope=["devlog"]),
        _same("list_properties", "list_properties"),
        _same("recent_changes", "recent_changes", since="1d"),
    ]


def _graph(some_paths: Callable[[int], Sequence[str]]) -> list[Question]:
    return [
        _each("backlinks_search", "backlinks_search", some_paths(100)),
        *(
            _each(
                f"graph_neighbors, depth {depth}", "graph_neighbors", some_paths(100), depth=depth
            )
            for depth in (1, 2, 3)
        ),
    ]


def _search(what: str, **arguments: Any) -> Question:
    return Question(f"search_notes: {what}", "search_notes", lambda: arguments, promised=True)


def _same(what: str, tool: str, **arguments: Any) -> Question:
    return Question(what, tool, lambda: arguments)


def _each(what: str, tool: str, paths: Sequence[str], **arguments: Any) -> Question:
    turn = cycle(paths)
    return Question(what, tool, lambda: arguments | {"path": next(turn)})
