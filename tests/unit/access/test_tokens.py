"""Tokens: hashed, found in constant time, changed by several processes, effective at once."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from server.access.tokens import RESERVED, TokenStore
from server.errors import (
    Conflict,
    InvalidPath,
    InvalidRequest,
    NotFound,
    PathNotAllowed,
    Unavailable,
)
from server.models import Grant
from server.vault.paths import parse_folder

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> TokenStore:
    return TokenStore(tmp_path, parse_folder, clock=clock)


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> TokenStore:
    """The same tokens as another process has them."""
    return TokenStore(tmp_path, parse_folder, clock=clock)


def name_of(store: TokenStore, text: str) -> str | None:
    found = store.find(text)
    return found.name if found else None


def test_a_token_is_found_by_its_text_and_by_nothing_else(store: TokenStore) -> None:
    token, text = store.create("ann")
    assert re.fullmatch(rf"vmt_{token.id}_[A-Za-z0-9_-]{{43}}", text)
    assert store.find(text) == token
    assert store.find(text) is not None
    _, another = store.create("bob")
    wrong = [
        "", "vmt", "vmt_", f"vmt_{token.id}", f"vmt_{token.id}_", text + "x", text[:-1], " " + text,
        text.upper(), text.replace("vmt_", "VMT_"), f"vmt_{token.id}_{another[-43:]}",
        f"vmt_000000000000_{text[-43:]}", "vmt__", "\udcff", "ä" * 9,
    ]  # fmt: skip
    assert [each for each in wrong if store.find(each) is not None] == []


def test_only_a_hash_is_stored_and_nobody_else_may_read_it(
    store: TokenStore, tmp_path: Path
) -> None:
    _, text = store.create("ann")
    store.rotate("ann")
    file = tmp_path / "tokens.json"
    assert text[-43:] not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.json", "tokens.lock"]


def test_the_folder_for_them_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    TokenStore(tmp_path / "a" / "b", parse_folder).create("ann")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_looking_makes_nothing(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "state", parse_folder)
    assert store.listed() == []
    assert store.is_empty
    assert store.last_uses() == {}
    assert store.find("vmt_a_b") is None
    with pytest.raises(FileNotFoundError):
        (tmp_path / "state").stat()


@pytest.mark.parametrize(
    ("read", "write", "grant"),
    [
        (None, None, None),
        (["Notes/"], None, Grant(("notes",), ())),
        (None, ["Übung", "b"], Grant((), ("übung", "b"))),
        (["/"], ["b/C"], Grant(("",), ("b/c",))),
        (["U\u0308bung"], [], Grant(("übung",), ())),
    ],
)
def test_what_a_token_opens(
    store: TokenStore,
    other: TokenStore,
    read: list[str] | None,
    write: list[str] | None,
    grant: Grant | None,
) -> None:
    _, text = store.create("ann", read=read, write=write)
    found = other.find(text)
    assert found is not None
    assert found.grant == grant
    assert not found.admin


@pytest.mark.parametrize("folder", ["../x", "/etc", ".obsidian", "a\\b", "a//b"])
def test_a_folder_that_is_none_makes_no_token(store: TokenStore, folder: str) -> None:
    with pytest.raises((InvalidPath, PathNotAllowed)):
        store.create("ann", read=["fine"], write=[folder])
    assert store.listed() == []


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a:b", "jwt:ann", "ä", "x" * 65, "a/b", "a\n", *sorted(RESERVED), "Owner", "LOCAL"],
)
def test_what_is_no_name(store: TokenStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.create(name)


def test_a_name_is_free_again_when_its_token_is_gone(store: TokenStore, clock: Clock) -> None:
    store.create("ann", expires=NOW + 10)
    for name in ("ann", "Ann"):
        with pytest.raises(Conflict):
            store.create(name)
    clock.now += 10
    _, second = store.create("ann")
    assert [token.name for token in store.listed()] == ["ann"]
    store.revoke("ann")
    _, third = store.create("ann")
    assert (name_of(store, second), name_of(store, third)) == (None, "ann")


def test_a_token_ends_when_its_time_is_over(store: TokenStore, clock: Clock) -> None:
    _, text = store.create("ann", expires=NOW + 60)
    clock.now += 59.9
    assert name_of(store, text) == "ann"
    assert [store.is_empty] == [False]
    clock.now += 0.1
    assert store.find(text) is None
    assert store.is_empty
    assert [token.name for token in store.listed()] == ["ann"], "people see that it has ended"
    with pytest.raises(NotFound):
        store.rotate("ann")
    with pytest.raises(InvalidRequest):
        store.create("bob", expires=clock.now)
    store.revoke("ann")
    assert store.listed() == []


def test_a_rotated_token_goes_on_for_its_grace(store: TokenStore, clock: Clock) -> None:
    token, first = store.create("ann", read=["a"], admin=True, expires=NOW + 10_000)
    rotated, second = store.rotate("ann", grace=100)
    assert (rotated.id, rotated.grant, rotated.admin, rotated.expires) == (
        token.id, token.grant, True, NOW + 10_000,
    )  # fmt: skip
    assert first != second
    clock.now += 99
    assert {name_of(store, first), name_of(store, second)} == {"ann"}
    _, third = store.rotate("ann", grace=100)
    clock.now += 1
    assert [name_of(store, text) for text in (first, second, third)] == [None, "ann", "ann"]
    clock.now += 99
    assert [name_of(store, text) for text in (first, second, third)] == [None, None, "ann"]


def test_without_grace_every_older_text_ends_at_once(store: TokenStore) -> None:
    _, first = store.create("ann")
    _, second = store.rotate("ann", grace=1000)
    _, third = store.rotate("ann", grace=0)
    assert [name_of(store, text) for text in (first, second, third)] == [None, None, "ann"]


def test_a_change_holds_for_other_processes_at_once(store: TokenStore, other: TokenStore) -> None:
    for _ in range(50):  # quicker than the clock of a file system
        _, text = store.create("ann")
        assert name_of(other, text) == "ann"
        _, second = store.rotate("ann", grace=0)
        assert (name_of(other, text), name_of(other, second)) == (None, "ann")
        store.revoke("ann")
        assert other.find(second) is None


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"tokens": [{"id": 1}]}', b"\xff\xfe", b'{"tokens": "x"}']
)
def test_a_damaged_file_changes_nothing_and_is_not_written_over(
    store: TokenStore, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    _, text = store.create("ann")
    assert store.find(text)
    good = (tmp_path / "tokens.json").read_bytes()
    (tmp_path / "tokens.json").write_bytes(damage)
    assert [name_of(store, text) for _ in range(3)] == ["ann"] * 3
    assert len([line for line in caplog.messages if "tokens" in line]) == 1, "said once"
    for change in (
        lambda: store.create("bob"), lambda: store.rotate("ann"), lambda: store.revoke("ann"),
        store.listed,
    ):  # fmt: skip
        with pytest.raises(Unavailable):
            change()
    assert (tmp_path / "tokens.json").read_bytes() == damage
    fresh = TokenStore(tmp_path, parse_folder)
    assert fresh.find(text) is None, "who never saw a good one lets nobody in"
    (tmp_path / "tokens.json").write_bytes(good)
    assert (name_of(store, text), name_of(fresh, text)) == ("ann", "ann")


def test_a_file_that_is_taken_away_takes_its_tokens_along(
    store: TokenStore, tmp_path: Path
) -> None:
    _, text = store.create("ann")
    assert store.find(text)
    (tmp_path / "tokens.json").unlink()
    assert store.find(text) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_can_not_be_read_for_a_while_is_read_later(
    store: TokenStore, other: TokenStore, tmp_path: Path
) -> None:
    _, text = store.create("ann")
    assert other.find(text)
    store.revoke("ann")
    (tmp_path / "tokens.json").chmod(0)
    assert other.find(text), "the last that is known"
    (tmp_path / "tokens.json").chmod(0o600)
    assert other.find(text) is None


def test_the_last_use_is_written_once_a_minute(
    store: TokenStore, other: TokenStore, clock: Clock, tmp_path: Path
) -> None:
    token, text = store.create("ann")
    bob, second = other.create("bob")
    file = tmp_path / "tokens-used.json"
    store.save_uses()
    assert not file.exists(), "nothing was used"
    assert store.find(text)
    assert store.find("vmt_" + token.id + "_wrong") is None
    store.save_uses()
    assert other.last_uses() == {token.id: NOW}
    clock.now += 59
    assert store.find(text)
    store.save_uses()
    assert other.last_uses() == {token.id: NOW}
    clock.now += 1
    assert store.find(text)
    assert other.find(second)
    other.save_uses()
    store.save_uses()
    assert store.last_uses() == {token.id: NOW + 60, bob.id: NOW + 60}
    store.revoke("ann")
    clock.now += 60
    assert other.find(second)
    other.save_uses()
    assert store.last_uses() == {bob.id: NOW + 120}
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_of_uses_is_made_anew(store: TokenStore, tmp_path: Path) -> None:
    token, text = store.create("ann")
    (tmp_path / "tokens-used.json").write_text("{")
    assert store.last_uses() == {}
    assert store.find(text)
    store.save_uses()
    assert store.last_uses() == {token.id: NOW}


CREATING = """
import sys
from pathlib import Path
from server.access.tokens import TokenStore
from server.vault.paths import parse_folder
store = TokenStore(Path(sys.argv[1]), parse_folder)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    print(store.create(f"{sys.argv[2]}-{number}")[1])
    store.rotate(f"{sys.argv[2]}-0")
