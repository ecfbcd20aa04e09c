"""The monitoring that ships, with a real Prometheus and a real server."""

import copy
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from tests.deploy.conftest import create_token
from tests.deploy.prometheus import SHIPPED, Prometheus, configure, promtool
from tests.deploy.traffic import Traffic
from tests.drive.processes import wait_for
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(300)
GRAFANA = SHIPPED.parent / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "vault-mcp.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def alerts() -> list[str]:
    groups = yaml.safe_load((SHIPPED / "rules.yml").read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def prometheus(watched: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    config = configure(
        tmp_path_factory.mktemp("prometheus"),
        f"127.0.0.1:{watched.port}",
        create_token(watched, "prometheus"),
    )
    promtool("check", "config", config)
    with Prometheus(config) as running:
        yield running


def test_the_rules_are_sound() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", SHIPPED / "rules.yml")


def test_the_rules_do_what_their_tests_say() -> None:
    assert "SUCCESS" in promtool("test", "rules", SHIPPED / "rules.test.yml")


def test_every_alert_is_tested_both_ways() -> None:
    tests = yaml.safe_load((SHIPPED / "rules.test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    raised = {case["alertname"] for case in cases if case["exp_alerts"]}
    quiet = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert raised == quiet == set(alerts())
    assert len(set(alerts())) == len(alerts())


def test_the_server_is_scraped_with_a_token_that_can_do_nothing_else(
    watched: Server, prometheus: Prometheus
) -> None:
    def scraped() -> list[dict[str, Any]]:
        return [one for one in prometheus.targets() if one["health"] != "unknown"]

    (target,) = wait_for(scraped, 60, "a scrape")
    assert (target["health"], target["lastError"]) == ("up", "")
    assert wait_for(lambda: prometheus.query("vault_mount_up == 1"), 60, "the mount in Prometheus")
    token = (prometheus.config.parent / "metrics_token").read_text()
    scraper = copy.copy(watched)
    scraper.bearer = {"Authorization": f"Bearer {token}"}
    assert scraper.get("/metrics")[0] == 200
    with pytest.raises(HTTPError, match="400"):  # there is no tool for it
        scraper.call("note_read", path="a.md")


def test_every_rule_can_be_evaluated(prometheus: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        rules = prometheus.rules()
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = wait_for(evaluated, 60, "evaluation of the rules")
    assert [rule["name"] for rule in rules] == alerts()
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    critical = [r["name"] for r in rules if r["alerts"] and r["labels"]["severity"] == "critical"]
    assert critical == [], "a server that is well raises nothing"


def queries() -> dict[str, str]:
    """Every query of the dashboard, with its variables filled in as Grafana does."""
    found = {}
    for panel in PANELS:
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
            assert "$" not in text, text
            found[f"{panel['title']} {target['refId']}"] = text
    return found


def test_every_panel_shows_something(
    watched: Server, prometheus: Prometheus, tmp_path: Path
) -> None:
    traffic = Traffic(watched, Path(watched.env["VAULT_PATH"]))
    missing = queries()
    assert len(missing) > 40

    def all_seen() -> bool:
        traffic.happen()
        for name, query in list(missing.items()):
            values = [float(sample["value"][1]) for sample in prometheus.query(query)]
            if any(not math.isnan(value) for value in values):
                del missing[name]
        return not missing

    try:
        wait_for(all_seen, 90, "data for every panel")
    except TimeoutError:
        pytest.fail(f"no data: {missing}")


def test_the_dashboard_shows_every_metric(watched: Server) -> None:
    text = watched.get("/metrics")[1].decode()
    families = set(re.findall(r"^# TYPE (vault_\w+?)(?:_total|_info)? \w+$", text, re.MULTILINE))
    families = {name for name in families if not name.endswith("_created")}
    shown = " ".join(queries().values())
    assert {name for name in families if name not in shown} == set()


def test_the_dashboard_is_found_where_it_is_looked_for() -> None:
    (provider,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "dashboards" / "vault-mcp.yml").read_text()
    )["providers"]
    (source,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    grafana = yaml.safe_load((SHIPPED.parents[1] / "compose.yaml").read_text())["services"][
        "grafana"
    ]
    mounted = {
        volume["target"]: volume["source"] for volume in grafana["volumes"] if "source" in volume
    }
    assert mounted[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    assert source["type"] == "prometheus"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
