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
from gatepost.gate.policies import Policies, visible_tools
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import egress, waiting_requests
from gatepost.store.rooms import direct_rooms
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


async def test_where_nobody_is_asked_about_hosts_no_tool_for_it_is_offered(tmp_path: Path, store: SqliteStore) -> None:
    for folder in ("acme", "acme/eng", "other"):
        await store.write(groups.add, folder, folder, "scripted", 1)
    await store.write(groups.update, "acme", {"options": {"egress": "refuse"}})
    shown = {}
    for usual in ("ask", "refuse"):
        policies = Policies(store, EventBus(), Config({"egress.unknown_hosts": usual}))
        for folder in ("acme/eng", "other"):
            tools = visible_tools(TOOLS, await policies(folder))
            shown[usual, folder] = "network_request" in {tool.name for tool in tools}
    assert shown == {
        ("ask", "acme/eng"): False,
        ("ask", "other"): True,
        ("refuse", "acme/eng"): False,
        ("refuse", "other"): False,
    }


def settle_boss(db: Db) -> None:
    users.add(db, "fake:user/boss", "Ada", 1)
    users.add_role(db, "fake:user/boss", UserRole.OWNER, "", "test", 1)
    direct_rooms.add(db, "fake:user/boss", "fake", "fake:direct/boss", 1)


async def test_an_agent_asks_for_a_host_where_its_group_asks_people(tmp_path: Path, store: SqliteStore) -> None:
    hosts = RefusedHosts(store, SystemClock(), Config({}), EventBus(), ChannelInstances({}))
    agent = await GateAgent.create(tmp_path, store, "acme/eng", host_asker=hosts)
    refused = await agent.call("network_request", host="example.com", why="to read the manual")
    assert refused.failed and "nobody can be asked" in refused.text
    await store.write(settle_boss)
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
