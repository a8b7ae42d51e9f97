"""The panic switch: everything ends, nothing starts, nothing is lost, and it holds over restarts."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow import notices
from gatepost.flow.notices import PANIC
from gatepost.flow.sessions.trial import TrialRequest, run_trial
from gatepost.messages.outbound import Op
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.messages import inbox, message_steps, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit, switches
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

from .conftest import make_room

OWNER, ROOMS = "fake:user/1", ("fake:room/1", "fake:room/2")


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
async def gateway(tmp_path: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        script = ScriptBuilder().turn(when="hang").say("so far").hang()
        script.write(gateway.home.group("home"))
        for room in ROOMS:
            await open_room(gateway, "fake", room)
        yield gateway


def office_of(gateway: Gateway) -> OperationDeps:
    return OperationDeps(
        home=gateway.home,
        store=gateway.store,
        clock=gateway.clock,
        config=gateway.config,
        events=EventBus(),
        stop_session=gateway.sessions.stop,
        apply_switches=gateway.directory.apply_switches,
        halt=gateway.directory.halt,
    )


@pytest.mark.slow
async def test_everything_ends_what_comes_is_kept_and_is_worked_on_in_order_afterwards(
    gateway: Gateway, channel: FakeChannel
) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    on = await OPERATIONS["panic.on"](office_of(gateway), {"reason": "it writes to everybody"})
    async with asyncio.timeout(PATIENCE_S):
        while gateway.sessions.awake:  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.01)
    kept = [await channel.say(f"say {number}", address=room) for room in ROOMS for number in (1, 2)]
    await channel.wait_for(3)
    account = await gateway.store.read(ledger.check, gateway.clock.now())

    assert (on["changed"], on["ended"], on["reason"]) == (True, 1, "it writes to everybody")
    assert channel.texts(ROOMS[0]) == ["so far", PANIC] and channel.texts(ROOMS[1]) == [PANIC]
    assert [receipt.state for receipt in kept] == ["queued"] * 4
    assert account.unaccounted == 0
    assert gateway.sessions.awake == []

    await OPERATIONS["panic.off"](office_of(gateway), {})
    await channel.wait_for(7)
    account = await wait_until_settled(gateway)

    assert channel.texts(ROOMS[0])[2:] == ["echo: say 1", "echo: say 2"]
    assert channel.texts(ROOMS[1])[1:] == ["echo: say 1", "echo: say 2"]
    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert (entry.state, account.unaccounted) == ("cancelled", 0)
    actions = [row[3] for row in await gateway.store.read(audit.list_latest, 20)]
    assert [each for each in actions if each.startswith("panic")] == ["panic.off", "panic.on"]


@pytest.mark.slow
async def test_what_agents_have_queued_is_said_afterwards_and_notices_at_once(
    gateway: Gateway, channel: FakeChannel
) -> None:
    """As if a platform was slow while an agent wrote to everybody."""
    await OPERATIONS["panic.on"](office_of(gateway), {"reason": "it writes to everybody"})
    for number, origin in enumerate((EffectOrigin.RESULT, EffectOrigin.TOOL, EffectOrigin.NOTICE)):
        words = f"{number} {origin}"
        new = NewEffect(
            key=words,
            op=Op.SEND,
            origin=origin,
            instance="fake",
            address=ROOMS[0],
            text=words,
            payload={"text": words},
        )
        await gateway.store.write(outbox.add, new, gateway.clock.now())
    gateway.events.room("fake", ROOMS[0])
    await channel.wait_for(1)
    assert channel.texts(ROOMS[0]) == ["2 notice"]
    await OPERATIONS["panic.off"](office_of(gateway), {})
    gateway.events.room("fake", ROOMS[0])
    await channel.wait_for(3)
    assert channel.texts(ROOMS[0]) == ["2 notice", "0 result", "1 tool"]


@pytest.mark.slow
async def test_it_holds_over_a_restart_and_a_long_one_leaves_nothing_unaccounted(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = FixedClock()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await open_room(gateway, "fake", ROOMS[0])
        await OPERATIONS["panic.on"](office_of(gateway), {})
        await channel.say("hello")
        await channel.wait_for(1)
    later = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (later.kind, later)}, clock=clock) as gateway:
        for _ in range(3):
            clock.advance(600)
            async with asyncio.timeout(PATIENCE_S):
                while (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        assert gateway.sessions.awake == [] and later.texts() == []
        await OPERATIONS["panic.off"](office_of(gateway), {})
        await later.wait_for(1)
        assert later.texts() == ["echo: hello"]
        assert await gateway.store.read(switches.get, switches.PANIC) is None


async def test_a_trial_of_an_agent_is_not_run_either(gateway: Gateway) -> None:
    await OPERATIONS["panic.on"](office_of(gateway), {})
    outcome = await run_trial(gateway.sessions, TrialRequest(id="try-1", folder="home", provider="demo"))
    account = await gateway.store.read(ledger.check, gateway.clock.now())

    assert outcome.trouble == "stopped"
    assert (account.unaccounted, account.in_flight) == (0, 0)


async def fill(gateway: Gateway, message_id: int) -> None:
    """No row fits any more, as on a full disk."""

    def more(db: Db) -> None:
        message_steps.add(db, message_id, None, gateway.clock.now(), "fill", "")

    def record(db: Db) -> None:
        audit.append(db, audit.AuditRecord(gateway.clock.now(), "test", "fill", "done", {}))

    await gateway.store.write(lambda db: db.rows("PRAGMA max_page_count = 1"))
    for write in (more, record):
        with pytest.raises(Unavailable, match="full"):
            for _ in range(5000):
                await gateway.store.write(write, durable=False)


@pytest.mark.slow
async def test_a_full_disk_keeps_nothing_alive_and_the_switch_is_written_once_there_is_room(
    gateway: Gateway, channel: FakeChannel
) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    await fill(gateway, running.message_id)
    on = await OPERATIONS["panic.on"](office_of(gateway), {"reason": "now"})

    assert (on["on"], on["ended"], on["durable"]) == (True, 1, False) and "full" in on["why"]
    assert "not written down" in gateway.sessions.held_back
    assert gateway.sessions.halted and await gateway.store.read(switches.get, switches.PANIC) is None
    await make_room(gateway)
    async with asyncio.timeout(PATIENCE_S):
        while await gateway.store.read(switches.get, switches.PANIC) is None:  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.05)
    await channel.wait_for(2)
    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert channel.texts(ROOMS[0]) == ["so far", PANIC] and entry.state == "cancelled"


@pytest.mark.slow
async def test_a_panic_that_was_not_written_can_be_turned_off(gateway: Gateway, channel: FakeChannel) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    await fill(gateway, running.message_id)
    assert not (await OPERATIONS["panic.on"](office_of(gateway), {"reason": "now"}))["durable"]
    await make_room(gateway)
    await OPERATIONS["panic.off"](office_of(gateway), {})

    assert not gateway.sessions.halted
    await channel.say("say 1", address=ROOMS[1])
    await channel.wait_for(lambda sent: any(each.message.text == "echo: say 1" for each in sent))


@pytest.mark.slow
async def test_a_turn_that_was_stopped_on_a_full_disk_is_not_continued_by_itself(
    gateway: Gateway, channel: FakeChannel
) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    await fill(gateway, running.message_id)
    (live,) = gateway.sessions.awake
    assert await gateway.sessions.stop(live.session.id, "the operator")
    await live.gone.wait()
    await make_room(gateway)
    await channel.wait_for(2)
    await wait_until_settled(gateway)

    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert (entry.state, entry.reason) == ("cancelled", "stopped by the operator")
    assert channel.texts(ROOMS[0]) == ["so far", notices.STOPPED]


@asynccontextmanager
async def stuck(gateway: Gateway) -> AsyncIterator[None]:
    """The writer is at a unit that does not end."""
    held, let_go = threading.Event(), threading.Event()

    def hold(db: Db) -> None:
        held.set()
        assert let_go.wait(60)

    holding = asyncio.create_task(gateway.store.write(hold))
    await asyncio.to_thread(held.wait, 60)
    try:
        yield
    finally:
        let_go.set()
        await asyncio.gather(holding, return_exceptions=True)


@pytest.mark.slow
async def test_stranger_01_a_panic_ends_everything_while_the_writer_is_stuck(
    gateway: Gateway, channel: FakeChannel
) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    async with stuck(gateway):
        (live,) = gateway.sessions.awake
        on = await OPERATIONS["panic.on"](office_of(gateway), {"reason": "now"})
        assert (on["on"], on["ended"], on["durable"]) == (True, 1, False) and "does not answer" in on["why"]
        assert live.gone.is_set() and gateway.sessions.halted
    async with asyncio.timeout(PATIENCE_S):
        while await gateway.store.read(switches.get, switches.PANIC) is None:  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.05)
    await channel.wait_for(2)
    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert channel.texts(ROOMS[0]) == ["so far", PANIC] and entry.state == "cancelled"
    actions = [row[3] for row in await gateway.store.read(audit.list_latest, 20)]
    assert actions.count("panic.on") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["session.stop", "session.stop_all"])
async def test_stranger_01_a_stop_of_the_operator_ends_a_turn_while_the_writer_is_stuck(
    gateway: Gateway, channel: FakeChannel, name: str
) -> None:
    running = await channel.say("hang")
    await channel.wait_for(1)
    async with stuck(gateway):
        (live,) = gateway.sessions.awake
        args = {"id": live.session.id} if name == "session.stop" else {}
        answer = await OPERATIONS[name](office_of(gateway), args)
        assert (answer if isinstance(answer, dict) else answer[0]) == {"id": live.session.id, "stopped": True}
        await live.gone.wait()
    await channel.wait_for(2)
    await wait_until_settled(gateway)
    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert (entry.state, entry.reason) == ("cancelled", "stopped by the operator")
    assert channel.texts(ROOMS[0]) == ["so far", notices.STOPPED]


@pytest.mark.slow
async def test_stranger_01_a_stop_by_message_ends_a_turn_while_the_writer_is_stuck(
    gateway: Gateway, channel: FakeChannel
) -> None:
    def welcome(db: Db) -> None:
        users.add(db, OWNER, "owner", 1)
        users.add_role(db, OWNER, UserRole.OWNER, "", "test", 1)

    await gateway.store.write(welcome)
    running = await channel.say("hang")
    await channel.wait_for(1)
    async with stuck(gateway):
        (live,) = gateway.sessions.awake
        stopping = asyncio.create_task(channel.say("/stop", sender=OWNER))
        await live.gone.wait()
    receipt = await stopping
    assert receipt.state == "answered"
    await channel.wait_for(2)
    await wait_until_settled(gateway)
    (entry,) = await gateway.store.read(inbox.list_for_message, running.message_id)
    assert entry.state == "cancelled" and channel.texts(ROOMS[0]) == ["so far", notices.STOPPED]
