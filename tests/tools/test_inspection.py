"""Who gets what is said in a room, and who somebody is, as far as it concerns the caller."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.registry import load_package
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.contract import TOOLS
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, GateAgent, is_invalid

load_package("gatepost.tools")

LOOKS: dict[str, dict[str, Any]] = {"inspect_routing": {}, "inspect_identity": {"sub": "fake:user/1"}}


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found = json.loads(answer.text)
    assert isinstance(found, dict)
    return found


def _route(db: Db, seq: int, match: str, target: str, also: bool = False) -> int:
    if groups.get(db, target) is None:
        groups.add(db, target, target, "scripted", 1)
    new = routes.Route(
        seq=seq, match=match, target=target, folder=target, also=also, created_by="operator", created_at=1
    )
    return routes.add(db, new).id


def _fail(db: Db, folder: str, room: str, reason: str) -> None:
    if groups.get(db, folder) is None:
        groups.add(db, folder, folder, "scripted", 1)
    message_id = add_arrival(db, 1, instance=PLATFORM, address=room, sender="x:1", text="x")
    inbox.refuse(db, message_id, folder, "guest", reason, 1, state=InboxState.FAILED)


@pytest.mark.parametrize("name", sorted(LOOKS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **LOOKS[name])
    if tier <= TOOLS[name].tier:
        assert told(answer)
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")


async def test_arizuko_21_the_lowest_seq_wins_and_of_equal_ones_the_lower_id(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    late = await store.write(_route, 10, "", "acme")
    first = await store.write(_route, 5, "platform=fake", "acme/eng")
    second = await store.write(_route, 5, "", "acme/ops")
    answer = told(await agent.call("inspect_routing"))
    assert (answer["resolved_folder"], answer["folders"], answer["elsewhere"]) == ("acme/eng", ["acme/eng"], False)
    assert [each["route"]["id"] for each in answer["routes"]] == [first, second, late]
    assert [each["holds"] for each in answer["routes"]] == [True, False, False]
    assert "platform=fake" in answer["why"] and f"route {first} has won" in answer["routes"][1]["why"]


async def test_arizuko_21_a_route_by_sender_is_passed_over_without_one(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")

    def add(db: Db) -> None:
        routes.add(db, routes.Route(seq=1, match="", target="acme/{sender}", created_by="operator", created_at=1))
        _route(db, 2, "", "acme")

    await store.write(add)
    answer = told(await agent.call("inspect_routing"))
    assert answer["resolved_folder"] == "acme"
    assert "needs a sender" in answer["routes"][0]["why"]


@pytest.mark.parametrize(
    ("match", "holds"), [("", True), ("verb=", False), ("room=room/*", True), ("room=[", False), ("room=*", True)]
)
async def test_arizuko_19_what_a_match_makes_of_a_room(
    match: str, holds: bool, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(_route, 1, match, "acme")
    (asked,) = told(await agent.call("inspect_routing"))["routes"]
    assert asked["holds"] is holds


async def test_routes_and_groups_of_others_are_not_shown(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    for seq in range(5):
        await store.write(_route, seq, "verb=mention", "other")
    await store.write(_route, 10, "", "other", True)
    own = await store.write(_route, 20, "", "acme/eng")
    answer = told(await agent.call("inspect_routing", limit=1))
    assert [each["route"]["id"] for each in answer["routes"]] == [own]
    assert (answer["folders"], answer["elsewhere"], answer["count"]) == (["acme/eng"], True, 1)
    assert "other" not in json.dumps(answer)
    root = await GateAgent.create(tmp_path / "r", store, "root")
    assert told(await root.call("inspect_routing", limit=500))["count"] == 7
    assert told(await root.call("inspect_routing", limit=0))["count"] == 1


async def test_what_failed_in_the_own_part_is_counted_by_room(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for _ in range(3):
        await store.write(_fail, "acme/eng", "fake:room/2", "the model is down")
    await store.write(_fail, "other", "fake:room/3", "x")
    (errored,) = told(await agent.call("inspect_routing"))["errored"]
    assert (errored["room"], errored["folder"], errored["count"]) == ("fake:room/2", "acme/eng", 3)
    assert errored["reason"] == "the model is down"


async def test_a_room_of_others_is_not_inspected(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    answer = await agent.call("inspect_routing", jid="fake:room/9")
    assert answer.failed and "no route to this group" in answer.text
    assert is_invalid(await agent.call("inspect_routing", limit="x"))
    assert is_invalid(await agent.call("inspect_identity"))


def _people(db: Db) -> None:
    for folder in ("acme", "acme/eng", "acme/ops", "other"):
        if groups.get(db, folder) is None:
            groups.add(db, folder, folder, "scripted", 1)
    for name in ("member", "foreign", "admin", "1", "silent"):
        users.add(db, f"fake:user/{name}", name, 1)
    users.add_member(db, "fake:user/member", "acme/ops", "operator", 1)
    users.add_member(db, "fake:user/member", "other", "operator", 1)
    users.add_member(db, "fake:user/foreign", "other", "operator", 1)
    users.add_role(db, "fake:user/admin", UserRole.ADMIN, "acme", "operator", 1)
    users.add_role(db, "fake:user/admin", UserRole.ADMIN, "other", "operator", 1)
    users.add_role(db, "fake:user/1", UserRole.OWNER, "", "operator", 1)


async def test_people_of_the_own_world_are_known_and_only_as_far_as_it_goes(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    await store.write(_people)

    async def who(name: str) -> Any:
        return told(await agent.call("inspect_identity", sub=f"fake:user/{name}"))["identity"]

    assert (await who("member"))["member_of"] == ["acme/ops"]
    assert (await who("admin"))["roles"] == [{"role": "admin", "folder": "acme"}]
    assert (await who("1"))["roles"] == [{"role": "owner", "folder": ""}]  # they have spoken here
    assert await who("foreign") is None
    assert await who("silent") is None
    unknown = told(await agent.call("inspect_identity", sub="fake:user/nobody"))
    assert unknown == {"sub": "fake:user/nobody", "identity": None, "subs": []}
    root = await GateAgent.create(tmp_path / "r", store, "root")
    seen = told(await root.call("inspect_identity", sub="fake:user/foreign"))
    assert seen["identity"]["member_of"] == ["other"] and seen["subs"] == ["fake:user/foreign"]


async def test_all_identities_of_a_person_are_shown_by_whichever_is_named(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    await store.write(_people)
    await store.write(identities.add, "mail:member", "fake:user/member", "operator", 2)
    for sub in ("fake:user/member", "mail:member"):
        seen = told(await agent.call("inspect_identity", sub=sub))
        assert seen["identity"]["id"] == "fake:user/member" and seen["identity"]["member_of"] == ["acme/ops"]
        assert seen["subs"] == ["fake:user/member", "mail:member"]
    await store.write(identities.add, "mail:foreign", "fake:user/foreign", "operator", 2)
    foreign = told(await agent.call("inspect_identity", sub="mail:foreign"))
    assert foreign == {"sub": "mail:foreign", "identity": None, "subs": []}


async def test_who_spoke_in_rooms_of_others_is_nobody_here(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme", turn=False)
    await store.write(_people)

    def speak(db: Db) -> None:
        session = sessions.find_or_add(db, SessionMode.PER_THREAD, "other", PLATFORM, "fake:room/3", "", 1)
        message_id = add_arrival(
            db, 1, instance=PLATFORM, address=session.address, sender="fake:user/silent", text="hi"
        )
        inbox.enqueue(db, message_id, session.id, "other", "member", 1)

    await store.write(speak)
    assert told(await agent.call("inspect_identity", sub="fake:user/silent"))["identity"] is None
