"""Whatever happens in whichever order, a request ends once, runs at most once, and its asker is told once."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.flow.requests.killed_writes import write_or_end
from tests.flow.requests.test_asking_and_deciding import ADA, BOB, CHANNELS, EVE, NOON, new_call, told

from gatepost.core.clock import SECOND
from gatepost.core.errors import Refused
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.choices import list_choices
from gatepost.flow.requests.decide import decide, notify_agent
from gatepost.flow.requests.request_loop import move_due
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import RequestKind, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
STEPS = 60


class Gateway:
    """The machine of requests with a clock in hand. What it keeps in memory is lost with every kill: nothing."""

    def __init__(self, store: SqliteStore, chance: random.Random, session_id: str) -> None:
        self.store, self.chance, self.session_id = store, chance, session_id
        self.now, self.asked = NOON, 0
        self.runs: Counter[str] = Counter()  # effects that were committed, by request

    async def ask(self) -> None:
        self.asked += 1
        name, text = f"call {self.chance.randrange(8)}", f"text {self.chance.randrange(3)}"
        await self._write(
            lambda db: ask(db, CHANNELS, RULES, new_call(self.session_id, name=name, text=text), self.now)
        )

    async def answer(self) -> None:
        """Anybody presses anything, of any request there ever was, also one that was decided long ago."""
        known = await self.store.read(lambda db: [row[0] for row in db.rows("SELECT id FROM requests ORDER BY id")])
        if known:
            request_id, by = self.chance.choice(known), self.chance.choice((ADA, BOB, EVE))
            request = await self.store.read(requests.get, request_id)
            assert request is not None
            choice = self.chance.choice(list_choices(request))
            await self._write(lambda db: decide(db, CHANNELS, request_id, choice, by, self.now))

    async def pass_time(self) -> None:
        self.now += self.chance.choice((1, 30, 61, 300)) * SECOND
        await self._write(lambda db: move_due(db, RULES, CHANNELS, self.now))

    async def run(self) -> None:
        """As `HeldCalls`: the effect settles its request, then the agent is told. Killed in between, or not."""
        waiting = await self.store.read(requests.list_unnotified, (RequestKind.CALL,), 20)
        for request in waiting:
            if request.state is RequestState.ALLOWED and request.settled_at is None:
                if not await self._write(self._effect(request.id)):
                    return  # killed within its transaction
                self.runs[request.id] += 1
                if self.chance.random() < 0.3:
                    return  # killed before the agent was told
            await self._write(lambda db, each=request: notify_agent(db, each, {"result": "done"}, self.now))

    def _effect(self, request_id: str):  # type: ignore[no-untyped-def]
        def effect(db: Db) -> bool:
            if not requests.settle(db, request_id, self.now):
                raise Refused("acme", "send", request_id, "it was done before")
            return True

        return effect

    async def _write(self, fn: Callable[[Db], Any]) -> Any:
        return await write_or_end(self.store, self.chance.random() < 0.2, fn)


def settle_people(db: Db) -> str:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for person, role, folder in ((ADA, UserRole.ADMIN, "acme"), (BOB, UserRole.OWNER, "")):
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
        direct_rooms.add(db, person, "fake", f"{person}/direct", NOON)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/1", "", NOON).id


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_each_request_ends_once_runs_at_most_once_and_is_told_once(store: SqliteStore, seed: int) -> None:
    chance = random.Random(seed)
    gateway = Gateway(store, chance, await store.write(settle_people))
    for _ in range(STEPS):
        await chance.choice(
            (gateway.ask, gateway.ask, gateway.answer, gateway.answer, gateway.pass_time, gateway.run)
        )()
    gateway.now += 10_000 * SECOND
    for _ in range(40):  # until it is quiet
        await gateway.pass_time()
        await gateway.run()

    every = await store.read(lambda db: requests.REQUESTS.list(db, "ORDER BY id"))
    assert every
    assert {each.state for each in every} <= set(RequestState) - {RequestState.PENDING}
    assert all(each.settled_at is not None and each.notified_at is not None for each in every)
    allowed = {each.id for each in every if each.state is RequestState.ALLOWED}
    assert gateway.runs == Counter(dict.fromkeys(allowed, 1))
    said = Counter(str(each["request"]) for each in await store.read(told, gateway.session_id))
    assert said == Counter({each.id: 1 for each in every if each.state is not RequestState.WITHDRAWN})
    assert not await store.read(request_cards.has_open)
    assert all(EVE not in each.answered_by for each in every)
