"""The reference of settings is complete and right, and no page names one that there isn't."""

import difflib
import json
import re
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from server.settings import CONFIG_VARIABLE, Settings, load
from tests.docs.pages import PAGES, Page, page

ROW = re.compile(r"^\| `([A-Z_]+)` \| (.*?)\| (.*) \|$", re.MULTILINE)
NAMES = {name.upper() for name in Settings.model_fields}
SECRETS = {"AUTH_TOKEN_FILE", "CALLER_TOKEN_FILE"}
# What clients are told in the files of deploy/clients.
CLIENTS = {"VAULT_MCP_URL", "VAULT_MCP_TOKEN"}
KNOWN = NAMES | SECRETS | CLIENTS | {CONFIG_VARIABLE}
STRICT = [
    page(name)
    for name in (
        "README.md", "docs/access.md", "docs/architecture.md", "docs/clients.md",
        "docs/configuration.md", "docs/conventions.md", "docs/google-drive.md",
        "docs/tailscale.md", "docs/tools.md",
    )
]  # fmt: skip
TABLES = [page("docs/configuration.md"), page("README.md")]


def rows(of: Page) -> list[tuple[str, str]]:
    """The settings of a page's tables with their defaults."""
    return [(name, default.strip()) for name, default, _ in ROW.findall(of.text)]


@pytest.mark.requirement("docs.names")
def test_the_reference_has_every_setting_once() -> None:
    assert sorted(name for name, _ in rows(TABLES[0])) == sorted(NAMES)


def test_the_readme_has_the_ten_that_matter() -> None:
    named = [name for name, _ in rows(TABLES[1])]
    assert len(named) == 10
    assert set(named) <= NAMES


@pytest.mark.requirement("docs.names")
@pytest.mark.parametrize("of", TABLES, ids=str)
def test_the_defaults_are_those_of_the_server(of: Page) -> None:
    for name, told in rows(of):
        default = Settings.model_fields[name.lower()].default
        if default is PydanticUndefined or default in (None, ()):
            # Nothing, or in words: found, the system's, `none` on loopback.
            assert not re.fullmatch(r"`[^`]*`", told) or "…" in told, name
        else:
            shown = default if isinstance(default, str) else json.dumps(default).removesuffix(".0")
            assert told == f"`{shown}`", name


def test_the_example_file_is_one(tmp_path: Path) -> None:
    block = next(block for block in TABLES[0].blocks() if block.language == "yaml")
    file = tmp_path / "config.yaml"
    file.write_text(block.code)
    assert load({CONFIG_VARIABLE: str(file), "HOME": str(tmp_path)}).rclone_rc is not None


def named_on(of: Page) -> set[str]:
    """What looks like a setting: capitals in backticks, also with a value, and assignments in shell blocks."""
    words = {
        match[1] for word in of.words() if (match := re.match(r"([A-Z][A-Z_]{3,})(?:$|=|/)", word))
    }
    code = "\n".join(block.code for block in of.blocks() if block.language == "sh")
    return words | set(re.findall(r"(?:^|\s)([A-Z][A-Z_]{3,})=", code))


@pytest.mark.parametrize("of", STRICT, ids=str)
def test_a_page_names_settings_that_there_are(of: Page) -> None:
    assert named_on(of) - KNOWN - {"HOME", "POST"} == set()


@pytest.mark.parametrize("of", PAGES, ids=str)
def test_no_setting_is_misspelled(of: Page) -> None:
    """Other pages name variables of other programs too."""
    for name in named_on(of) - KNOWN:
        assert difflib.get_close_matches(name, NAMES, cutoff=0.9) == [], name
