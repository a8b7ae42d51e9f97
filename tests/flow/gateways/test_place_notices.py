"""People whose message waits for a gateway that is away are told so, once."""

from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.gateways.place_notices import NOTICE, PlaceNotices
from gatepost.store.gateways import gateways, group_places
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayState
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, sessions
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.outbox_harness import OutboxHarness

ROOM = "fake:room/1"
IDENTITY = GatewayIdentity(name="a", home="home", host="host", version="1", schema_number=49)


def begin(db: Db, now: int) -> int:
    return gateways.register(db, IDENTITY, 6_000_000, 1, now)


def leave(db: Db, epoch: int) -> bool:
    return gateways.set_state(db, "a", epoch, GatewayState.GONE)


def hear(db: Db, platform_id: str, now: int) -> None:
    groups.add(db, "acme", "Acme", "", now)
    group_places.claim(db, "acme", "a", now)
    session = sessions.find_or_add(db, sessions.SessionMode.SHARED, "acme", "fake", ROOM, "", now)
    message_id = add_arrival(db, now, address=ROOM, platform_id=platform_id)
    inbox.enqueue(db, message_id, session.id, "acme", "member", now)


def list_said(db: Db) -> list[OutboxEffect]:
    return outbox.OUTBOX.list(db, "ORDER BY id")


async def make_notices(store: Store, clock: FixedClock) -> PlaceNotices:
    channels = OutboxHarness(store, {"fake": FakeChannel()}).channels
    return PlaceNotices(store, clock, Config(), EventBus(), channels)


async def test_a_room_is_told_after_a_minute_and_once_for_each_absence(store: Store) -> None:
    clock = FixedClock()
    notices = await make_notices(store, clock)
    said = list[int]()

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)
        await notices.check()
        said.append(len(await store.read(list_said)))

    epoch = await store.write(begin, clock.now())
    await store.write(hear, "m1", clock.now())
    await pass_time(300)  # its gateway is there, and will get to it
    await store.write(leave, epoch)
    await pass_time(0)
    await pass_time(59)
    await pass_time(1)
    await store.write(hear, "m2", clock.now())
    await pass_time(120)
    assert said == [0, 0, 0, 1, 1]
    epoch = await store.write(begin, clock.now())  # it is back, and leaves again before it got to them
    await pass_time(0)
    await store.write(leave, epoch)
    await pass_time(0)
    await pass_time(60)
    assert said[5:] == [1, 1, 2]
    assert [each.payload["text"] for each in await store.read(list_said)] == [NOTICE, NOTICE]


async def test_a_message_of_this_moment_waits_a_minute_of_its_own(store: Store) -> None:
    clock = FixedClock()
    notices = await make_notices(store, clock)
    await store.write(leave, await store.write(begin, clock.now()))
    await store.write(groups.add, "acme", "Acme", "", clock.now())
    await store.write(group_places.claim, "acme", "a", clock.now())
    await notices.check()
    clock.advance(600)
    await store.write(hear, "m1", clock.now())
    await notices.check()
    assert await store.read(list_said) == []
    clock.advance(60)
    await notices.check()
    assert len(await store.read(list_said)) == 1
