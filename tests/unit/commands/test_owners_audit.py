"""What an owner does on the command line, or to the policy, is in the audit as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from server.access import policy as policies
from server.audit.head import files_in
from server.audit.verification import verify
from server.cli import main
from server.settings import Settings
from tests.unit.service.house import opened

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(f"{name.upper()}_FILE", raising=False)
    monkeypatch.delenv("VAULT_MCP_CONFIG", raising=False)
    (tmp_path / "vault").mkdir()
    monkeypatch.setenv("VAULT_PATH", str(tmp_path / "vault"))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AUTH", "token")
    return tmp_path


def lines(folder: Path) -> list[dict[str, Any]]:
    audit = folder / "state" / "audit"
    assert verify(audit).ok
    text = b"".join((audit / name).read_bytes() for name in files_in(audit))
    hidden = ("seq", "time", "prev", "hash")
    return [
        {name: value for name, value in json.loads(line).items() if name not in hidden}
        for line in text.splitlines()
    ]


def test_tokens_come_and_go_in_the_audit_without_their_texts(folder: Path, capsys: Capture) -> None:
    assert main(["token", "create", "diary", "--read", "devlog", "--expires", "90d", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(["token", "rotate", "diary", "--json"]) == 0
    rotated = json.loads(capsys.readouterr().out)
    assert main(["token", "revoke", "diary"]) == 0
    assert main(["token", "revoke", "diary"]) != 0
    told = lines(folder)
    assert [line["event"] for line in told] == ["token_created", "token_rotated", "token_revoked"]
    assert told[0] == {
        "event": "token_created", "by": "owner", "name": "diary", "id": made["id"],
        "expires": made["expires"], "admin": False, "read": ["devlog"], "write": [],
    }  # fmt: skip
    assert told[1]["old_until"] == rotated["old_until"]
    said = json.dumps(told)
    for text in (made["token"], rotated["token"]):
        assert text[-43:] not in said


def test_a_token_is_made_even_if_the_audit_can_not_be_written(
    folder: Path, capsys: Capture
) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "audit").write_text("in the way")
    assert main(["token", "create", "diary", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "diary"


def test_a_restoration_is_a_call_of_the_owner(folder: Path, capsys: Capture) -> None:
    with opened(folder / "vault", folder / "state") as house:
        for text in ("one\n", "two\n"):
            house.call("note_write", path="a.md", content=text, mode="overwrite")
        version = house.call("note_history", path="a.md")["versions"][0]["version"]
    assert main(["history", "restore", "a.md", str(version)]) == 0
    assert main(["history", "restore", "a.md", "999"]) != 0
    assert (folder / "vault" / "a.md").read_text() == "one\n"
    made, refused = [line for line in lines(folder) if line.get("caller") == "owner"]
    assert (made["door"], made["tool"], made["outcome"]) == ("cli", "note_restore", "ok")
    assert [change["path"] for change in made["changes"]] == ["a.md"]
    assert (refused["paths"], refused["outcome"]) == (["a.md"], "not_found")


def test_other_rules_are_in_the_audit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "_LOOK_SECONDS", -1.0)
    file = folder / "policy.yaml"
    file.write_text("rules: [{path: /, read_allow: true}]")
    with opened(folder / "vault", folder / "state", POLICY_FILE=str(file)) as house:
        house.call("health_check")
        file.write_text("rules: [{path: /, read_allow: maybe}]")
        assert house.call("health_check")["policy"]["ok"] is False
        assert house.call("health_check")["status"] == "degraded"
        file.write_text("rules: [{path: /, read_allow: true, write_allow: true}]")
        assert house.call("health_check")["status"] == "ok"
    told = [line for line in lines(folder) if line["event"].startswith("policy")]
    assert [line["event"] for line in told] == ["policy_refused", "policy_read"]
    assert told[0]["reason"].startswith("rules[0].read_allow")


def test_rules_that_could_not_be_read_are_read_when_they_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "_LOOK_SECONDS", -1.0)
    file = folder / "policy.yaml"
    file.write_text("rules: []")
    source = policies.PolicyFile(file, str)
    real, broken = Path.read_text, [True]

    def read(self: Path, *args: Any, **options: Any) -> str:
        if broken[0]:
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **options)

    monkeypatch.setattr(Path, "read_text", read)
    file.write_text("rules: [{path: a, read_allow: true}]")
    assert source.check() == "can't be read: Permission denied"
    broken[0] = False
    file.chmod(0o600)
    assert source.check() is None
    assert source.current.of("x").book.decide("read", "a").allowed


def test_an_audit_that_can_not_be_written_shows(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "audit").write_text("in the way")
    with opened(folder / "vault", folder / "state") as house:
        assert house.app.audit.problem is not None
        told = house.call("health_check")
        assert (told["status"], told["audit"]["ok"]) == ("degraded", False)
        assert told["audit"]["problem"].startswith("The audit can't be written: ")
        (folder / "state" / "audit").unlink()
        house.call("health_check")
        assert house.call("health_check")["audit"] == {"ok": True}
