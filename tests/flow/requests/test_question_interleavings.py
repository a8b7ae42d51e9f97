"""Questions of tools in whichever order: asked, answered, refused, late, over in time, killed within any transaction.
Each ends once, its first answers count, and its agent is told once: by the call that waits, or by a message."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.flow.requests.killed_writes import write_or_end
from tests.flow.requests.test_asking_and_deciding import ADA, BOB, CHANNELS, EVE, NOON, told
from tests.flow.requests.test_interleavings import RULES, STEPS, settle_people

from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.ask_approver import ask
from gatepost.flow.requests.choices import DENY
from gatepost.flow.requests.decide import answer_question, decide
from gatepost.flow.requests.questions import get_answers
from gatepost.flow.requests.request_loop import move_due
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.clock import FixedClock

ROOM = "fake:room/1"
DRINK = {"question": "Which drink?", "header": "Drink", "options": [{"label": "Tea"}, {"label": "Coffee"}]}
NAME = {"question": "What is your name?", "header": "Name", "options": []}


def new_question(session_id: str, name: str, count: int) -> NewRequest:
    return NewRequest(
        kind=RequestKind.QUESTION,
        asker=RequestAsker.AGENT,
        name=name,
        folder="acme",
        session_id=session_id,
        turn_id="t",
        tool="ask_user_question",
        input={"questions": [DRINK, NAME][:count]},
        digest=f"{name} {count}",
        instance="fake",
        address=ROOM,
        rights="member",
    )


class AskingAgent:
    """An agent that asks, people who answer, and a gateway that may end within each transaction."""

    def __init__(self, store: SqliteStore, chance: random.Random, session_id: str) -> None:
        self.store, self.chance, self.session_id, self.clock = store, chance, session_id, FixedClock(NOON)
        self.first: dict[tuple[str, str], str] = {}  # by request and question: the answer that was taken
        self.by_call: Counter[str] = Counter()  # answers that a waiting call returned

    async def ask(self) -> None:
        new = new_question(self.session_id, f"question {self.chance.randrange(8)}", self.chance.choice((1, 2)))
        await self._write(lambda db: ask(db, CHANNELS, RULES, new, self.clock.now()))

    async def answer(self) -> None:
        """Anybody answers any question there ever was."""
        known = await self.store.read(lambda db: requests.REQUESTS.list(db, "ORDER BY id"))
        if not known:
            return
        request, part, by = self.chance.choice(known), self.chance.randrange(2), self.chance.choice((ADA, BOB, EVE))
        text, now = f"answer {self.chance.randrange(100)}", self.clock.now()
        if self.chance.random() < 0.15:
            await self._write(lambda db: decide(db, CHANNELS, request.id, DENY, by, now))
            return
        given = await self._write(
            lambda db: answer_question(db, CHANNELS, request.id, part, text, by, now, ("fake", ROOM))
        )
        if given is not None and (given.decided or given.kept):
            key = ("Drink", "Name")[part]
            assert (request.id, key) not in self.first and by != EVE
            self.first[request.id, key] = text

    async def pass_time(self) -> None:
        self.clock.advance(self.chance.choice((1, 30, 61, 300)))
        await self._write(lambda db: move_due(db, RULES, CHANNELS, self.clock.now()))

    async def return_answer(self) -> None:
        """The call that waits has the answer, and says so in the transaction after which it returns."""

        def record(db: Db) -> list[str]:
            over = requests.list_unnotified(db, (RequestKind.QUESTION,), 1)
            return [each.id for each in over if requests.record_notified(db, each.id, self.clock.now())]

        self.by_call.update(await self._write(record) or ())

    async def notify(self) -> None:
        """After a start: nothing is remembered of calls that waited."""
        questions = AgentQuestions(self.store, self.clock, Config(), EventBus(), CHANNELS)
        await questions.notify_answered()

    async def _write(self, fn: Callable[[Db], Any]) -> Any:
        return await write_or_end(self.store, self.chance.random() < 0.2, fn)


def check_answers(agent: AskingAgent, request: Request) -> None:
    """The answers that were taken first, and a yes only with all of them."""
    taken = {key: text for (each, key), text in agent.first.items() if each == request.id}
    if request.state is RequestState.ALLOWED:
        assert get_answers(request) == taken and len(taken) == len(request.input["questions"])
    else:
        assert len(taken) < len(request.input["questions"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_each_question_ends_once_with_its_first_answers_and_is_told_once(store: SqliteStore, seed: int) -> None:
    chance = random.Random(seed)
    agent = AskingAgent(store, chance, await store.write(settle_people))
    await store.write(rooms.add, "fake", ROOM, "the room", False, RoomPolicy.STRICT, NOON)
    steps = (agent.ask, agent.ask, agent.answer, agent.answer, agent.answer, agent.pass_time)
    for _ in range(2 * STEPS):
        await chance.choice((*steps, agent.return_answer, agent.notify))()
    agent.clock.advance(10_000)
    for _ in range(40):  # until it is quiet
        await agent.pass_time()
        await agent.notify()

    every = await store.read(lambda db: requests.REQUESTS.list(db, "ORDER BY id"))
    assert RequestState.ALLOWED in {each.state for each in every}
    assert all(each.state is not RequestState.PENDING and each.notified_at is not None for each in every)
    for each in every:
        check_answers(agent, each)
    by_message = Counter(str(each["request"]) for each in await store.read(told, agent.session_id))
    assert by_message + agent.by_call == Counter(
        {each.id: 1 for each in every if each.state is not RequestState.WITHDRAWN}
    )
    assert not await store.read(request_cards.has_open)
    assert all(EVE not in each.answered_by for each in every)
