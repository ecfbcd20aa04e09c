"""A permit is asked where symbolic links lead, before anything is read, made or told there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from server.errors import PermissionDenied
from server.models import Content, NotePath
from server.vault.plans import Move, Plans, Remove, Replace, Step
from server.vault.vault import Vault
from server.workers import Deadline


class Asked:
    """Refuses what is below `closed`, and remembers what it was asked."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        if path.startswith("closed"):
            raise PermissionDenied("No.")


@pytest.fixture
def laid(vault_folder: Path) -> Path:
    for name in ("open", "closed/in"):
        (vault_folder / name).mkdir(parents=True)
    (vault_folder / "open/Ä.md").write_text("mine")
    (vault_folder / "closed/s.md").write_text("theirs")
    (vault_folder / "open/folder").symlink_to("../closed")
    (vault_folder / "open/file.md").symlink_to("folder/s.md")
    return vault_folder


def _new(_current: Content | None) -> bytes:
    return b"new"


WAYS: list[Callable[[Vault, NotePath, Asked], object]] = [
    lambda vault, path, asked: vault.read(path, permit=asked),
    lambda vault, path, asked: vault.stat(path, permit=asked),
    lambda vault, path, asked: vault.find(path, permit=asked),
    lambda vault, path, asked: vault.edit(path, _new, Deadline.after(30), permit=asked),
    lambda vault, path, asked: vault.move_held(path, "open/m.md", Deadline.after(30), permit=asked),
    lambda vault, path, asked: vault.move_held("open/ä.md", path, Deadline.after(30), permit=asked),
    lambda vault, path, asked: vault.remove_held(path, "0" * 32, Deadline.after(30), permit=asked),
]


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize(
    "path", ["open/file.md", "open/folder/s.md", "open/folder/none.md", "open/FOLDER/no/no/x.md"]
)
def test_a_link_to_what_is_closed_is_refused_whatever_is_there(
    vault: Vault, laid: Path, way: int, path: str
) -> None:
    before = sorted(laid.rglob("*"))
    with pytest.raises(PermissionDenied):
        WAYS[way](vault, NotePath(path), Asked())
    assert sorted(laid.rglob("*")) == before
    assert (laid / "closed/s.md").read_text() == "theirs"


@pytest.mark.usefixtures("laid")
def test_the_path_comes_as_it_is_spelled_on_the_disk(vault: Vault) -> None:
    asked = Asked()
    assert vault.read(NotePath("Open/a\u0308.md"), permit=asked) is not None
    assert set(asked.paths) == {"open/Ä.md"}


def test_a_plan_that_is_refused_on_its_way_is_taken_back(
    vault: Vault, laid: Path, tmp_path: Path
) -> None:
    plans = Plans(tmp_path / "plans", vault, lambda _: None)
    first = Replace("open/Ä.md", b"mine", b"changed")
    seconds: list[Step] = [
        Replace("open/folder/s.md", b"theirs", b"x"),
        Replace("open/folder/new.md", None, b"theirs"),
        Move("open/Ä.md", "open/folder/x.md"),
        Remove("open/folder/s.md", b"theirs"),
    ]
    for second in seconds:
        with pytest.raises(PermissionDenied):
            plans.carry_out([first, second], Deadline.after(30), permit=Asked())
        assert (laid / "open/Ä.md").read_text() == "mine"
        assert [file.name for file in (laid / "closed").iterdir() if file.is_file()] == ["s.md"]
    plans.carry_out([Move("open/Ä.md", ".trash/Ä.md")], Deadline.after(30), permit=Asked())
    assert (laid / ".trash/Ä.md").read_text() == "mine"
