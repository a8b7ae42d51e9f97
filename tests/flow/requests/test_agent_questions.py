"""A call that asks people: it waits with progress, is one question however often it is made, and is bounded."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.ask_approver import MOST_WAITING
from gatepost.flow.requests.decide import answer_question
from gatepost.gate.dispatch import Dispatch
from gatepost.messages.inbound import Direction
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.sessions import turns
from gatepost.tools.contract import TOOLS
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gate_agent import PLATFORM, ROOM, GateAgent

load_package("gatepost.tools")

CHANNELS = ChannelInstances({PLATFORM: FakeChannel(platform=PLATFORM).kind})
DRINK: dict[str, Any] = {"question": "Which drink?", "options": [{"label": "Tea"}, {"label": "Coffee"}]}


class AskingAgent:
    """An agent in a turn, whose calls wait for a tenth of a second."""

    def __init__(self, agent: GateAgent, config: Config) -> None:
        self.agent, self.steps = agent, list[float]()
        deps = agent.deps
        self.questions = AgentQuestions(deps.store, deps.clock, config, deps.events, CHANNELS)
        self.dispatch = Dispatch(TOOLS, replace(deps, questions=self.questions))
        self._calls = 0

    async def ask(self, *questions: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        given = json.dumps({"questions": list(questions)}).encode()
        told = await self.dispatch.call(
            self.agent.caller, "ask_user_question", given, f"c{self._calls}", lambda done, *_: self.steps.append(done)
        )
        return json.loads(told.text) if not told.failed else {"error": told.text}

    async def answer(self, request_id: str, text: str) -> None:
        now = self.agent.deps.clock.now()
        await self.agent.store.write(lambda db: answer_question(db, CHANNELS, request_id, 0, text, "operator", now))
        self.agent.deps.events.requests()

    async def find_told(self, request_id: str) -> bool:
        def find(db: Db) -> bool:
            key = f"question:{request_id}"
            return messages.find(db, PLATFORM, ROOM, Direction.IN, key, "system") is not None

        return await self.agent.store.read(find)


@pytest.fixture
async def asking(tmp_path: Path, store: SqliteStore) -> AskingAgent:
    return AskingAgent(await GateAgent.create(tmp_path, store), Config({"questions.wait_s": 0.1}))


async def test_a_call_waits_with_progress_and_is_one_question_however_often_it_is_made(asking: AskingAgent) -> None:
    first, again = await asking.ask(DRINK), await asking.ask(DRINK)
    assert first["status"] == again["status"] == "pending" and first["request"] == again["request"]
    assert len(asking.steps) >= 2  # each call said that it waits
    await asking.answer(first["request"], "Tea")
    told = await asking.ask(DRINK)
    assert (told["request"], told["answers"][0]["answer"]) == (first["request"], "Tea")
    await asking.questions.notify_answered()
    assert not await asking.find_told(first["request"])  # it has the answer


async def test_who_was_told_that_it_waits_is_told_the_answer_while_its_turn_goes_on(asking: AskingAgent) -> None:
    told = await asking.ask(DRINK)
    await asking.answer(told["request"], "Tea")
    await asking.questions.notify_answered()
    assert await asking.find_told(told["request"])


@pytest.mark.slow
async def test_who_was_cut_off_is_told_when_its_turn_is_over(asking: AskingAgent) -> None:
    told = await asking.ask(DRINK)
    asking.questions._told_pending.clear()  # as after a restart
    await asking.answer(told["request"], "Tea")
    await asking.questions.notify_answered()
    assert not await asking.find_told(told["request"])
    turn = await asking.agent.store.read(turns.find_open, asking.agent.session.id)
    assert turn is not None
    now = asking.agent.deps.clock.now()
    await asking.agent.store.write(lambda db: turns.cancel(db, turn.id, "it is over", now))
    await asking.questions.notify_answered()
    assert await asking.find_told(told["request"])


@pytest.mark.slow
async def test_an_agent_does_not_flood_a_room_with_questions(tmp_path: Path, store: SqliteStore) -> None:
    asking = AskingAgent(await GateAgent.create(tmp_path, store), Config({"questions.wait_s": 0.0}))
    for number in range(MOST_WAITING):
        assert (await asking.ask({**DRINK, "question": f"{number}?"}))["status"] == "pending"
    refused = await asking.ask({**DRINK, "question": "one more?"})
    assert f"{MOST_WAITING} requests of this conversation wait" in refused["error"]
    assert len(await store.read(waiting_requests.list_pending)) == MOST_WAITING
