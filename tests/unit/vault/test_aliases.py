"""Links to files of the vault are learned by listing, forgotten when gone, and kept over a restart."""

from pathlib import Path

from server.models import Entry, FileStat
from server.vault.aliases import Aliases


def link(path: str, real: str | None) -> Entry:
    return Entry(path, path, "note", FileStat(0, 0), real)


def learn(aliases: Aliases, folder: str, entries: list[Entry]) -> None:
    aliases.learn(folder, entries, aliases.turn())


def test_an_older_look_takes_no_link_away() -> None:
    aliases = Aliases()
    older = aliases.turn()
    learn(aliases, "", [link("top.md", "real.md")])
    aliases.learn("", [link("top.md", None)], older)
    assert aliases.current == {"top.md": "real.md"}
    learn(aliases, "", [link("top.md", None)])
    assert aliases.current == {}


def test_a_listing_says_what_is_a_link_now(tmp_path: Path) -> None:
    aliases = Aliases(tmp_path / "aliases.json")
    nothing = aliases.current
    learn(aliases, "a", [link("a/x.md", None)])
    assert aliases.current is nothing
    learn(aliases, "A", [link("A/X.md", "b/real.md"), link("A/y.md", None)])
    learn(aliases, "", [link("top.md", "b/real.md")])
    known = {"a/x.md": "b/real.md", "top.md": "b/real.md"}
    assert aliases.current == known
    same = aliases.current
    learn(aliases, "", [link("top.md", "b/real.md")])
    assert aliases.current is same, "nothing changed"
    assert Aliases(tmp_path / "aliases.json").current == known
    learn(aliases, "A", [link("A/X.md", None)])
    assert aliases.current == {"top.md": "b/real.md"}
    assert Aliases(tmp_path / "aliases.json").current == {"top.md": "b/real.md"}


def test_what_was_noted_down_and_is_damaged_is_learned_again(tmp_path: Path) -> None:
    file = tmp_path / "aliases.json"
    for text in ("{", "[]", ""):
        file.write_text(text)
        aliases = Aliases(file)
        assert aliases.current == {}
        learn(aliases, "", [link("top.md", "real.md")])
        assert Aliases(file).current == {"top.md": "real.md"}
