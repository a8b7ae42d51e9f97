"""A real Prometheus, set up as docs/monitoring.md says, scrapes two gateways. Each query of the dashboard and each rule
is asked of it."""

import asyncio
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.monitoring_files import RULES, list_queries, read_config, read_rules

from gatepost_testing.models import ModelEndpoint
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.servers.prometheus import PrometheusServer, find_prometheus
from gatepost_testing.servers.server_process import find_ports
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .channel_desk import SETTINGS

SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": r"remember (\w+)", "do": [{"call": "set_work", "with": {"content": "{1}"}}, {"say": "Yes: {1}."}]}
    ]
}
NAMES = ("east", "west")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
    pytest.mark.skipif(
        find_prometheus() is None, reason="Prometheus is not installed: scripts/system_packages.py --all"
    ),
]


@pytest.fixture
def endpoint() -> ModelEndpoint:
    """With an address, and not open yet."""
    made = ModelEndpoint(SCRIPT)
    (made.port,) = find_ports(1)
    return made


@pytest.fixture
def cluster(tmp_path: Path, endpoint: ModelEndpoint) -> Iterator[Cluster]:
    model = {"sessions_provider": "anthropic", "anthropic_base_url": endpoint.anthropic, "backup_every_hours": "24"}
    with Cluster(tmp_path, NAMES, **{**SETTINGS, **model}) as cluster:
        assert cluster.first.gatepost("secret", "rotate").returncode == 0
        cluster.share_keys()
        for daemon in cluster.daemons.values():
            daemon.start()
        yield cluster


@pytest.fixture
def prometheus(cluster: Cluster) -> Iterator[PrometheusServer]:
    config = read_config().replace("15s", "1s").replace("/etc/prometheus/gatepost.rules.yml", str(RULES))
    hosts = [daemon.banner[0].split()[-1].split("/")[2] for daemon in cluster.daemons.values()]
    config, count = re.subn(r"targets: \[.*\]", f"targets: {hosts}", config)
    assert count == 1 and config.count("1s") == 2
    with PrometheusServer(config) as started:
        yield started


def wait_for(prometheus: PrometheusServer, query: str, what: str) -> float:
    """Wait until a query has a value, and return the first."""
    found: list[float] = []

    def has_value() -> bool:
        found[:] = [value for _, value in prometheus.query(query) if not math.isnan(value)]
        return bool(found)

    block_until(has_value, f"{what} in Prometheus")
    return found[0]


def converse(cluster: Cluster, prometheus: PrometheusServer) -> None:
    assert cluster.first.gatepost("group", "set", "home", "model=claude-sonnet-4-5").returncode == 0
    for word in ("plum", "pear"):
        said = cluster.first.gatepost("chat", "-m", f"remember {word}", "--wait")
        assert f"Yes: {word}." in said.stdout, said.stdout + said.stderr
        # A series begins with its first call, and only a later one is seen in a rate.
        wait_for(prometheus, "gatepost_model_call_seconds_count > 0", "the call of a model")


async def test_prometheus_sees_both_gateways_and_answers_each_query(
    cluster: Cluster, endpoint: ModelEndpoint, prometheus: PrometheusServer
) -> None:
    async with endpoint:
        await asyncio.to_thread(converse, cluster, prometheus)
        await asyncio.to_thread(check_series, prometheus)
        await asyncio.to_thread(check_queries, prometheus)
        await asyncio.to_thread(check_takeover, cluster, prometheus)


def check_series(prometheus: PrometheusServer) -> None:
    wait_for(prometheus, "sum(up) == 2", "both gateways")
    for metric in ("build_info", "contact", "duties", "disk_free_bytes", "sessions_awake", "queue_seconds_count"):
        wait_for(prometheus, f"count(count by (gateway) (gatepost_{metric})) == 2", metric)
    names = {labels["gateway"] for labels, _ in prometheus.query("gatepost_build_info")}
    assert names == {*NAMES}
    for step in ("answer", "queue", "delivery", "model_call", "tool_call"):
        wait_for(prometheus, f"sum(gatepost_{step}_seconds_count) >= 2", step)
    wait_for(prometheus, 'count(gatepost_store_gateways{state="running"} == 2) == 2', "two gateways that both know of")
    # Each says the same of the store, so that the largest is the number and a sum would be twice as much.
    messages = wait_for(prometheus, "min(gatepost_store_messages_total) == max(gatepost_store_messages_total)", "it")
    assert messages >= 4
    assert prometheus.query("sum(gatepost_store_unaccounted_messages)")[0][1] == 0


def check_queries(prometheus: PrometheusServer) -> None:
    queries = list_queries()
    assert len(queries) > 30
    for panel, query in queries.items():
        block_until(lambda query=query: bool(prometheus.query(query)), f"an answer to {panel}: {query}")  # type: ignore[misc]
    for panel in ("Until the answer B", "In the queue B", "Delivery, 95 % A", "Model calls, 95 % A", "Tool calls B"):
        assert 0 < wait_for(prometheus, queries[panel], panel) < 60

    def find_faults() -> list[str]:
        groups = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) == len(read_rules())
        return [f"{each['name']}: {each.get('lastError', '')}" for each in rules if each["health"] != "ok"]

    block_until(lambda: not find_faults(), "all rules to be worked out")
    assert wait_for(prometheus, "job:gatepost_store_open_messages:max", "what a rule records") >= 0


def check_takeover(cluster: Cluster, prometheus: PrometheusServer) -> None:
    cluster["west"].kill()
    wait_for(prometheus, 'sum(gatepost_takeovers_total{gateway="east"}) == 1', "the takeover")
    wait_for(prometheus, 'gatepost_store_lease_seconds{name="west"} == 0', "the lease that is over")
    wait_for(prometheus, "sum(up) == 1", "the end of one")
    names = {"GatepostGatewayGone", "GatepostGatewayDown"}

    def list_active() -> set[str]:
        return {each["labels"]["alertname"] for each in prometheus.ask("alerts")["alerts"]}

    block_until(lambda: names <= list_active(), f"{names} to be pending")
