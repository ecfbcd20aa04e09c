"""The index, asked as agents ask: it must say what the vault holds, no more and no less."""

import random
from collections import Counter

from tests.faults.model import Truth, is_visible
from tests.real.servers import Server

_PAGE = 500


def index_problems(server: Server, truth: Truth, chance: random.Random) -> list[str]:
    """Where list, regex search and full text differ from the truth."""
    health = server.call("health_check")
    if health["mount"]["state"] != "ok":
        return [f"the mount is {health['mount']['state']}"]
    notes = {p: t for p, t in truth.items() if is_visible(p) and p.endswith(".md")}
    listed = server.call("vault_list", depth=20, kind="note", limit=1000)
    if "entries" not in listed:
        return [f"no list: {listed}"]
    known = {entry["path"] for entry in listed["entries"]}
    if known != set(notes):
        return [f"the index differs: {sorted(known ^ set(notes))}"]
    for path, text in notes.items():
        wanted = Counter(line for line in text.decode().split("\n") if line)
        if (found := _searched(server, path)) != wanted:
            more, less = sorted(found - wanted), sorted(wanted - found)
            return [f"{path}: searches find {more[:2]} too much, and miss {less[:2]}"]
    return _word_problems(server, notes, chance)


def _searched(server: Server, path: str) -> Counter[str]:
    found: list[tuple[str, str]] = []
    while True:
        # A filter without a slash means a name in any folder.
        answer = server.call(
            "vault_search", query=".", path_filter=path, limit=_PAGE, offset=len(found)
        )
        found += [(hit["path"], hit["text"]) for hit in answer.get("results", ())]
        if not answer.get("truncated") or not answer["results"]:
            return Counter(text for at, text in found if at == path)


def _word_problems(server: Server, notes: Truth, chance: random.Random) -> list[str]:
    lines = [(path, line) for path, text in notes.items() for line in text.decode().split("\n")]
    _, line = chance.choice([one for one in lines if one[1]] or [("", "")])
    word = line.partition(".")[0]
    if not word:
        return []
    found = {
        item["path"] for item in server.call("search_notes", mode="full_text", query=word)["items"]
    }
    wanted = {other for other, text in lines if text.startswith(f"{word}.")}
    return [] if found == wanted else [f"full text finds {word} in {found}, not in {wanted}"]
