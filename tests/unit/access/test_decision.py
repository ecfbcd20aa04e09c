"""The access decision: policy and grant together, sight, write modes, and what refusals say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access.decision import Access
from server.access.policy import parse_policy
from server.access.rules import WriteMode
from server.errors import PermissionDenied
from server.models import Action, Caller, Grant
from server.vault.paths import parse_folder

RULES = """
rules:
  - {path: /, read_allow: true}
  - {path: secret, read_deny: true}
  - {path: secret/open.md, read_allow: true}
  - {path: inbox, write_allow: true, read_deny: true, write_mode: confirm}
callers:
  boss: {admin: true, write_mode: dry-run, toolsets: [core], rules: [{path: /, write_allow: true}]}
"""
ANN = Caller("ann")


def access(text: str = RULES, mode: WriteMode = "on") -> Access:
    policy = parse_policy(text, parse_folder)
    return Access(lambda: policy, write_mode=mode)


class Trail:
    def __init__(self) -> None:
        self.decisions: list[tuple[Action, str, bool, str]] = []

    def decided(self, action: Action, path: str, allowed: bool, rule: str) -> None:
        self.decisions.append((action, path, allowed, rule))

    def changed(self, *_: Any) -> None:
        raise AssertionError


def test_a_refusal_names_the_path_and_the_trail_the_rule() -> None:
    trail = Trail()
    with pytest.raises(PermissionDenied) as caught:
        access().require(Caller("ann", trail=trail), "read", "Secret/a.md")
    assert caught.value.message == "You may not read 'Secret/a.md'."
    assert trail.decisions == [("read", "Secret/a.md", False, "rules[1] (secret)")]


def test_a_grant_narrows_what_the_rules_allow_and_never_widens_it() -> None:
    narrow = Caller("boss", grant=Grant(read=("secret", "notes"), write=("notes",)))
    decided = access().decide
    assert decided(narrow, "read", "Notes/a.md").allowed
    assert decided(narrow, "write", "notes/a.md").allowed
    assert not decided(narrow, "read", "other.md").allowed
    assert not decided(narrow, "write", "secret/open.md").allowed
    assert not decided(narrow, "read", "secret/a.md").allowed
    assert decided(narrow, "read", "other.md").rule == "the read grant of the token"


def test_only_admins_administer() -> None:
    assert access().may(Caller("boss"), "admin", "")
    assert access().may(Caller("ann", admin=True), "admin", "")
    with pytest.raises(PermissionDenied, match="administer"):
        access().require(ANN, "admin", "")


def test_a_sight_reaches_folders_that_hold_something_readable_by_the_rules() -> None:
    sees = access().sees(ANN)
    assert not sees.everything
    assert not sees("secret/a.md")
    assert sees("SECRET/Open.md")
    assert sees.reaches("secret")
    assert not sees.reaches("secret/deep")
    assert not sees.reaches("inbox")
    assert access("rules: [{path: /, read_allow: true}]").sees(ANN).everything
    assert Access().sees(ANN).everything


def test_a_sight_is_kept_until_the_policy_changes() -> None:
    first = parse_policy(RULES, parse_folder)
    second = parse_policy("rules: []", parse_folder)
    current = [first]
    decided = Access(lambda: current[0])
    sees = decided.sees(ANN)
    assert decided.sees(Caller("ann", session="another")) is sees
    current[0] = second
    assert not decided.sees(ANN)("a.md")


def test_everything_below_a_folder_is_asked_for_at_once() -> None:
    decided = access()
    decided.require_whole(ANN, "read", "notes")
    with pytest.raises(PermissionDenied, match="the vault's root"):
        decided.require_whole(ANN, "read", "")
    with pytest.raises(PermissionDenied):
        decided.require_whole(ANN, "write", "notes")
    decided.require_reach(ANN, "secret")
    with pytest.raises(PermissionDenied, match="'inbox'"):
        decided.require_reach(ANN, "inbox")


def test_a_permit_refuses_in_the_name_of_the_path_that_was_asked_for() -> None:
    permit = access().permit(ANN, "notes/link.md", "read")
    permit("notes/other.md")
    with pytest.raises(PermissionDenied) as caught:
        permit("secret/a.md")
    assert caught.value.message == "You may not read 'notes/link.md'."


@pytest.mark.parametrize(
    ("caller", "paths", "server", "mode"),
    [
        ("ann", ["a.md"], "on", "on"),
        ("ann", ["inbox/a.md"], "on", "confirm"),
        ("ann", ["a.md", "inbox/a.md"], "on", "confirm"),
        ("ann", ["inbox/a.md"], "off", "off"),
        ("ann", ["inbox/a.md"], "dry-run", "confirm"),
        ("boss", ["a.md"], "confirm", "dry-run"),
        ("boss", ["inbox/a.md", "a.md"], "on", "dry-run"),
        ("boss", [], "off", "off"),
        ("boss", [], "on", "dry-run"),
    ],
)
def test_the_nearest_word_on_writing_counts_and_the_strictest_of_several_paths(
    caller: str, paths: list[str], server: WriteMode, mode: str
) -> None:
    assert access(mode=server).write_mode(Caller(caller), paths) == mode


def test_where_a_mode_comes_from_is_told() -> None:
    told = access().mode_of
    assert told(Caller("boss"), "a.md") == ("dry-run", "callers.boss.write_mode")
    assert told(Caller("boss"), "inbox/a.md") == ("confirm", "rules[3] (inbox)")
    assert told(ANN, "a.md") == ("on", "WRITE_MODE")


def test_toolsets_are_those_of_the_policy() -> None:
    assert access().toolsets(Caller("boss")) == frozenset({"core"})
    assert access().toolsets(ANN) is None


_NAMES = st.sampled_from(["a", "B", "c.md", "Ü"])
_PATHS = st.lists(_NAMES, max_size=3).map("/".join)
_RULE = st.fixed_dictionaries(
    {"path": _PATHS.map(lambda path: path or "/")},
    optional={"read_allow": st.just(True), "read_deny": st.just(True)},
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_RULE, max_size=6), st.none() | st.lists(_PATHS, max_size=2), _PATHS)
def test_a_file_that_nobody_names_is_what_its_folder_is(
    rules: list[dict[str, Any]], granted: list[str] | None, folder: str
) -> None:
    grant = None if granted is None else Grant(tuple(map(str.lower, granted)), ())
    sees = access(str({"rules": rules})).sees(Caller("ann", grant=grant))
    path = f"{folder}/unnamed.md".lstrip("/")
    assert sees(path) == sees(folder)
    if sees.everything:
        assert sees(path)
    if sees(path):
        assert sees.reaches("")
        assert sees.reaches(folder)
