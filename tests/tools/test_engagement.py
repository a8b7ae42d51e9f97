"""Entering a conversation and leaving it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import MINUTE
from gatepost.core.registry import load_package
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rooms import engagements, routes
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.rooms.routes import NEVER_ENDS, Route
from gatepost.store.sessions import groups, turns
from gatepost.tools import engagement
from gatepost_testing.clock import NOON
from gatepost_testing.gate_agent import PLATFORM, ROOM, GateAgent

load_package("gatepost.tools")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


async def add_route(
    store: SqliteStore, match: str, target: str, *, ttl_s: int | None = None, also: bool = False, seq: int = 10
) -> int:
    def add(db: Db) -> int:
        folder = target.partition("#")[0]
        groups.add(db, folder, folder, "", NOON)
        new = Route(
            match=match,
            target=target,
            created_by="test",
            created_at=NOON,
            seq=seq,
            folder=folder,
            ttl_s=ttl_s,
            also=also,
        )
        return routes.add(db, new).id

    return await store.write(add)


async def list_engaged(store: SqliteStore, thread: str = "") -> list[Engagement]:
    return await store.read(engagements.list_at, PLATFORM, ROOM, thread)


async def test_a_group_enters_for_the_time_of_its_route_and_leaves(agent: GateAgent, store: SqliteStore) -> None:
    route = await add_route(store, "verb=mention", "acme/eng", ttl_s=60)
    answer = told(await agent.call("engage"))
    assert (answer["ok"], answer["jid"], answer["topic"]) == (True, ROOM, "")
    (row,) = await list_engaged(store)
    assert (row.folder, row.route_id, row.ttl) == ("acme/eng", route, MINUTE)
    assert told(await agent.call("disengage"))["was_engaged"]
    assert await list_engaged(store) == []
    assert not told(await agent.call("disengage"))["was_engaged"]
    assert [each for each, _ in await agent.audited()] == ["engage", "disengage", "disengage"]


async def test_another_thread_is_named_and_a_route_without_an_end_has_none(
    agent: GateAgent, store: SqliteStore
) -> None:
    await add_route(store, "verb=mention", "acme/eng", ttl_s=NEVER_ENDS)
    assert told(await agent.call("engage", topic="T"))["until"] is None
    assert (await list_engaged(store), [each.until for each in await list_engaged(store, "T")]) == ([], [None])


@pytest.mark.parametrize(("match", "target"), [("", "other"), ("", "acme/eng#observe"), ("", "acme/ops")])
async def test_nobody_enters_where_no_route_leads_people_to_them(
    match: str, target: str, agent: GateAgent, store: SqliteStore
) -> None:
    await add_route(store, match, target)
    answer = await agent.call("engage")
    assert answer.failed and "no route leads people there to you" in answer.text
    assert await list_engaged(store) == []


async def test_a_child_enters_where_the_group_above_it_is_reached(agent: GateAgent, store: SqliteStore) -> None:
    await add_route(store, "verb=mention", "acme")
    assert told(await agent.call("engage"))["ok"]


async def test_where_the_operator_lets_nobody_stay_that_is_said(agent: GateAgent, store: SqliteStore) -> None:
    await add_route(store, "verb=mention", "acme/eng", ttl_s=0)
    answer = await agent.call("engage")
    assert answer.failed and "nobody stays in a conversation" in answer.text


async def test_another_group_that_is_spoken_to_is_not_pushed_aside_until_its_time_is_over(
    agent: GateAgent, store: SqliteStore
) -> None:
    other = await add_route(store, "text=/^!b/", "b", ttl_s=600)
    await add_route(store, "verb=mention", "acme/eng")
    now = agent.deps.clock.now()
    row = Engagement(PLATFORM, ROOM, "", "b", other, now + MINUTE, MINUTE, now)
    await store.write(engagements.put, row)
    answer = await agent.call("engage")
    assert answer.failed and "another group is in this conversation" in answer.text
    over = Engagement(PLATFORM, ROOM, "", "b", other, now - 1, MINUTE, now)
    await store.write(engagements.put, over)
    assert told(await agent.call("engage"))["ok"]


async def test_an_agent_sees_that_it_is_in_the_conversation_and_nobody_elses(
    agent: GateAgent, store: SqliteStore
) -> None:
    route = await add_route(store, "verb=mention", "acme/eng")
    other = await add_route(store, "verb=mention", "other", also=True, seq=5)
    now = agent.deps.clock.now()
    assert told(await agent.call("inspect_routing"))["folders"] == []
    for folder, number in (("acme/eng", route), ("other", other)):
        await store.write(engagements.put, Engagement(PLATFORM, ROOM, "", folder, number, None, 0, now))
    seen = told(await agent.call("inspect_routing"))
    assert (seen["folders"], seen["elsewhere"]) == (["acme/eng"], True)
    assert seen["engaged"] == [{"folder": "acme/eng", "until": None}]


async def test_a_room_of_nobodys_is_refused(agent: GateAgent) -> None:
    for name in ("engage", "disengage"):
        answer = await agent.call(name, jid="fake:room/9")
        assert answer.failed and f"acme/eng may not {name} on fake:room/9" in answer.text


async def test_what_is_said_by_a_tool_extends_the_engagement_of_its_turn(agent: GateAgent, store: SqliteStore) -> None:
    turn = await store.read(turns.find_open, agent.session.id)
    assert turn is not None
    now = agent.deps.clock.now()
    row = Engagement(PLATFORM, ROOM, "", "acme/eng", None, turn.started_at + 1, MINUTE, now)
    await store.write(engagements.put, row)
    assert not (await agent.call("like", targetId=1, reaction="👍")).failed
    assert [each.until for each in await list_engaged(store)] == [turn.started_at + 1]
    assert not (await agent.call("reply", text="well")).failed
    (found,) = await list_engaged(store)
    assert found.until is not None and found.until >= now + MINUTE


async def test_an_agent_cannot_enter_threads_without_end(
    agent: GateAgent, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engagement, "MOST", 3)
    await add_route(store, "verb=mention", "acme/eng", ttl_s=NEVER_ENDS)
    for number in range(3):
        told(await agent.call("engage", topic=f"made-up-{number}"))
    answer = await agent.call("engage", topic="one more")
    assert answer.failed and "leave some with disengage" in answer.text
    told(await agent.call("engage", topic="made-up-1"))
    told(await agent.call("disengage", topic="made-up-1"))
    told(await agent.call("engage", topic="one more"))
