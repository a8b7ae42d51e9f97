"""What one gateway asks another to do is done there once, and answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound
from gatepost.core.event_bus import Bell, EventBus
from gatepost.flow.gateways import commands as gateway_commands
from gatepost.flow.gateways.commands import Answer, CommandHost, GatewayCommands
from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.commands import Command, CommandKind
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.port import Db, Store
from gatepost.store.rights.switches import Switch
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.waiting import PATIENCE_S

NOW = 1_800_000_000_000_000


class Desk:
    """A gateway that writes down what it is asked to do."""

    def __init__(self, store: Store, name: str) -> None:
        self.events, self.name = EventBus(), name
        self.commands = GatewayCommands(store, SystemClock(), self.events, name)
        self.done: list[tuple[CommandKind, str, dict[str, object]]] = []
        self.answer: Answer | None = {"stopped": True}
        self.switches: list[Switch | None] = []

    async def execute(self, command: Command) -> Answer | None:
        self.done.append((command.kind, command.session_id, command.arguments))
        return self.answer

    async def follow_switch(self, panic: Switch | None) -> None:
        self.switches.append(panic)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.commands.run(CommandHost(self.execute, self.follow_switch)))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


def connect(*desks: Desk) -> None:
    """What one rings, the others hear."""
    for desk in desks:
        for other in desks:
            if other is not desk:
                desk.events.on_any(lambda bell, *what, other=other: other.events.receive(Bell(bell), *what))


def add_session(db: Db, owner: str) -> str:
    groups.add(db, "home", "home", "", NOW)
    session = sessions.find_or_add(db, SessionMode.SHARED, "home", "fake", "fake:1", "", NOW)
    gateways.claim_session(db, session.id, owner)
    return session.id


def add_gateways(db: Db, *names: str) -> None:
    for name in names:
        new = GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=1)
        gateways.register(db, new, 10, 1, NOW)


def count_commands(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM commands")
    assert row is not None
    return int(row[0])


async def test_the_gateway_that_runs_a_session_does_it_and_answers(store: Store) -> None:
    a, b = Desk(store, "a"), Desk(store, "b")
    connect(a, b)
    session_id = await store.write(add_session, "b")
    async with a.running(), b.running(), asyncio.timeout(PATIENCE_S):
        assert await a.commands.ask(CommandKind.STOP, session_id, by="Ann") == {"stopped": True}
        while await store.read(count_commands):  # noqa: ASYNC110  it is removed in the background
            await asyncio.sleep(0.01)
    assert b.done == [(CommandKind.STOP, session_id, {"by": "Ann"})]
    assert a.done == []


@pytest.mark.slow
async def test_without_a_bell_it_is_found_by_looking(store: Store) -> None:
    a, b = Desk(store, "a"), Desk(store, "b")
    session_id = await store.write(add_session, "b")
    async with a.running(), b.running(), asyncio.timeout(PATIENCE_S):
        assert await a.commands.ask(CommandKind.END, session_id, reason="x") == {"stopped": True}


async def test_a_session_that_sleeps_is_nobody_elses(store: Store) -> None:
    a = Desk(store, "a")
    session_id = await store.write(add_session, "a")
    assert await a.commands.ask(CommandKind.STOP, session_id, by="Ann") is None
    assert await store.read(count_commands) == 0


async def test_what_a_dead_gateway_was_asked_comes_back_and_the_next_owner_is_asked(store: Store) -> None:
    a, c = Desk(store, "a"), Desk(store, "c")
    connect(a, c)
    session_id = await store.write(add_session, "b")  # which does not run
    async with a.running(), c.running(), asyncio.timeout(PATIENCE_S):
        asked = asyncio.create_task(a.commands.ask(CommandKind.STOP, session_id, by="Ann"))
        while not await store.read(commands.has_waiting, "b"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

        def move(db: Db) -> None:
            commands.free_commands(db, "b", NOW)
            gateways.release_sessions(db, "b")
            gateways.claim_session(db, session_id, "c")

        await store.write(move)
        a.events.receive(Bell.COMMANDS, "a")
        assert await asked == {"stopped": True}
    assert c.done == [(CommandKind.STOP, session_id, {"by": "Ann"})]


async def test_a_session_that_nobody_runs_any_more_is_left_to_whoever_asked(store: Store) -> None:
    a, b = Desk(store, "a"), Desk(store, "b")
    connect(a, b)
    session_id = await store.write(add_session, "b")
    b.answer = None

    async def let_go(command: Command) -> Answer | None:
        await store.write(gateways.release_session, session_id, "b")
        return None

    b.execute = let_go  # type: ignore[method-assign]
    async with a.running(), b.running(), asyncio.timeout(PATIENCE_S):
        assert await a.commands.ask(CommandKind.STOP, session_id, by="Ann") is None


async def test_what_is_posted_reaches_its_owner_without_an_answer(store: Store) -> None:
    a, b = Desk(store, "a"), Desk(store, "b")
    connect(a, b)
    session_id = await store.write(add_session, "b")
    async with a.running(), b.running(), asyncio.timeout(PATIENCE_S):
        a.commands.post(CommandKind.RENEW, session_id)
        while not b.done:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert b.done == [(CommandKind.RENEW, session_id, {})]


async def test_all_others_are_asked_and_their_answers_are_collected(store: Store) -> None:
    a, b, c = Desk(store, "a"), Desk(store, "b"), Desk(store, "c")
    connect(a, b, c)
    await store.write(add_gateways, "a", "b", "c")
    b.answer, c.answer = {"ended": 1}, {"ended": 2}
    async with a.running(), b.running(), c.running(), asyncio.timeout(PATIENCE_S):
        answers = await a.commands.collect(await a.commands.add_for_others(CommandKind.OBEY))
    assert sorted(each["ended"] for each in answers) == [1, 2]
    assert a.switches and a.switches[0] is None


async def test_very_many_commands_are_done_without_waiting_for_the_next_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_commands, "LOOK_S", 100 * PATIENCE_S)
    many, b = 2 * gateway_commands.AT_ONCE + 1, Desk(store, "b")
    session_id = await store.write(add_session, "b")

    def add_many(db: Db) -> None:
        for number in range(many):
            commands.add_for_session(db, CommandKind.STOP, session_id, {"by": f"{number}"}, "a", NOW + number)

    await store.write(add_many)
    async with b.running(), asyncio.timeout(PATIENCE_S):
        while len(b.done) < many:  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.01)
    assert sorted(int(str(given["by"])) for _, _, given in b.done) == list(range(many))


async def test_a_command_that_cannot_be_done_leaves_the_others(store: Store) -> None:
    a, b = Desk(store, "a"), Desk(store, "b")
    connect(a, b)
    session_id = await store.write(add_session, "b")
    await store.write(commands.add_for_session, CommandKind.END, session_id, {}, "a", NOW)

    async def execute(command: Command) -> Answer | None:
        if command.kind is CommandKind.END:
            raise NotFound("session", session_id)
        return await b.execute(command)

    task = asyncio.create_task(b.commands.run(CommandHost(execute, b.follow_switch)))
    async with a.running(), asyncio.timeout(PATIENCE_S):
        assert await a.commands.ask(CommandKind.STOP, session_id, by="Ann") == {"stopped": True}
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
