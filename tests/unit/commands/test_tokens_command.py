"""`vault-mcp token`: what it prints for people and for scripts."""

import json
import re
import time
from pathlib import Path

import pytest

from server.access.tokens import TokenStore
from server.cli import main
from server.commands.tokens import parse_duration, parse_end
from server.errors import InvalidRequest
from server.settings import Settings
from server.vault.paths import parse_folder

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(f"{name.upper()}_FILE", raising=False)
    monkeypatch.delenv("VAULT_MCP_CONFIG", raising=False)
    (tmp_path / "vault").mkdir()
    monkeypatch.setenv("VAULT_PATH", str(tmp_path / "vault"))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AUTH", "token")
    return tmp_path / "state"


def made(capsys: Capture, *argv: str) -> dict[str, object]:
    assert main(["token", *argv, "--json"]) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_a_token_for_people(capsys: Capture, state: Path) -> None:
    assert main(["token", "create", "laptop"]) == 0
    said = capsys.readouterr()
    text = said.out.splitlines()[0]
    found = TokenStore(state, parse_folder).find(text)
    assert found is not None
    assert (found.name, found.grant, found.admin, found.expires) == ("laptop", None, False, None)
    line = (
        "claude mcp add --transport http obsidian-vault http://127.0.0.1:1065/mcp"
        f' --header "Authorization: Bearer {text}"'
    )
    assert f"  {line}\n" in said.out
    assert said.err == ""


def test_a_token_for_scripts(capsys: Capture, state: Path) -> None:
    told = made(
        capsys, "create", "diary", "--read", "devlog", "notes", "--read", "x/", "--write",
        "devlog/2026", "--expires", "12h", "--admin",
    )  # fmt: skip
    assert list(told)[:2] == ["name", "token"]
    found = TokenStore(state, parse_folder).find(str(told["token"]))
    assert found is not None
    assert found.expires == pytest.approx(time.time() + 12 * 3600, abs=60)
    assert (told["read"], told["write"]) == (["devlog", "notes", "x"], ["devlog/2026"])
    assert (told["name"], told["admin"], told["id"]) == ("diary", True, found.id)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(told["expires"]))


def test_one_kind_of_folder_alone_leaves_nothing_for_the_other(capsys: Capture) -> None:
    assert made(capsys, "create", "reader", "--read", "a")["write"] == []
    assert made(capsys, "create", "writer", "--write", "/")["read"] == []
    assert made(capsys, "create", "all")["read"] is None
    assert main(["token", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["all", "reader", "writer"]
    assert lines[0].endswith("all that the policy allows")
    assert lines[1].endswith("reads a; writes nothing")
    assert lines[2].endswith("reads nothing; writes /")


def test_the_list_shows_no_secret(capsys: Capture, state: Path) -> None:
    assert main(["token", "list"]) == 0
    assert "token create" in capsys.readouterr().out
    assert main(["token", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert not state.exists(), "looking makes nothing"
    token = made(capsys, "create", "laptop", "--expires", "2999-01-31")
    store = TokenStore(state, parse_folder)
    assert store.find(str(token["token"]))
    store.save_uses()
    assert main(["token", "list", "--json"]) == 0
    out = capsys.readouterr().out
    (row,) = json.loads(out)
    assert (row["name"], row["state"], row["expires"]) == ("laptop", "live", "2999-01-31T23:59:59Z")
    assert row["last_used"] is not None
    assert str(token["token"])[-43:] not in out
    assert "sha256" not in out


def test_rotating_and_revoking(capsys: Capture, state: Path) -> None:
    store = TokenStore(state, parse_folder)
    texts = [str(made(capsys, "create", "laptop")["token"])]
    assert main(["token", "rotate", "laptop"]) == 0
    said = capsys.readouterr().out
    texts.append(said.splitlines()[0])
    assert "goes on until" in said
    assert all(store.find(text) for text in texts)
    texts.append(str(made(capsys, "rotate", "laptop", "--grace", "0")["token"]))
    assert [store.find(text) is not None for text in texts] == [False, False, True]
    assert main(["token", "revoke", "laptop"]) == 0
    assert "laptop" in capsys.readouterr().out
    assert store.find(texts[-1]) is None


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["create", "a b"], "no name for a token"),
        (["create", "owner"], "has a meaning of its own"),
        (["create", "x", "--read", "../etc"], "'..'"),
        (["create", "x", "--write", ".obsidian"], "dot"),
        (["create", "x", "--expires", "soon"], "'soon' is no time"),
        (["create", "x", "--expires", "2020-01-01"], "over already"),
        (["create", "x", "--expires", "0"], "over already"),
        (["rotate", "nobody"], "no live token named 'nobody'"),
        (["rotate", "nobody", "--grace", "-1h"], "expected one argument"),
        (["revoke", "nobody"], "no live token named 'nobody'"),
    ],
)
def test_what_does_not_work_is_one_line(argv: list[str], said: str, capsys: Capture) -> None:
    try:
        assert main(["token", *argv]) == 1
    except SystemExit as error:
        assert error.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_where_everyone_is_let_in_a_token_is_no_use_and_that_is_said(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUTH")
    assert main(["token", "create", "laptop", "--json"]) == 0
    said = capsys.readouterr()
    assert "AUTH=token" in said.err
    assert json.loads(said.out)["name"] == "laptop"


def test_the_address_is_the_one_that_clients_use(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBLIC_URL", "https://vault.example/")
    assert main(["token", "create", "laptop"]) == 0
    assert " https://vault.example/mcp --header " in capsys.readouterr().out


def test_damaged_tokens_are_told_and_stay(capsys: Capture, state: Path) -> None:
    state.mkdir()
    (state / "tokens.json").write_text("{")
    for argv in (["list"], ["create", "x"], ["rotate", "x"], ["revoke", "x"]):
        assert main(["token", *argv]) == 1
        assert "tokens.json in STATE_DIR is damaged" in capsys.readouterr().err
    assert (state / "tokens.json").read_text() == "{"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90d", 7_776_000), ("12h", 43_200), ("5m", 300), ("2w", 1_209_600), ("0", 0)]
)  # fmt: skip
def test_times(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_end(text, 1000.0) == 1000.0 + seconds


@pytest.mark.parametrize("text", ["", "d", "1", "1y", "-1d", "1.5h", "9999999d", "999999w", "١d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_duration(text)


def test_a_date_lasts_until_its_end() -> None:
    assert parse_end("1970-01-02", 0.0) == 2 * 86400 - 1
