"""Threads that a channel is asked to follow."""

import asyncio
from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import followed_threads
from gatepost.flow.intake.followed_threads import FollowedThreads
from gatepost.flow.intake.intake import Intake
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost_testing.channel import EVERYTHING, FakeChannel
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.waiting import PATIENCE_S

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


async def test_a_message_in_a_thread_that_an_agent_gets_has_its_thread_followed_and_no_other(
    store: SqliteStore, tmp_path: Path
) -> None:
    def prepare(db: Db) -> None:
        groups.add(db, "home", "Home", "scripted", NOON)
        users.add(db, "fake:user/1", "", NOON)
        users.add_member(db, "fake:user/1", "home", "test", NOON)
        given = {"seq": 10, "match": "", "target": "home", "folder": "home", "mode": "per-thread", "also": False}
        routes.add(db, routes.Route(**given, created_by="test", created_at=NOON))  # type: ignore[arg-type]

    async def stop(session_id: str, by: str) -> bool:
        return False

    await store.write(prepare)
    home, channel = Home(tmp_path / "home"), Subscriber()
    channels = ChannelInstances({"fake": channel.kind}, {"fake": channel})
    intake = Intake(store, FixedClock(), Config(), EventBus(), channels, home, stop)

    async def send(number: int, sender: str, thread: str) -> str:
        event = Inbound(address=ROOM, platform_id=str(number), sender=sender, text="hello", thread=thread)
        return (await intake.receive("fake", event)).state

    assert await send(1, "fake:user/666", "strangers") == "refused"
    assert await send(2, "fake:user/1", "") == "queued"
    assert [await send(number, "fake:user/1", "t1") for number in (3, 3, 4)] == ["queued"] * 3
    await channel.wait()
    assert channel.asked == [(ROOM, "t1")]
