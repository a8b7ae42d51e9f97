"""/new and /clear: the next message finds a new conversation; the ledger keeps the old one."""

import pytest

from gatepost.flow.intake.commands.conversation import BEGUN, BUSY, CLEARED
from gatepost.store import inbox, messages, session_notes, sessions, turns
from gatepost.testing.clock import NOON

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
    await desk.do(lambda db: session_notes.set_summary(db, session, "what was"))
    await desk.do(lambda db: inbox.cancel_waiting(db, session, "over", NOON))

    assert await desk.ask("/new") == BEGUN
    assert await conversation(desk) == ""
    assert (await desk.store.read(session_notes.get, session)).summary == ""
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
