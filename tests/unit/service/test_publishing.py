"""Publishing decisions: a stand-in for gh, and a real git repository behind it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.errors import VaultError
from server.markdown.frontmatter import split

from .edits import tree
from .forges import Forge, git, on_path
from .house import House, hiding, opened

FILE, BRANCH = "docs/adr/0002-use-git.md", "adr/0002-use-git"
URL = "https://github.com/me/code/pull/1"
PUBLISHED = """---
status: accepted
date: {day}
---
# ADR-002: Use git

## Context

See [the first](0001-poll.md) and Welcome.

## Decision

Yes.

## Consequences

Good.
"""


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    monkeypatch.setenv("PATH", on_path(tmp_path / "bin"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return Forge.make(tmp_path / "forge", tmp_path / "bin")


@pytest.fixture
def house(tmp_path: Path, forge: Forge) -> Iterator[House]:
    with opened(tmp_path / "vault", tmp_path / "state", PUBLISH_REPOS="me/code") as made:
        fill(made)
        yield made


def fill(house: House) -> None:
    house.call("adr_create", title="Poll", context="c", decision="d", consequences="e")
    house.call(
        "adr_create", title="Use git", decision="Yes.", consequences="Good.",
        context="See [[ADR-001-poll|the first]] and [[Welcome]]. %%not for everyone%%",
    )  # fmt: skip


def publish(house: House, **more: Any) -> dict[str, Any]:
    return house.call("adr_publish", adr=2, **{"dry_run": False, **more})


def expected(house: House) -> str:
    return PUBLISHED.format(day=house.app.settings.now().date())


@pytest.mark.requirement("tool.adr_publish")
def test_without_being_told_it_only_shows(house: House, forge: Forge) -> None:
    before = tree(house)
    said = house.call("adr_publish", adr=2)
    assert (said["dry_run"], said["file"], said["branch"]) == (True, FILE, BRANCH)
    assert said["content"] == expected(house)
    assert f"+++ b/{FILE}" in said["diff"]
    assert "url" not in said
    assert forge.branches() == ["trunk"]
    assert tree(house) == before


@pytest.mark.requirement("tool.adr_publish")
def test_a_decision_becomes_a_branch_and_a_pull_request(house: House, forge: Forge) -> None:
    said = publish(house)
    assert (said["url"], said["changed"], said["repository"]) == (URL, True, "me/code")
    assert forge.show(BRANCH, FILE) == expected(house)
    assert forge.show(BRANCH, "README.md") == "code\n"
    assert forge.pulls()[BRANCH] == {
        "url": URL, "state": "OPEN", "title": "ADR-002: Use git", "base": "trunk",
    }  # fmt: skip
    text = house.bytes("adr/ADR-002-use-git.md").decode()
    assert split(text).properties["related"] == [URL]
    assert "%%not for everyone%%" in text


@pytest.mark.requirement("tool.adr_publish")
def test_published_again_it_updates_its_own_branch(house: House, forge: Forge) -> None:
    publish(house)
    again = publish(house)
    assert (again["url"], forge.commits(BRANCH)) == (URL, 2), "nothing changed, so no commit"
    house.call(
        "note_patch", path="adr/ADR-002-use-git.md", target="text", selector="Good.",
        operation="replace", content="Better.",
    )  # fmt: skip
    later = publish(house)
    assert (later["url"], forge.commits(BRANCH), len(forge.pulls())) == (URL, 3, 1)
    assert "Better." in forge.show(BRANCH, FILE)
    related = split(house.bytes("adr/ADR-002-use-git.md").decode()).properties["related"]
    assert related == [URL]


def test_what_is_merged_is_not_proposed_again(house: House, forge: Forge) -> None:
    publish(house)
    forge.merge(BRANCH)
    said = publish(house)
    assert (said["changed"], said["diff"], said["url"]) == (False, "", URL)
    assert len(forge.pulls()) == 1


def test_a_name_that_the_repository_has_is_kept(house: House, forge: Forge) -> None:
    work = forge.root / "work"
    (work / "docs/adr").mkdir(parents=True)
    (work / "docs/adr/0002-other-name.md").write_text("old\n")
    (work / "docs/adr/0001-first.md").write_text("old\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "records")
    git(work, "push", "-q", "origin", "trunk")
    said = house.call("adr_publish", adr=2)
    assert said["file"] == "docs/adr/0002-other-name.md"
    assert "[the first](0001-first.md)" in said["content"]
    assert "-old" in said["diff"]


def test_a_link_in_the_repository_leads_nowhere_outside(
    house: House, forge: Forge, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    work = forge.root / "work"
    (work / "docs").mkdir()
    (work / "docs/adr").symlink_to(tmp_path / "outside")
    git(work, "add", ".")
    git(work, "commit", "-qm", "trap")
    git(work, "push", "-q", "origin", "trunk")
    assert house.refused("adr_publish", adr=2, dry_run=False).code == "unavailable"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"adr": 2, "repository": "you/secret"}, "permission_denied", "PUBLISH_REPOS"),
        ({"adr": 9}, "not_found", "ADR-002"),
        ({"adr": 1}, "invalid_request", "adr_set_status"),
    ],
)
def test_what_may_not_be_published_is_refused(
    house: House, forge: Forge, arguments: dict[str, Any], code: str, words: str
) -> None:
    house.call("adr_set_status", adr=1, status="proposed")
    error = house.refused("adr_publish", dry_run=False, **arguments)
    assert error.code == code
    assert words in error.hint
    assert forge.branches() == ["trunk"]


def test_without_a_list_of_repositories_nothing_is_published(tmp_path: Path, forge: Forge) -> None:
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        fill(house)
        error = house.refused("adr_publish", adr=2)
        assert (error.code, "PUBLISH_REPOS" in error.hint) == ("permission_denied", True)


def test_several_repositories_have_to_be_told_apart(tmp_path: Path, forge: Forge) -> None:
    repos = "me/other, me/Code"
    with opened(tmp_path / "vault", tmp_path / "state", PUBLISH_REPOS=repos) as house:
        fill(house)
        error = house.refused("adr_publish", adr=2)
        assert (error.code, "me/other, me/Code" in error.hint) == ("invalid_request", True)


def test_who_may_not_write_the_record_may_not_publish_it(
    house: House, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = hiding("adr")
    monkeypatch.setattr(house.app.service.publishing, "_access", access)
    assert house.refused("adr_publish", adr=2, dry_run=False).code == "permission_denied"
    assert forge.branches() == ["trunk"]


@pytest.mark.parametrize(("mode", "answer"), [("dry-run", None), ("confirm", "permission_denied")])
def test_a_write_mode_holds_for_publishing_too(
    tmp_path: Path, forge: Forge, house: House, mode: str, answer: str | None
) -> None:
    with opened(
        house.folder, tmp_path / "other", PUBLISH_REPOS="me/code", WRITE_MODE=mode
    ) as careful:
        try:
            said = publish(careful)
            assert (said["dry_run"], answer) == (True, None)
        except VaultError as error:
            assert error.code == answer
    assert forge.branches() == ["trunk"]


@pytest.mark.parametrize("fault", ["no gh", "no repository"])
def test_a_failure_is_told_without_places_of_this_machine(
    house: House, forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    if fault == "no gh":
        monkeypatch.setenv("PATH", "/nowhere")
    else:
        (forge.root / "me/code.git").rename(forge.root / "gone.git")
    error = house.refused("adr_publish", adr=2, dry_run=False)
    assert error.code == "unavailable"
    assert error.hint
    assert str(tmp_path) not in error.message + error.hint
