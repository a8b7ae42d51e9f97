"""The end of a turn's time, and what an agent had said by then: nothing of it is lost, unless a person said stop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.records import replace
from gatepost.flow.notices import render_out_of_time
from gatepost.flow.sessions.host.memory_pressure import HostMemory
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.sessions import turns
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, until

ROOM = "fake:room/1"

# Runs inside: commits a text to outbound.db as the runner does, and then spins, so that it is never handed over.
SPEECHLESS = r"""
import gc
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider
from gatepost.inside.turn import RunnerTurn
from gatepost.mailbox.outbound import OutboundDb, OutboundRow


@provider("speechless")
class Speechless:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        if "spin" not in batch.prompt:
            yield TurnResult("here again")
            return
        turn = next(each for each in gc.get_objects() if type(each) is RunnerTurn)
        box = next(each for each in gc.get_objects() if type(each) is OutboundDb)
        row = OutboundRow(turn=turn.id, epoch=turn.epoch, attempt=turn.attempt, part=1, text="as far as I came")
        box.add(row)
        (self.place.agent / "spinning").write_text("")
        while True:
            pass

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""

# Runs inside: works until it is told something, and says what that was.
LISTENER = r"""
import asyncio
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider


@provider("listener")
class Listener:
    takes_pushes = True

    def __init__(self, place):
        self.told = asyncio.Queue()

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        yield TurnResult(await self.told.get())

    async def push(self, batch):
        self.told.put_nowait(batch.prompt.replace("<", "(").replace(">", ")"))

    async def interrupt(self):
        self.told.put_nowait("interrupted")

    async def close(self):
        pass
"""


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def add_provider(home: Path, name: str, source: str) -> None:
    folder = home / "plugins" / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)


@contextmanager
def time_is_up(gateway: Gateway) -> Iterator[None]:
    """For the turn that runs, and not before it has come as far as the test wants."""
    (live,) = gateway.sessions.awake
    before, live.limits = live.limits, replace(live.limits, turn_s=0.0)
    yield
    live.limits = before


@pytest.mark.slow
async def test_an_agent_hears_that_its_time_is_nearly_over_and_can_come_to_a_close(
    tmp_path: Path, channel: FakeChannel
) -> None:
    add_provider(tmp_path / "h", "listener", LISTENER)
    given: dict[str, Any] = {"sessions__provider": "listener", "sessions__turn_s": 30.0, "sessions__wrap_up_s": 29.0}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say("take your time")
        await channel.wait_for(1)
        await wait_until_settled(gateway)

        (said,) = channel.texts()
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert said.startswith('(system event="time")You have about ') and "left for this turn" in said
        assert entry.state == "answered"


@pytest.mark.slow
async def test_at_the_end_of_its_time_what_was_said_is_delivered_and_people_are_told_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ScriptBuilder().turn(when="long").say("so far").wait(100).turn(kind="system").final("").write(
            gateway.home.group("home")
        )
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say("a long one")
        await channel.wait_for(1)
        with time_is_up(gateway):
            await channel.wait_for(2)
        account = await wait_until_settled(gateway)
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        await channel.say("and on")
        await channel.wait_for(3)

        assert channel.texts() == ["so far", render_out_of_time(spoke=True), "echo: and on"]
        assert (entry.state, entry.reason, account.unaccounted) == ("failed", "its time ran out", 0)


@pytest.mark.slow
async def test_what_an_agent_that_cannot_be_interrupted_had_not_handed_over_is_delivered_after_its_end(
    tmp_path: Path, channel: FakeChannel
) -> None:
    add_provider(tmp_path / "h", "speechless", SPEECHLESS)
    given: dict[str, Any] = {"sessions__provider": "speechless"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say("spin")
        await until(lambda: (gateway.home.group("home") / "spinning").exists(), "its words")
        with time_is_up(gateway):
            await channel.wait_for(2)
        account = await wait_until_settled(gateway)
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        turn = await gateway.store.read(turns.get, entry.turn_id or "")

        assert channel.texts() == ["as far as I came", render_out_of_time(spoke=True)]
        assert (entry.state, entry.reason, account.unaccounted) == ("failed", "its time ran out", 0)
        assert turn is not None and (turn.attempt, turn.state) == (1, "failed")


async def test_after_a_stop_it_is_dropped_with_its_turn_and_that_is_written_down(
    tmp_path: Path, channel: FakeChannel
) -> None:
    add_provider(tmp_path / "h", "speechless", SPEECHLESS)
    given: dict[str, Any] = {"sessions__provider": "speechless"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say("spin")
        async with asyncio.timeout(PATIENCE_S):
            while not (gateway.home.group("home") / "spinning").exists():  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.01)
        (live,) = gateway.sessions.awake
        await gateway.sessions.stop(live.session.id, "test")
        await channel.wait_for(1)
        await channel.say("hello")
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert channel.texts() == ["Stopped.", "here again"]
        life = await gateway.store.read(ledger.trace_message, receipt.message_id)
        assert life is not None
        assert [moment.what for moment in life.moments].count("dropped") == 1


@pytest.mark.slow
async def test_with_little_memory_the_one_that_rests_makes_way_and_the_next_waits_for_room(
    tmp_path: Path, channel: FakeChannel
) -> None:
    rooms = [f"fake:room/{number}" for number in (1, 2, 3)]
    free = HostMemory(4096)
    given: dict[str, Any] = {"sandbox__least_free_mb": 512}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        gateway.sessions.limits.read_memory = lambda: free
        ScriptBuilder().turn(when="long").say("at it").wait(100).write(gateway.home.group("home"))
        for room in rooms:
            await open_room(gateway, "fake", room)
        await channel.say("hello", address=rooms[0])
        await channel.say("long", address=rooms[1])
        await channel.wait_for(2)
        async with asyncio.timeout(PATIENCE_S):
            while not any(live.is_idle for live in gateway.sessions.awake):  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.01)
        free = HostMemory(100)
        async with asyncio.timeout(PATIENCE_S):
            while len(gateway.sessions.awake) > 1:  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.01)
        (working,) = gateway.sessions.awake
        await channel.say("hello", address=rooms[2])
        async with asyncio.timeout(PATIENCE_S):
            while not gateway.sessions.waiting:  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.01)

        assert working.session.address == rooms[1]
        assert "100 MB" in gateway.sessions.pressed and gateway.sessions.awake == [working]
        assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0
        free = HostMemory(4096)
        await channel.wait_for(lambda sent: any(each.address == rooms[2] for each in sent))
        assert gateway.sessions.pressed == ""
        assert channel.texts(rooms[2]) == ["echo: hello"]


async def test_a_session_that_has_gone_to_rest_leaves_no_log_beside_its_results(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__idle_s=0.1) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        await channel.say("hello")
        await channel.wait_for(1)
        await until(lambda: not gateway.sessions.awake, "the sandbox to end")
        (results,) = gateway.home.sessions.glob("*/out/outbound.db")
        assert not results.with_name("outbound.db-wal").exists()
