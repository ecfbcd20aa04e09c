"""docs/https.md, docs/docker.md and docs/monitoring.md: what they name exists, and nothing is left out."""

import re
from pathlib import Path

import pytest
import yaml

from server.catalog.table import OPERATIONS
from server.cli import _parser
from server.settings import Settings
from server.telemetry import Telemetry

PROJECT = Path(__file__).parents[2]
RULES = yaml.safe_load((PROJECT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
PAGES = ("https", "docker", "monitoring")


def page(name: str) -> str:
    return (PROJECT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.split("\n## ")[0] for part in parts[2::2]), strict=True))


def test_every_alert_says_what_to_do() -> None:
    told = sections(page("monitoring"))
    assert list(told) == list(ALERTS), "in the order of the rules"
    for name, text in told.items():
        assert text.strip().startswith(f"{ALERTS[name]['labels']['severity']} · "), name
        assert len(text.split()) > 15, name


def test_every_metric_is_explained_and_no_other() -> None:
    families = list(Telemetry().registry.collect())
    suffix = {"counter": "_total", "info": "_info"}
    metrics = {one.name + suffix.get(one.type, "") for one in families if "vault_" in one.name}
    table = page("monitoring").partition("## Metrics")[2]
    assert set(re.findall(r"`(vault_\w+)`", table)) == metrics
    tools = {operation.name for operation in OPERATIONS}
    assert set(re.findall(r"`(vault_\w+)[`{]", page("monitoring"))) <= metrics | tools
    assert set(re.findall(r"vault_\w+", str(ALERTS))) - metrics == {
        "vault_call_seconds_bucket", "vault_call_seconds_count",
    }  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_its_commands_can_be_given(name: str) -> None:
    text = page(name)
    found = re.findall(
        r"vault-mcp ((?:token|policy|audit|approvals|journal|adopt|config)[^\n`|>]*)", text
    )
    for command in found:
        words = command.partition("#")[0].split()
        if words not in (["approvals"], ["journal"]):
            assert callable(_parser().parse_args(words).run), command
    assert found or name == "https"


@pytest.mark.parametrize("name", PAGES)
def test_its_variables_exist(name: str) -> None:
    known = {field.upper() for field in Settings.model_fields}
    for file in ("Caddyfile", ".env.example"):
        known |= set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", (PROJECT / file).read_text()))
    # Of Tailscale, Node.js, Python, the Dockerfile and the kernel.
    known |= {"TS_PERMIT_CERT_UID", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PYTHON", "SYS_ADMIN"}
    named = set(re.findall(r"`([A-Z][A-Z_]{3,})(?:=[^`]*)?`", page(name)))
    named |= set(re.findall(r"^(?:Environment=)?([A-Z][A-Z_]{3,})=", page(name), re.MULTILINE))
    assert named
    assert named - {"REDACTED"} <= known


def test_the_variables_of_the_caddyfile_are_explained() -> None:
    text = (PROJECT / "Caddyfile").read_text()
    defaults = dict(re.findall(r"\{\$(\w+):([^}]*)\}", text))
    rows = re.findall(r"^\| (`[A-Z][^|]*) \| ([^|]*) \|", page("https"), re.MULTILINE)
    told = {
        name: value
        for names, values in rows
        for name, value in zip(
            re.findall(r"`(\w+)`", names),
            re.findall(r"`([^`]+)`", values) or [""] * 2,
            strict=False,
        )
    }
    assert set(told) == set(defaults)
    for name, value in told.items():
        assert value in ("", defaults[name]), name
        assert name in text.partition("{\n")[0], "named at the top of the Caddyfile"


@pytest.mark.parametrize("name", PAGES)
def test_its_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page(name))
    assert links
    for link in links:
        assert (PROJECT / "docs" / link).exists(), link


def test_versions_in_the_pages_are_those_that_ship() -> None:
    shipped = (PROJECT / "compose.yaml").read_text() + (PROJECT / "Dockerfile").read_text()
    named = set(re.findall(r"\b(?:python|rclone/rclone|caddy):[\w.-]+", page("docker")))
    assert {"rclone/rclone:1.75.2"} <= named
    for image in named:
        assert image in shipped, image
