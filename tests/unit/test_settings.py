"""Settings: one reading, every problem at once, no secret shown."""

from pathlib import Path

import pytest

from server.settings import Settings, SettingsError, describe, load

MINIMAL = {"VAULT_PATH": "/vault", "HOME": "/home/someone"}


def problems(**environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    return caught.value.problems


def test_defaults() -> None:
    settings = load(MINIMAL)
    assert (settings.host, settings.port, settings.auth) == ("127.0.0.1", 1065, "none")
    assert str(settings.state_dir).startswith("/home/someone/.local/state/vault-mcp/")
    assert settings.require_mount == "auto"


def test_every_problem_is_listed_at_once() -> None:
    found = problems(PORT="99999", LOG_LEVEL="loud", RCLONE_RC="tcp://x", HOST="0.0.0.0")
    text = "\n".join(found)
    for name in ("VAULT_PATH", "PORT", "LOG_LEVEL", "RCLONE_RC", "AUTH"):
        assert name in text
    assert len(found) == 5


def test_a_reachable_host_needs_a_word_about_auth() -> None:
    assert "AUTH" in problems(**MINIMAL, HOST="0.0.0.0")[0]
    assert load({**MINIMAL, "HOST": "0.0.0.0", "AUTH": "none"}).auth == "none"
    assert load({**MINIMAL, "HOST": "::1"}).auth == "none"


def test_a_token_is_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret-s3cret-s3cret\n")
    settings = load({**MINIMAL, "AUTH_TOKEN_FILE": str(file), "HOST": "0.0.0.0"})
    assert settings.auth == "token"
    assert settings.auth_token is not None
    assert settings.auth_token.get_secret_value() == "s3cret-s3cret-s3cret"
    assert "s3cret" not in str(describe(settings))
    assert "s3cret" not in repr(settings)


def test_a_short_or_missing_token_is_a_problem() -> None:
    assert "16 characters" in problems(**MINIMAL, AUTH_TOKEN="short")[0]
    assert "AUTH_TOKEN" in problems(**MINIMAL, AUTH="token")[0]


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "vault.yaml"
    file.write_text(
        "port: 2000\nrequire_mount: true\nallowed_hosts: [a.example, b.example]\nhost: localhost\n"
    )
    settings = load({**MINIMAL, "VAULT_MCP_CONFIG": str(file), "PORT": "3000"})
    assert settings.port == 3000
    assert settings.require_mount == "true"
    assert settings.allowed_hosts == ("a.example", "b.example")


def test_a_typo_or_a_broken_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "vault.yaml"
    file.write_text("prot: 2000\n")
    assert "prot: no such setting" in problems(**MINIMAL, VAULT_MCP_CONFIG=str(file))[0]
    file.write_text("a: [")
    assert "YAML" in problems(**MINIMAL, VAULT_MCP_CONFIG=str(file))[0]
    assert "can't be read" in problems(**MINIMAL, VAULT_MCP_CONFIG=str(tmp_path / "none"))[0]


def test_state_must_not_lie_in_the_vault() -> None:
    assert "STATE_DIR" in problems(**MINIMAL, STATE_DIR="/vault/state")[0]


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("1", "true"), ("yes", "true"), ("TRUE", "true"), ("0", "false"), ("auto", "auto")],
)
def test_words_for_require_mount(word: str, meaning: str) -> None:
    assert load({**MINIMAL, "REQUIRE_MOUNT": word}).require_mount == meaning


def test_every_setting_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert f"`{name.upper()}`" in readme, f"{name.upper()} is not documented"
