"""Routes by agents: into their own part of the tree, and no further."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.registry import load_package
from gatepost.flow.intake import routing
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost_testing.gate_agent import ROOM, GateAgent, is_invalid

load_package("gatepost.tools")
NAMES = ("list_routes", "add_route", "set_routes", "delete_route", "list_acl")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    found: dict[str, Any] = json.loads(answer.structured)
    return found


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for folder in ("acme/eng", "other"):
        await store.write(groups.add, folder, folder, "", 1)
    for seq, folder in ((1000, "acme"), (5, "other")):
        route = routes.Route(seq=seq, match="", target=folder, folder=folder, created_by="operator", created_at=1)
        await store.write(routes.add, route)
    return agent


async def test_only_what_leads_into_the_own_part_of_the_tree_is_told(agent: GateAgent) -> None:
    found = told(await agent.call("list_routes"))
    assert found["count"] == 1
    assert found["routes"][0]["target"] == "acme" and found["routes"][0]["own"] is False


@pytest.mark.parametrize("as_text", [True, False])
async def test_a_world_adds_a_route_to_itself_and_below_and_removes_it(agent: GateAgent, as_text: bool) -> None:
    for target in ("acme", "acme/eng", "acme/eng#observe", "folder:acme/eng", "acme/{sender}"):
        route = {"match": "verb=mention", "target": target, "seq": 7}
        made = told(await agent.call("add_route", route=json.dumps(route) if as_text else route))
        found = {each["id"]: each for each in told(await agent.call("list_routes"))["routes"]}
        assert found[made["id"]]["target"] == target and found[made["id"]]["own"]
        assert told(await agent.call("delete_route", id=made["id"])) == {"deleted": True, "id": made["id"]}


@pytest.mark.parametrize("target", ["other", "other#observe", "root", "{sender}"])
async def test_arizuko_26_a_route_out_of_the_own_part_of_the_tree_is_refused(agent: GateAgent, target: str) -> None:
    answer = await agent.call("add_route", route={"target": target})
    assert answer.failed and "own or below of acme" in answer.text
    assert (await agent.call("set_routes", routes=[{"target": "acme"}, {"target": target}])).failed
    assert len(await agent.store.read(routes.list_all)) == 2


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("{", "invalid route json"),
        ('{"match": ""}', "missing required field `target`"),
        ('{"target": "acme/ghost"}', "there is no group 'acme/ghost'"),
        ('{"target": "drop"}', "only the operator's routes drop"),
        ('{"target": "acme", "match": "colour=red"}', "unknown key 'colour'"),
        ('{"target": "acme", "session": "weekly"}', "is not a session mode"),
        ('{"target": "acme", "priority": 1}', "unknown field `priority`"),
        ('{"target": "daemon:x"}', "'daemon:' does not exist"),
    ],
)
async def test_a_bad_route_is_named(agent: GateAgent, route: str, said: str) -> None:
    answer = await agent.call("add_route", route=route)
    assert answer.failed and said in answer.text


async def test_all_own_routes_are_replaced_and_the_operators_stay(agent: GateAgent) -> None:
    told(await agent.call("add_route", route={"target": "acme/eng"}))
    answer = told(await agent.call("set_routes", routes='[{"match": "verb=mention", "target": "acme/eng", "seq": 1}]'))
    assert answer == {"updated": True, "count": 1}
    found = [(each.target, each.match, each.created_by) for each in await agent.store.read(routes.list_all)]
    assert found == [("acme/eng", "verb=mention", "agent:acme"), ("other", "", "operator"), ("acme", "", "operator")]


async def test_a_set_with_one_bad_route_changes_nothing(agent: GateAgent) -> None:
    told(await agent.call("add_route", route={"target": "acme/eng"}))
    assert (await agent.call("set_routes", routes=[{"target": "acme"}, {"target": "acme/ghost"}])).failed
    assert len(await agent.store.read(routes.list_all)) == 3


async def test_arizuko_26_the_operators_route_is_not_deleted_and_a_foreign_one_does_not_exist(agent: GateAgent) -> None:
    by_target = {each.target: each.id for each in await agent.store.read(routes.list_all)}
    assert "the operator made it" in (await agent.call("delete_route", id=by_target["acme"])).text
    assert "no route named" in (await agent.call("delete_route", id=by_target["other"])).text
    assert "no route named" in (await agent.call("delete_route", id=999)).text
    assert "id required" in (await agent.call("delete_route", id=0)).text


async def test_root_sees_and_changes_every_route(tmp_path: Path, store: SqliteStore, agent: GateAgent) -> None:
    root = await GateAgent.create(tmp_path / "r", store, "root")
    assert told(await root.call("list_routes"))["count"] == 2
    assert "id" in told(await root.call("add_route", route={"target": "other", "seq": 3}))


async def test_what_concerns_a_group_is_listed_and_nothing_of_another_world(agent: GateAgent) -> None:
    await agent.store.write(acl.add_rule, "acme", "!send", "operator", 1)
    await agent.store.write(acl.put, acl.AclRow(id=0, principal="role:x", action="admin", scope="acme/**"), 1)
    await agent.store.write(acl.put, acl.AclRow(id=0, principal="role:y", action="admin", scope="other"), 1)
    rows = told(await agent.call("list_acl", folder="acme/eng"))["acl"]

    assert [(each["kind"], each["principal"], each["effect"]) for each in rows] == [
        ("rule", "folder:acme", "deny"),
        ("row", "role:x", "allow"),
    ]
    assert (await agent.call("list_acl", folder="other")).failed
    assert is_invalid(await agent.call("list_acl"))


async def test_a_number_that_no_route_can_have_is_refused_in_the_declaration(agent: GateAgent) -> None:
    assert is_invalid(await agent.call("delete_route", id=2**63))


async def test_rows_for_everywhere_name_nobody_of_another_world(agent: GateAgent) -> None:
    shown = ["folder:acme/eng", "role:devs", "fake:user/1", "folder:**", "role:operator"]
    hidden = ["folder:other", "folder:other/*", "role:board", "fake:user/9", "fake:room/9"]
    await agent.store.write(acl.add_member, "folder:acme/eng", "role:devs", "operator", 1)
    await agent.store.write(acl.add_member, "folder:other", "role:board", "operator", 1)
    for principal in shown + hidden:
        await agent.store.write(acl.put, acl.AclRow(id=0, principal=principal, action="admin"), 1)
    foreign = acl.AclRow(id=0, principal="folder:other", action="admin", scope="acme/**")
    await agent.store.write(acl.put, foreign, 1)
    rows = told(await agent.call("list_acl", folder="acme/eng"))["acl"]

    assert sorted(each["principal"] for each in rows) == sorted(shown)


async def test_a_world_has_room_for_so_many_routes_also_when_it_makes_a_group(agent: GateAgent) -> None:
    many = [{"target": "acme"}] * routing.MOST_BY_AGENTS
    assert "at most 200" in (await agent.call("set_routes", routes=[*many, {"target": "acme"}])).text
    assert told(await agent.call("set_routes", routes=many))["count"] == routing.MOST_BY_AGENTS
    for name, given in (
        ("add_route", {"route": {"target": "acme"}}),
        ("register_group", {"jid": ROOM, "folder": "acme/new"}),
    ):
        answer = await agent.call(name, **given)
        assert answer.failed and "agents of acme made 200 routes already" in answer.text
    assert await agent.store.read(groups.get, "acme/new") is None


HUGE = "text=/(?:){4000000000}/"
GLOBS = "|".join(["**/?a?*[!b-z]*/**"] * 20)


@pytest.mark.parametrize("match", [HUGE, f"room={'?' * 500}", "text=/(a{30}){40}/", "room=[z-a]"])
async def test_stranger_01_a_route_is_judged_without_the_writer(
    agent: GateAgent, store: SqliteStore, match: str
) -> None:
    """The writer is held meanwhile: who waits for it would wait for ever."""
    held, let_go = threading.Event(), threading.Event()

    def hold(db: Db) -> None:
        held.set()
        assert let_go.wait(60)

    holding = asyncio.create_task(store.write(hold))
    await asyncio.to_thread(held.wait, 60)
    try:
        for name, given in (
            ("add_route", {"route": {"target": "acme", "match": match}}),
            ("set_routes", {"routes": [{"target": "acme", "match": match}]}),
        ):
            answer = await agent.call(name, **given)
            assert answer.failed and "match" in answer.text
    finally:
        let_go.set()
        await holding


async def test_stranger_03_what_agents_write_into_matches_is_bounded_altogether(agent: GateAgent) -> None:
    heavy = [{"target": "acme", "match": f"room={number}{GLOBS}"} for number in range(190)]
    answer = await agent.call("set_routes", routes=heavy)
    assert answer.failed and "characters of matches together; at most 20000" in answer.text
    some = 20_000 // len(heavy[-1]["match"])
    assert told(await agent.call("set_routes", routes=heavy[-some:]))["count"] == some
    answer = await agent.call("add_route", route=heavy[0])
    assert answer.failed and "delete_route" in answer.text


@pytest.mark.parametrize("target", ["acme/../beta", "acme/..", "acme//eng"])
async def test_stranger_e_a_route_leads_to_no_crooked_folder(agent: GateAgent, target: str) -> None:
    answer = await agent.call("add_route", route={"target": target})
    assert answer.failed and "is not a group's folder" in answer.text


async def test_stranger_new_a_long_list_of_routes_comes_in_pages(agent: GateAgent, store: SqliteStore) -> None:
    def many(db: Db) -> None:
        for number in range(200):
            match = f"room=r{number}" + "x" * 1900
            given = routes.Route(
                seq=number, match=match, target="acme", folder="acme", created_by="operator", created_at=1
            )
            routes.add(db, given)

    await store.write(many)
    first = told(await agent.call("list_routes"))
    rest = told(await agent.call("list_routes", after=first["routes"][-1]["id"]))
    assert (first["more"], rest["more"], first["count"] + rest["count"]) == (True, False, 201)
    assert [each["seq"] for each in first["routes"] + rest["routes"]] == [*range(200), 1000]

    assert told(await agent.call("inspect_routing", limit=200))["more"]
    assert (await agent.call("list_routes", after=12345)).failed
