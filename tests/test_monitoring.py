"""What `ops/` has for Prometheus and Grafana fits the metrics that there are. `flows/test_monitoring.py` runs it."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepost.serve.alerts.conditions import CONDITIONS
from gatepost.serve.metric_table import list_names
from gatepost_testing.servers.prometheus import find_promtool

from .monitoring_files import (
    RULE_TESTS,
    RULES,
    list_metrics,
    list_queries,
    read_config,
    read_dashboard,
    read_rules,
)

PROMTOOL = find_promtool()
OF_OTHERS = {"up", "process_resident_memory_bytes"}
WIDTH = 24  # of a dashboard

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="Prometheus is not installed: scripts/system_packages.py --all"
)


def run_promtool(*args: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(PROMTOOL), *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_prometheus_takes_the_rules_and_each_fires_when_it_should() -> None:
    assert f"{len(read_rules())} rules found" in run_promtool("check", "rules", RULES, cwd=RULES.parent)
    run_promtool("test", "rules", RULE_TESTS, cwd=RULES.parent)


@needs_promtool
def test_a_rule_that_fires_too_early_is_found(tmp_path: Path) -> None:
    """What is shown above can fail."""
    text = RULES.read_text(encoding="utf-8")
    assert text.count("== 0\n        for: 1m") == 2
    (tmp_path / RULES.name).write_text(text.replace("== 0\n        for: 1m", "== 0"), encoding="utf-8")
    (tmp_path / RULE_TESTS.name).write_bytes(RULE_TESTS.read_bytes())
    given = [str(PROMTOOL), "test", "rules", RULE_TESTS.name]
    done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "GatepostGatewayDown" in done.stdout + done.stderr


def test_each_alert_is_seen_to_fire_and_to_keep_quiet() -> None:
    seen: dict[bool, set[str]] = defaultdict(set)
    for test in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]:
        for each in test.get("alert_rule_test", ()):
            seen["exp_alerts" in each].add(each["alertname"])
    alerts = {each["alert"] for each in read_rules() if "alert" in each}
    assert seen[True] == seen[False] == alerts
    assert len(alerts) > 10


def test_each_condition_that_the_gateway_tells_of_has_a_rule() -> None:
    expressions = " ".join(each["expr"] for each in read_rules())
    named = set(re.findall(r"\w+", " ".join(re.findall(r'condition=~?"([^"]+)"', expressions))))
    measured = {  # by numbers of their own
        "agent": "gatepost_store_failing_agents",
        "backup": "gatepost_store_unproven_backup_seconds",
        "budget": "gatepost_store_spent_budgets",
        "channel_deaf": "gatepost_channel_up",
        "disk_full": "gatepost_disk_free_bytes",
        "disk_low": "gatepost_disk_free_bytes",
        "gateway": "gatepost_store_lease_seconds",
        "uncertain": "gatepost_store_uncertain_messages",
    }
    assert named | measured.keys() == CONDITIONS.keys()
    assert all(metric in expressions for metric in measured.values())


def test_each_metric_in_a_rule_or_on_the_dashboard_is_there() -> None:
    recorded = {each["record"] for each in read_rules() if "record" in each}
    used = [each["expr"] for each in read_rules()] + list(list_queries().values())
    found = [list_metrics(each) for each in used]
    assert all(found), "a query without a metric"
    assert set().union(*found) - list_names() - recorded - OF_OTHERS == set()


def test_a_metric_that_is_not_there_is_found() -> None:
    assert list_metrics('sum(rate(gatepost_no_such_total{job="up"}[5m])) / job:gatepost_x:p95') == {
        "gatepost_no_such_total",
        "job:gatepost_x:p95",
    }


def test_numbers_of_the_whole_store_are_never_added_up() -> None:
    """Each gateway says the same, so that a sum over them would be too large. Of some, the largest are added up."""
    doubled = re.compile(r"\bsum(?: by \([^)]*\))? ?\((?:rate\()?gatepost_store_")
    every = [each["expr"] for each in read_rules()] + list(list_queries().values())
    assert [each for each in every if doubled.search(each)] == []
    assert doubled.search("sum by (job) (rate(gatepost_store_messages_total[5m]))")


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in ("xw", "yh"))


def test_the_dashboard_has_the_shape_that_grafana_reads() -> None:
    dashboard = read_dashboard()
    panels: list[dict[str, Any]] = dashboard["panels"]
    assert (dashboard["title"], dashboard["uid"], dashboard["id"]) == ("Gatepost", "gatepost", None)
    assert {each["type"] for each in panels} == {"row", "stat", "timeseries"}
    assert len({each["id"] for each in panels}) == len({each["title"] + each["type"] for each in panels}) == len(panels)
    places = [each["gridPos"] for each in panels]
    assert all(each["x"] >= 0 and each["x"] + each["w"] <= WIDTH for each in places)
    assert not [1 for n, one in enumerate(places) for other in places[:n] if overlap(one, other)]
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    for panel in panels:
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"}
            assert "job" in used and used <= variables
    assert list_queries().keys() == {
        f"{each['title']} {ref['refId']}" for each in panels for ref in each.get("targets", ())
    }


def test_the_configuration_on_the_page_scrapes_a_job_that_the_rules_know() -> None:
    (job,) = yaml.safe_load(read_config())["scrape_configs"]
    assert job["job_name"].startswith("gatepost")
    assert 'up{job=~"gatepost.*"}' in RULES.read_text(encoding="utf-8")
