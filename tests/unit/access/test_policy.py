"""The policy file: read, checked, read again when it changes, and kept when it breaks."""

import os
import threading
from pathlib import Path

import pytest

from server.access import policy as policies
from server.access.policy import Policy, PolicyError, PolicyFile, parse_policy
from server.models import path_key
from server.vault.paths import parse_folder

FINE = """
rules:
  - {path: notes, read_allow: true}
callers:
  bot:
    rules: [{path: notes/in, write_allow: true, write_mode: confirm}]
    write_mode: off
    toolsets: [core, find]
    limits: {calls_per_second: 2.5, answer_kb: 64}
"""


def parsed(text: str) -> Policy:
    return parse_policy(text, parse_folder)


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parsed(text)
    return caught.value.problems


def reads(policy: Policy, caller: str, path: str) -> bool:
    return policy.of(caller).book.decide("read", path_key(path)).allowed


def test_rules_for_everyone_hold_for_a_caller_with_rules_of_its_own() -> None:
    policy = parsed(FINE)
    bot = policy.of("bot")
    assert reads(policy, "bot", "Notes/A.md")
    assert reads(policy, "somebody", "notes/a.md")
    assert not reads(policy, "somebody", "other.md")
    assert bot.book.decide("write", "notes/in/a.md").rule == "callers.bot.rules[0] (notes/in)"
    assert bot.book.mode("notes/in/a.md") == ("confirm", "callers.bot.rules[0] (notes/in)")
    assert (bot.write_mode, bot.toolsets) == ("off", frozenset({"core", "find"}))
    assert (bot.limits.calls_per_second, bot.limits.answer_kb) == (2.5, 64)
    assert policy.of("somebody").toolsets is None
    assert policy.callers == {"bot"}


def test_an_empty_file_allows_nothing() -> None:
    for text in ("", "rules: []", "{}"):
        assert not reads(parsed(text), "anyone", "a.md")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules: [{path: a, read_alow: true}]", "rules[0].read_alow: no such key"),
        ("rules: [{read_allow: true}]", "rules[0].path: field required"),
        ("rules: [{path: a, read_allow: 'yes'}]", "rules[0].read_allow"),
        ("rules: [{path: ../a, read_allow: true}]", "rules[0].path: The path has '..' in it."),
        ("rules: [{path: .git, read_allow: true}]", "rules[0].path: Names that begin with a dot"),
        ("callers: {x: {toolsets: [all]}}", "callers.x.toolsets[0]"),
        ("callers: {x: {rules: [{path: /a/}]}}", "callers.x.rules[0].path: The path is absolute."),
        ("rules: [", "not valid YAML in line 1"),
        ("- a", "the file:"),
        ("a: !!python/object:os.system {}", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    assert any(problem in found for found in problems(text)), problems(text)


def test_every_problem_is_told_at_once() -> None:
    found = problems("rules: [{path: ../a}, {path: .b}]\ncallers: {x: {rules: [{path: c//d}]}}")
    assert len(found) == 3


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "_LOOK_SECONDS", -1.0)


def put(file: Path, text: str, age: int) -> None:
    file.write_text(text)
    os.utime(file, ns=(age, age))


@pytest.mark.usefixtures("quick")
def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    put(file, "rules: [{path: a, read_allow: true}]", 1)
    source = PolicyFile(file, parse_folder)
    first = source.current
    assert reads(first, "x", "a/n.md")
    assert source.current is first, "nothing changed, nothing is read"
    put(file, "rules: [{path: b, read_allow: tr", 2)
    assert source.current is first
    assert "not valid YAML" in str(source.check())
    file.unlink()
    assert source.current is first
    assert "can't be read" in str(source.check())
    put(file, "rules: [{path: b, read_allow: true}]", 3)
    assert source.check() is None
    assert not reads(source.current, "x", "a/n.md")
    assert reads(source.current, "x", "b/n.md")


def test_without_a_file_the_vault_itself_is_the_grant() -> None:
    source = PolicyFile(None, parse_folder)
    assert reads(source.current, "anyone", "a.md")
    assert source.check() is None


def test_a_server_does_not_start_with_a_file_that_makes_no_sense(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    for text in ("rules: 5", None):
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        with pytest.raises(PolicyError):
            PolicyFile(file, parse_folder)


@pytest.mark.usefixtures("quick")
def test_many_threads_see_one_of_the_two_policies(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    put(file, "rules: [{path: a, read_allow: true}]", 1)
    source = PolicyFile(file, parse_folder)
    seen: list[tuple[bool, bool]] = []

    def look() -> None:
        for _ in range(200):
            policy = source.current
            seen.append((reads(policy, "x", "a/n.md"), reads(policy, "x", "b/n.md")))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    fresh = tmp_path / "new"
    put(fresh, "rules: [{path: b, read_allow: true}]", 2)
    fresh.replace(file)
    for thread in threads:
        thread.join()
    assert set(seen) <= {(True, False), (False, True)}
