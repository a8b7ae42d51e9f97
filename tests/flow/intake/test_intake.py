"""Intake, whole: from a channel's event to committed rows. Real SQLite, real files."""

import asyncio
from typing import Any

import pytest

from gatepost.core.clock import DAY, HOUR, SECOND, Period
from gatepost.core.errors import Invalid, Unavailable
from gatepost.flow import grant_changes, pairing
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.commands.conversation import CLEARED
from gatepost.flow.intake.intake import FIRST_OF_A_STRANGER, IntakeLimits, make_arrival
from gatepost.messages.inbound import Attachment, AttachmentKind, Direction, Inbound, MessageKind, Quote, Verb
from gatepost.store.messages import destinations, inbox, mailbox_rows, messages, outbox, room_history
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.money import budgets, costs, ledger
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import NewCost
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .conftest import ADMIN, MEMBER, OWNER, ROOM, STRANGER, World


async def test_somebody_is_reached_where_they_last_wrote_alone_also_in_a_room_that_was_known_before(
    routed: World,
) -> None:
    async def reached_at() -> str | None:
        return await routed.store.read(direct_rooms.find_address, OWNER, "tg")

    await routed.do(lambda db: rooms.add(db, "tg", ROOM, "", True, RoomPolicy.PUBLIC, NOON))
    await routed.send("in a group")
    assert await reached_at() is None
    await routed.send("alone", direct=True)
    assert await reached_at() == ROOM
    await routed.send("elsewhere", address="tg:user/1", direct=True)
    assert await reached_at() == "tg:user/1"
    await routed.send("in the group again")
    assert await reached_at() == "tg:user/1"


async def test_a_message_of_the_owner_makes_its_room_and_session_and_rings(routed: World) -> None:
    receipt = await routed.send("hello", room_name="The Lab")

    assert (receipt.new, receipt.state) == (True, "queued")
    [session] = await routed.sessions()
    assert (session.folder, session.address, session.thread) == ("home", ROOM, "")
    assert routed.woken == [session.id]
    [entry] = await routed.entries(receipt)
    assert (entry.state, entry.seq, entry.rights, entry.next_at) == ("queued", 1, "owner", NOON)
    room = await routed.store.read(rooms.get, "tg", ROOM)
    assert room is not None
    assert room.policy == "strict"
    [destination] = await routed.store.read(destinations.list_for_group, "home")
    assert (destination.name, destination.address) == ("the-lab", ROOM)


async def test_a_pairing_code_below_the_subject_of_a_mail_is_redeemed_and_kept_nowhere(routed: World) -> None:
    code = await routed.store.write(lambda db: pairing.issue_code(db, OWNER, "test", NOON))
    receipt = await routed.send(f"My code\n\n{code}", sender="mail:user/9", heading="My code", direct=True)
    assert receipt.state == "answered"
    assert "mail:user/9" in await routed.store.read(identities.list_names, OWNER)
    assert code not in (await routed.message(receipt)).text


async def test_two_first_mails_of_a_person_are_two_conversations(routed: World) -> None:
    for number in (1, 2):
        await routed.send("hello", platform_id=f"{number}@x", thread=f"{number}@x", direct=True)
    assert sorted(each.thread for each in await routed.sessions()) == ["1@x", "2@x"]


async def test_the_content_has_the_shape_that_agents_are_given(routed: World) -> None:
    quote = Quote(platform_id="m0", sender="Bo", text="what?")
    receipt = await routed.send("hi", sender_name="Ada", reply_to=quote, extra={"edited": False, "bad": "a\x00"})

    content = (await routed.message(receipt)).content
    assert content == {
        "edited": False,
        "bad": "a",
        "text": "hi",
        "sender": "Ada",
        "senderId": OWNER,
        "senderName": "Ada",
        "verb": "message",
        "replyTo": {"id": "m0", "text": "what?", "sender": "Bo"},
    }


@pytest.mark.parametrize(("given", "shown"), [("", "Ada"), (OWNER.partition(":")[2], "Ada"), ("ada_99", "ada_99")])
async def test_whom_the_platform_does_not_name_has_the_name_that_is_known_here(
    routed: World, given: str, shown: str
) -> None:
    await routed.store.write(users.set_name, OWNER, "Ada")
    message = await routed.message(await routed.send("hi", sender_name=given))
    assert (message.sender_name, message.content["sender"]) == (shown, shown)


