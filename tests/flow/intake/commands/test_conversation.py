"""/new and /clear: the next message finds a new conversation; the ledger keeps the old one."""

import pytest

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.commands.conversation import BEGUN, BUSY, CLEARED
from gatepost.flow.requests.choices import ALLOW_SESSION
from gatepost.flow.requests.decide import OPERATOR, decide
from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import sessions, turns
from gatepost_testing.clock import NOON

from .conftest import ADA, ADMIN, BOB, GUEST, ROOM, CommandDesk

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
