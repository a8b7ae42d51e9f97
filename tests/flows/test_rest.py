"""An agent at rest: it ends what it is at, begins nothing, loses nothing, and it holds over restarts."""

import asyncio
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.event_bus import EventBus
from gatepost.flow.notices import REST
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.rights import switches
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S

ROOM, OTHER = "fake:room/1", "fake:room/2"

pytestmark = pytest.mark.slow


def make_deps(gateway: Gateway, events: EventBus | None = None) -> OperationDeps:
    return OperationDeps(
        home=gateway.home,
        store=gateway.store,
        clock=gateway.clock,
        config=gateway.config,
        events=events or gateway.events,
        stop_session=gateway.sessions.stop,
    )


async def wait_until_asleep(gateway: Gateway) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while gateway.sessions.awake:  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.01)


async def test_what_is_said_to_an_agent_at_rest_waits_is_told_once_and_is_answered_in_order(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello", address=ROOM)
        await channel.wait_for(1)
        done = await OPERATIONS["group.rest"](make_deps(gateway), {"folder": "home", "reason": "winter"})
        assert done["changed"] and done["rest"]["reason"] == "winter"
        await wait_until_asleep(gateway)
        kept = [await channel.say(f"say {number}", address=ROOM) for number in (1, 2)]
        await channel.wait_for(2)
        again = await OPERATIONS["group.rest"](make_deps(gateway), {"folder": "home"})
        assert not again["changed"] and again["rest"]["reason"] == "winter"
        assert channel.texts(ROOM) == ["echo: hello", REST]
        assert [receipt.state for receipt in kept] == ["queued"] * 2
        assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0

        woken = await OPERATIONS["group.wake"](make_deps(gateway), {"folder": "home"})
        assert woken["changed"] and woken["rest"] is None
        await channel.wait_for(4)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM)[2:] == ["echo: say 1", "echo: say 2"]


async def test_it_holds_over_a_restart_and_for_the_groups_below_alone(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        for folder in ("home/sleepy", "other"):
            await OPERATIONS["group.add"](make_deps(gateway), {"folder": folder})
        await OPERATIONS["group.rest"](make_deps(gateway), {"folder": "home"})
        await channel.say("say it", address=ROOM)
        await channel.wait_for(1)
        below = await OPERATIONS["group.show"](make_deps(gateway), {"folder": "home/sleepy"})
        beside = await OPERATIONS["group.show"](make_deps(gateway), {"folder": "other"})
        assert below["rest"]["folder"] == "home" and beside["rest"] is None
    later = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (later.kind, later)}) as gateway:
        (waiting,) = await gateway.store.read(lambda db: db.rows(f"SELECT state FROM inbox WHERE {inbox.OPEN}"))
        assert waiting == ("queued",) and gateway.sessions.awake == [] and later.texts() == []
        await OPERATIONS["group.wake"](make_deps(gateway), {"folder": "home"})
        await later.wait_for(1)
        assert later.texts(ROOM) == ["echo: say it"]


async def test_a_group_that_is_made_again_is_not_at_rest(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await OPERATIONS["group.add"](make_deps(gateway), {"folder": "owls"})
        await OPERATIONS["group.rest"](make_deps(gateway), {"folder": "owls"})
        await gateway.store.write(groups.remove, "owls")
        assert await gateway.store.read(switches.list_resting) == []
