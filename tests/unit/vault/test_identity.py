"""What is remembered of a vault: kept over restarts, never torn, cheap to lose."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server.vault.identity import Identity, IdentityFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "vault.json"


def test_nothing_is_known_at_first_and_nothing_is_written(file: Path) -> None:
    assert IdentityFile(file).current == Identity()
    IdentityFile(file).update(populated=False)
    assert not file.exists()


def test_what_was_learned_is_there_after_a_restart(file: Path) -> None:
    identity = IdentityFile(file)
    identity.update(id="abc", mounted=True)
    identity.update(populated=True, obsidian_vault="Café 日本", obsidian_prefix="")
    assert IdentityFile(file).current == Identity("abc", True, True, "Café 日本", "")
    assert IdentityFile(file).current == identity.current


def test_the_same_again_is_not_written(file: Path) -> None:
    identity = IdentityFile(file)
    identity.update(id="abc")
    file.unlink()
    identity.update(id="abc")
    assert not file.exists()


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", b'"text"', b"{}", b'{"other": 1}']
)
def test_a_damaged_file_is_like_none(file: Path, damage: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(damage)
    identity = IdentityFile(file)
    assert identity.current == Identity()
    identity.update(id="abc")
    assert IdentityFile(file).current.id == "abc"


def test_fields_of_a_newer_version_are_passed_over(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"id": "abc", "populated": true, "colour": "red"}')
    assert IdentityFile(file).current == Identity("abc", populated=True)


def test_an_unknown_field_is_a_mistake(file: Path) -> None:
    with pytest.raises(TypeError):
        IdentityFile(file).update(colour="red")


def test_threads_that_learn_different_things_lose_none(file: Path) -> None:
    changes = (
        {"id": "abc"}, {"mounted": True}, {"populated": True}, {"obsidian_vault": "V"},
        {"obsidian_prefix": "p"},
    )  # fmt: skip
    for _ in range(20):
        identity = IdentityFile(file)
        with ThreadPoolExecutor(len(changes)) as pool:
            start = threading.Barrier(len(changes))
            learning = [pool.submit(learn, identity, start, change) for change in changes]
        assert [each.result() for each in learning] == [None] * len(changes)
        assert identity.current == Identity("abc", True, True, "V", "p")
        assert IdentityFile(file).current == identity.current
        file.unlink()
    assert list(file.parent.iterdir()) == [], "no temporary file is left"


def learn(identity: IdentityFile, start: threading.Barrier, change: Mapping[str, object]) -> None:
    start.wait()
    identity.update(**change)


def test_a_place_that_can_not_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    identity = IdentityFile(tmp_path / "state" / "vault.json")
    with pytest.raises(OSError):
        identity.update(id="abc")
    assert identity.current == Identity()