async def test_told_twice_accepted_once(routed: World) -> None:
    first = await routed.send(platform_id="x")
    again = await routed.send(platform_id="x", attachments=(Attachment(name="a", data=b"1"),))

    assert (again.message_id, again.new, again.state) == (first.message_id, False, "queued")
    assert len(await routed.entries(first)) == 1
    assert len(routed.woken) == 1
    assert routed.files() == []


@pytest.mark.slow
async def test_fifty_at_once_are_accepted_once_in_one_session(routed: World) -> None:
    receipts = await asyncio.gather(*(routed.send(platform_id=f"x{number % 25}") for number in range(50)))

    assert sum(receipt.new for receipt in receipts) == 25
    assert len(await routed.sessions()) == 1
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


async def test_another_instance_sees_another_room(routed: World) -> None:
    inbound = Inbound(address=ROOM, platform_id="x", sender=OWNER, text="hi")
    first = await routed.intake.receive("tg", inbound)
    second = await routed.intake.receive("tg-2", inbound)

    assert first.new and second.new
    assert len(await routed.sessions()) == 2


async def test_nanoclaw_1_and_d25_a_stranger_in_an_unknown_chat_leaves_a_record_and_nothing_else(routed: World) -> None:
    receipt = await routed.send("hi", STRANGER)

    assert (receipt.state, receipt.reason) == ("refused", "unknown_sender_strict")
    assert await routed.store.read(users.get, STRANGER) is None
    assert await routed.count("rooms") == 0
    assert await routed.sessions() == []
    assert await routed.notices() == []
    assert routed.woken == []
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


@pytest.mark.slow
async def test_stranger_07_refused_messages_of_strangers_are_counted_after_the_first_ones(routed: World) -> None:
    for _ in range(200):
        receipt = await routed.send("hi" * 1000, STRANGER, attachments=(Attachment(name="a", mime="", data=b"x"),))
        assert (receipt.state, receipt.reason) == ("refused", "unknown_sender_strict")
    counted = {table: await routed.count(table) for table in ("messages", "inbox", "steps")}
    assert set(counted.values()) == {FIRST_OF_A_STRANGER}
    assert routed.files() == []

    routed.clock.advance(HOUR / SECOND)
    await routed.send("hi", STRANGER)
    (row,) = await routed.store.write(audit.list_latest, 10, lane="channel:tg")
    assert row[2:5] == ("channel:tg", "intake", "refused")
    assert f'"repeated":{200 - FIRST_OF_A_STRANGER}' in row[5] and STRANGER in row[5]
    assert await routed.count("messages") == FIRST_OF_A_STRANGER + 1


