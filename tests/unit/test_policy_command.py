"""`vault-mcp policy`: which rule decides, and whether a file can be used. The example of the docs is tried."""

import json
import re
from pathlib import Path

import pytest

from server.access.tokens import TokenStore
from server.cli import main
from server.vault.paths import parse_folder

PAGE = Path(__file__).parents[2] / "docs/access.md"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vault").mkdir()
    made = tmp_path / "policy.yaml"
    found = re.search(r"## Path rules.*?```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    made.write_text(found[1])
    monkeypatch.setenv("VAULT_PATH", str(tmp_path / "vault"))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("POLICY_FILE", str(made))
    return made


@pytest.mark.usefixtures("file")
def test_the_example_of_the_docs_is_explained_as_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["policy", "explain", "researcher", "projects/research/plan.md"]) == 0
    assert capsys.readouterr().out in PAGE.read_text()


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("caller", "path", "read", "write", "mode"),
    [
        ("researcher", "inbox/a.md", False, True, "confirm"),
        ("researcher", "Projects/Private.md", False, False, "on"),
        ("laptop", "projects/private.md", False, False, "on"),
        ("laptop", "/", True, True, "on"),
        ("stranger", "projects/a.md", True, False, "on"),
        ("stranger", "", False, False, "on"),
    ],
)
def test_the_json_says_who_may_do_what(
    caller: str, path: str, read: bool, write: bool, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "explain", caller, path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    said = (told["read"]["allowed"], told["write"]["allowed"], told["write_mode"]["mode"])
    assert said == (read, write, mode)
    assert told["admin"] is (caller == "laptop")


@pytest.mark.usefixtures("file")
def test_a_token_narrows_what_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TokenStore(tmp_path / "state", parse_folder).create("researcher", read=["projects/research"])
    main(["policy", "explain", "researcher", "projects/a.md"])
    out = capsys.readouterr().out
    assert "read   no   the read grant of the token" in out
    assert "reads /projects/research; writes nothing" in out


def test_a_file_is_checked_before_it_is_used(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["policy", "check"]) == 0
    assert "rules for laptop, researcher" in capsys.readouterr().out
    other = file.with_name("other.yaml")
    other.write_text("rules: [{path: ../x}, {path: a, reads: true}]")
    assert main(["policy", "check", str(other)]) == 2
    assert "rules[1].reads: no such key" in capsys.readouterr().err
    monkeypatch.delenv("POLICY_FILE")
    assert main(["policy", "check"]) == 0
    assert "the vault folder is the grant" in capsys.readouterr().out
