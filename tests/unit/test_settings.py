"""Settings: one reading, every problem at once, no secret shown."""

from pathlib import Path

import pytest

from server.settings import SettingsError, describe, load

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
    found = problems(PORT="99999", LOG_LEVEL="loud", RCLONE_RC="tcp://x", AUTH="maybe")
    text = "\n".join(found)
    for name in ("VAULT_PATH", "PORT", "LOG_LEVEL", "RCLONE_RC", "AUTH"):
        assert name in text
    assert len(found) == 5


def test_a_proxy_in_front_makes_loopback_ask_for_tokens() -> None:
    behind = {**MINIMAL, "PUBLIC_URL": "https://vault.example.ts.net"}
    assert load(behind).auth == "token"
    assert load({**behind, "AUTH": "none"}).auth == "none"
    assert load(MINIMAL).auth == "none"


@pytest.mark.requirement("settings.auth")
def test_a_reachable_host_asks_for_tokens() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "vault.example"):
        assert load({**MINIMAL, "HOST": host}).auth == "token"
        assert load({**MINIMAL, "HOST": host, "AUTH": "none"}).auth == "none"
    for host in ("127.0.0.1", "::1", "localhost"):
        assert load({**MINIMAL, "HOST": host}).auth == "none"
        assert load({**MINIMAL, "HOST": host, "AUTH": "TOKEN"}).auth == "token"


JWT = {"JWT_ISSUER": "https://id.example", "JWT_AUDIENCE": "vault", "JWT_JWKS": "/keys.json"}


def test_over_stdio_tokens_are_asked_for_only_when_that_is_said() -> None:
    for more in ({"HOST": "0.0.0.0"}, {"AUTH_TOKEN": "x" * 16}, JWT, {}):
        assert load({**MINIMAL, **more}, door="stdio").auth == "none"
    assert load({**MINIMAL, "AUTH": "token"}, door="stdio").auth == "token"


def test_jwt_settings_go_together_and_ask_for_tokens() -> None:
    assert load({**MINIMAL, **JWT}).auth == "token"
    for name in JWT:
        some = {key: value for key, value in JWT.items() if key != name}
        assert problems(**MINIMAL, **some)[0].startswith("JWT_ISSUER: goes together")
    plain = {**JWT, "JWT_JWKS": "http://id.example/keys"}
    assert problems(**MINIMAL, **plain)[0].startswith("JWT_JWKS: must be")


def test_logins_are_believed_from_one_address_alone() -> None:
    assert "TRUSTED_PROXY" in problems(**MINIMAL, ADMINS="ann@example.com")[0]
    assert "TRUSTED_PROXY" in problems(**MINIMAL, TRUSTED_PROXY="10.0.0.0/8")[0]
    settings = load({**MINIMAL, "ADMINS": "ann@x.example, bob", "TRUSTED_PROXY": "127.0.0.1"})
    assert settings.admins == ("ann@x.example", "bob")
    assert describe(settings)["TRUSTED_PROXY"] == "127.0.0.1"


@pytest.mark.parametrize("url", ["vault.example", "ftp://x", "https://x/path", 'https://x"y'])
def test_what_is_no_public_url(url: str) -> None:
    assert "PUBLIC_URL" in problems(**MINIMAL, PUBLIC_URL=url)[0]


def test_a_public_url_has_no_slash_at_its_end() -> None:
    assert load({**MINIMAL, "PUBLIC_URL": "https://v.example/"}).public_base == "https://v.example"


def test_a_token_is_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret-s3cret-s3cret\n")
    settings = load({**MINIMAL, "AUTH_TOKEN_FILE": str(file), "HOST": "0.0.0.0"})
    assert settings.auth == "token"
    assert settings.auth_token is not None
    assert settings.auth_token.get_secret_value() == "s3cret-s3cret-s3cret"
    assert "s3cret" not in str(describe(settings))
    assert "s3cret" not in repr(settings)


def test_a_short_token_is_a_problem() -> None:
    assert "16 characters" in problems(**MINIMAL, AUTH_TOKEN="short")[0]


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
    assert "STAGING_DIR" in problems(**MINIMAL, STAGING_DIR="/vault")[0]


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("1", "true"), ("yes", "true"), ("TRUE", "true"), ("0", "false"), ("auto", "auto")],
)
def test_words_for_require_mount(word: str, meaning: str) -> None:
    assert load({**MINIMAL, "REQUIRE_MOUNT": word}).require_mount == meaning


def test_dates_are_those_of_a_zone() -> None:
    far = load({**MINIMAL, "TIME_ZONE": "Pacific/Kiritimati"}).now().utcoffset()
    assert far is not None
    assert far.total_seconds() == 14 * 3600
    assert load(MINIMAL).now().tzinfo is not None


@pytest.mark.parametrize("zone", ["Berlin", "../../etc/passwd", "Europe", "a\0b"])
def test_a_zone_that_is_none_is_a_problem(zone: str) -> None:
    assert problems(**MINIMAL, TIME_ZONE=zone)[0].startswith("TIME_ZONE: ")


def test_repositories_have_an_owner_and_a_name() -> None:
    settings = load({**MINIMAL, "PUBLISH_REPOS": "me/code, you/notes.x"})
    assert settings.publish_repos == ("me/code", "you/notes.x")
    for name in ("code", "https://example.org/me/code", "me/..", "-x/y", "me/code/more"):
        assert "PUBLISH_REPOS" in problems(**MINIMAL, PUBLISH_REPOS=name)[0]