@pytest.mark.slow
async def test_stranger_07_many_strangers_are_counted_together(routed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.flow.intake.intake.FIRST_OF_STRANGERS", 30)
    for number in range(100):
        await routed.send("hi", f"tg:user/{1000 + number}")
    assert await routed.count("messages") == 30

    assert (await routed.send("hello", OWNER)).state == "queued"  # who belongs here is not spared
    assert (await routed.send("hello", MEMBER)).state == "queued"


async def test_a_stranger_who_is_let_in_meanwhile_is_heard_at_once(routed: World) -> None:
    for _ in range(FIRST_OF_A_STRANGER + 5):
        await routed.send("hi", STRANGER)

    def let_in(db: Db) -> None:
        users.add(db, STRANGER, "", NOON)
        users.add_member(db, STRANGER, "home", "test", NOON)

    await routed.do(let_in)
    receipt = await routed.send("hi", STRANGER)
    assert receipt.state == "queued" and receipt.message_id > 0


async def test_a_row_of_the_access_list_lets_a_stranger_in_and_another_shuts_everybody_out(routed: World) -> None:
    await routed.store.write(grant_changes.add_row, AclRow(id=0, principal=STRANGER, action="interact"), NOON)
    assert (await routed.send("hi", STRANGER)).state == "queued"

    denied = AclRow(id=0, principal="**", action="interact", effect=AclEffect.DENY)
    await routed.store.write(grant_changes.add_row, denied, NOON)
    receipt = await routed.send("and now?", STRANGER)
    assert (receipt.state, receipt.reason) == ("refused", "denied_by_the_access_list")
    assert (await routed.send("I own it", OWNER)).state == "queued"


async def test_nanoclaw_9_a_strangers_attachment_does_not_stay_on_the_disk(routed: World) -> None:
    await routed.send("first")
    receipt = await routed.send("look", STRANGER, attachments=(Attachment(name="x.sh", data=b"boo"),))

    assert receipt.reason == "unknown_sender_strict"
    assert routed.files() == []
    assert len(await routed.sessions()) == 1


async def test_nanoclaw_2_a_room_that_asks_for_approval_holds_what_strangers_write(routed: World) -> None:
    await routed.send("first")
    await routed.do(lambda db: rooms.set_policy(db, "tg", ROOM, RoomPolicy.REQUEST_APPROVAL))

    receipt = await routed.send("hi", STRANGER, verb=Verb.MENTION)
    assert receipt.state == "held"
    command = await routed.send("/clear", STRANGER)
    assert (command.state, command.reason) == ("refused", "unknown_sender_request_approval")


async def test_a_public_room_is_open_and_its_guests_stay_guests(routed: World) -> None:
    await routed.send("first")
    await routed.do(lambda db: rooms.set_policy(db, "tg", ROOM, RoomPolicy.PUBLIC))

    receipt = await routed.send("hi", STRANGER)
    [entry] = await routed.entries(receipt)
    assert (entry.state, entry.rights) == ("queued", "guest")
    assert await routed.store.read(users.get, STRANGER) is None


async def test_root_takes_the_owner_alone_even_in_a_public_room(world: World) -> None:
    await world.route("", "root")
    await world.send("first")
    await world.do(lambda db: rooms.set_policy(db, "tg", ROOM, RoomPolicy.PUBLIC))

    assert (await world.send("hi", STRANGER)).reason == "root_is_for_owners"
    assert (await world.send("hi", OWNER)).state == "queued"


async def test_nanoclaw_6_two_routes_give_two_sessions_with_one_row_each(world: World) -> None:
    await world.do(lambda db: groups.add(db, "triage", "Triage", "scripted", NOON))
    await world.route("text=/^bug/", "triage", seq=1, also=True)
    await world.route("", "home", seq=2)

    receipt = await world.send("bug x")
    entries = await world.entries(receipt)
    assert [entry.folder for entry in entries] == ["triage", "home"]
    assert len({entry.session_id for entry in entries}) == 2
    assert [entry.folder for entry in await world.entries(await world.send("fine"))] == ["home"]


async def test_two_routes_to_one_session_are_one_row_and_waking_counts(world: World) -> None:
    await world.route("", "home#observe", seq=1, also=True)
    await world.route("", "home", seq=2)

    [entry] = await world.entries(await world.send())
    assert (entry.mode, entry.state) == ("trigger", "queued")


async def test_nanoclaw_7_plain_messages_are_kept_as_context_until_a_mention_wakes(world: World) -> None:
    await world.route("verb=mention", "home", seq=1)
    await world.route("", "home#observe", seq=2)

    states = [(await world.send(f"{number}")).state for number in range(3)]
    assert states == ["observed"] * 3
    assert world.woken == []
    await world.send("now", verb=Verb.MENTION)

    [session] = await world.sessions()
    assert world.woken == [session.id]
    found = await world.store.read(
        mailbox_rows.list_to_project, session.id, mailbox_rows.ProjectionLimits(10, 1000, 10, 1000)
    )
    assert [message.text for _, message in found.pairs] == ["0", "1", "2", "now"]


async def test_nanoclaw_8_and_d3_context_alone_never_wakes_however_much_of_it_there_is(world: World) -> None:
    await world.route("verb=mention", "home", seq=1)
    await world.route("", "home#observe", seq=2)

    await world.send("one", thread="fresh")
    await world.send("two", thread="fresh")
    assert world.woken == []


async def test_nanoclaw_13_threads_are_sessions_of_their_own_unless_the_route_shares_them(world: World) -> None:
    await world.route("platform=tg", "home", seq=1)
    await world.send(thread="A")
    await world.send(thread="B")
    assert len(await world.sessions()) == 2

    await world.do(lambda db: groups.add(db, "one", "One", "scripted", NOON))
    await world.route("", "one", seq=0, mode="shared")
    await world.send(thread="A")
    await world.send(thread="B")
    assert [session.folder for session in await world.sessions()].count("one") == 1


async def test_nanoclaw_14_rooms_of_an_agent_shared_session_are_names_to_send_to(world: World) -> None:
    await world.route("", "home", mode="agent-shared")
    await world.send(room_name="Ops")
    await world.send(address="tg:group/8", room_name="Ops", thread="T2")

    assert len(await world.sessions()) == 1
    known = await world.store.read(destinations.list_for_group, "home")
    assert [(each.name, each.address, each.thread) for each in known] == [
        ("ops", ROOM, ""),
        ("ops-2", "tg:group/8", "T2"),
    ]


async def test_a_topic_pins_the_session_and_leaves_the_message_where_it_was(world: World) -> None:
    await world.route("", "home#news")
    receipt = await world.send(thread="A")

    [session] = await world.sessions()
    assert session.thread == "news"
    assert (await world.message(receipt)).thread == "A"


async def test_a_dropped_message_is_recorded_with_its_route(world: World) -> None:
    route = await world.route("text=*casino*", "drop", seq=1)
    await world.route("", "home", seq=2)

    receipt = await world.send("visit my casino")
    assert (receipt.state, receipt.reason) == ("refused", f"dropped_by_route {route}")
    assert await world.notices() == []


async def test_without_a_route_those_who_belong_are_told(world: World) -> None:
    assert (await world.send("hi", direct=True)).reason == "no_route"
    assert len(await world.notices()) == 1
    await world.send("chatter in a group")
    assert len(await world.notices()) == 1
    assert (await world.send("hi", STRANGER, direct=True)).reason == "unknown_sender_strict"
    assert len(await world.notices()) == 1


async def test_a_reply_or_reaction_to_the_agent_is_a_mention_in_its_thread(world: World) -> None:
    await world.route("verb=mention", "home")

    def spoken(db: Db) -> None:
        new = OutgoingMessage(
            key="k", origin=EffectOrigin.RESULT, instance="tg", address=ROOM, thread="T", text="well", folder="home"
        )
        [effect] = add_outgoing_message(db, ChannelInstances({}), new, NOON)
        outbox.claim_head(db, "tg", ROOM, "me", NOON, DAY)
        outbox.record_outcome(db, effect.id, EffectState.SENT, "", NOON, platform_id="a1")

    await world.do(spoken)
    reply = await world.send("why?", reply_to=Quote(platform_id="a1"))
    reaction = await world.send("👎", platform_id="a1", event=f"reaction:👎:{OWNER}")
    other = await world.send("why?", reply_to=Quote(platform_id="somebody's"))

    assert (await world.message(reply)).verb == "mention"
    assert (await world.message(reply)).thread == "T"
    reacted = await world.message(reaction)
    assert (reacted.verb, reacted.thread, reacted.reply_to) == ("mention", "T", "a1")  # the platform's own id
    assert (reacted.content["verb"], reacted.content["reaction"]) == ("dislike", "👎")
    assert other.reason == "no_route"


async def test_nanoclaw_15_and_d1_and_d23_a_denied_command_is_answered_and_wakes_nobody(routed: World) -> None:
    receipt = await routed.send("/cost", MEMBER)

    assert (receipt.state, receipt.reason) == ("refused", "command_denied")
    assert await routed.notices() == ["Only an owner or an admin of this agent may use /cost."]
    assert routed.rooms_woken == [ROOM]
    assert await routed.sessions() == []
    assert routed.woken == []


async def test_nanoclaw_15_an_admin_command_reaches_the_agent_raw(routed: World) -> None:
    receipt = await routed.send("@bot /Cost today", ADMIN)

    content = (await routed.message(receipt)).content
    assert (content["command"], content["text"]) == ("/cost today", "/cost today")
    assert receipt.state == "queued"


async def test_nanoclaw_15_and_d23_help_wakes_no_agent_and_is_answered(routed: World) -> None:
    receipt = await routed.send("/help")

    assert (receipt.state, receipt.reason) == ("answered", "command /help")
    [listed] = await routed.notices()
    assert "- /clear:" in listed and "goes to Home" in listed
    assert await routed.sessions() == []
    assert routed.woken == []


async def test_nanoclaw_15_and_d23_what_would_reach_into_the_provider_gives_nothing_at_all(routed: World) -> None:
    receipt = await routed.send("/logout")

    assert (receipt.state, receipt.reason) == ("cancelled", "dropped command")
    assert await routed.notices() == []
    assert await routed.sessions() == []


async def test_nanoclaw_15_clear_by_an_admin_forgets_the_conversation_and_says_so(routed: World) -> None:
    await routed.send("hello")
    [session] = await routed.sessions()
    await routed.do(lambda db: sessions.set_conversation(db, session.id, "scripted", "c-1", NOON))

    receipt = await routed.send("/clear", ADMIN)
    assert receipt.state == "answered"
    assert await routed.store.read(sessions.get_conversation, session.id, "scripted") == ""
    assert routed.stopped == [(session.id, ADMIN)]
    # What waited would have been answered from what is forgotten.
    assert await routed.notices() == ["Stopped.", CLEARED]


async def test_stop_acts_at_once_for_those_who_may(routed: World) -> None:
    await routed.send("work")
    [session] = await routed.sessions()
    assert (await routed.send("/stop", MEMBER)).state == "answered"
    assert routed.stopped == []

    assert (await routed.send("/stop", ADMIN)).state == "answered"
    assert routed.stopped == [(session.id, ADMIN)]
    assert len(routed.woken) == 1


async def test_stop_says_when_nothing_runs(routed: World) -> None:
    await routed.send("/stop")
    assert await routed.notices() == ["Nothing is running here."]
    assert await routed.sessions() == []

    receipt = await routed.send("work")
    await routed.send("/stop")
    assert await routed.notices() == ["Nothing is running here.", "Stopped."]
    [entry] = await routed.store.read(inbox.list_for_message, receipt.message_id)
    assert entry.state == "cancelled"

    await routed.send("/stop")
    assert (await routed.notices())[-1] == "Nothing is running here."


async def test_ping_and_chatid_are_answered_by_the_gateway_also_without_a_route(world: World) -> None:
    assert (await world.send("/chatid")).state == "answered"
    assert (await world.send("/ping")).state == "answered"
    assert (await world.send("/chatid", STRANGER)).state == "refused"
    assert await world.notices() == [f"{ROOM} (channel tg)", "pong: no agent is set up for this chat"]


async def test_commands_are_answered_in_the_language_that_the_person_chose(world: World) -> None:
    direct = {"address": "tg:user/1", "direct": True}
    assert (await world.send("/language tlh", **direct)).state == "refused"
    assert (await world.send("/language", **direct)).state == "refused"
    await world.send("/language DE", **direct)
    await world.send("/ping", **direct)
    await world.send("/ping")
    hint = "Write one of these behind it: `en` (English), `de` (Deutsch)."
    seen = await world.store.read(messages.list_in_room, "tg", "tg:user/1", 0, 100)
    assert [each.text for each in seen if each.direction == "out"] == [
        hint,
        hint,
        "Von jetzt an spreche ich Deutsch mit dir, wo ich für mich selbst spreche.",
        "pong: Für diesen Chat ist kein Agent eingerichtet",
    ]
    assert await world.notices() == ["pong: no agent is set up for this chat"]  # a room of several people


async def test_only_people_give_commands(routed: World) -> None:
    def known(db: Db) -> None:
        users.add(db, "agent:home", "", NOON)
        users.add_role(db, "agent:home", UserRole.OWNER, "", "test", NOON)

    await routed.do(known)
    receipt = await routed.send("/stop", "agent:home")
    assert receipt.state == "queued"
    assert "command" not in (await routed.message(receipt)).content


async def test_an_edit_is_no_command(routed: World) -> None:
    assert (await routed.send("/stop", event="edit:2", verb=Verb.EDIT)).state == "queued"


async def test_an_overlong_text_is_refused_and_the_sender_is_told(routed: World) -> None:
    receipt = await routed.send("ä" * 40_000)

    assert (receipt.state, receipt.reason) == ("refused", "text_too_long")
    assert len((await routed.message(receipt)).text) == 2000
    assert "80,000 bytes" in (await routed.notices())[0]


async def test_attachments_beyond_the_limit_are_refused_before_anything_is_written(routed: World) -> None:
    receipt = await routed.send("look", attachments=(Attachment(name="big", data=bytes(21 * 1024 * 1024)),))

    assert receipt.reason == "attachments_too_large"
    assert routed.files() == []
    assert "20 MB" in (await routed.notices())[0]


async def test_attachments_are_kept_and_named_in_the_content(routed: World) -> None:
    files = (
        Attachment(name="../a.png", mime="image/png", data=b"png", kind=AttachmentKind.IMAGE),
        Attachment(name="a.png", data=b"2"),
    )
    receipt = await routed.send("look", attachments=files)

    listed = (await routed.message(receipt)).content["attachments"]
    assert [(each["name"], each["type"], each["size"]) for each in listed] == [
        ("a.png", "image", 3),
        ("a-2.png", "file", 1),
    ]
    assert (routed.home.media / listed[0]["path"]).read_bytes() == b"png"


async def test_messages_from_before_an_outage_are_not_answered_and_a_room_is_told_once(routed: World) -> None:
    late = [await routed.send(f"old {number}", at=NOON - 2 * DAY) for number in range(3)]

    assert {(receipt.state, receipt.reason) for receipt in late} == {("failed", "stale")}
    assert len(await routed.notices()) == 1
    assert await routed.sessions() == []
    assert (await routed.send("new", at=NOON + DAY)).state == "queued"


async def test_text_is_cleaned_at_the_edge(routed: World) -> None:
    receipt = await routed.send("a\x00b \ud800", sender_name="A\x00da")
    message = await routed.message(receipt)
    assert message.text == "ab ?"
    assert message.sender_name == "Ada"


@pytest.mark.parametrize(
    "given",
    [
        {"address": "nowhere"},
        {"address": "tg:"},
        {"sender": "me"},
        {"platform_id": ""},
        {"event": ""},
        {"extra": {"a": b""}},
    ],
)
async def test_a_channels_own_mistake_is_refused_and_leaves_nothing(routed: World, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await routed.send(**given)
    assert await routed.count("messages") == 0


async def test_a_store_that_is_away_is_said_and_nothing_stays(routed: World) -> None:
    routed.store.close()
    with pytest.raises(Unavailable):
        await routed.send("hi", attachments=(Attachment(name="a", data=b"1"),))
    assert routed.files() == []
    assert routed.woken == []


@pytest.mark.slow
async def test_whatever_became_of_a_message_it_is_accounted_for(routed: World) -> None:
    for sender in (OWNER, MEMBER, STRANGER):
        for text in ("hi", "/stop", "/help", "/ping", "/compact", "/x", "ä" * 40_000):
            await routed.send(text, sender)
            await routed.send(text, sender, at=NOON - 3 * DAY)
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


async def spend(world: World, micro: int, limit: int) -> None:
    def book(db: Db) -> None:
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "home"), Period.DAY, limit, "test", NOON)
        costs.add_external(db, NewCost(key=f"c{micro}", at=NOON, folder="home", model="m", micro=micro), NOON)

    await world.do(book)


