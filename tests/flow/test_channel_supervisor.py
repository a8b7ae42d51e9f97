"""Channels of one among several gateways: hooks are taken by each of them, connections are held by one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from gatepost.channels.contract import (
    CHANNELS,
    Channel,
    ChannelConnection,
    MemoryCursor,
    SpecOrigin,
    SupportsLookup,
)
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Refused, Unavailable
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.channel_specs import ChannelSpec
from gatepost.flow.channel_supervisor import ChannelSupervisor, ChannelSurroundings
from gatepost.flow.gateways.duties import Duties, channel_duty
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Outbound
from gatepost.store.port import Store
from gatepost.store.rights.secrets import SecretReader
from gatepost_testing.emulation import list_emulators, make_platform
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.hooked import HookedPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, make_channel, serve_hooks
from gatepost_testing.storms.poller import PolledPlatform
from gatepost_testing.waiting import until

pytestmark = pytest.mark.sqlite

load_package("gatepost.channels")
HOOKED = [kind for kind in list_emulators() if make_platform(kind).calls_hooks]


class HookGateway(Struct):
    """One of those that share a store."""

    channel: Channel
    duties: Duties
    received: ReceivedEvents


class HookGateways:
    """On one platform. What they share is what their channels save."""

    def __init__(self, platform: EmulatedPlatform, store: Store, folder: Path, **settings: Any) -> None:
        self._platform, self._settings, self._cursor = platform, settings, MemoryCursor()
        home = Home(folder)
        self._deps = ChannelSurroundings(
            home=home,
            config=Config(),
            store=store,
            clock=SystemClock(),
            secrets=SecretReader(store, Keyring(home)),
        )

    @asynccontextmanager
    async def running(self, *held: str, may_act: FenceCheck = always) -> AsyncIterator[HookGateway]:
        name = self._platform.kind
        channel, deps = make_channel(self._platform, cursor=self._cursor, **self._settings)
        spec = ChannelSpec(instance=name, kind=CHANNELS[name], origin=SpecOrigin.GIVEN)
        made = HookGateway(channel, Duties(shared=True), ReceivedEvents())
        made.duties.set_held(held)
        supervisor = ChannelSupervisor(self._deps, {}, {})
        supervisor.add_made(name, spec.make_kind(deps.config), channel, SpecOrigin.GIVEN)
        supervisor.follow_duties(made.duties)
        supervisor.may_act = may_act

        async def receive(instance: str, inbound: Inbound) -> Receipt:
            return await made.received.receive(inbound)

        task = asyncio.create_task(supervisor.run(receive))
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await supervisor.close()


@asynccontextmanager
async def two_gateways(
    kind: str, store: Store, folder: Path
) -> AsyncIterator[tuple[HookedPlatform, HookGateway, HookGateway]]:
    """The first sends; the second gets all hooks."""
    async with AsyncExitStack() as stack:
        platform = make_platform(kind)
        assert isinstance(platform, HookedPlatform)
        await asyncio.to_thread(platform.start)
        stack.push_async_callback(asyncio.to_thread, platform.stop)
        gateways = HookGateways(platform, store, folder)
        sends = await stack.enter_async_context(gateways.running(channel_duty(kind)))
        hears = await stack.enter_async_context(gateways.running())
        platform.hook_url = await stack.enter_async_context(serve_hooks(hears.channel))
        yield platform, sends, hears


def find_room(platform: EmulatedPlatform) -> str:
    return "team" if platform.has_groups else "direct:ann"


@pytest.mark.parametrize("kind", HOOKED)
async def test_a_hook_is_taken_by_a_gateway_that_does_not_send_there_and_the_other_can_answer(
    kind: str, store: Store, tmp_path: Path
) -> None:
    async with two_gateways(kind, store, tmp_path) as (platform, sends, hears):
        room = find_room(platform)
        platform.send("hello", room=room)
        await hears.received.wait_for(lambda events: any("hello" in each.text for each in events))
        await sends.channel.send(platform.get_address(room), Outbound(key="k", text="hello back"))
        assert [text for text in platform.texts(room) if "hello back" in text] != []


async def test_whoever_sends_finds_a_report_that_came_to_another_gateway(store: Store, tmp_path: Path) -> None:
    async with two_gateways("whatsapp", store, tmp_path) as (platform, sends, _):
        ann = platform.get_address("direct:ann")
        assert isinstance(sends.channel, SupportsLookup)
        assert await sends.channel.look_up(ann, "never sent") is None
        await sends.channel.send(ann, Outbound(key="before", text="before"))
        await platform.until(lambda: 200 in platform.deliveries)  # both have looked into what they share
        platform.deliveries.clear()
        platform.fault(PlatformFault.NO_ANSWER)
        with pytest.raises(Unavailable):
            await sends.channel.send(ann, Outbound(key="k", text="once"))
        await platform.until(lambda: 200 in platform.deliveries)
        assert await sends.channel.look_up(ann, "k") == platform.list_shown()[1].id


async def test_whoever_sends_in_teams_learns_a_service_address_that_came_to_another_gateway(
    store: Store, tmp_path: Path
) -> None:
    async with two_gateways("teams", store, tmp_path) as (platform, sends, hears):
        team = platform.get_address("team")
        with pytest.raises(Refused, match="nobody has written"):
            await sends.channel.send(team, Outbound(key="early", text="too early"))
        platform.send("hello")
        await hears.received.wait_for(1)
        await sends.channel.send(team, Outbound(key="k", text="hello back"))
        assert platform.texts("team") == ["hello back"]


def test_what_comes_by_hooks_may_come_to_each_gateway_and_everything_else_to_one() -> None:
    for kind in list_emulators():
        if kind in CHANNELS:
            expected = ChannelConnection.ANY if make_platform(kind).calls_hooks else ChannelConnection.ONE
            assert CHANNELS[kind].connection is expected, kind


@pytest.mark.parametrize(("mode", "connection"), [("http", ChannelConnection.ANY), ("socket", ChannelConnection.ONE)])
def test_slack_may_come_to_each_gateway_where_it_comes_by_http(mode: str, connection: ChannelConnection) -> None:
    spec = ChannelSpec(instance="slack", kind=CHANNELS["slack"], origin=SpecOrigin.FILE)
    assert spec.make_kind(Config({"channels.slack.mode": mode})).connection is connection


async def test_a_channel_with_a_connection_listens_where_its_duty_is_held_alone(store: Store, tmp_path: Path) -> None:
    platform = make_platform("telegram")
    await asyncio.to_thread(platform.start)
    try:
        gateways = HookGateways(platform, store, tmp_path)
        async with gateways.running(channel_duty("telegram")) as one, gateways.running() as other:
            platform.send("first", room="direct:ann")
            await one.received.wait_for(1)
            one.duties.set_held(())
            other.duties.set_held({channel_duty("telegram")})
            platform.send("second", room="direct:ann")
            await until(lambda: "second" in other.received.texts, "the other to receive")
            assert one.received.texts == ["first"]
    finally:
        await asyncio.to_thread(platform.stop)


@pytest.mark.slow
async def test_a_gateway_that_has_lost_touch_begins_no_poll_until_it_is_back(store: Store, tmp_path: Path) -> None:
    """It may have been stopped in the middle of a poll, and go on before it knows that another has the channel."""
    platform, touch = PolledPlatform(), TouchedGateway()
    await asyncio.to_thread(platform.start)
    try:
        async with HookGateways(platform, store, tmp_path, poll_s=1).running(
            channel_duty("telegram"), may_act=touch.may_act
        ) as gateway:
            platform.send("first", room="direct:ann")
            await gateway.received.wait_for(1)
            touch.is_there = False
            await until(lambda: touch.refused > 0, "the poll that was open to end")
            begun = len(platform.polls)
            platform.send("second", room="direct:ann")
            await until(lambda: touch.refused > 3, "it to ask again")
            assert len(platform.polls) == begun and gateway.received.texts == ["first"]
            touch.is_there = True
            await gateway.received.wait_for(2)
    finally:
        await asyncio.to_thread(platform.stop)


class TouchedGateway:
    def __init__(self) -> None:
        self.is_there, self.refused = True, 0

    def may_act(self) -> bool:
        self.refused += not self.is_there
        return self.is_there
