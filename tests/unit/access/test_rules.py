"""The rule engine gives the answers of a specification that knows no shortcuts.

POLICY_CASES sets how many cases are tried.
"""

import os
import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.access.rules import Decision, Rule, RuleBook, WriteMode, holds, strictest
from server.models import path_key

CASES = int(os.environ.get("POLICY_CASES", "2000"))

_NAMES = st.sampled_from(
    ["a", "A", "b", "ab", "a b", "Café", "Cafe\u0301", "ß", "SS", "x.md", "X.md"]
)
_PATHS = st.lists(_NAMES, max_size=4).map("/".join)
_MODES: list[WriteMode | None] = [None, None, "on", "confirm", "dry-run", "off"]
_RULES = st.lists(
    st.builds(Rule, st.uuids().map(str), _PATHS, *[st.booleans()] * 4, st.sampled_from(_MODES)),
    max_size=8,
)


def _parts(path: str) -> list[str]:
    return path_key(path).split("/") if path else []


def _is_at_or_below(path: str, place: str) -> bool:
    return _parts(path)[: len(_parts(place))] == _parts(place)


def _specified(rules: Sequence[Rule], verb: str, path: str) -> bool:
    """Of the rules that say something and hold the path, those with the longest path decide."""
    speaking = [
        (len(_parts(rule.path)), getattr(rule, f"{verb}_deny"))
        for rule in rules
        if _is_at_or_below(path, rule.path)
        and (getattr(rule, f"{verb}_allow") or getattr(rule, f"{verb}_deny"))
    ]
    longest = max((length for length, _ in speaking), default=None)
    denied = [deny for length, deny in speaking if length == longest]
    return bool(denied) and not any(denied)


def _specified_mode(rules: Sequence[Rule], path: str) -> WriteMode | None:
    order: list[WriteMode] = ["on", "confirm", "dry-run", "off"]
    said = [
        (len(_parts(rule.path)), order.index(rule.write_mode))
        for rule in rules
        if rule.write_mode is not None and _is_at_or_below(path, rule.path)
    ]
    return order[max(said)[1]] if said else None


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(_RULES, _PATHS)
def test_the_book_decides_as_a_reading_of_all_rules_would(rules: list[Rule], path: str) -> None:
    book, key = RuleBook(rules), path_key(path)
    for verb in ("read", "write"):
        decision = book.decide("read" if verb == "read" else "write", key)
        assert decision.allowed == _specified(rules, verb, path), (verb, rules, path)
        named = next((rule for rule in rules if rule.name == decision.rule), None)
        if named is not None:
            said = getattr(named, f"{verb}_{'allow' if decision.allowed else 'deny'}")
            assert said, "the rule that is named says what was decided"
            assert _is_at_or_below(path, named.path)
        else:
            assert decision == Decision(False, "no rule allows it")
    mode = book.mode(key)
    assert (mode[0] if mode else None) == _specified_mode(rules, path)


@settings(max_examples=300, deadline=None)
@given(_RULES, _PATHS)
def test_a_folder_has_a_denial_below_it_exactly_when_a_path_below_it_is_denied(
    rules: list[Rule], folder: str
) -> None:
    book = RuleBook(rules)
    if not book.decide("read", path_key(folder)).allowed:
        return
    below = [rule.path for rule in rules if _is_at_or_below(rule.path, folder)]
    denied = any(not _specified(rules, "read", path) for path in [folder, *below])
    assert (book.denies_below("read", path_key(folder)) is not None) == denied


@pytest.mark.parametrize(
    ("folder", "path", "inside"),
    [
        ("", "a", True), ("a", "a", True), ("a", "a/b", True), ("a", "ab", False), ("a/b", "a", False),
    ],
)  # fmt: skip
def test_a_folder_holds_what_is_below_it_and_no_namesake(
    folder: str, path: str, inside: bool
) -> None:
    assert holds(folder, path) is inside


def test_the_strictest_mode_counts() -> None:
    assert strictest(["on", "dry-run", "confirm"]) == "dry-run"
    assert strictest([]) == "on"


def test_a_thousand_rules_cost_little() -> None:
    book = RuleBook(
        Rule(f"r{n}", f"folder{n % 50}/sub{n}/deep", read_allow=True) for n in range(1_000)
    )
    key = "folder7/sub507/deep/and/deeper/note.md"
    assert book.decide("read", key).allowed
    rounds = 20_000
    began = time.perf_counter()
    for _ in range(rounds):
        book.decide("read", key)
    cost = (time.perf_counter() - began) / rounds
    print(f"\na decision among 1,000 rules: {cost * 1e6:.2f} µs")
    assert cost < 100e-6