async def test_arizuko_30_a_spent_budget_wakes_nobody_and_the_room_hears_of_it_once(routed: World) -> None:
    await spend(routed, 1_000_000, 1_000_000)
    receipts = [await routed.send(f"hello {number}") for number in range(3)]
    elsewhere = await routed.send("hello", address="tg:group/8")

    assert {each.state for each in (*receipts, elsewhere)} == {"held"}
    (notice,) = await routed.notices()
    assert notice.startswith("Today's budget of home is spent: $1.00 of $1.00.")
    assert routed.rooms_woken and routed.woken == [] and await routed.sessions() == []
    assert await routed.count("outbox") == 2  # one for each room
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


async def test_a_spent_budget_that_is_raised_lets_messages_in_again_and_is_told_anew_when_it_ends(
    routed: World,
) -> None:
    await spend(routed, 1_000_000, 1_000_000)
    await routed.send("hello")
    await spend(routed, 500_000, 2_000_000)
    assert (await routed.send("hello")).state == "queued"
    await spend(routed, 600_000, 2_000_000)
    assert (await routed.send("hello")).state == "held"
    assert len(await routed.notices()) == 2


async def test_a_spent_budget_keeps_no_command_from_being_carried_out(routed: World) -> None:
    await spend(routed, 1_000_000, 1_000_000)
    assert (await routed.send("/ping")).state == "answered"


