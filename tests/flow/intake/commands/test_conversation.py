"""/new and /clear: the next message finds a new conversation; the ledger keeps the old one. /fork: who may ask for it,
and what for. /compact: by the provider where it can, else by a summary of the agent's own. /stop: a member ends what is
done for themselves, an owner or an admin whatever is done."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.flow.intake.commands.conftest import ADA, ADMIN, BOB, GUEST, OWNER, ROOM, CommandDesk
from tests.store.sessions.test_skills import add as add_skill

from gatepost.core.clock import Period
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.admission import sessions_to_stop
from gatepost.flow.intake.commands.conversation import (
    BEGUN,
    BUSY,
    CLEARED,
    COMPACTING,
    FOR_OTHERS,
    NOT_RUNNING,
    NOTHING_TO_COMPACT,
    NOTHING_TO_FORK,
    SEVERAL_AGENTS,
)
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.requests.choices import ALLOW_SESSION
from gatepost.flow.requests.decide import decide
from gatepost.flow.sessions import compaction
from gatepost.messages.inbound import OPERATOR, Attachment, Inbound, Verb
from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

pytestmark = pytest.mark.anyio


async def remember(desk: CommandDesk) -> str:
    session = await desk.session()
    await desk.do(lambda db: sessions.set_conversation(db, session.id, "scripted", "c-1", NOON))
    return session.id


async def conversation(desk: CommandDesk) -> str:
    return await desk.store.read(sessions.get_conversation, (await desk.session()).id, "scripted")


async def test_new_starts_a_new_conversation_and_erases_nothing(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = await remember(desk)
    await desk.do(lambda db: sessions.set_summary(db, session, "what was"))
    await desk.do(lambda db: inbox.cancel_waiting(db, session, "over", NOON))

    assert await desk.ask("/new") == BEGUN
    assert await conversation(desk) == ""
    assert (await desk.store.read(sessions.get_notes, session)).summary == ""
    assert (await desk.session()).id == session
    assert desk.ended == [session]
    assert len(await desk.store.read(messages.list_in_room, "fake", ROOM, 0, 10)) == 3


async def test_new_with_words_gives_them_to_the_agent_without_the_command(desk: CommandDesk) -> None:
    receipt = await desk.say("/new what is the time?")

    assert receipt.state == "queued"
    message = await desk.store.read(messages.get, receipt.message_id)
    assert message is not None
    assert (message.text, message.content["text"]) == ("/new what is the time?", "what is the time?")
    assert "command" not in message.content
    assert desk.woken == [(await desk.session()).id]


async def test_new_does_not_end_what_is_done_for_somebody_else(desk: CommandDesk) -> None:
    await desk.say("work", BOB)
    await remember(desk)
    turn = await desk.claim()

    assert await desk.ask("/new", ADA) == BUSY
    assert await conversation(desk) == "c-1"
    assert (await desk.turn(turn.id)).ended_at is None


async def test_new_ends_the_senders_own_turn_which_then_names_no_conversation_any_more(desk: CommandDesk) -> None:
    await desk.say("work", ADA)
    await remember(desk)
    turn = await desk.claim()
    waiting = await desk.say("later", BOB)

    await desk.say("/new", ADA)
    named = await desk.do(lambda db: turns.set_conversation(db, turn.id, turn.epoch, "c-1", NOON))
    assert not named and await conversation(desk) == ""
    assert (await desk.entry(waiting)).state == "queued"


async def test_a_guest_may_not_start_a_new_conversation_for_everybody(desk: CommandDesk) -> None:
    assert await desk.ask("/new", GUEST) == "Only a member of this agent may use /new."


async def test_clear_is_for_admins_and_stops_everything(desk: CommandDesk) -> None:
    await desk.say("work", BOB)
    session = await remember(desk)
    turn = await desk.claim()

    assert await desk.ask("/clear", ADA) == "Only an owner or an admin of this agent may use /clear."
    assert (await desk.turn(turn.id)).ended_at is None
    assert (await desk.ask("/clear", ADMIN)).endswith(CLEARED)
    assert (await desk.turn(turn.id)).ended_at is not None
    assert await conversation(desk) == "" and desk.stopped == [session]


async def hold_call(desk: CommandDesk, who: str) -> Request:
    """A turn of somebody asks for a call, and is over."""
    await desk.say("work", who)
    turn = await desk.claim()
    new = NewRequest(
        kind=RequestKind.CALL,
        name=f"{turn.id}/1",
        folder="home",
        session_id=turn.session_id,
        turn_id=turn.id,
        tool="send",
        input={"text": "hello"},
        digest="d",
        about=f"send {who}",
        quorum=1,
    )

    def ask(db: Db) -> Request:
        found, _ = requests.add(db, new, NOON)
        db.run("UPDATE turns SET state = 'done', ended_at = ? WHERE id = ?", (NOON, turn.id))
        db.run("UPDATE inbox SET state = 'answered', next_at = NULL WHERE turn_id = ?", (turn.id,))
        return found

    asked: Request = await desk.do(ask)
    return asked


async def get_request(desk: CommandDesk, request: Request) -> Request:
    found = await desk.store.read(requests.get, request.id)
    assert found is not None
    return found


async def test_clear_withdraws_a_call_that_waits_after_its_turn(desk: CommandDesk) -> None:
    asked = await hold_call(desk, BOB)
    assert await desk.ask("/clear", ADMIN) == CLEARED
    assert (await get_request(desk, asked)).state is RequestState.WITHDRAWN


async def test_new_withdraws_what_waits_for_the_sender_and_nothing_of_others(desk: CommandDesk) -> None:
    hers, his = await hold_call(desk, ADA), await hold_call(desk, BOB)
    assert await desk.ask("/new", ADA) == BEGUN
    assert (await get_request(desk, hers)).state is RequestState.WITHDRAWN
    assert (await get_request(desk, his)).state is RequestState.PENDING


async def test_what_is_allowed_for_a_conversation_that_is_over_does_not_hold_in_the_next(desk: CommandDesk) -> None:
    his = await hold_call(desk, BOB)
    await desk.say("/new", ADA)
    done = await desk.do(lambda db: decide(db, ChannelInstances({}), his.id, ALLOW_SESSION, OPERATOR, NOON + 1))
    assert done.decided
    assert await desk.store.read(requests.find_lasting, his.session_id or "", f"send {BOB}") is None


async def test_clear_takes_along_what_the_agent_was_to_be_told(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = await desk.session()

    def tell(db: Db) -> int:
        number = messages.add_system(db, session, "approval:p-1", {"event": "approval"}, NOON)
        assert number is not None
        return inbox.enqueue(db, number, session.id, "home", "member", NOON)

    told = await desk.do(tell)
    await desk.say("/clear", ADMIN)
    entry = await desk.store.read(inbox.get, told)
    assert entry is not None and entry.state == "cancelled"


async def test_a_fork_needs_a_conversation_and_a_topic(desk: CommandDesk) -> None:
    assert await desk.ask("/fork side") == NOTHING_TO_FORK
    assert await desk.store.read(sessions.list_open) == []
    await desk.say("hello")
    for nothing in ("/fork", "/fork #", f"/fork {'x' * 200}"):
        assert "a topic has 1 to 128 printable characters" in await desk.ask(nothing)
    assert await desk.ask("/fork side", GUEST) == "Only a member of this agent may use /fork."


async def test_of_several_agents_none_is_forked(desk: CommandDesk) -> None:
    given: dict[str, Any] = {
        "seq": 5,
        "match": "",
        "target": "home#other",
        "folder": "home",
        "mode": "per-thread",
        "also": True,
    }
    await desk.do(lambda db: routes.add(db, routes.Route(**given, created_by="test", created_at=NOON)))
    await desk.say("hello")

    assert await desk.ask("/fork side") == SEVERAL_AGENTS


async def talked(desk: CommandDesk, provider: str = "scripted") -> str:
    """A conversation with something in it."""
    await desk.say("hello")
    session = await desk.session()

    def settle(db: Db) -> None:
        inbox.cancel_waiting(db, session.id, "over", NOON)
        sessions.set_conversation(db, session.id, provider, "c-1", NOON)

    await desk.do(settle)
    desk.woken.clear()
    return session.id


async def waiting(desk: CommandDesk, session: str) -> list[tuple[str, dict[str, str]]]:
    rows = await desk.store.read(inbox.list_open, session)
    return [(entry.mode, message.content) for entry, message in rows]


async def test_without_a_conversation_there_is_nothing_to_do(desk: CommandDesk) -> None:
    assert await desk.ask("/compact", ADMIN) == NOTHING_TO_COMPACT
    assert await desk.ask("/compact", ADA) == "Only an owner or an admin of this agent may use /compact."


async def test_a_provider_that_understands_it_gets_the_command_as_it_was_typed(desk: CommandDesk) -> None:
    await desk.do(lambda db: groups.update(db, "home", {"provider": "claude"}))
    session = await talked(desk, "claude")

    assert await desk.ask("/compact keep the names", ADMIN) == COMPACTING
    [(mode, content)] = await waiting(desk, session)
    assert (mode, content["command"]) == ("compact", "/compact keep the names")
    assert desk.woken == [session]


async def test_another_is_asked_for_a_summary_in_a_turn_of_its_own_which_the_asker_pays(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact keep the names", ADMIN)
    await desk.say("later")

    [(mode, content), _] = await waiting(desk, session)
    assert mode == "compact" and "command" not in content
    assert content["text"] == f"{compaction.INSTRUCTION}\nIn particular: keep the names"
    turn = await desk.claim()
    assert [message.content["text"] for _, message in await desk.store.read(inbox.list_for_turn, turn.id)] == [
        content["text"]
    ]
    assert await desk.store.read(costs.find_payer, turn.id) == ADMIN


def say(db: Db, session: str, turn: str, text: str) -> None:
    new = NewEffect(
        key=f"{turn}/0",
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance="fake",
        address="fake:group/7",
        text=text,
        payload={"text": text},
        folder="home",
        session_id=session,
        turn_id=turn,
    )
    outbox.add(db, new, NOON)


async def finish(desk: CommandDesk, session: str, text: str) -> list[str]:
    turn = await desk.claim()
    before = len(await desk.notices())
    if text:
        await desk.do(lambda db: say(db, session, turn.id, text))
    channels = desk.intake._channels
    assert await desk.do(lambda db: compaction.finish_turn(db, channels, turn, "{}", NOON))
    assert not await desk.do(lambda db: compaction.finish_turn(db, channels, turn, "{}", NOON))  # once
    return (await desk.notices())[before:]


async def test_the_next_conversation_begins_with_the_summary(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)

    assert await finish(desk, session, "We planted a plum.") == ["We planted a plum.", compaction.SHORTENED]
    assert await desk.store.read(sessions.get_conversation, session, "scripted") == ""
    assert (await desk.store.read(sessions.get_notes, session)).summary == "We planted a plum."


async def test_without_a_summary_the_conversation_stays(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)

    assert await finish(desk, session, "") == [compaction.NO_SUMMARY]
    assert await desk.store.read(sessions.get_conversation, session, "scripted") == "c-1"


async def test_a_summary_is_bounded(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)
    await finish(desk, session, "x" * 100_000)
    assert len((await desk.store.read(sessions.get_notes, session)).summary) == compaction.LONGEST_SUMMARY


async def test_a_provider_that_did_it_keeps_its_conversation(desk: CommandDesk) -> None:
    await desk.do(lambda db: groups.update(db, "home", {"provider": "claude"}))
    session = await talked(desk, "claude")
    await desk.say("/compact", ADMIN)
    turn = await desk.do(lambda db: turn_claims.claim(db, session, "claude", "me", NOON, 60_000_000, 20, ready=False))
    assert turn is not None and turn.compacts
    await desk.do(lambda db: turns.begin(db, turn.turn.id, turn.turn.epoch, turn.rows, NOON))

    channels = desk.intake._channels
    assert await desk.do(lambda db: compaction.finish_turn(db, channels, turn.turn, "{}", NOON))
    assert (await desk.notices())[-1] == compaction.DONE
    assert await desk.store.read(sessions.get_conversation, session, "claude") == "c-1"


async def test_a_turn_that_is_continued_after_a_crash_still_makes_it_shorter(desk: CommandDesk) -> None:
    session = await talked(desk)
    await desk.say("/compact", ADMIN)
    turn = await desk.claim()
    await desk.do(lambda db: db.run("UPDATE turns SET state = 'interrupted', next_at = 0 WHERE id = ?", (turn.id,)))
    again = await desk.do(lambda db: turn_claims.claim(db, session, "scripted", "me", NOON, 60_000_000, 20))
    assert again is not None and again.continued and again.compacts


async def test_a_spent_budget_keeps_it_from_being_started(desk: CommandDesk) -> None:
    session = await talked(desk)
    scope = BudgetScope(BudgetScopeKind.GROUP, "home")
    new = costs.NewCost(key="a", at=NOON, folder="home", model="m", micro=2_000_000)
    await desk.do(lambda db: budgets.put(db, scope, Period.DAY, 1_000_000, "op", NOON))
    await desk.do(lambda db: costs.add_external(db, new, NOON))

    assert "is spent" in await desk.ask("/compact", ADMIN)
    assert await waiting(desk, session) == []


async def test_the_room_does_not_show_what_the_agent_is_asked(desk: CommandDesk) -> None:
    await talked(desk)
    await desk.say("/compact", ADMIN)
    seen = await desk.store.read(messages.list_in_room, "fake", "fake:group/7", 0, 50)
    assert [each.kind for each in seen if each.text == compaction.INSTRUCTION] == ["system"]


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


async def test_a_mistyped_command_is_answered_with_the_near_name_and_starts_nothing(desk: CommandDesk) -> None:
    assert "Did you mean /stop?" in await desk.ask("/sotp")
    assert "Did you mean /help?" in await desk.ask("@gatepost /hepl me")
    assert await desk.store.read(sessions.list_open) == []
    receipt = await desk.say("/review the last change")
    assert receipt.state == "queued"


async def test_the_name_of_a_skill_goes_to_the_agent_though_it_is_near_to_a_command(desk: CommandDesk) -> None:
    await desk.do(lambda db: add_skill(db, "home", "statuts", "# Statutes"))
    assert (await desk.say("/statuts")).state == "queued"
