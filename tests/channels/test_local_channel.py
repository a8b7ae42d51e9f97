"""The base of web and terminal: sends ring, keys are identities, a stop wakes everybody."""

import asyncio

import pytest

from gatepost.channels.contract import Channel, ChannelDeps, SupportsLookup, SupportsTyping
from gatepost.channels.local_channel import REST_S, LocalChannel
from gatepost.channels.terminal import TerminalChannel
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Draft, Outbound
from gatepost_testing.waiting import PATIENCE_S

ROOM = "terminal:main"
HELLO = Inbound(address=ROOM, platform_id="1", sender="terminal:owner", text="hello")


@pytest.fixture
def hub() -> LocalChannel:
    return TerminalChannel(ChannelDeps(instance="terminal", config=Config(), clock=SystemClock()))


def test_a_hub_is_a_channel_that_types_and_cannot_be_asked_what_it_kept(hub: LocalChannel) -> None:
    channel: Channel = hub
    assert isinstance(channel, SupportsTyping)
    assert not isinstance(channel, SupportsLookup)


async def test_what_is_sent_twice_under_one_key_is_one_thing(hub: LocalChannel) -> None:
    first = await hub.send(ROOM, Outbound(key="k1", text="hi"))
    again = await hub.send(ROOM, Outbound(key="k1", text="hi"))
    other = await hub.send(ROOM, Outbound(key="k2", text="hi"))

    assert first == again
    assert other != first


async def test_a_send_rings_the_watchers_of_its_room_and_of_all_rooms(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM) as here, hub.watch() as everywhere, hub.watch("terminal:other") as elsewhere:
        await hub.send(ROOM, Outbound(key="k"))

        assert await here.wait(PATIENCE_S, stopping)
        assert await everywhere.wait(PATIENCE_S, stopping)
        assert not await elsewhere.wait(0, stopping)


async def test_many_rings_are_one_and_a_taken_ring_is_gone(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM) as watch:
        for _ in range(1000):
            hub.ring(ROOM)

        assert await watch.wait(PATIENCE_S, stopping)
        assert not await watch.wait(0, stopping)


async def test_a_stop_wakes_a_watcher_that_nobody_rings(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM) as watch:
        waiting = asyncio.create_task(watch.wait(3600, stopping))
        stopping.set()

        assert await asyncio.wait_for(waiting, PATIENCE_S) is False


async def test_typing_is_kept_by_room_and_thread_and_rings_only_when_it_changes(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM) as watch:
        await hub.typing(ROOM, "t1", True)
        assert await watch.wait(PATIENCE_S, stopping)
        await hub.typing(ROOM, "t1", True)
        assert not await watch.wait(0, stopping)

        assert hub.typing_in(ROOM) == {(ROOM, "t1")}
        assert hub.typing_in("terminal:other") == frozenset()

        await hub.typing(ROOM, "t1", False)
        assert hub.typing_in() == frozenset()


async def test_what_a_person_writes_is_handed_to_intake_and_refused_while_nobody_listens(hub: LocalChannel) -> None:
    got: list[Inbound] = []

    async def receive(inbound: Inbound) -> Receipt:
        got.append(inbound)
        return Receipt(message_id=7, new=True, state="queued")

    with pytest.raises(Unavailable, match="terminal channel"):
        await hub.submit(HELLO)

    listening = asyncio.create_task(hub.listen(receive))
    await asyncio.sleep(0)
    assert (await hub.submit(HELLO)).message_id == 7
    assert got == [HELLO]

    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    with pytest.raises(Unavailable):
        await hub.submit(HELLO)


def a_draft(text: str, address: str = ROOM, session: str = "s-1") -> Draft:
    return Draft(session=session, instance="terminal", address=address, thread="", agent="Home", text=text)


async def test_a_draft_wakes_only_those_who_want_drafts_of_its_room(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM, drafts=True) as here, hub.watch(ROOM) as plain, hub.watch("terminal:b", drafts=True) as away:
        hub.show_draft(a_draft("Hel"))
        assert not await here.wait(PATIENCE_S, stopping)  # the room itself has nothing new
        assert here.forget_drafted() and not here.forget_drafted()
        assert not plain.forget_drafted() and not away.forget_drafted()


async def test_of_each_session_the_latest_draft_is_kept_and_none_that_is_over(hub: LocalChannel) -> None:
    for number in range(1000):
        hub.show_draft(a_draft(f"{number}"))
    hub.show_draft(a_draft("other", "terminal:b", "s-2"))
    assert [draft.text for draft in hub.drafts_in(ROOM)] == ["999"]
    assert len(hub.drafts_in()) == 2
    hub.show_draft(a_draft(""))
    assert hub.drafts_in(ROOM) == ()


async def test_a_room_is_watched_by_those_who_want_drafts_alone(hub: LocalChannel) -> None:
    told: list[bool] = []
    hub.on_watch(lambda: told.append(hub.is_watched(ROOM)))
    with hub.watch(ROOM), hub.watch():
        assert not hub.is_watched(ROOM)
        with hub.watch(drafts=True):
            assert hub.is_watched(ROOM)
    assert told == [True, False]


async def test_a_watcher_rests_between_drafts_but_not_from_what_is_said(hub: LocalChannel) -> None:
    stopping = asyncio.Event()
    with hub.watch(ROOM, drafts=True) as watch, hub.watch(drafts=True):
        assert hub.draft_rest_s == 2 * REST_S
        watch.rest_from_drafts(0.05)
        hub.show_draft(a_draft("one"))
        assert not await watch.wait(0, stopping)
        hub.ring(ROOM)
        assert await watch.wait(PATIENCE_S, stopping)
        assert watch.forget_drafted()
        hub.show_draft(a_draft("two"))
        assert not await watch.wait(PATIENCE_S, stopping)  # woken by the end of its rest
        assert watch.forget_drafted()