async def test_who_only_listens_needs_no_budget(routed: World) -> None:
    await spend(routed, 1_000_000, 1_000_000)
    await routed.route("", "root#observe", seq=1, also=True)
    receipt = await routed.send("hello")
    assert sorted(each.state for each in await routed.entries(receipt)) == ["held", "observed"]
    assert len(await routed.notices()) == 1 and routed.rooms_woken == [ROOM]


async def test_arizuko_30_a_budget_of_nothing_leaves_each_call_to_be_judged(routed: World) -> None:
    await spend(routed, 0, 0)
    assert (await routed.send("hello")).state == "queued"


# Groups that watch others.


async def watching(world: World, observer: str, source: str) -> str:
    """A group watches another, and has a conversation of its own elsewhere; that session."""

    def set_up(db: Db) -> str:
        for folder in (observer, source):
            groups.add(db, folder, folder, "scripted", NOON)
        groups.add_watcher(db, observer, source, "test", NOON)
        return sessions.find_or_add(db, SessionMode.PER_THREAD, observer, "tg", "tg:group/99", "", NOON).id

    session_id = await world.store.write(set_up)
    await world.route("", source, seq=5)
    return session_id


async def test_what_reaches_a_watched_group_is_context_for_who_watches_it_and_wakes_nobody(world: World) -> None:
    above = await watching(world, "acme", "acme/eng")
    receipt = await world.send("hello")

    rows = {entry.folder: entry for entry in await world.entries(receipt)}
    assert (rows["acme"].state, rows["acme"].session_id) == ("observed", above)
    assert rows["acme/eng"].state == "queued"
    assert above not in world.woken
    assert (await world.store.read(ledger.check, NOON)).unaccounted == 0


