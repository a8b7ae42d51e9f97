"""A chat that goes nowhere, where rooms ask first: one card, and the answer is a route that delivers what was held."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import DAY, SECOND, SystemClock
from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Attachment, Receipt, Verb
from gatepost.serve.agents.pending_requests import make_answers
from gatepost.store.messages import destinations, inbox, messages
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.requests import RequestKind
from gatepost.store.rooms import direct_rooms, rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

ROOM, BOSS, DIRECT, EVE, ADA = "fake:room/7", "fake:user/boss", "fake:direct/boss", "fake:user/eve", "fake:user/ada"
EVES = "fake:direct/eve"


def settle_people(db: Db, now: int) -> None:
    groups.add(db, "acme", "Acme", "", now)
    for person, role, folder in ((BOSS, UserRole.OWNER, ""), (ADA, UserRole.ADMIN, "acme")):
        users.add(db, person, person, now)
        users.add_role(db, person, role, folder, "test", now)
    for route in routes.list_all(db):
        routes.remove(db, route.id)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now)
    for address in (ROOM, EVES):
        rooms.add(db, "fake", address, "", False, RoomPolicy.REQUEST_APPROVAL, now)


@asynccontextmanager
async def asking_gateway(home: Path, channel: FakeChannel, **given: Any) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(settle_people, gateway.clock.now())
        for folder in ("home", "acme"):
            gateway.home.group(folder).mkdir(parents=True, exist_ok=True)
            script = ScriptBuilder().turn("number (.*)").say(f"{folder} got {{1}}")
            script.write(gateway.home.group(folder)).chmod(0o644)
        yield gateway


async def mention(channel: FakeChannel, text: str, sender: str = EVE, address: str = ROOM) -> Receipt:
    return await channel.say(text, address=address, sender=sender, verb=Verb.MENTION)


async def mention_three(gateway: Gateway, channel: FakeChannel) -> None:
    for number in range(1, 4):
        assert (await mention(channel, f"number {number}")).state == "held"
    await channel.wait_for(lambda sent: bool(cards(channel)))
    assert len(await gateway.store.read(waiting_requests.list_pending)) == 1
    assert channel.texts(ROOM) == []


def cards(channel: FakeChannel) -> list[str]:
    return [text for text in channel.texts(DIRECT) if "Who shall answer" in text and "1. " in text]


def states(db: Db, sender: str = EVE) -> list[tuple[str, str]]:
    rows = db.rows(
        "SELECT m.text, i.state FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ? ORDER BY i.id",
        (sender,),
    )
    return [(row[0], row[1]) for row in rows]


async def answer(channel: FakeChannel, text: str, sender: str = BOSS) -> Receipt:
    return await channel.say(text, address=DIRECT, sender=sender, direct=True)


@pytest.mark.slow
async def test_nanoclaw_2_a_mention_in_a_chat_without_a_route_is_held_and_the_owner_gets_one_card(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        (card,) = cards(channel)
        assert (
            "1. Let home answer" in card and "2. Let acme answer" in card and "3. Deny" in card and "4. Never" in card
        )
        assert EVE in card and ROOM in card and "number 1" in card and "root" not in card
        assert (await channel.say("not for the bot", address=ROOM, sender=EVE)).state == "refused"
        assert await gateway.store.read(users.get, EVE) is None


@pytest.mark.slow
@pytest.mark.parametrize("said", ["2", "let acme answer"])
async def test_nanoclaw_3_yes_adds_a_route_and_delivers_what_was_held_once_in_order(
    tmp_path: Path, channel: FakeChannel, said: str
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        await reply_to_card(gateway, channel, said, sender=BOSS)
        await wait_until_settled(gateway)
        assert await gateway.store.read(states) == [(f"number {number}", "answered") for number in range(1, 4)]
        made = await gateway.store.read(routes.list_all)
        assert [(each.match, each.target, each.created_by) for each in made] == [
            (f"channel=fake chat_jid={ROOM} verb=mention", "acme", BOSS),
            (f"channel=fake chat_jid={ROOM}", "acme#observe", BOSS),
        ]
        assert all(text.startswith("acme got") for text in channel.texts(ROOM))
        known = await gateway.store.read(destinations.list_for_group, "acme")
        assert [each.address for each in known] == [ROOM]
        assert len(cards(channel)) == 1
        for route in made:  # taken back, somebody is asked anew
            await gateway.store.write(routes.remove, route.id)
        assert (await mention(channel, "number 4")).state == "held"
        await channel.wait_for(lambda sent: len(cards(channel)) == 2)


@pytest.mark.slow
async def test_a_direct_chat_that_is_let_in_makes_its_person_a_member(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        assert (await channel.say("number 1", address=EVES, sender=EVE, direct=True)).state == "held"
        await channel.wait_for(lambda sent: bool(cards(channel)))
        await reply_to_card(gateway, channel, "1", sender=BOSS)
        await wait_until_settled(gateway)
        assert channel.texts(EVES) == ["home got 1"]
        assert (await gateway.store.read(users.get_roles, EVE)).member_of == ("home",)
        assert await gateway.store.read(direct_rooms.find_address, EVE, "fake") == EVES
        assert (await channel.say("number 2", address=EVES, sender=EVE, direct=True)).state == "queued"
        await wait_until_settled(gateway)


@pytest.mark.slow
async def test_nanoclaw_4_no_is_remembered_for_a_day_and_brings_no_further_card(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    async with asking_gateway(tmp_path / "h", channel, clock=clock) as gateway:
        await mention_three(gateway, channel)
        await answer(channel, "deny")
        assert (await mention(channel, "number 4")).state == "refused"
        assert await gateway.store.read(states) == [(f"number {number}", "refused") for number in range(1, 5)]
        assert len(cards(channel)) == 1 and await gateway.store.read(routes.list_all) == []
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + DAY + SECOND)
        assert (await mention(channel, "number 5")).state == "held"


@pytest.mark.slow
async def test_nanoclaw_4_never_is_a_route_that_drops_and_can_be_taken_back(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        await answer(channel, "never")
        (made,) = await gateway.store.read(routes.list_all)
        assert (made.match, made.target) == (f"channel=fake chat_jid={ROOM}", "drop")
        assert (await mention(channel, "number 4")).reason == f"dropped_by_route {made.id}"
        assert len(cards(channel)) == 1


@pytest.mark.slow
async def test_an_admin_gives_a_room_to_her_own_group_and_to_no_other(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        for refused in (
            f"/approve {asked.id} home",
            f"/approve {asked.id}",
            f"/deny {asked.id}",
            f"/approve {asked.id} root",
        ):
            await answer(channel, refused, sender=ADA)
            assert len(await gateway.store.read(waiting_requests.list_pending)) == 1, refused
        await answer(channel, f"/approve {asked.id} nowhere")  # by the owner
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 1
        hers: dict[str, Any] = {"address": "fake:direct/ada", "sender": ADA, "direct": True}
        await channel.say(f"/approve {asked.id} acme", **hers)  # she is shown it first
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 1
        await channel.wait_for(lambda sent: any(each.address == hers["address"] for each in sent))
        await reply_to_card(gateway, channel, "let acme answer", sender=ADA)
        await wait_until_settled(gateway)
        assert await gateway.store.read(waiting_requests.list_pending) == []
        assert len(channel.texts(ROOM)) >= 1


@pytest.mark.slow
async def test_a_held_room_survives_a_restart_and_expires_by_itself(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + DAY + SECOND)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await channel.wait_for(lambda sent: any("Nobody decided" in each.message.text for each in sent))
        await wait_until_settled(gateway)
        assert {state for _, state in await gateway.store.read(states)} == {"refused"}


@pytest.mark.slow
async def test_strangers_fill_neither_the_store_nor_a_persons_room(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        for number in range(60):  # many senders, one room
            await mention(channel, f"number {number}", sender=f"fake:user/{number}")
        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        assert len(await gateway.store.read(inbox.list_held_for_request, "", asked.id)) == 20
        for number in range(6):  # one sender, many rooms
            await gateway.store.write(open_room, f"fake:many/{number}", gateway.clock.now())
            await mention(channel, "hello", address=f"fake:many/{number}")
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 4
        for number in range(40):  # a sender for every room
            await gateway.store.write(open_room, f"fake:more/{number}", gateway.clock.now())
            await mention(channel, "hello", address=f"fake:more/{number}", sender=f"fake:crowd/{number}")
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 20


def open_room(db: Db, address: str, now: int) -> None:
    rooms.add(db, "fake", address, "", False, RoomPolicy.REQUEST_APPROVAL, now)


async def test_large_files_of_an_unknown_room_are_not_kept(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        large = Attachment(name="a.bin", data=b"x" * (6 * 1024 * 1024))
        said = await channel.say("see", address=ROOM, sender=EVE, verb=Verb.MENTION, attachments=(large,))
        assert said.state == "refused"
        assert not [each for each in gateway.home.media.rglob("*") if each.is_file()]


@pytest.mark.parametrize("address", ["fake:room/*", "fake:room/a|b", "fake:room/[x]", 'fake:room/"q"'])
async def test_a_room_whose_address_would_be_a_pattern_is_not_asked_about(
    tmp_path: Path, channel: FakeChannel, address: str
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await gateway.store.write(open_room, address, gateway.clock.now())
        assert (await mention(channel, "hello", address=address)).state == "refused"
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.slow
async def test_who_is_shut_out_of_the_chosen_group_is_not_delivered(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        await mention(channel, "number 4", sender="fake:user/bob")
        row = AclRow(id=0, principal=EVE, action="interact", scope="acme", effect=AclEffect.DENY)
        await gateway.store.write(acl.put, row, gateway.clock.now())
        await reply_to_card(gateway, channel, "2", sender=BOSS)
        await wait_until_settled(gateway)
        assert {state for _, state in await gateway.store.read(states)} == {"refused"}
        assert await gateway.store.read(states, "fake:user/bob") == [("number 4", "answered")]


@pytest.mark.parametrize("policy", [RoomPolicy.STRICT, RoomPolicy.PUBLIC])
async def test_where_rooms_do_not_ask_nothing_is_held(tmp_path: Path, channel: FakeChannel, policy: RoomPolicy) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await gateway.store.write(rooms.set_policy, "fake", ROOM, policy)
        assert (await mention(channel, "number 1")).state == "refused"
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.slow
async def test_permit_lists_a_room_and_gives_it_to_a_group(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await mention_three(gateway, channel)
        ((_, asked),) = await gateway.agents.pending()
        assert asked.kind is RequestKind.ROOM and asked.input["groups"] == ["home", "acme"]
        with pytest.raises(Invalid, match="which group"):
            await gateway.agents.respond(asked.id, "operator", allow=True)
        given = make_answers(asked, ["acme"])
        await gateway.agents.respond(asked.id, "operator", allow=True, updated=given)
        await wait_until_settled(gateway)
        assert {each.folder for each in await gateway.store.read(routes.list_all)} == {"acme"}


def list_media(gateway: Gateway) -> list[str]:
    return [each.name for each in gateway.home.media.rglob("*") if each.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(("said", "left"), [("deny", []), ("never", []), ("2", ["note.txt"])])
async def test_files_of_a_refused_room_are_removed_with_the_answer(
    tmp_path: Path, channel: FakeChannel, said: str, left: list[str]
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        note = Attachment(name="note.txt", mime="text/plain", data=b"hello")
        held = await channel.say("number 1", address=ROOM, sender=EVE, verb=Verb.MENTION, attachments=(note,))
        assert held.state == "held" and list_media(gateway) == ["note.txt"]
        await channel.wait_for(lambda sent: bool(cards(channel)))
        await reply_to_card(gateway, channel, said, sender=BOSS)
        await wait_until_settled(gateway)
        assert list_media(gateway) == left
        message = await gateway.store.read(messages.get, held.message_id)
        assert message is not None and ("attachments" in message.content) is bool(left)


async def test_files_of_a_room_that_nobody_decided_about_are_removed(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    async with asking_gateway(tmp_path / "h", channel, clock=clock) as gateway:
        note = Attachment(name="note.txt", mime="text/plain", data=b"hello")
        await channel.say("number 1", address=ROOM, sender=EVE, verb=Verb.MENTION, attachments=(note,))
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + DAY + SECOND)
        await gateway.requests.move_due()
        async with asyncio.timeout(PATIENCE_S):  # the gateway's own loop may have been quicker, and be at it
            while list_media(gateway):  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.01)
