"""How fast rooms are sent to, and what a platform's pause stops."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from gatepost.channels.contract import ChannelPace
from gatepost.core.clock import HOUR, SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.delivery.pace import FEWEST_REMEMBERED, DeliveryPace
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.outbox_harness import ROOM, OutboxHarness
from gatepost_testing.waiting import PATIENCE_S

T = TypeVar("T")
OTHER = "fake:room/2"


def make_pace(clock: FixedClock, **limits: Any) -> DeliveryPace:
    pace = ChannelPace(**limits)
    return DeliveryPace(ChannelInstances({"fake": FakeChannel(pace=pace).kind}), clock, HOUR)


def test_a_room_has_its_burst_and_then_its_pace() -> None:
    clock = FixedClock()
    pace = make_pace(clock, room=2.0, burst=3)

    assert [pace.claim("fake", ROOM) for _ in range(4)] == [0, 0, 0, SECOND // 2]
    assert pace.claim("fake", OTHER) == 0
    clock.advance(0.5)
    assert [pace.claim("fake", ROOM) for _ in range(2)] == [0, SECOND // 2]
    clock.advance(60)
    assert [pace.claim("fake", ROOM) for _ in range(4)] == [0, 0, 0, SECOND // 2]


def test_rooms_that_the_platform_keeps_slower_have_a_pace_of_their_own() -> None:
    clock = FixedClock()
    pace = make_pace(clock, room=1.0, burst=5, slow_rooms={"fake:group/": 0.25})

    let_through = 0
    for _ in range(600):  # a minute
        while pace.claim("fake", "fake:group/1") == 0:
            let_through += 1
        clock.advance(0.1)

    assert 19 <= let_through <= 20
    assert [pace.claim("fake", ROOM) for _ in range(6)] == [0, 0, 0, 0, 0, SECOND]


def test_drafts_leave_half_of_each_limit_to_answers() -> None:
    telegram = ChannelPace(everywhere=30.0, room=1.0, slow_rooms={"telegram:group/": 1 / 3})

    assert telegram.get_draft_interval("telegram:user/1", 1) == 2.0
    assert telegram.get_draft_interval("telegram:group/-1", 1) == 6.0
    assert telegram.get_draft_interval("telegram:user/1", 60) == 4.0
    assert ChannelPace(draft_s=5.0).get_draft_interval("matrix:!r:s", 1) == 5.0


def test_a_whole_channel_is_never_more_than_its_slack_ahead_of_its_pace() -> None:
    clock = FixedClock()
    pace = make_pace(clock, everywhere=30.0)

    let_through = 0
    for step in range(1000):  # ten seconds
        while pace.claim("fake", f"fake:room/{step % 7}") == 0:
            let_through += 1
        assert let_through <= 30 * step / 100 + 4 + 1
        clock.advance(0.01)

    assert 299 <= let_through <= 304


def test_a_permit_that_was_not_needed_is_given_back() -> None:
    clock = FixedClock()
    pace = make_pace(clock, room=1.0, everywhere=1.0)
    for _ in range(5):
        assert pace.claim("fake", ROOM) == 0
        pace.give_back("fake", ROOM)


def test_rooms_at_rest_are_forgotten() -> None:
    clock = FixedClock()
    pace = make_pace(clock, room=1.0)
    for number in range(10 * FEWEST_REMEMBERED):
        assert pace.claim("fake", f"fake:room/{number}") == 0
        clock.advance(0.01)
    assert pace.count_rooms() <= FEWEST_REMEMBERED


def test_a_pause_stops_one_instance_and_has_a_bound() -> None:
    clock = FixedClock()
    pace = make_pace(clock)
    assert pace.claim("fake", ROOM) == 0
    pace.pause("fake", 1e12)
    assert pace.claim("fake", ROOM) == pace.get_wait("fake") == HOUR
    assert pace.claim("other", ROOM) == 0
    pace.pause("fake", 1)
    clock.advance(3599)
    assert pace.get_wait("fake") == SECOND
    clock.advance(1)
    assert (pace.get_wait("fake"), pace.claim("fake", ROOM)) == (0, 0)


async def settle(post: OutboxHarness) -> None:
    """Whatever the pump can do by now, it has done: a later message of another channel is out."""
    key = f"settle:{post.clock.monotonic()}"
    await post.say(key, "settle", instance="free", address="free:room/1")
    await post.ended(key)


@pytest.fixture
def free() -> FakeChannel:
    return FakeChannel(platform="free")


async def test_a_paced_room_gets_its_messages_in_order_each_at_its_time_and_at_the_first_try(
    store: SqliteStore, free: FakeChannel
) -> None:
    channel = FakeChannel(pace=ChannelPace(room=20.0))
    post = OutboxHarness(store, {"fake": channel, "free": free})
    async with post.running():
        for number in range(4):
            await post.say(f"k{number}", f"text {number}")
        await channel.wait_for(1)
        await settle(post)
        assert channel.texts() == ["text 0"]
        assert [(await post.row(f"k{number}")).state for number in (1, 2, 3)] == ["pending"] * 3
        for number in range(1, 4):
            post.clock.advance(0.05)  # the pump's own timer wakes it
            await channel.wait_for(number + 1)
            await settle(post)
            assert len(channel.sent) == number + 1
        rows = [await post.ended(f"k{number}") for number in range(4)]
    assert channel.texts() == ["text 0", "text 1", "text 2", "text 3"]
    assert [row.tries for row in rows] == [1, 1, 1, 1]


async def test_rooms_that_wait_for_their_pace_hold_no_lane(store: SqliteStore) -> None:
    channel = FakeChannel(pace=ChannelPace(room=0.001))
    post = OutboxHarness(store, {"fake": channel}, {"delivery.lanes": 1})
    async with post.running():
        for number in range(5):
            for room in range(5):
                await post.say(f"k{room}-{number}", f"{room}", address=f"fake:room/{room}")
        await channel.wait_for(5)
    assert sorted(channel.texts()) == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
async def test_a_channel_with_many_rooms_is_sent_to_at_its_pace(store: SqliteStore) -> None:
    channel = FakeChannel(pace=ChannelPace(everywhere=200.0))
    post = OutboxHarness(store, {"fake": channel}, {"delivery.lanes": 4})
    async with post.running():
        for room in range(100):
            await post.say(f"k{room}", "hello", address=f"fake:room/{room}")
        for _ in range(100):
            seen = len(channel.sent)
            if seen == 100:
                break
            post.clock.advance(0.005)
            async with asyncio.timeout(PATIENCE_S):
                await channel.wait_for(seen + 1)
    assert len({sent.address for sent in channel.sent}) == 100


async def test_a_pause_for_the_whole_channel_stops_its_other_rooms_and_no_other_channel(
    store: SqliteStore, free: FakeChannel
) -> None:
    channel = FakeChannel()
    post = OutboxHarness(store, {"fake": channel, "free": free})
    channel.script(SendFault.UNAVAILABLE, retry_after=0.2, everywhere=True)
    async with post.running():
        await post.say("k1", "first")
        await post.tried("k1", 1)
        await post.say("k2", "second", address=OTHER)
        await settle(post)
        assert (len(channel.tried), free.texts()) == (1, ["settle"])
        post.clock.advance(0.2)
        await channel.wait_for(2)
        rows = [await post.ended("k1"), await post.ended("k2")]
    assert [(row.state, row.tries) for row in rows] == [("sent", 2), ("sent", 1)]


async def test_a_pause_for_one_room_stops_no_other(store: SqliteStore) -> None:
    channel = FakeChannel()
    post = OutboxHarness(store, {"fake": channel})
    channel.script(SendFault.UNAVAILABLE, retry_after=60)
    async with post.running():
        await post.say("k1", "first")
        await post.tried("k1", 1)
        await post.say("k2", "second", address=OTHER)
        await channel.wait_for(1)
    assert channel.texts() == ["second"]


@pytest.mark.parametrize("pace", [None, ChannelPace(room=1000.0, everywhere=1e6, burst=100)])
async def test_within_its_burst_a_message_costs_one_transaction_as_without_a_pace(
    store: SqliteStore, pace: ChannelPace | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = FakeChannel(pace=pace)
    post = OutboxHarness(store, {"fake": channel})
    for number in range(10):
        await post.say(f"k{number}", "hello")
    written: list[str] = []
    write = store.write

    def count(fn: Callable[..., T], *args: Any, **more: Any) -> Awaitable[T]:
        written.append(fn.__name__)
        return write(fn, *args, **more)

    monkeypatch.setattr(store, "write", count)
    async with post.running():
        await post.ended("k9")
    assert written.count("settle_and_claim") == 11  # one for each message, and one that finds nothing more
    assert "settle_effect" not in written


async def test_what_is_written_and_sent_in_one_step_keeps_the_pace_too(store: SqliteStore, free: FakeChannel) -> None:
    channel = FakeChannel(pace=ChannelPace(room=20.0))
    post = OutboxHarness(store, {"fake": channel, "free": free})

    def add(number: int) -> Callable[[Db], object]:
        text = f"text {number}"
        new = OutgoingMessage(key=text, origin=EffectOrigin.TOOL, instance="fake", address=ROOM, text=text)
        return lambda db: add_outgoing_message(db, post.channels, new, NOON)

    async with post.running() as pump:
        await post.say("first", "first", instance="free", address="free:room/2")  # the pump runs by now
        await free.wait_for(1)
        for number in range(2):
            await pump.write("fake", ROOM, add(number))
        await channel.wait_for(1)
        await settle(post)
        assert (channel.texts(), (await post.row("text 1")).state) == (["text 0"], "pending")
        post.clock.advance(0.05)
        await channel.wait_for(2)


async def test_a_room_with_nothing_to_send_uses_up_none_of_its_pace(store: SqliteStore, free: FakeChannel) -> None:
    channel = FakeChannel(pace=ChannelPace(room=0.01, everywhere=0.01))
    post = OutboxHarness(store, {"fake": channel, "free": free})
    async with post.running():
        await settle(post)
        for _ in range(5):
            post.events.room("fake", ROOM)  # it looks, and finds nothing
            post.clock.advance(0.001)
            await settle(post)
        await post.say("k", "hello")
        await channel.wait_for(1)