async def test_arizuko_25_a_sibling_is_watched_while_it_is_open_and_no_longer(world: World) -> None:
    beside = await watching(world, "acme/ops", "acme/eng")
    assert [entry.folder for entry in await world.entries(await world.send("sealed"))] == ["acme/eng"]

    await world.store.write(groups.update, "acme/eng", {"open": 1})
    assert {entry.session_id for entry in await world.entries(await world.send("open"))} >= {beside}
    await world.store.write(groups.update, "acme/eng", {"open": 0})
    assert [entry.folder for entry in await world.entries(await world.send("sealed again"))] == ["acme/eng"]


async def test_what_is_only_observed_itself_is_not_watched_further(world: World) -> None:
    await watching(world, "acme", "acme/eng")
    await world.route("", "acme/eng#observe", seq=1)
    assert [entry.folder for entry in await world.entries(await world.send("quietly"))] == ["acme/eng"]


async def test_what_an_open_group_only_observes_is_context_for_the_siblings_that_watch_it(world: World) -> None:
    beside = await watching(world, "acme/ops", "acme/eng")
    await world.route("", "acme/eng#observe", seq=1)
    assert [entry.folder for entry in await world.entries(await world.send("sealed"))] == ["acme/eng"]
    await world.store.write(groups.update, "acme/eng", {"open": 1})
    rows = {entry.folder: entry for entry in await world.entries(await world.send("open"))}
    assert (rows["acme/ops"].session_id, rows["acme/ops"].state) == (beside, "observed")


