"""Threads that a channel is asked to follow."""

import asyncio

import pytest

from gatepost.core.errors import Unavailable
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import followed_threads
from gatepost.flow.intake.followed_threads import FollowedThreads
from gatepost.messages.outbound import Feature
from gatepost.testing.channel import EVERYTHING, FakeChannel
from gatepost.testing.waiting import PATIENCE_S

ROOM = "fake:room/1"


class Subscriber(FakeChannel):
    def __init__(self, **given: frozenset[Feature]) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.asked: list[tuple[str, str]] = []
        self.fails = 0
        self.called = asyncio.Event()

    async def subscribe(self, address: str, thread: str) -> None:
        self.asked.append((address, thread))
        self.called.set()
        if self.fails:
            self.fails -= 1
            raise Unavailable("the platform")

    async def wait(self) -> None:
        await asyncio.wait_for(self.called.wait(), PATIENCE_S)
        await asyncio.sleep(0)  # the call ends in the step after
        self.called.clear()


def make(channel: FakeChannel) -> FollowedThreads:
    return FollowedThreads(ChannelInstances({"fake": channel.kind}, {"fake": channel}))


async def test_a_thread_is_asked_for_once() -> None:
    channel = Subscriber()
    followed = make(channel)
    for _ in range(3):
        followed.follow("fake", ROOM, "t1")
    await channel.wait()
    followed.follow("fake", ROOM, "t2")
    await channel.wait()
    assert channel.asked == [(ROOM, "t1"), (ROOM, "t2")]


async def test_one_that_failed_is_asked_for_with_its_next_message() -> None:
    channel = Subscriber()
    channel.fails = 1
    followed = make(channel)
    followed.follow("fake", ROOM, "t1")
    await channel.wait()
    followed.follow("fake", ROOM, "t1")
    await channel.wait()
    assert channel.asked == [(ROOM, "t1")] * 2


async def test_a_channel_that_does_not_say_so_is_not_asked() -> None:
    silent, plain = Subscriber(features=EVERYTHING - {Feature.SUBSCRIBE}), FakeChannel()
    before = asyncio.all_tasks()
    make(silent).follow("fake", ROOM, "t1")
    make(plain).follow("fake", ROOM, "t1")
    make(Subscriber()).follow("fake", ROOM, "")
    assert (silent.asked, asyncio.all_tasks()) == ([], before)


async def test_what_is_remembered_and_what_runs_at_once_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_threads, "MOST_REMEMBERED", 2)
    monkeypatch.setattr(followed_threads, "MOST_AT_ONCE", 1)
    channel = Subscriber()
    followed = make(channel)
    for thread in ("t1", "t2", "t3"):
        followed.follow("fake", ROOM, thread)
    await channel.wait()
    assert channel.asked == [(ROOM, "t1")]  # one at once
    for thread in ("t2", "t3", "t1"):
        followed.follow("fake", ROOM, thread)
        await channel.wait()
    assert [thread for _, thread in channel.asked] == ["t1", "t2", "t3", "t1"]  # the first was forgotten
