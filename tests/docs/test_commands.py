"""Every `vault-mcp` command on any page is one that can be given, and marked blocks are run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server.access.tokens import TokenStore
from server.vault.paths import parse_folder
from tests.docs.commands import commands_in, problem
from tests.docs.pages import PAGES, ROOT, Page
from tests.unit.service.house import CALLER, opened

SHELL = ("sh", "bash", "console", "")
MARKS = {None, "run", "mount"}
RUN = [page for page in PAGES if any(block.mark == "run" for block in page.blocks())]


@pytest.mark.requirement("docs.commands")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_commands_in_blocks_can_be_given(page: Page) -> None:
    blocks = [block for block in page.blocks() if block.language in SHELL]
    given = [arguments for block in blocks for arguments in commands_in(block.code)]
    assert [(one, why) for one in given if (why := problem(one))] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_commands_in_sentences_exist(page: Page) -> None:
    said = [word.split()[1:] for word in page.words() if word.startswith("vault-mcp ")]
    # What stands for something else is left out: `vault-mcp token …`
    given = [[word for word in one if word != "…"] for one in said]
    assert [(one, why) for one in given if (why := problem(one, named=True))] == []


def test_what_counts_as_a_command() -> None:
    code = """
        VAULT_PATH=~/v vault-mcp serve    # or: vault-mcp stdio
        $ vault-mcp token list | grep x
        sudo -u vault .venv/bin/vault-mcp history show 4 > a.md && vault-mcp journal
        docker compose exec server vault-mcp token \\
          create laptop
        pct exec 100 -- vault-mcp config check
        systemctl restart vault-mcp; ls /etc/vault-mcp
    """
    assert [" ".join(one) for one in commands_in(code)] == [
        "serve",
        "token list",
        "history show 4",
        "journal",
        "token create laptop",
        "config check",
    ]
    assert problem(["token", "mint"])
    assert problem(["token", "create"])
    assert not problem(["token", "create"], named=True)
    assert problem(["toke"], named=True)
    assert problem(["serve", "--fast"], named=True)


def test_marks_are_known() -> None:
    """A mark that is misspelled would leave its block untried."""
    for page in PAGES:
        assert {block.mark for block in page.blocks()} <= MARKS, str(page)


def test_some_pages_are_run() -> None:
    assert {"docs/access.md", "docs/clients.md", "docs/configuration.md"} <= set(map(str, RUN))


def prepared(home: Path) -> dict[str, str]:
    """A vault with a past and with writes that wait; what the pages call them, and what they are."""
    note = "devlog/api.md"
    with opened(home / "vault", home / "state") as house:
        for _ in range(2):
            house.call("devlog_append", topic="api", entries=[{"type": "impl", "text": "a line"}])
        version = house.call("note_history", path=note)["versions"][0]["version"]
    with opened(home / "vault", home / "state", WRITE_MODE="confirm") as house:
        waiting = [
            house.call("note_upsert", path=f"{name}.md", content="x")["pending"]["approval"]
            for name in ("one", "two")
        ]
    # Who asked must still be somebody when the write is approved.
    TokenStore(home / "state", parse_folder).create(CALLER.name)
    return {"ID": waiting[0], "ID2": waiting[1], "42": str(version)}


@pytest.mark.requirement("docs.commands")
@pytest.mark.parametrize("page", RUN, ids=str)
def test_the_marked_blocks_of_a_page_run(page: Page, tmp_path: Path) -> None:
    """One after the other, in a folder like the repository's, for a vault like the sample."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    shutil.copytree(ROOT / "server/sample", home / "vault")
    said = "".join(block.code for block in page.blocks() if block.mark == "run")
    real = prepared(home)
    done = subprocess.run(
        ["bash", "-euxo", "pipefail"],
        input=re.sub(r"\b(ID2?|42)\b", lambda found: real[found[0]], said),
        cwd=tmp_path,
        env={
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "VAULT_PATH": str(home / "vault"),
            "STATE_DIR": str(home / "state"),
            "AUTH": "token",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