"""


def test_processes_that_create_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CREATING, str(tmp_path), f"p{number}", "15"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    said: list[str] = []

    def run(process: subprocess.Popen[str]) -> None:
        said.append(process.communicate("\n", timeout=60)[0])

    threads = [threading.Thread(target=run, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = "".join(said).split()
    store = TokenStore(tmp_path, parse_folder)
    assert len(texts) == 60
    assert {name_of(store, text) for text in texts} == {
        f"p{process}-{number}" for process in range(4) for number in range(15)
    }
    assert len(json.loads((tmp_path / "tokens.json").read_text())["tokens"]) == 60


def test_what_a_check_costs_with_a_hundred_tokens(tmp_path: Path) -> None:
    """Prints figures; wall-clock is nothing to fail by on a shared machine."""
    store = TokenStore(tmp_path, parse_folder)
    texts = [store.create(f"caller-{number}", read=["a", "b"])[1] for number in range(100)]

    def cost(check: Callable[[], object], times: int = 5_000) -> float:
        started = time.process_time()
        for _ in range(times):
            check()
        return (time.process_time() - started) / times * 1e6

    unknown = "vmt_000000000000_" + "x" * 43
    assert store.find(unknown) is None
    found, missed = cost(lambda: store.find(texts[50])), cost(lambda: store.find(unknown))
    wrong = cost(lambda: store.find(texts[50][:-43] + "x" * 43))
    print(f"\n100 tokens: valid {found:.1f} µs, wrong {wrong:.1f} µs, unknown {missed:.1f} µs")
