"""SECURITY.md: its commands can be given, its settings and metrics exist, its advice works."""

import json
import re
from pathlib import Path

import pytest

from server.catalog.table import OPERATIONS
from server.cli import _parser
from server.models import Caller
from server.settings import Settings
from server.telemetry import Telemetry
from tests.unit.service.house import opened

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    said = [line.partition("#") for line in blocks.splitlines()]
    lines = [line for line, _, _ in said] + [more.partition("or: ")[2] for _, _, more in said]
    inline = re.findall(r"`(vault-mcp [^`]+)`", PAGE)
    return [line.strip() for line in [*lines, *inline] if line.strip()]


@pytest.mark.parametrize("command", sorted(set(commands()) - {"vault-mcp --version"}))
def test_a_command_can_be_given(command: str) -> None:
    program, *arguments = command.split()
    assert program == "vault-mcp"
    assert callable(_parser().parse_args(arguments).run)


def test_settings_tools_and_metrics_exist() -> None:
    settings = {name.upper() for name in Settings.model_fields}
    named = set(re.findall(r"`([A-Z][A-Z_]{3,})(?:=[a-z-]+|/[a-z.]+)?`", PAGE)) - {"NAME"}
    assert "STATE_DIR" in named
    assert named <= settings
    metrics = {sample.name for one in Telemetry().registry.collect() for sample in one.samples}
    metrics |= {f"{one.name}_total" for one in Telemetry().registry.collect()}
    told = set(re.findall(r"`(vault_[a-z_]+)`", PAGE))
    assert told
    assert told <= metrics
    assert {"undo", "health_check"} <= {op.name for op in OPERATIONS}


def test_a_token_for_metrics_alone(tmp_path: Path) -> None:
    rules = {"rules": [{"path": "/", "read_allow": True}], "toolsets": []}
    narrow = {"rules": [{"path": "a", "read_allow": True}]}
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps({"callers": {"prometheus": rules, "narrow": narrow}}))
    with opened(tmp_path / "vault", tmp_path / "state", POLICY_FILE=str(policy)) as house:
        status, dispatcher = house.app.service.status, house.app.dispatcher
        assert status.knows_all(Caller("prometheus"))
        assert not any(dispatcher.offers(op.name, Caller("prometheus")) for op in OPERATIONS)
        assert not status.knows_all(Caller("narrow"))
        assert status.knows_all(Caller("narrow", admin=True))
