"""A vault with a secret folder, and what can be asked of it.

`ASKS` has a row for everything that a caller can name: `tools/call NAME` for an operation, and so on.
Rows of a capability that the server doesn't offer are not asked; one that it offers and that has no
rows is missing in `COVERED`, and a test fails.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.catalog.table import OPERATIONS

from .wire import INITIALIZE, call, request

MARK = "zq9"
"""Stands in the secret folder alone: in texts, names, tags, properties, headings, blocks, links."""

UNKNOWN = ("nobody", "wrong", "expired", "revoked")
KNOWN = ("reader", "stranger")
COVERED = {
    "tools": "tools/call",
    "resources": "resources/",
    "prompts": "prompts/",
    "completions": "completion/",
}
"""The capabilities that `ASKS` has rows for, and what the methods of each begin with."""

OK, DENIED, MISSING = "ok", "permission_denied", "not_found"

PLAN = """---
tags: [zq9tag]
aliases: [zq9alias]
zq9prop: zq9value
---
# zq9title

The zq9words lie here. See [[own]] and [[zq9missing]]. ^zq9block

## zq9part

- [ ] zq9task
"""
FILES = {
    "theirs/plan.md": PLAN,
    "theirs/zq9other.md": "zq9words of an own kind, about [[plan]] and [[mine/own]] #zq9tag\n",
    "theirs/move.md": "zq9words to move\n",
    "theirs/drop.md": "zq9words to drop\n",
    "theirs/burn.md": "zq9words to burn\n",
    "theirs/list.txt": "zq9words in a list\n",
    "devlog/log.md": "---\ntags: [devlog, zq9tag]\ntopic: log\n---\n[impl] 2026-02-20  zq9words\n",
    "adr/ADR-001-zq9.md": "---\ntags: [adr]\nadr: 1\nstatus: accepted\n---\n# ADR-001 zq9words\n",
    "mine/own.md": "---\nstate: open\n---\n# Own\n\nWords of mine. #owntag\n",
    "mine/more.md": "More words, see [[own]] and [[plan]].\n",
}


def fill(folder: Path) -> None:
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@dataclass(frozen=True)
class Ask:
    """One request and what the caller of another folder gets for it.

    `OK` is an answer without a word of what is closed to it, `MISSING` what anyone gets who names
    what isn't there: for what has no path, and where the protocol has no other refusal.
    """

    method: str
    params: Mapping[str, Any]
    stranger: str = DENIED
    writes: bool = False

    @property
    def capability(self) -> str:
        return next(name for name, begin in COVERED.items() if self.method.startswith(begin))

    @property
    def names_the_folder(self) -> bool:
        return "theirs" in json.dumps(self.params)

    def body(self, number: int | str = 1) -> dict[str, Any]:
        return request(self.method, number, **self.params)


P = "theirs/plan.md"
_ARGUMENTS: dict[str, Sequence[dict[str, Any]]] = {
    "note_read": [{"path": P, "include_metadata": True}],
    "note_upsert": [{"path": P, "content": "x"}, {"path": "theirs/new.md", "content": "x"}],
    "vault_list": [{"path": "theirs"}],
    "note_info": [{"path": P}],
    "note_outline": [{"path": P}],
    "note_read_many": [{"paths": ["mine/own.md", P], "include_metadata": True}],
    "backlinks_search": [{"path": P, "include_mentions": True}],
    "graph_neighbors": [{"path": P, "depth": 2}],
    "link_add": [
        {"from": P, "to": "mine/own.md", "alias": "x"},
        {"from": "mine/own.md", "to": P},
    ],
    "note_write": [
        {"path": P, "content": "x", "mode": "append"},
        {"path": "theirs/made.md", "content": "x", "mode": "create"},
    ],
    "note_patch": [
        {
            "path": P, "target": "heading", "selector": "zq9title", "operation": "append",
            "content": "x",
        }
    ],
    "notes_edit": [
        {"edits": [{"path": path, "content": "x", "mode": "append"} for path in ("mine/own.md", P)]}
    ],
    "note_move": [
        {"from": "theirs/move.md", "to": "theirs/moved.md"},
        {"from": "theirs/moved.md", "to": "mine/taken.md"},
        {"from": "mine/more.md", "to": "theirs/given.md"},
    ],
    "heading_rename": [{"path": P, "heading": "zq9part", "to": "zq9part two"}],
    "note_delete": [{"path": "theirs/drop.md"}, {"path": "theirs/burn.md", "permanent": True}],
    "note_history": [{"path": "theirs/writer.md"}],
    "note_restore": [{"path": "theirs/writer.md"}],
    "undo": [
        {"since": "1h", "caller": "writer"},
        {"since": "1h", "caller": "writer", "skip": ["mine/own.md"], "apply": True},
        {"since": "1h", "skip": ["theirs/absent.md"], "apply": True},
    ],
    "devlog_append": [{"topic": "log", "entries": [{"type": "impl", "text": "x"}]}],
    "adr_create": [{"title": "x", "context": "x", "decision": "x", "consequences": "x"}],
    "attachment_read": [{"path": "theirs/list.txt"}],
    "attachment_write": [
        {"path": "theirs/list.txt", "data": "AAAA", "overwrite": True},
        {"path": "theirs/new.bin", "data": "AAAA"},
    ],
}  # fmt: skip
_VAULT_WIDE: dict[str, Sequence[dict[str, Any]]] = {
    "vault_search": [{"query": "zq9|words", "context": 3}],
    "vault_list": [{"depth": 9}],
    "note_info": [{"path": "mine/own.md"}],
    "note_read_many": [{"glob": "**/*.md", "include_metadata": True}],
    "search_notes": [
        {"query": "zq9words OR words", "full": True},
        {"query": "[zq9prop] OR tag:#zq9tag OR path:theirs"},
        {"mode": "tags", "tags": ["zq9tag", "owntag"], "tags_match": "any"},
        {"mode": "properties", "properties": {"zq9prop": {"exists": True}}},
    ],
    "context_pack": [{"question": "Where do the zq9words lie?"}],
    "list_tags": [{}],
    "list_properties": [{}],
    "recent_changes": [{"since": "1d"}],
    "backlinks_search": [{"path": "mine/own.md", "include_mentions": True}],
    "graph_neighbors": [{"path": "mine/own.md", "depth": 3}, {"path": "mine/more.md"}],
    "note_history": [{"path": "mine/own.md"}],
    "devlog_tail": [{}],
    "adr_list": [{}],
    "health_check": [{}],
    "vault_sync": [{"wait": 0}],
}
_BY_NUMBER: dict[str, Sequence[dict[str, Any]]] = {
    "devlog_tail": [{"topic": "log"}],
    "adr_read": [{"adr": 1}],
    "adr_set_status": [{"adr": 1, "status": "deprecated"}],
    "adr_publish": [{"adr": 1}],
}
_WRITING = {op.name for op in OPERATIONS if op.access != "read"}


def _tool(name: str, arguments: dict[str, Any], stranger: str) -> Ask:
    params = call(name, **arguments)["params"]
    return Ask("tools/call", params, stranger, writes=name in _WRITING)


def _resource(uri: str, stranger: str) -> Ask:
    return Ask("resources/read", {"uri": uri}, stranger)


def _completion(ref: dict[str, str], argument: str, *begun: str) -> list[Ask]:
    return [
        Ask("completion/complete", {"ref": ref, "argument": {"name": argument, "value": value}}, OK)
        for value in begun
    ]


_PROMPTS: dict[str, tuple[dict[str, str], str]] = {
    "devlog": ({"topic": "log"}, OK),
    "adr": ({"title": "x", "supersedes": "1"}, OK),
    "catchup": ({"since": "1d"}, OK),
    "summarise-meeting": ({"note": P}, "invalid_request"),
    "weekly-review": ({}, OK),
}
_COMPLETED = {
    "devlog": ("topic", "project"),
    "adr": ("project", "supersedes"),
    "catchup": ("since", "tag"),
    "summarise-meeting": ("note",),
    "weekly-review": ("tag",),
}
_OTHERS: dict[str, Sequence[Ask]] = {
    "resources/list": [Ask("resources/list", {}, OK)],
    "resources/read vault://note/{+path}": [
        _resource(f"vault://note/{P}", MISSING),
        _resource("vault://note/theirs/list.txt", MISSING),
        _resource("vault://note/mine/own.md", OK),
    ],
    "resources/read vault://folder/{+path}": [
        _resource("vault://folder/theirs", MISSING),
        _resource("vault://folder/", OK),
    ],
    **{
        f"prompts/get {name}": [Ask("prompts/get", {"name": name, "arguments": given}, code)]
        for name, (given, code) in _PROMPTS.items()
    },
    **{
        f"completion/complete {name}": [
            ask
            for argument in arguments
            for ask in _completion({"type": "ref/prompt", "name": name}, argument, "", "zq")
        ]
        for name, arguments in _COMPLETED.items()
    },
    **{
        f"completion/complete {uri}": _completion(
            {"type": "ref/resource", "uri": uri}, "path", "", "the"
        )
        for uri in ("vault://note/{+path}", "vault://folder/{+path}")
    },
}
ASKS: dict[str, Sequence[Ask]] = {
    f"tools/call {name}": [
        *(_tool(name, arguments, DENIED) for arguments in _ARGUMENTS.get(name, ())),
        *(_tool(name, arguments, OK) for arguments in _VAULT_WIDE.get(name, ())),
        *(_tool(name, arguments, MISSING) for arguments in _BY_NUMBER.get(name, ())),
    ]
    for name in sorted({*_ARGUMENTS, *_VAULT_WIDE, *_BY_NUMBER})
} | _OTHERS


def past(who: str) -> list[Ask]:
    """What a caller did while it still might: there is something to restore and to undo."""
    note, gone = f"theirs/{who}.md", f"theirs/{MARK}{who}.md"
    done: list[tuple[str, dict[str, Any]]] = [
        ("note_write", {"path": note, "content": "zq9words\n", "mode": "create"}),
        ("note_write", {"path": note, "content": "zq9words anew\n", "mode": "overwrite"}),
        ("note_write", {"path": gone, "content": "zq9words\n", "mode": "create"}),
        ("note_delete", {"path": gone}),
    ]
    return [_tool(tool, arguments, OK) for tool, arguments in done]


PROTOCOL = {
    method: request(method, 1, **params)
    for method, params in {
        "initialize": INITIALIZE["params"],
        "server/discover": {},
        "ping": {},
        "tools/list": {},
        "resources/templates/list": {},
        "prompts/list": {},
        "subscriptions/listen": {"notifications": {}},
    }.items()
}
"""What names nothing of the vault, and still is for those alone who have a token."""
