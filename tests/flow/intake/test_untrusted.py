"""Senders whom no platform proves, and a bot's own words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow import pairing
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import routing
from gatepost.flow.intake.intake import Intake
from gatepost.flow.sender_rights import find_rights, read_access
from gatepost.messages import address as addresses
from gatepost.messages.inbound import (
    CLICK,
    Inbound,
    Receipt,
    UnrecordedState,
    Verb,
    get_claimed,
    is_untrusted,
    make_untrusted,
    mark_untrusted,
)
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages
from gatepost.store.messages.messages import Message
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms, rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON, FixedClock

OWNER, ROOM = "mail:user/ann@example.org", "mail:thread/1"
FORGED = make_untrusted(OWNER)


class World:
    def __init__(self, store: SqliteStore, intake: Intake) -> None:
        self.store, self.intake, self.number = store, intake, 0

    async def send(self, text: str = "hello", **given: Any) -> Receipt:
        self.number += 1
        event: dict[str, Any] = {
            "address": ROOM,
            "platform_id": f"m{self.number}",
            "sender": OWNER,
            "sender_name": "Ann",
            "verb": Verb.UNTRUSTED,
            "direct": True,
        }
        return await self.intake.receive("mail", Inbound(text=text, **{**event, **given}))

    async def route(self, match: str, target: str, seq: int = 10) -> None:
        def add(db: Db) -> None:
            folder = routing.check_route(match, target, "per-thread", [group.folder for group in groups.list_all(db)])
            given = {"seq": seq, "match": match, "target": target, "folder": folder, "mode": "per-thread"}
            routes.add(db, routes.Route(**given, also=False, created_by="test", created_at=NOON))  # type: ignore[arg-type]

        await self.store.write(add)

    async def set_policy(self, policy: RoomPolicy) -> None:
        await self.store.write(lambda db: rooms.add(db, "mail", ROOM, "", True, policy, NOON))

    async def message(self, receipt: Receipt) -> Message:
        found = await self.store.read(messages.get, receipt.message_id)
        assert found is not None
        return found

    async def said(self) -> list[str]:
        seen = await self.store.read(messages.list_in_room, "mail", ROOM, 0, 100)
        return [each.text for each in seen if each.direction == "out"]


@pytest.fixture
async def world(store: SqliteStore, tmp_path: Any) -> World:
    def people(db: Db) -> None:
        groups.add(db, "home", "Home", "scripted", NOON)
        groups.add(db, "quarantine", "Quarantine", "scripted", NOON)
        users.add(db, OWNER, "Ann", NOON)
        users.add_role(db, OWNER, UserRole.OWNER, "", "test", NOON)

    await store.write(people)
    home = Home(tmp_path / "home")
    home.prepare()

    async def stop(session_id: str, by: str) -> bool:
        return False

    made = World(
        store,
        Intake(store, FixedClock(), Config(), EventBus(), ChannelInstances({}), home, stop),
    )
    await made.route("", "home")
    return made


async def test_a_forged_owner_is_nobody_and_a_proven_one_is_the_owner(world: World) -> None:
    forged, proven = await world.send(), await world.send(verb=Verb.MESSAGE)
    assert (forged.state, forged.reason, proven.state) == ("refused", "untrusted_sender", "queued")
    assert await world.said() == []  # nor is the forger greeted


async def test_routes_match_the_verb_and_the_agent_sees_that_the_name_is_not_proven(world: World) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    await world.route("verb=untrusted", "quarantine", seq=1)
    receipt = await world.send()
    message = await world.message(receipt)
    (session,) = await world.store.read(lambda db: db.rows("SELECT folder FROM sessions"))
    assert (receipt.state, session[0]) == ("queued", "quarantine")
    assert (message.sender, message.sender_name, message.verb) == (FORGED, "Ann (not proven)", "untrusted")
    assert message.content["senderId"] == FORGED


@pytest.mark.parametrize("text", ["/stop", "/clear", "/model x", "/approve r-1", "/pair ABCD-EFGH", "/join"])
async def test_it_gives_no_commands_even_where_everybody_may_speak(world: World, text: str) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    receipt = await world.send(text)
    assert receipt.state == "queued"  # words for the agent, no more
    assert await world.said() == []


async def test_it_is_never_paired_by_a_code_that_somebody_gave_it(world: World) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    code = await world.store.write(lambda db: pairing.issue_code(db, OWNER, "test", NOON))
    for text in (f"/pair {code}", code, f"here it is: {code}"):
        receipt = await world.send(text)
        assert code not in (await world.message(receipt)).text  # an agent would read it
    assert await world.store.read(identities.list_names, OWNER) == (OWNER,)
    assert not await world.store.write(lambda db: identities.add(db, FORGED, OWNER, "test", NOON))
    assert not await world.store.write(lambda db: identities.add(db, "mail:user/bob", FORGED, "test", NOON))


async def test_its_click_decides_nothing(world: World) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    receipt = await world.send("", event=CLICK, click="tok:allow")
    assert (receipt.state, receipt.reason) == ("refused", "untrusted_sender")


async def test_nobody_is_asked_about_it(world: World) -> None:
    await world.set_policy(RoomPolicy.REQUEST_APPROVAL)
    receipt = await world.send()
    assert (receipt.state, receipt.reason) == ("refused", "untrusted_sender")
    assert await world.store.read(waiting_requests.list_pending) == []


async def test_where_it_writes_is_not_where_the_person_is_reached(world: World) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    await world.send()
    assert await world.store.read(direct_rooms.list_for_people, (OWNER, FORGED)) == []


async def test_a_reaction_of_it_stays_untrusted(world: World) -> None:
    await world.set_policy(RoomPolicy.PUBLIC)
    receipt = await world.send("", event=f"reaction:👍:{OWNER}")
    assert ((await world.message(receipt)).sender, (await world.message(receipt)).verb) == (FORGED, "untrusted")


@pytest.mark.parametrize("principal", [OWNER, FORGED, "mail:user/*", "**", "untrusted:mail/user/*"])
async def test_no_row_of_the_access_list_gives_it_anything(world: World, principal: str) -> None:
    def grant(db: Db) -> None:
        for action in ("interact", "admin", "*"):
            row = AclRow(id=0, principal=principal, action=action)
            acl.put(db, row, NOON)

    await world.store.write(grant)
    assert await world.store.read(find_rights, FORGED, "home") == "guest"
    if principal in ("**", "mail:user/*"):
        assert await world.store.read(find_rights, "mail:user/bob", "home") == "admin"


async def test_not_even_a_role_under_its_own_address_counts(world: World) -> None:
    def grant(db: Db) -> None:
        users.add(db, FORGED, "", NOON)
        users.add_role(db, FORGED, UserRole.OWNER, "", "test", NOON)

    await world.store.write(grant)
    assert await world.store.read(find_rights, FORGED, "home") == "guest"
    assert (await world.store.read(read_access, FORGED)).roles.roles == ()


async def test_who_is_shut_out_stays_out_by_a_name_that_nobody_proves(world: World) -> None:
    row = AclRow(id=0, principal="mail:user/eve", action="interact", effect=AclEffect.DENY)
    await world.store.write(acl.put, row, NOON)
    assert await world.store.read(find_rights, make_untrusted("mail:user/eve"), "home") is None


@given(
    st.text(
        alphabet=st.characters(min_codepoint=33, exclude_characters="\x7f", exclude_categories=["Cs"]),
        min_size=1,
        max_size=505,
    )
)
def test_every_claimed_address_becomes_one_that_can_be_read(rest: str) -> None:
    made = make_untrusted(f"mail:{rest}")
    assert str(addresses.parse(made)) == made and is_untrusted(made)
    assert get_claimed(made) == f"mail:{rest}" or len(f"untrusted:mail/{rest}") > addresses.LONGEST


def test_it_is_marked_once() -> None:
    inbound = Inbound(address=ROOM, platform_id="1", sender=OWNER, text="x", verb=Verb.UNTRUSTED)
    once = mark_untrusted(inbound)
    assert mark_untrusted(once) is once
    proven = Inbound(address=ROOM, platform_id="1", sender=OWNER, text="x")
    assert mark_untrusted(proven) is proven


async def test_a_bots_own_words_are_not_recorded_and_wake_nobody(world: World) -> None:
    receipt = await world.send(verb=Verb.MESSAGE, own=True)
    assert (receipt.message_id, receipt.new, receipt.state) == (0, False, UnrecordedState.OWN)
    assert await world.store.read(lambda db: db.rows("SELECT id FROM messages")) == []
