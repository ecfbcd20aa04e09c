"""Callers: one door for every credential, and one answer for everything that is none."""

import time
from pathlib import Path
from typing import Literal

import pytest

from server.access.callers import Callers
from server.access.decision import Access
from server.access.jwt import KeyFile, Verifier
from server.access.policy import parse_policy
from server.access.tokens import TokenStore
from server.errors import Unauthorized
from server.models import Caller, Grant
from server.vault.paths import parse_folder

from .provider import AUDIENCE, ISSUER, document, published, signed

FIXED = "a-fixed-token-of-the-settings"


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path, parse_folder)


def callers(store: TokenStore, tmp_path: Path, auth: Literal["none", "token"] = "token") -> Callers:
    (tmp_path / "keys").write_bytes(document(published("ES256", "k1")))
    verifier = Verifier(ISSUER, AUDIENCE, KeyFile(tmp_path / "keys"))
    return Callers(auth, store, fixed=FIXED, verifier=verifier)


def test_without_authentication_everyone_is_somebody(store: TokenStore, tmp_path: Path) -> None:
    known = callers(store, tmp_path, "none")
    for token in (None, "", "wrong", FIXED):
        assert known.authenticate(token) == Caller("anyone", admin=True)
        assert known.authenticate(token, "stdio") == Caller("local", door="stdio", admin=True)
        assert not known.may_wait(token)


def test_each_credential_has_its_caller(store: TokenStore, tmp_path: Path) -> None:
    known = callers(store, tmp_path)
    assert known.authenticate(FIXED) == Caller("token", admin=True)
    _, ann = store.create("ann", read=["Notes"])
    _, boss = store.create("boss", admin=True)
    assert known.authenticate(ann) == Caller("ann", grant=Grant(("notes",), ()))
    assert known.authenticate(boss, "stdio") == Caller("boss", door="stdio", admin=True)
    assert known.authenticate(signed(sub="ann")) == Caller("jwt:ann")
    assert known.authenticate(signed(sub="token")).name == "jwt:token"


def test_nothing_else_is_one_and_nobody_learns_why(store: TokenStore, tmp_path: Path) -> None:
    known = callers(store, tmp_path)
    _, revoked = store.create("revoked")
    store.revoke("revoked")
    _, short = store.create("short", expires=time.time() + 0.05)
    time.sleep(0.06)
    said = set()
    wrong = [None, "", " ", "wrong", FIXED[:-1], FIXED + " ", revoked, short, signed(exp=0)]
    for token in [*wrong, "x" * 100_000, "a.b.c", f"vmt_{'0' * 12}_{'x' * 43}", "\udcff"]:
        with pytest.raises(Unauthorized) as caught:
            known.authenticate(token)
        said.add((caught.value.message, caught.value.hint, *caught.value.details))
    assert len(said) == 1
    assert next(iter(said))[0] == "A valid bearer token is needed."


def test_whether_anybody_can_come_in(store: TokenStore, tmp_path: Path) -> None:
    assert not callers(store, tmp_path).is_closed
    assert not Callers("none", store).is_closed
    assert not Callers("token", store, fixed=FIXED).is_closed
    closed = Callers("token", store)
    assert [closed.is_closed] == [True]
    store.create("ann")
    assert [closed.is_closed] == [False]


def test_last_uses_that_can_not_be_written_hurt_nobody(store: TokenStore, tmp_path: Path) -> None:
    token, text = store.create("ann")
    known = Callers("token", store)
    known.authenticate(text)
    (tmp_path / "tokens-used.json").mkdir()
    known.tidy()
    (tmp_path / "tokens-used.json").rmdir()
    known.tidy()
    assert set(store.last_uses()) == {token.id}


def test_token_and_policy_together_cost_little(store: TokenStore, tmp_path: Path) -> None:
    """Prints figures; wall-clock is nothing to fail by on a shared machine."""
    rules = "".join(f"- {{path: f{n}/g/h, read_allow: true}}\n" for n in range(1000))
    policy = parse_policy("rules:\n" + rules, parse_folder)
    access, known = Access(lambda: policy), callers(store, tmp_path)
    texts = [store.create(f"caller-{number}", read=["f500"])[1] for number in range(100)]
    started, rounds = time.process_time(), 5_000
    for number in range(rounds):
        caller = known.authenticate(texts[number % 100])
        assert access.decide(caller, "read", "f500/g/h/i/note.md").allowed
    took = (time.process_time() - started) / rounds * 1e6
    print(f"\n100 tokens, 1,000 rules: token and decision {took:.1f} µs")
