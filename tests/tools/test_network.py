"""Who may open the network, and for whom."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.refused_hosts import RefusedHosts
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import egress, waiting_requests
from gatepost.store.sessions import groups
from gatepost.tools.contract import TOOLS
from gatepost_testing.gate_agent import FOLDERS, GateAgent

load_package("gatepost.tools")

GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "network_allow": {"host": "example.com"},
    "network_deny": {"host": "example.com"},
    "network_list": {},
}


@pytest.mark.parametrize("name", sorted(GOOD_ARGUMENTS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **GOOD_ARGUMENTS[name])
    assert bool(answer.failed or answer.code) == (tier > TOOLS[name].tier)


async def test_what_root_allows_is_seen_below_and_can_be_taken_back(tmp_path: Path, store: SqliteStore) -> None:
    root = await GateAgent.create(tmp_path, store, "root")
    await store.write(groups.add, "acme", "acme", "scripted", 1)
    eng = await GateAgent.create(tmp_path, store, "acme/eng")
    other = await GateAgent.create(tmp_path, store, "other/x")

    await root.call("network_allow", host="Example.com:8443", folder="acme")
    seen, hidden = await eng.call("network_list"), await other.call("network_list")
    await root.call("network_deny", host="example.com:8443", folder="acme")

    assert [each["host"] for each in json.loads(seen.text)["rules"]] == ["example.com"]
    assert json.loads(hidden.text)["rules"] == []
    assert [(rule.allow, rule.created_by) for rule in await store.read(egress.list_rules)] == [(False, "root")]


async def test_an_agent_opens_no_local_address_and_no_ghosts_network(tmp_path: Path, store: SqliteStore) -> None:
    root = await GateAgent.create(tmp_path, store, "root")
    await root.call("network_allow", host="localhost:5432")
    ghost = await root.call("network_allow", host="example.com", folder="nobody")
    literal = await root.call("network_allow", host="10.0.0.1")

    assert ghost.failed or ghost.code
    assert literal.failed or literal.code
    assert [rule.local for rule in await store.read(egress.list_rules)] == [False]


async def test_an_agent_asks_for_a_host_where_its_group_asks_people(tmp_path: Path, store: SqliteStore) -> None:
    hosts = RefusedHosts(store, SystemClock(), Config({}), EventBus(), ChannelInstances({}))
    agent = await GateAgent.create(tmp_path, store, "acme/eng", host_asker=hosts)
    refused = await agent.call("network_request", host="example.com", why="to read the manual")
    assert refused.failed and "nobody is asked" in refused.text
    await store.write(groups.update, "acme/eng", {"options": {"egress": "ask"}})
    asked = await agent.call("network_request", host="example.com", why="to read the manual")
    (request,) = await store.read(waiting_requests.list_pending)
    assert request.id in asked.text and not json.loads(asked.text)["allowed"]
    assert (request.name, request.input["why"], request.input["asked by"]) == (
        "example.com:443",
        "to read the manual",
        "network_request",
    )
    for bad in ("10.0.0.1", "localhost:80", "exa mple.com", "api.openai.com"):
        answer = await agent.call("network_request", host=bad, why="because")
        assert answer.failed or answer.code
