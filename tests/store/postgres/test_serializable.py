"""Storms of four writers at SERIALIZABLE. PostgreSQL refuses what decides by something that another changes: each such
unit has that to itself (`Db.lock`), or is in the list with the reason why it needs not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatepost.core.clock import Period
from gatepost.core.registry import load_package
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.gateways import group_place, session_claims
from gatepost.messages.outbound import Op
from gatepost.store.gateways import gateways
from gatepost.store.gateways.group_places import AwayWorld, WaitingRoom
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.money import budgets, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.reservations import BudgetReservation
from gatepost.store.people import pairing_codes, users
from gatepost.store.port import Db
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.rights import api_tokens
from gatepost.store.rights.api_tokens import NewApiToken
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups, sessions, timeline
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.timeline import TimelineKind
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.serializable import Conflicts, list_unexplained, make_serializable, watch_conflicts

load_package("gatepost.tools")
NOON = 1_800_000_000_000_000
USD = 1_000_000
NAMES = ("a", "b", "c", "d")
ROUNDS = 20
ROOM = ("fake", "fake:room/1")


class Storm:
    """Four stores on one database, as four gateways have it."""

    def __init__(self, stores: list[PostgresStore], conflicts: Conflicts, figures: Callable[[str], None]) -> None:
        self.stores, self.conflicts, self._figures = stores, conflicts, figures

    async def run(self, fn: Callable[..., object], *args: object) -> list[object]:
        """By each of them, again and again; all answers."""
        units = [store.write(fn, *args, durable=False) for _ in range(ROUNDS) for store in self.stores]
        return await asyncio.gather(*units)

    def check(self) -> None:
        self._figures(f"refused at SERIALIZABLE: {dict(self.conflicts)}")
        assert list_unexplained(self.conflicts) == []


@pytest.fixture
async def storm(emptied: EmptyDatabase, figures: Callable[[str], None]) -> AsyncIterator[Storm]:
    with watch_conflicts() as conflicts:
        stores = [PostgresStore(make_serializable(emptied.url), lanes=2, gateway=name) for name in NAMES]
        yield Storm(stores, conflicts, figures)
        for each in stores:
            each.close()


def add_session(db: Db) -> str:
    groups.add(db, "acme", "Acme", "", NOON)
    return sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, "", NOON).id


@pytest.mark.slow
async def test_money(storm: Storm) -> None:
    first = storm.stores[0]
    await first.write(budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, USD, "owner", NOON)
    held = await storm.run(reservations.reserve, "acme", "fake:user/1", "s", "t", "model", 30_000, NOON)
    passed = [each for each in held if isinstance(each, BudgetReservation)]
    assert len(passed) == 33
    calls = (
        storm.stores[number % 4].write(reservations.settle, each.id, 20_000, {}, NOON)
        for number, each in enumerate(passed * 2)
    )
    settled = await asyncio.gather(*calls)
    assert sum(each is not None for each in settled) == 33
    told = [note.percent for each in (*held, *settled) for note in getattr(each, "notes", ())]
    assert len(told) == len(set(told))
    storm.check()


async def test_the_timeline_of_a_session(storm: Storm) -> None:
    session_id = await storm.stores[0].write(add_session)
    numbers = await storm.run(timeline.add, session_id, "", TimelineKind.STATUS, {}, NOON)
    assert sorted(map(str, numbers)) == sorted(str(each) for each in range(1, ROUNDS * 4 + 1))
    storm.check()


async def test_claims_of_sessions_and_duties(storm: Storm) -> None:
    session_id = await storm.stores[0].write(add_session)
    duties = [f"duty {number}" for number in range(5)]
    work = [
        store.write(session_claims._claim, session_id, "acme", True, name, NOON)
        for _ in range(ROUNDS)
        for name, store in zip(NAMES, storm.stores, strict=True)
    ]
    claimed = await asyncio.gather(*work)
    assert {NAMES[number % 4] for number, won in enumerate(claimed) if won} == {NAMES[claimed.index(True) % 4]}
    held = await asyncio.gather(
        *(
            store.write(gateways.claim_duties, duties, name, NOON)
            for name, store in zip(NAMES, storm.stores, strict=True)
        )
    )
    assert sorted(each for some in held for each in some) == duties
    storm.check()


@pytest.mark.slow
async def test_the_outbox_and_notices_that_are_said_once(storm: Storm) -> None:
    new = NewEffect(
        key="k",
        op=Op.SEND,
        origin=EffectOrigin.NOTICE,
        instance=ROOM[0],
        address=ROOM[1],
        text="hi",
        payload={"text": "hi"},
    )
    assert (
        len({each.id for each in await storm.run(outbox.add, new, NOON) if isinstance(each, outbox.OutboxEffect)}) == 1
    )
    rooms = [WaitingRoom("fake", f"fake:room/{number}", "") for number in range(3)]
    told = await storm.run(group_place.add_notices, ChannelInstances({}), AwayWorld("acme", "z", 1), rooms, NOON)
    assert [room for each in told if isinstance(each, list) for room in each] == rooms
    storm.check()


@pytest.mark.slow
async def test_quotas(storm: Storm) -> None:
    new = NewApiToken(label="x", maker="ada", scopes=(), expires_at=None)
    before = api_tokens.MOST - 5

    def fill(db: Db) -> None:
        for number in range(before):
            api_tokens.add(db, new, f"old {number}", NOON)

    await storm.stores[0].write(fill)
    await storm.stores[0].write(users.add, "ada", "Ada", NOON)

    def add(db: Db, name: str, number: int) -> bool:
        return api_tokens.add(db, new, f"{name} {number}", NOON) is not None

    work = [
        store.write(add, name, number)
        for number in range(ROUNDS)
        for name, store in zip(NAMES, storm.stores, strict=True)
    ]
    assert sum(await asyncio.gather(*work)) == 5
    codes = await storm.run(pairing_codes.issue, "ada", "owner", NOON)
    assert sum(map(bool, codes)) == pairing_codes.MOST_OPEN
    storm.check()


async def test_routes_as_a_whole(storm: Storm, tmp_path: Path) -> None:
    agents = [
        await GateAgent.create(tmp_path / name, store, f"acme/{name}", turn=False)
        for name, store in zip(NAMES, storm.stores, strict=True)
    ]
    for agent in agents:
        agent.caller = agents[0].caller.__class__("acme", agent.session.id, "scripted")

    async def replace(number: int, agent: GateAgent) -> None:
        wanted = [{"match": f"room={number}/{each}", "target": "acme/a", "seq": each} for each in range(3)]
        answer = await agent.call("set_routes", routes=wanted)
        assert not answer.failed, answer.text

    work = [replace(number * 4 + place, agent) for number in range(3) for place, agent in enumerate(agents)]
    await asyncio.gather(*work)
    left = await storm.stores[0].read(routes.list_all)
    assert len({each.match.partition("/")[0] for each in left}) == 1 and len(left) == 3
    storm.check()
