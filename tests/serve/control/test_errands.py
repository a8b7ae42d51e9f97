"""Operations on errands: who asked whom, how far from the person, at what cost, and where the answer goes."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import NotFound, Refused
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.flow.errands import return_result
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.port import Db
from gatepost.store.sessions import errands, groups, turn_claims, turns
from gatepost.store.sessions.turns import Turn
from gatepost_testing.gate_agent import MINUTE, ROOM, GateAgent

load_package("gatepost.tools")


class ErrandOffice:
    """`acme` works for a person, and can give work to the groups below it."""

    def __init__(self, agent: GateAgent, store: SqliteStore) -> None:
        self.agent, self.store = agent, store
        deps = agent.deps
        self.operation_deps = OperationDeps(
            home=deps.home, store=store, clock=deps.clock, config=deps.config, events=deps.events
        )

    async def do(self, name: str, /, **args: Any) -> Any:
        return await OPERATIONS[name](self.operation_deps, args)

    async def give(self, folder: str, text: str) -> str:
        answer = await self.agent.call("delegate_group", group=folder, prompt=text)
        return str(json.loads(answer.structured or "{}")["errand"])

    async def begin(self, errand_id: str) -> Turn:
        errand, now = await self.store.read(errands.get, errand_id), self.agent.deps.clock.now()
        assert errand is not None
        claim = await self.store.write(turn_claims.claim, errand.session_id, "scripted", "test", now, MINUTE, 20)
        assert claim is not None
        await self.store.write(turns.begin, claim.turn.id, claim.turn.epoch, claim.rows, now)
        return claim.turn

    async def end(self, turn: Turn) -> None:
        now = self.agent.deps.clock.now()
        assert await self.store.write(turns.finish, turn.id, turn.epoch, "{}", now)
        for each in await self.store.read(errands.list_finished, None, 10):
            await self.store.write(return_result, each, now)


@pytest.fixture
async def desk(tmp_path: Path, store: SqliteStore) -> ErrandOffice:
    def add(db: Db) -> None:
        for folder in ("acme", "acme/eng", "acme/ops", "beta"):
            groups.add(db, folder, folder, "scripted", 1)

    await store.write(add)
    return ErrandOffice(await GateAgent.create(tmp_path, store, "acme"), store)


async def test_there_are_none(desk: ErrandOffice) -> None:
    assert await desk.do("errand.list") == []
    with pytest.raises(NotFound, match="errand list"):
        await desk.do("errand.show", id="e-none")
    with pytest.raises(NotFound, match="group list"):
        await desk.do("errand.list", folder="nobody")


async def test_the_newest_is_first_and_only_those_are_shown_that_were_asked_for(desk: ErrandOffice) -> None:
    first, second = await desk.give("acme/eng", "one"), await desk.give("acme/ops", "two")
    await desk.end(await desk.begin(first))

    async def listed(**args: Any) -> list[str]:
        return [each["id"] for each in await desk.do("errand.list", **args)]

    assert await listed() == [second, first]
    assert await listed(open=True) == [second]
    assert await listed(folder="acme/eng") == [first]
    assert await listed(folder="acme") == [second, first], "who gave them out counts, too"
    assert await listed(folder="beta") == []
    assert await listed(limit=1) == [second]
    assert await listed(before=second) == [first]


async def test_one_says_who_asked_whom_what_it_cost_and_where_its_answer_goes(desk: ErrandOffice) -> None:
    given = await desk.give("acme/eng", "how many?")
    turn, now = await desk.begin(given), desk.agent.deps.clock.now()
    spent: dict[str, Any] = {"at": now, "folder": "acme/eng", "model": "m", "session_id": turn.session_id}
    await desk.store.write(costs.add_external, NewCost(key="a", micro=700, turn_id=turn.id, **spent), now)
    await desk.store.write(costs.add_external, NewCost(key="b", micro=50, turn_id="t-other", **spent), now)
    found = await desk.do("errand.show", id=given)

    assert (found["caller_folder"], found["folder"], found["state"]) == ("acme", "acme/eng", "open")
    assert (found["depth"], found["cost"], found["asked"], found["answer"]) == (1, 700, "how many?", "")
    assert (found["instance"], found["address"], found["ended_at"]) == ("fake", ROOM, None)
    assert found["people"] and found["above"] == found["below"] == []
    assert found["age_s"] >= 0


async def test_an_errand_of_an_errand_names_the_one_above_it(desk: ErrandOffice) -> None:
    first = await desk.give("acme/eng", "one")
    turn = await desk.begin(first)
    agent = desk.agent
    below = replace(agent.caller, folder="acme/eng", session_id=turn.session_id)
    raw = json.dumps({"group": "acme/eng", "text": "deeper"}).encode()
    answer = await agent.dispatch.call(below, "send_to_agent", raw, "call-1")
    second = json.loads(answer.structured or "{}")["errand"]

    assert (await desk.do("errand.show", id=first))["below"] == [second]
    found = await desk.do("errand.show", id=second)
    assert (found["above"], found["depth"], found["thread"]) == ([first], 2, first)


async def test_who_may_read_one_group_reads_no_other(desk: ErrandOffice) -> None:
    await desk.give("acme/eng", "one")
    await desk.do("acl.add", principal="fake:user/7", action="op:errands.read", scope="acme/eng")
    desk.operation_deps = replace(desk.operation_deps, caller="fake:user/7")
    assert len(await desk.do("errand.list", folder="acme/eng")) == 1
    for elsewhere in ({}, {"folder": "acme"}, {"folder": "acme/ops"}):
        with pytest.raises(Refused):
            await desk.do("errand.list", **elsewhere)
