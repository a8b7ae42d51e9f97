"""/stop: a member ends what is done for themselves, an owner or an admin whatever is done."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gatepost.flow.intake.admission import sessions_to_stop
from gatepost.flow.intake.commands.stop import FOR_OTHERS, NOT_RUNNING
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.messages.inbound import Attachment, Inbound, Verb
from gatepost.store.messages import inbox, messages
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import turn_claims
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .conftest import ADA, ADMIN, BOB, GUEST, OWNER, ROOM, CommandDesk

pytestmark = pytest.mark.anyio


async def test_a_member_stops_her_own_turn(desk: CommandDesk) -> None:
    asked = await desk.say("work", ADA)
    turn = await desk.claim()

    assert (await desk.say("/stop", ADA)).state == "answered"
    assert (await desk.turn(turn.id)).error == f"stopped by {ADA}"
    assert (await desk.entry(asked)).state == "cancelled"
    assert desk.ended == [turn.session_id] and desk.stopped == []
    assert await desk.notices() == ["Stopped."]


async def test_a_member_does_not_stop_what_is_done_for_somebody_else_and_is_told_so(desk: CommandDesk) -> None:
    asked = await desk.say("work", ADA)
    turn = await desk.claim()
    waiting = await desk.say("and this", ADA)

    assert await desk.ask("/stop", BOB) == FOR_OTHERS
    assert (await desk.turn(turn.id)).ended_at is None
    assert ((await desk.entry(asked)).state, (await desk.entry(waiting)).state) == ("working", "queued")
    assert desk.ended == desk.stopped == []


async def test_who_joins_a_turn_cannot_stop_it_but_withdraws_what_she_has_waiting(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()
    own = await desk.say("me too", BOB)

    assert await desk.ask("/stop", BOB) == f"Stopped. {FOR_OTHERS}"
    assert (await desk.turn(turn.id)).ended_at is None
    assert (await desk.entry(own)).state == "cancelled"


async def test_what_others_wrote_goes_on_when_a_member_stops_her_turn(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()
    joined = await desk.say("me too", BOB)
    await desk.do(lambda db: turn_claims.claim_more(db, turn.id, turn.epoch, NOON, 60_000_000, 20))
    waiting = await desk.say("later", BOB)

    await desk.say("/stop", ADA)
    both = [await desk.entry(joined), await desk.entry(waiting)]
    assert [(each.state, each.turn_id, each.given) for each in both] == [("queued", None, 0), ("queued", None, 0)]
    again = await desk.claim()
    assert {(await desk.entry(each)).turn_id for each in (joined, waiting)} == {again.id}


@pytest.mark.parametrize("who", [OWNER, ADMIN])
async def test_an_owner_or_an_admin_stops_whatever_runs_and_waits(desk: CommandDesk, who: str) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()
    waiting = await desk.say("later", BOB)

    await desk.say("/stop", who)
    assert (await desk.turn(turn.id)).ended_at is not None
    assert (await desk.entry(waiting)).state == "cancelled"
    assert desk.stopped == [turn.session_id]


async def test_a_person_stops_by_any_of_her_identities(desk: CommandDesk) -> None:
    await desk.do(lambda db: identities.add(db, "fake:user/phone", ADA, "test", NOON))
    await desk.say("work", "fake:user/phone")
    turn = await desk.claim()

    await desk.say("/stop", ADA)
    assert (await desk.turn(turn.id)).ended_at is not None


async def test_a_guest_of_a_public_room_stops_her_own_turn_and_no_other(desk: CommandDesk) -> None:
    await desk.say("work", GUEST)
    first = await desk.claim()
    await desk.say("/stop", GUEST)
    await desk.say("work", ADA)
    second = await desk.claim()

    assert await desk.ask("/stop", GUEST) == FOR_OTHERS
    assert (await desk.turn(first.id)).ended_at is not None
    assert (await desk.turn(second.id)).ended_at is None


async def test_nothing_to_stop_is_said(desk: CommandDesk) -> None:
    assert await desk.ask("/stop", ADA) == NOT_RUNNING
    await desk.say("work", ADA)
    await desk.say("/stop", ADA)
    assert await desk.ask("/stop", ADA) == NOT_RUNNING


@pytest.mark.parametrize(("who", "stops"), [(ADA, True), (BOB, False), (ADMIN, True)])
async def test_the_urgent_way_judges_by_the_same_rule(desk: CommandDesk, who: str, stops: bool) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()
    inbound = Inbound(address=ROOM, platform_id="late", sender=who, text="/stop")
    arrival = make_arrival("fake", inbound, IntakeLimits(), NOON, 0)

    found = await desk.store.read(sessions_to_stop, desk.intake._channels, arrival)
    assert found == ((turn.session_id,) if stops else ())


async def test_the_agent_is_told_what_was_decided_though_somebody_stops_it(desk: CommandDesk) -> None:
    waiting = await desk.say("hello")
    session = await desk.session()

    def tell(db: Db, key: str) -> int:
        number = messages.add_system(db, session, key, {"event": key.partition(":")[0]}, NOON)
        assert number is not None
        return inbox.enqueue(db, number, session.id, "home", "member", NOON)

    keys = ("approval:p-1", "question:p-2", "compact:1")
    told = [await desk.do(lambda db, key=key: tell(db, key)) for key in keys]
    await desk.say("/stop", ADMIN)
    found = [await desk.store.read(inbox.get, each) for each in told]
    assert [each.state for each in found if each is not None] == ["queued", "queued", "cancelled"]
    assert (await desk.entry(waiting)).state == "cancelled"


async def only_routes(desk: CommandDesk, *matches: str, target: str = "home") -> None:
    def change(db: Db) -> None:
        db.run("DELETE FROM routes")
        for seq, match in enumerate(matches):
            given: dict[str, Any] = {
                "seq": seq,
                "match": match,
                "target": target,
                "folder": "home",
                "mode": "per-thread",
            }
            routes.add(db, routes.Route(**given, also=False, created_by="test", created_at=NOON))

    await desk.do(change)


async def test_a_stop_needs_no_mention_where_only_a_mention_wakes_the_agent(desk: CommandDesk) -> None:
    await only_routes(desk, "verb=mention")
    await desk.say("work", ADA, verb=Verb.MENTION)
    turn = await desk.claim()
    desk.clock.advance(3600)  # nobody is engaged any more

    assert (await desk.say("/stop", ADA)).state == "answered"
    assert (await desk.turn(turn.id)).error == f"stopped by {ADA}"


async def test_a_stop_reaches_the_agent_whose_route_asks_for_words(desk: CommandDesk) -> None:
    await only_routes(desk, "text=/^deploy/")
    await desk.say("deploy it", ADA)
    turn = await desk.claim()

    await desk.say("/stop", ADA)
    assert (await desk.turn(turn.id)).ended_at is not None
    assert await desk.notices() == ["Stopped."]
    assert (await desk.say("other words", ADA)).reason == "no_route"


async def test_a_stop_is_no_context_for_an_agent_that_observes_the_room(desk: CommandDesk) -> None:
    await only_routes(desk, "verb=mention")
    await desk.do(
        lambda db: routes.add(
            db,
            routes.Route(
                seq=9,
                match="",
                target="home#observe",
                folder="home",
                mode=SessionMode.PER_THREAD,
                also=False,
                created_by="test",
                created_at=NOON,
            ),
        )
    )
    await desk.say("work", ADA, verb=Verb.MENTION)
    turn = await desk.claim()
    desk.clock.advance(3600)

    assert (await desk.say("/stop", ADA)).state == "answered"
    assert (await desk.turn(turn.id)).ended_at is not None


async def test_a_stop_waits_for_no_file_that_came_with_it(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    turn, opened = await desk.claim(), list[str]()

    async def open_file() -> AsyncIterator[bytes]:
        opened.append("x")
        yield b"x"

    await desk.say("/stop", ADA, attachments=(Attachment(name="x", open=open_file),))
    assert (await desk.turn(turn.id)).ended_at is not None
    assert opened == []


async def test_a_forwarded_message_is_never_a_command(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()

    assert (await desk.say("/stop", ADA, forwarded=True)).state == "queued"
    assert (await desk.turn(turn.id)).ended_at is None


async def test_a_stop_in_another_thread_ends_what_runs_for_its_sender_in_the_room(desk: CommandDesk) -> None:
    await desk.say("work", ADA, thread="t1")
    turn = await desk.claim()

    assert await desk.ask("/stop", OWNER, thread="t2") == FOR_OTHERS
    assert (await desk.turn(turn.id)).ended_at is None
    await desk.say("/stop", ADA, thread="t2")
    assert (await desk.turn(turn.id)).error == f"stopped by {ADA}"
    assert desk.ended == [turn.session_id]


async def test_a_stop_reaches_nothing_of_an_agent_that_its_sender_could_not_reach(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    turn = await desk.claim()
    await only_routes(desk, "sender=fake:user/ada text=/^deploy/")

    assert (await desk.say("/stop", OWNER)).reason == "no_route"
    assert (await desk.turn(turn.id)).ended_at is None
