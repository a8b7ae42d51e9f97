"""Deciders without a direct room: a channel that can opens one, once, beside everything else."""

import asyncio
from typing import Any

import pytest

from gatepost.core.clock import MINUTE
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.direct_room_opening import PAUSE, SHORT_PAUSE, DirectRoomOpener
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.requests.request_loop import ProviderAnswers, RequestLoop
from gatepost.messages.outbound import Feature
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import request_cards
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rights.requests import NewRequest, Request, RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.channel import EVERYTHING, FakeChannel
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.waiting import PATIENCE_S

RULES = AskingRules(escalate=MINUTE, expire=60 * MINUTE, quorum=1)
NEAR, OWNER = "fake:user/near", "fake:user/owner"


class Opener(FakeChannel):
    def __init__(self, features: frozenset[Feature] = EVERYTHING) -> None:
        super().__init__(features=features)
        self.asked: list[str] = []
        self.faults: dict[str, Exception] = {}

    async def open_direct(self, sender: str) -> str:
        self.asked.append(sender)
        if sender in self.faults:
            raise self.faults[sender]
        return f"fake:direct/{sender.rpartition('/')[2]}"


class World:
    def __init__(self, store: SqliteStore, channel: FakeChannel) -> None:
        self.store, self.channel, self.clock, self.events = store, channel, FixedClock(), EventBus()
        self.channels = ChannelInstances({"fake": channel.kind}, {"fake": channel})
        self.opener = DirectRoomOpener(store, self.clock, Config(), self.events, self.channels)
        self.woken: list[tuple[str, str]] = []
        self.events.on_room(lambda instance, address: self.woken.append((instance, address)))

    async def ask(self, name: str = "call/1", quorum: int = 1) -> Request:
        def make(db: Db) -> Request:
            groups.add(db, "acme", "Acme", "", NOON)
            for person, role, folder in ((OWNER, UserRole.OWNER, ""), (NEAR, UserRole.ADMIN, "acme")):
                users.add(db, person, person, NOON)
                users.add_role(db, person, role, folder, "test", NOON)
            new = NewRequest(
                kind=RequestKind.CALL, name=name, folder="acme", tool="send", input={}, instance="fake", quorum=quorum
            )
            return ask(db, self.channels, RULES, new, self.clock.now()).request

        return await self.store.write(make)

    async def cards(self, request: Request) -> list[RequestCard]:
        return await self.store.read(request_cards.list_for_request, request.id)


async def test_the_nearest_decider_gets_a_room_and_the_card_in_it_once(store: SqliteStore) -> None:
    channel = Opener()
    world = World(store, channel)
    request = await world.ask()
    assert await world.cards(request) == []

    for _ in range(3):
        await world.opener.open_missing()

    (card,) = await world.cards(request)
    assert (card.person, card.instance, card.address) == (NEAR, "fake", "fake:direct/near")
    assert (channel.asked, world.woken) == ([NEAR], [("fake", "fake:direct/near")])
    (room,) = await store.read(direct_rooms.list_for_identity, NEAR)
    assert room.address == "fake:direct/near"

    second = await world.ask("call/2")  # from now on the room is known
    assert [card.person for card in await world.cards(second)] == [NEAR]
    assert channel.asked == [NEAR]


async def test_a_channel_whose_people_are_its_own_is_asked_for_them_by_their_plain_ids(store: SqliteStore) -> None:
    club, office = Opener(), Opener()
    world, kind = World(store, club), replace(club.kind, per_server=True)
    channels = ChannelInstances({"club": kind, "office": kind}, {"club": club, "office": office})
    opener = DirectRoomOpener(store, world.clock, Config(), world.events, channels)
    near = "fake:club/user/near"

    def add(db: Db) -> Request:
        groups.add(db, "acme", "Acme", "", NOON)
        users.add(db, near, near, NOON)
        users.add_role(db, near, UserRole.ADMIN, "acme", "test", NOON)
        new = NewRequest(kind=RequestKind.CALL, name="call/1", folder="acme", tool="send", input={}, instance="office")
        return ask(db, channels, RULES, new, world.clock.now()).request

    request = await store.write(add)
    await opener.open_missing()

    assert (club.asked, office.asked) == (["fake:user/near"], [])
    (card,) = await world.cards(request)
    assert (card.person, card.instance, card.address) == (near, "club", "fake:direct/near")


