"""The page on how it works: its layers are those that are checked, its files those that are there."""

import re
import tomllib
from pathlib import Path

from server.vault.drive import DriveWriter
from server.vault.writers import LocalWriter, MountWriter
from tests.docs.pages import ROOT, page
from tests.docs.test_commands import prepared

PAGE = page("docs/architecture.md")


def first_column(heading: str) -> list[list[str]]:
    """The names in the first cells of the table behind a heading."""
    table = PAGE.text.partition(heading)[2].partition("\n\n|")[2].partition("\n\n")[0]
    return [re.findall(r"`([^`]+)`", row.split(" | ")[0]) for row in table.splitlines()[2:]]


def test_the_layers_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    house = project["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [part.strip().removeprefix("server.") for row in house for part in row.split("|")]
    told = [name for row in first_column("Imports point down only") for name in row]
    assert told == [name for name in checked if name in told]
    # What everybody may use, and the start of it all, say nothing about how it works.
    quiet = {
        "__main__",
        "telemetry",
        "workers",
        "state",
        "databases",
        "models",
        "errors",
        "settings",
    }
    assert set(checked) - set(told) == quiet


def test_the_writers_are_those_that_there_are() -> None:
    told = [name for row in first_column("One of three writers") for name in row]
    assert sorted(told) == sorted(one.name for one in (DriveWriter, LocalWriter, MountWriter))


def test_everything_in_the_state_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    prepared(tmp_path)
    told = {
        name.replace("-N", "-0") for row in first_column("## What is stored where") for name in row
    }
    slot = tmp_path / "state/slot-0"
    found = {path.name for path in (tmp_path / "state").iterdir() if path != slot}
    found |= {f"slot-0/{path.name}" for path in slot.iterdir() if path.is_dir()}
    # A lock holds nothing.
    found = {name for name in found if "lock" not in name}
    assert found <= told, found - told
    assert {"slot-0/index", "history", "audit", "approvals", "tokens.json"} <= found
