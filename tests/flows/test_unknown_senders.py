"""Somebody unknown in a room that asks first: one card, and the answer delivers all that they wrote, once, in order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.records import replace
from gatepost.store.messages import destinations, inbox, messages
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, waiting_requests
from gatepost.store.rights.acl import AclEffect
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, BOSS, DIRECT, EVE = "fake:room/1", "fake:user/boss", "fake:direct/boss", "fake:user/eve"


def settle_people(db: Db, now: int) -> None:
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    rooms.add(db, "fake", ROOM, "the room", False, RoomPolicy.REQUEST_APPROVAL, now)


@asynccontextmanager
async def asking_gateway(home: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(settle_people, gateway.clock.now())
        script = ScriptBuilder().turn("number (.*)").say("got {1}").turn("hello").say("hi")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
        yield gateway


def cards(channel: FakeChannel) -> list[str]:
    return [text for text in channel.texts(DIRECT) if "Somebody unknown writes" in text and "1. " in text]


def states(db: Db) -> list[tuple[str, str]]:
    rows = db.rows(
        "SELECT m.text, i.state FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ? ORDER BY i.id",
        (EVE,),
    )
    return [(row[0], row[1]) for row in rows]


async def write_three(gateway: Gateway, channel: FakeChannel) -> None:
    for number in range(1, 4):
        receipt = await channel.say(f"number {number}", sender=EVE)
        assert receipt.state == "held"
    await channel.wait_for(lambda sent: bool(cards(channel)))
    assert len(await gateway.store.read(waiting_requests.list_pending)) == 1
    assert channel.texts(ROOM) == []


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["1", "2"])
async def test_nanoclaw_10_allowed_they_are_delivered_once_in_order(
    tmp_path: Path, channel: FakeChannel, answer: str
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await write_three(gateway, channel)
        await reply_to_card(gateway, channel, answer, sender=BOSS)
        await channel.wait_for(lambda sent: sum(each.address == ROOM for each in sent) >= 1)
        await wait_until_settled(gateway)
        assert await gateway.store.read(states) == [(f"number {number}", "answered") for number in range(1, 4)]
        assert len(cards(channel)) == 1

        after = await channel.say("number 4", sender=EVE)
        assert after.state == ("held" if answer == "1" else "queued")
        await wait_until_settled(gateway) if answer == "2" else None


async def test_denied_they_are_refused_and_nobody_is_asked_again(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await write_three(gateway, channel)
        await channel.say("deny", address=DIRECT, sender=BOSS, direct=True)
        again = await channel.say("number 4", sender=EVE)
        assert again.state == "refused"
        assert await gateway.store.read(states) == [(f"number {number}", "refused") for number in range(1, 5)]
        assert len(cards(channel)) == 1 and channel.texts(ROOM) == []


@pytest.mark.slow
async def test_blocked_they_are_shut_out_by_a_row_that_can_be_seen(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await write_three(gateway, channel)
        await channel.say("block", address=DIRECT, sender=BOSS, direct=True)
        assert (await channel.say("number 4", sender=EVE)).reason == "denied_by_the_access_list"
        rows = [row for row in await gateway.store.read(acl.list_rows) if row.principal == EVE]
        assert [(row.action, row.effect) for row in rows] == [("interact", AclEffect.DENY)]


@pytest.mark.slow
async def test_a_held_message_survives_a_restart_and_its_answer_counts(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await write_three(gateway, channel)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await reply_to_card(gateway, channel, "2", sender=BOSS)
        await wait_until_settled(gateway)
        assert await gateway.store.read(states) == [(f"number {number}", "answered") for number in range(1, 4)]


@pytest.mark.slow
async def test_a_flood_of_strangers_is_held_within_bounds(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        receipts = [await channel.say(f"number {number}", sender=EVE) for number in range(60)]
        kept = [each for each in receipts if each.state == "held"]
        assert len(kept) <= 50 and receipts[-1].state == "refused"
        assert len(await gateway.store.read(inbox.list_held, "home", EVE)) == len(kept)
        assert await gateway.store.read(messages.get, kept[0].message_id) is not None


@pytest.mark.slow
async def test_where_somebody_was_let_in_the_room_and_its_name_are_known(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await gateway.store.write(forget_room)
        kind = replace(channel.kind, policy=RoomPolicy.REQUEST_APPROVAL)
        gateway.channels._kinds = {**gateway.channels._kinds, "fake": kind}  # as if its channel had been declared so
        direct = "fake:direct/eve"
        assert (await channel.say("number 1", address=direct, sender=EVE, direct=True)).state == "held"
        assert await gateway.store.read(rooms.get, "fake", direct) is None
        await channel.wait_for(lambda sent: bool(cards(channel)))
        await reply_to_card(gateway, channel, "1", sender=BOSS)
        await wait_until_settled(gateway)
        room = await gateway.store.read(rooms.get, "fake", direct)
        assert room is not None and room.direct and room.policy is RoomPolicy.REQUEST_APPROVAL
        assert await gateway.store.read(direct_rooms.find_address, EVE, "fake") == direct
        known = await gateway.store.read(destinations.list_for_group, "home")
        assert direct in [each.address for each in known]


def forget_room(db: Db) -> None:
    db.run("DELETE FROM rooms WHERE address = ?", (ROOM,))


OWN = "fake:direct/eve"
TOLD = "I do not know you yet"


@asynccontextmanager
async def telling_gateway(home: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    """Its channel is one whose bots strangers write to."""
    async with running_gateway(home, {"fake": (replace(channel.kind, asks_strangers=True), channel)}) as gateway:
        await gateway.store.write(settle_people, gateway.clock.now())
        ScriptBuilder().turn("number (.*)").say("got {1}").turn("hello").say("hi").write(
            gateway.home.group("home")
        ).chmod(0o644)
        yield gateway


async def write_directly(channel: FakeChannel, words: str) -> str:
    return (await channel.say(words, address=OWN, sender=EVE, direct=True)).state


@pytest.mark.parametrize(("answer", "state", "later"), [("1", "answered", "queued"), ("3", "refused", "refused")])
async def test_a_stranger_is_told_once_and_a_decision_lets_in_or_keeps_out(
    tmp_path: Path, channel: FakeChannel, answer: str, state: str, later: str
) -> None:
    async with telling_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        for number in (1, 2):
            assert await write_directly(channel, f"number {number}") == "held"
        await channel.wait_for(lambda sent: bool(cards(channel)) and TOLD in "".join(channel.texts(OWN)))
    async with telling_gateway(tmp_path / "h", channel) as gateway:
        assert await write_directly(channel, "number 3") == "held"
        [card] = cards(channel)
        assert "Let in" in card and "Keep out" in card and "Allow once" not in card
        await reply_to_card(gateway, channel, answer, sender=BOSS)
        await wait_until_settled(gateway)
        assert await gateway.store.read(states) == [(f"number {number}", state) for number in (1, 2, 3)]
        assert await write_directly(channel, "number 4") == later
        await wait_until_settled(gateway)
        assert sum(TOLD in text for text in channel.texts(OWN)) == 1 and len(cards(channel)) == 1
        member = "home" in (await gateway.store.read(users.get_roles, EVE)).member_of
        assert member is (answer == "1")


async def test_after_a_no_the_stranger_is_asked_about_again_and_not_told_again(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with telling_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        assert await write_directly(channel, "number 1") == "held"
        await channel.wait_for(lambda sent: bool(cards(channel)))
        await reply_to_card(gateway, channel, "2", sender=BOSS)
        assert await write_directly(channel, "number 2") == "refused"
        await gateway.store.write(lambda db: db.run("UPDATE requests SET answered_at = 1, asked_at = 1"))
        assert await write_directly(channel, "number 3") == "held"
        await channel.wait_for(lambda sent: len(cards(channel)) == 2)
        assert sum(TOLD in text for text in channel.texts(OWN)) == 1


async def test_a_room_that_was_closed_to_strangers_stays_so_and_nobody_is_told(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with telling_gateway(tmp_path / "h", channel) as gateway:
        now = gateway.clock.now()
        await gateway.store.write(rooms.add, "fake", OWN, "eve", True, RoomPolicy.STRICT, now)
        assert await write_directly(channel, "number 1") == "refused"
        assert (await channel.say("number 2", address="fake:room/9", sender=EVE)).state == "refused"
        assert await gateway.store.read(waiting_requests.list_pending) == [] and channel.texts(OWN) == []