async def test_arizuko_25_sealing_a_sibling_hides_at_once_what_was_not_shown_yet_and_nothing_else(
    world: World,
) -> None:
    beside = await watching(world, "acme/ops", "acme/eng")
    above = await watching(world, "acme", "acme/eng")
    await world.store.write(groups.update, "acme/eng", {"open": 1})
    receipt = await world.send("secret plans")
    await world.route("room=group/99", "acme/ops#observe", seq=1)
    own = await world.send("its own", address="tg:group/99")
    limits = mailbox_rows.ProjectionLimits(observed=10, chars=4000, rows=10, size=10_000)

    async def shown(session_id: str) -> list[str]:
        return [
            each.text for _, each in (await world.store.read(mailbox_rows.list_to_project, session_id, limits)).pairs
        ]

    assert (await shown(beside), await shown(above)) == (["secret plans", "its own"], ["secret plans"])
    await world.store.write(groups.update, "acme/eng", {"name": "Eng"})  # another change seals nothing
    assert len(await shown(beside)) == 2
    await world.store.write(groups.update, "acme/eng", {"open": 0})
    assert (await shown(beside), await shown(above)) == (["its own"], ["secret plans"])
    assert {entry.folder for entry in await world.entries(receipt)} == {"acme/eng", "acme"}
    assert [entry.folder for entry in await world.entries(own)] == ["acme/ops"]
    assert (await world.store.read(ledger.check, NOON)).unaccounted == 0