async def test_who_cannot_be_reached_is_passed_over_and_left_alone_for_a_while(store: SqliteStore) -> None:
    channel = Opener()
    channel.faults = {NEAR: NotFound("user", "near"), OWNER: Unavailable("the platform")}
    world = World(store, channel)
    request = await world.ask()

    await world.opener.open_missing()
    await world.opener.open_missing()
    assert (channel.asked, await world.cards(request)) == ([NEAR, OWNER], [])

    channel.faults = {NEAR: NotFound("user", "near")}
    world.clock.advance(SHORT_PAUSE / 1_000_000)
    await world.opener.open_missing()
    assert channel.asked == [NEAR, OWNER, OWNER]
    assert [card.person for card in await world.cards(request)] == [OWNER]
    assert PAUSE > SHORT_PAUSE


@pytest.mark.parametrize("answer", ["", "no address", "fake:\n"])
async def test_what_is_no_address_opens_nothing(store: SqliteStore, answer: str) -> None:
    class Odd(Opener):
        async def open_direct(self, sender: str) -> str:
            return answer

    world = World(store, Odd())
    request = await world.ask()
    await world.opener.open_missing()
    assert await world.cards(request) == []


async def test_nothing_is_opened_where_somebody_can_be_reached(store: SqliteStore) -> None:
    channel = Opener()
    world = World(store, channel)
    await store.write(lambda db: direct_rooms.add(db, OWNER, "fake", "fake:direct/owner", NOON))
    request = await world.ask()
    await world.opener.open_missing()
    assert ([card.person for card in await world.cards(request)], channel.asked) == ([OWNER], [])


async def test_as_many_rooms_are_opened_as_people_must_agree(store: SqliteStore) -> None:
    channel = Opener()
    world = World(store, channel)
    request = await world.ask(quorum=2)
    for _ in range(3):
        await world.opener.open_missing()
    assert sorted(card.person for card in await world.cards(request)) == [NEAR, OWNER]


async def test_another_identity_of_the_decider_counts(store: SqliteStore) -> None:
    channel = Opener()
    world = World(store, channel)

    def people(db: Db) -> None:
        groups.add(db, "acme", "Acme", "", NOON)
        users.add(db, "mail:user/cat", "Cat", NOON)
        users.add_role(db, "mail:user/cat", UserRole.ADMIN, "acme", "test", NOON)
        identities.add(db, "fake:user/cat", "mail:user/cat", "test", NOON)

    await store.write(people)
    request = await world.ask()
    channel.faults = {NEAR: NotFound("user", "near"), OWNER: NotFound("user", "owner")}
    await world.opener.open_missing()
    assert [card.person for card in await world.cards(request)] == ["mail:user/cat"]


@pytest.mark.parametrize("channel", [FakeChannel(), Opener(EVERYTHING - {Feature.DIRECT})])
async def test_a_channel_that_cannot_is_not_asked(store: SqliteStore, channel: FakeChannel) -> None:
    world = World(store, channel)
    request = await world.ask()
    await world.opener.open_missing()
    assert await world.cards(request) == []
    assert not isinstance(channel, Opener) or channel.asked == []


class NoProviders:
    def list_asking(self) -> list[str]:
        return []

    def is_awaited(self, session_id: str, request: str) -> bool:
        return False

    def answer(self, session_id: str, request: str, verdict: str, given: dict[str, Any]) -> bool:
        return False


class NoGate:
    async def call(self, *_: Any, **__: Any) -> Any:
        pytest.fail("nothing is allowed")


async def test_the_loop_opens_a_room_when_asked_and_another_when_nobody_decides(store: SqliteStore) -> None:
    channel = Opener()
    world = World(store, channel)
    clock, events, channels = world.clock, world.events, world.channels
    calls, questions = (
        HeldCalls(store, clock, Config(), events, channels),
        AgentQuestions(store, clock, Config(), events, channels),
    )
    answers = ProviderAnswers(store, clock, events, NoProviders())
    loop = RequestLoop(store, clock, Config(), events, channels, calls, NoGate(), answers, questions)
    woken = asyncio.Event()
    events.on_room(lambda instance, address: woken.set())
    request = await world.ask()
    task = asyncio.create_task(loop.run())
    try:
        await asyncio.wait_for(woken.wait(), PATIENCE_S)
        assert [card.person for card in await world.cards(request)] == [NEAR]
        woken.clear()
        clock.advance(901)
        events.requests()
        await asyncio.wait_for(woken.wait(), PATIENCE_S)
        assert [card.person for card in await world.cards(request)] == [NEAR, OWNER]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
