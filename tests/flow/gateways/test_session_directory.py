"""Sessions wherever they run: what is asked goes to the gateway that runs one, and is done here if nobody else does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow.gateways.commands import Answer, GatewayCommands, Pending
from gatepost.flow.gateways.session_directory import SessionDirectory
from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.commands import Command, CommandKind
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gateway import running_gateway

NOON = 1_800_000_000_000_000
HERE, THERE = "here", "there"


class RecordedCommands(GatewayCommands):
    """Commands that are answered as the test says, without another gateway."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.store, SystemClock(), EventBus(), HERE)
        self.answer: Answer | None = None
        self.fails = False
        self.asked: list[tuple[CommandKind, str, dict[str, Any]]] = []

    async def ask(self, kind: CommandKind, session_id: str, **arguments: Any) -> Answer | None:
        if self.fails:
            raise Unavailable("the gateways", "nobody answers")
        self.asked.append((kind, session_id, arguments))
        return self.answer

    async def collect(self, pending: list[Pending]) -> list[Answer]:
        return [{"ended": 2}, {}] if pending else []

    def post(self, kind: CommandKind, session_id: str) -> None:
        self.asked.append((kind, session_id, {}))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "h", sessions__most_awake=0) as running:
        yield running


@pytest.fixture
def others(gateway: Gateway) -> RecordedCommands:
    return RecordedCommands(gateway)


def add_session(db: Db, owner: str = "") -> str:
    for name in (HERE, THERE):
        new = GatewayIdentity(name=name, home=f"/{name}", host="h", version="1", schema_number=1)
        gateways.register(db, new, 10, 1, NOON)
    groups.add(db, "acme", "Acme", "scripted", NOON)
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", NOON)
    inbox.enqueue(db, add_arrival(db, NOON), session.id, "acme", "member", NOON)
    if owner:
        gateways.claim_session(db, session.id, owner)
    return session.id


async def count_waiting(gateway: Gateway, session_id: str) -> int:
    return await gateway.store.read(inbox.count_waiting, session_id)


async def test_a_gateway_by_itself_does_it_here(gateway: Gateway) -> None:
    session_id = await gateway.store.write(add_session)
    assert await SessionDirectory(gateway.sessions).stop(session_id, "Ann")
    assert await count_waiting(gateway, session_id) == 0


@pytest.mark.parametrize("stopped", [True, False])
async def test_what_another_runs_is_stopped_there(gateway: Gateway, others: RecordedCommands, stopped: bool) -> None:
    session_id = await gateway.store.write(add_session, THERE)
    others.answer = {"stopped": stopped}
    assert await SessionDirectory(gateway.sessions, others).stop(session_id, "Ann") is stopped
    assert others.asked == [(CommandKind.STOP, session_id, {"by": "Ann"})]
    assert await count_waiting(gateway, session_id) == 1  # the other one writes it down


@pytest.mark.parametrize("fails", [True, False])
async def test_a_stop_that_nobody_else_answers_is_written_down_from_here(
    gateway: Gateway, others: RecordedCommands, fails: bool
) -> None:
    session_id = await gateway.store.write(add_session, THERE)
    others.fails = fails
    assert await SessionDirectory(gateway.sessions, others).stop(session_id, "Ann")
    assert await count_waiting(gateway, session_id) == 0


async def test_an_end_is_asked_for_where_it_runs(gateway: Gateway, others: RecordedCommands) -> None:
    session_id = await gateway.store.write(add_session, THERE)
    others.answer = {}
    directory = SessionDirectory(gateway.sessions, others)
    await directory.end(session_id, "it was changed")
    directory.renew(session_id)
    assert others.asked == [
        (CommandKind.END, session_id, {"reason": "it was changed"}),
        (CommandKind.RENEW, session_id, {}),
    ]


def make_command(kind: CommandKind, session_id: str = "", **arguments: Any) -> Command:
    fields = dict.fromkeys(Command.__struct_fields__, "")
    given: dict[str, Any] = {**fields, "kind": kind, "session_id": session_id, "arguments": arguments}
    return Command(**given)


async def test_what_another_asks_is_done_here_unless_a_third_runs_it(
    gateway: Gateway, others: RecordedCommands
) -> None:
    session_id = await gateway.store.write(add_session, THERE)
    host = SessionDirectory(gateway.sessions, others).make_host()
    stop = make_command(CommandKind.STOP, session_id, by="Ann")
    assert await host.execute(stop) is None and await count_waiting(gateway, session_id) == 1
    await gateway.store.write(gateways.release_sessions, THERE)
    assert await host.execute(stop) == {"stopped": True} and await count_waiting(gateway, session_id) == 0


async def test_an_operation_and_a_forgotten_person_go_to_those_who_know_how(
    gateway: Gateway, others: RecordedCommands
) -> None:
    directory = SessionDirectory(gateway.sessions, others)
    host = directory.make_host()
    assert await host.execute(make_command(CommandKind.OPERATE, name="x")) is None
    assert await host.execute(make_command(CommandKind.FORGET, id="fake:user/1")) is None

    async def operate(given: Answer) -> Answer:
        return {"did": given["name"]}

    async def forget(person: str) -> Answer:
        return {"forgot": person}

    directory.operate, directory.forget = operate, forget
    assert await host.execute(make_command(CommandKind.OPERATE, name="x")) == {"did": "x"}
    assert await host.execute(make_command(CommandKind.FORGET, id="fake:user/1")) == {"forgot": "fake:user/1"}


async def test_the_switches_are_followed_here_and_asked_of_all_others(
    gateway: Gateway, others: RecordedCommands
) -> None:
    await gateway.store.write(add_session)
    followed: list[int] = []
    directory = SessionDirectory(gateway.sessions, others, lambda: followed.append(1))
    await gateway.store.write(switches.turn_on, switches.PANIC, "Ann", "", NOON)
    assert await directory.apply_switches() == 2
    assert gateway.sessions.halted and followed == [1]
    waiting = await gateway.store.write(commands.claim_waiting, THERE, 10)
    assert [each.kind for each in waiting] == [CommandKind.OBEY]


async def test_a_panic_that_no_command_told_of_is_followed_once_it_is_seen(
    gateway: Gateway, others: RecordedCommands
) -> None:
    followed: list[int] = []
    host = SessionDirectory(gateway.sessions, others, lambda: followed.append(1)).make_host()
    await host.follow_switch(None)
    assert followed == []
    await gateway.store.write(switches.turn_on, switches.PANIC, "Ann", "", NOON)
    panic = await gateway.store.read(switches.get, switches.PANIC)
    await host.follow_switch(panic)
    assert gateway.sessions.halted and followed == [1]
    await host.follow_switch(panic)
    assert followed == [1]