def _fetched(db: Db, folder: str, platform_id: str, text: str) -> bool:
    new = NewMessage(
        instance="tg",
        address=ROOM,
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        sender=OWNER,
        text=text,
        at=1,
        platform_id=platform_id,
    )
    return room_history.add_fetched(db, new, folder, NOON)


async def test_what_was_only_fetched_is_delivered_when_it_is_told(routed: World) -> None:
    assert await routed.store.write(_fetched, "elsewhere", "m77", "please pay")
    receipt = await routed.send("please pay today", platform_id="m77", thread="t")

    assert (receipt.new, receipt.state) == (True, "queued")
    (session,) = await routed.sessions()
    assert routed.woken == [session.id]
    (entry,) = await routed.entries(receipt)  # what was fetched is no row of its own any more
    assert (entry.folder, entry.session_id, entry.reason) == ("home", session.id, "")
    message = await routed.message(receipt)
    assert (message.text, message.thread, await routed.count("messages")) == ("please pay today", "t", 1)
    assert not (await routed.send("please pay today", platform_id="m77", thread="t")).new
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


async def test_what_was_told_is_not_touched_by_fetching_it(routed: World) -> None:
    receipt = await routed.send("please pay", platform_id="m77")
    assert not await routed.store.write(_fetched, "elsewhere", "m77", "something else")
    (entry,) = await routed.entries(receipt)
    assert (entry.folder, entry.state, (await routed.message(receipt)).text) == ("home", "queued", "please pay")
    assert not (await routed.send("please pay", platform_id="m77")).new
    assert len(routed.woken) == 1


async def test_what_nobody_was_given_is_fetched_by_each_that_looks(world: World) -> None:
    assert await world.store.write(_fetched, "acme", "m77", "old")
    assert await world.store.write(_fetched, "beta", "m77", "old")
    assert not await world.store.write(_fetched, "beta", "m77", "old")
    known = await world.store.read(messages.find, "tg", ROOM, "in", "m77")
    assert known is not None
    assert [each.folder for each in await world.store.read(inbox.list_for_message, known.id)] == ["acme", "beta"]


async def test_what_is_said_within_one_second_stands_in_the_order_of_the_ledger(routed: World) -> None:
    """Some platforms know whole seconds only, and our own words in between have smaller times."""
    routed.clock.advance(0.7)
    first = await routed.message(await routed.send("theirs", at=NOON))
    routed.clock.advance(2)
    late = await routed.message(await routed.send("theirs, and late", at=NOON))
    exact = await routed.message(await routed.send("exact", at=NOON + 1))
    assert (first.at, late.at, exact.at) == (NOON + 7 * SECOND // 10, NOON + SECOND - 1, NOON + 1)


@pytest.mark.parametrize(("words", "command"), [("/stop", "stop"), ("/whatever you like", None), ("go on", None)])
def test_a_command_of_ours_below_the_subject_of_a_first_mail_counts(words: str, command: str | None) -> None:
    said = Inbound(
        address="email:user/ann@x.example",
        sender="email:user/ann@x.example",
        platform_id="1",
        text=f"enough\n\n{words}",
        heading="enough",
        direct=True,
    )
    found = make_arrival("email", said, IntakeLimits(), NOON, 0).command
    assert (found.name if found is not None else None) == command


def make_wide(count: int, first: int = 0x20000) -> str:
    """Signs of four bytes each, which no database can make smaller."""
    return "".join(chr(first + place * 7919 % 40_000) for place in range(count))


@pytest.mark.parametrize("field", ["address", "platform_id", "event", "sender"])
async def test_ids_are_taken_only_as_long_as_every_database_can_index_them(world: World, field: str) -> None:
    """Else one engine takes a message, and on the other its room would try it for ever."""
    most = {"address": f"tg:group/{make_wide(125)}", "platform_id": make_wide(128), "event": f"edit:{make_wide(126)}"}
    sender = f"tg:user/{make_wide(126)}"
    assert (await world.send(sender=sender, thread=make_wide(512), **most)).new
    longer = {**most, "sender": sender}
    with pytest.raises(Invalid):
        await world.send(**{**longer, field: longer[field] + make_wide(10)})


async def test_a_thread_with_a_name_of_any_length_has_its_conversation(world: World) -> None:
    await world.route("", "home")
    receipt = await world.send(thread=make_wide(512), address=f"tg:group/{make_wide(125)}")
    assert receipt.state == "queued"
