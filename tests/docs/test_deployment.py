"""docs/https.md, docs/docker.md and docs/monitoring.md: what they name exists, and nothing is left out."""

import re

import pytest
import yaml

from server.catalog.table import OPERATIONS
from server.settings import Settings
from server.telemetry import Telemetry
from tests.docs import pages
from tests.docs.pages import ROOT

RULES = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
PAGES = ("https", "docker", "monitoring")


def page(name: str) -> str:
    return pages.page(f"docs/{name}.md").text


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
def test_its_variables_exist(name: str) -> None:
    known = {field.upper() for field in Settings.model_fields}
    for file in ("Caddyfile", ".env.example"):
        known |= set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", (ROOT / file).read_text()))
    # Of Tailscale, Node.js, Python, the Dockerfile and the kernel.
    known |= {"TS_PERMIT_CERT_UID", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PYTHON", "SYS_ADMIN"}
    named = set(re.findall(r"`([A-Z][A-Z_]{3,})(?:=[^`]*)?`", page(name)))
    named |= set(re.findall(r"^(?:Environment=)?([A-Z][A-Z_]{3,})=", page(name), re.MULTILINE))
    assert named
    assert named - {"REDACTED"} <= known


def test_the_variables_of_the_caddyfile_are_explained() -> None:
    text = (ROOT / "Caddyfile").read_text()
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


def test_versions_in_the_pages_are_those_that_ship() -> None:
    shipped = (ROOT / "compose.yaml").read_text() + (ROOT / "Dockerfile").read_text()
    named = set(re.findall(r"\b(?:python|rclone/rclone|caddy):[\w.-]+", page("docker")))
    assert {"rclone/rclone:1.75.2"} <= named
    for image in named:
        assert image in shipped, image
