"""/pin: the message that is answered, or a note for the agent."""

import pytest

from gatepost.core.records import replace
from gatepost.flow.intake.commands.pin import NO_PINS, NOT_KNOWN, NOTHING
from gatepost.messages.inbound import Quote
from gatepost.messages.outbound import Feature, Op
from gatepost.store.port import Db
from gatepost.store.sessions import sessions

from .conftest import ADA, BOB, GUEST, CommandDesk

pytestmark = pytest.mark.anyio


async def test_a_note_is_kept_shown_and_taken_back(desk: CommandDesk) -> None:
    assert await desk.ask("/pin") == NOTHING
    assert await desk.store.read(sessions.list_open) == []
    assert (await desk.ask("/pin Speak French\nplease", ADA)).startswith("Pinned.")
    session = await desk.session()
    notes = await desk.store.read(sessions.get_notes, session.id)
    assert (notes.pinned, notes.pinned_by) == ("Speak French\nplease", ADA)
    assert await desk.ask("/pin", BOB) == f"Pinned by {ADA}:\nSpeak French\nplease"
    assert "Pinned: a note" in await desk.ask("/status")

    assert await desk.ask("/pin off") == "Nothing is pinned any more."
    assert await desk.ask("/pin") == NOTHING
    assert desk.renewed == [session.id, session.id]


async def test_a_note_is_bounded_and_for_members(desk: CommandDesk) -> None:
    assert await desk.ask("/pin " + "x" * 2001) == "A note has at most 2000 characters; this one has 2001."
    assert await desk.ask("/pin hello", GUEST) == "Only a member of this agent may use /pin."
    assert await desk.store.read(sessions.list_open) == []


def effects(db: Db) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in db.rows("SELECT op, target_id FROM outbox WHERE op <> 'send' ORDER BY id")]


async def test_the_message_that_is_answered_is_pinned_on_the_platform(desk: CommandDesk) -> None:
    meant = await desk.say("the plan", BOB, platform_id="plan")
    receipt = await desk.say("/pin", ADA, reply_to=Quote(platform_id="plan"))

    assert receipt.state == "answered"
    assert await desk.store.read(effects) == [(Op.PIN, meant.message_id)]


async def test_a_message_that_nobody_knows_is_not_pinned(desk: CommandDesk) -> None:
    assert await desk.ask("/pin", ADA, reply_to=Quote(platform_id="gone")) == NOT_KNOWN
    assert await desk.store.read(effects) == []


async def test_where_messages_cannot_be_pinned_that_is_said(desk: CommandDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    channels = desk.intake._channels
    unable = replace(channels.get_kind("fake"), features=frozenset(Feature) - {Feature.PIN})
    monkeypatch.setattr(channels, "get_kind", lambda instance: unable)
    await desk.say("the plan", BOB, platform_id="plan")
    assert await desk.ask("/pin", ADA, reply_to=Quote(platform_id="plan")) == NO_PINS
