"""compose.yaml, the Dockerfile and the scripts beside them: sound, tight and of one mind with the rest."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from server.settings import Settings
from tests.deploy.composition import PROJECT, composition
from tests.drive.processes import require, which

SERVICES = ("server", "rclone", "caddy", "prometheus", "grafana")


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return composition()


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest, whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = whole["services"][request.param]
    return found


def test_the_dockerfile_is_clean() -> None:
    require("hadolint")
    done = subprocess.run(
        [str(which("hadolint")), "--failure-threshold", "style", str(PROJECT / "Dockerfile")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_the_scripts_are_clean() -> None:
    require("shellcheck")
    scripts = sorted((PROJECT / "deploy" / "docker").glob("*.sh"))
    assert scripts
    done = subprocess.run(
        ["shellcheck", *map(str, scripts)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_it_is_valid_and_complete(whole: dict[str, Any]) -> None:
    assert set(whole["services"]) == set(SERVICES)
    profiles = {name: one.get("profiles") for name, one in whole["services"].items()}
    assert profiles == {
        "server": None, "rclone": ["drive"], "caddy": ["https"],
        "prometheus": ["monitoring"], "grafana": ["monitoring"],
    }  # fmt: skip


def test_a_service_can_write_to_its_volumes_alone(service: dict[str, Any]) -> None:
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert not service.get("privileged")


def test_an_image_has_one_version(service: dict[str, Any]) -> None:
    assert re.search(r":(v?\d+\.\d+\.\d+|local)$", service["image"]), service["image"]


def test_only_caddy_can_be_reached_from_elsewhere(whole: dict[str, Any]) -> None:
    for name, service in whole["services"].items():
        for port in service.get("ports", ()):
            assert name == "caddy" or port["host_ip"] == "127.0.0.1"
    assert set(whole["services"]["server"]["networks"]) == {"inner"}
    assert whole["networks"]["inner"]["internal"]


def test_rclone_mounts_where_the_server_looks(whole: dict[str, Any]) -> None:
    ends = {}
    for name in ("server", "rclone"):
        (ends[name],) = (
            v for v in whole["services"][name]["volumes"] if v["target"] == "/mnt/vault"
        )
    assert ends["server"]["source"] == ends["rclone"]["source"]
    assert ends["server"]["bind"]["propagation"] == "rslave"
    assert ends["rclone"]["bind"]["propagation"] == "rshared"
    script = (PROJECT / "deploy/docker/mount.sh").read_text()
    assert "mount=/mnt/vault/drive" in script
    assert whole["services"]["server"]["environment"]["VAULT_PATH"] == "/mnt/vault/drive"


def test_the_servers_variables_are_settings(whole: dict[str, Any]) -> None:
    told = set(whole["services"]["server"]["environment"])
    assert told <= {name.upper() for name in Settings.model_fields}


def test_caddys_variables_are_in_the_caddyfile(whole: dict[str, Any]) -> None:
    known = set(re.findall(r"\{\$(\w+)", (PROJECT / "Caddyfile").read_text()))
    assert set(whole["services"]["caddy"]["environment"]) <= known


def test_secrets_are_files(whole: dict[str, Any]) -> None:
    assert set(whole["secrets"]) == {"rclone_conf", "metrics_token", "grafana_password"}
    for secret in whole["secrets"].values():
        assert Path(secret["file"]).parent == PROJECT / "secrets"
    ignored = (PROJECT / ".gitignore").read_text().splitlines()
    assert {"/secrets/", "/.env"} <= set(ignored)


def test_the_example_has_every_variable_and_no_other() -> None:
    used = set(re.findall(r"\$\{(\w+)", (PROJECT / "compose.yaml").read_text()))
    told = set(re.findall(r"^#?([A-Z_]+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE))
    assert told == used | {"COMPOSE_PROFILES"}


def test_the_defaults_of_the_example_are_the_defaults() -> None:
    example = dict(
        re.findall(r"^#([A-Z_]+)=(.*)$", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    )
    compose = (PROJECT / "compose.yaml").read_text()
    for name, value in example.items():
        defaults = set(re.findall(rf"\$\{{{name}:?-([^}}]*)\}}", compose)) - {""}
        assert defaults <= {value}, name
