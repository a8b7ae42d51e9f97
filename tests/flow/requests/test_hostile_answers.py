"""Attempts to get something decided by somebody else, by other words, or for longer than was asked."""

import json
from typing import Any

import pytest

from gatepost.access.acl import list_valid_rows
from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import DAY, HOUR, SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.accepted_message import IntakeResult, UnrecordedSender
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.requests import unknown_senders
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.card_delivery import find_facts
from gatepost.flow.requests.chat_replies import GivenAnswer, PersonMessage, is_decided, read_answer
from gatepost.flow.requests.choices import ALLOW_ALWAYS, ALLOW_ONCE, ALLOW_SESSION, BLOCK, list_choices, make_card
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.messages.card import render_text
from gatepost.messages.inbound import CLICK, Direction, Inbound
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit, request_cards, requests, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import retention
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .acme_people import deliver

ADA, BOB, EVE = "fake:user/ada", "fake:user/bob", "fake:user/eve"
DIRECT, ROOM = "fake:direct/ada", "fake:room/1"
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
DAYLONG = AskingRules(escalate=600 * SECOND, expire=DAY, quorum=1)
TWO = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=2)


def make_channels(*features: Feature) -> ChannelInstances:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(features))
    return ChannelInstances({"fake": kind})


CHANNELS = make_channels(Feature.EDIT)


@pytest.fixture
def session_id(db: Db) -> str:
    """A group with an admin, and an owner."""
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for person, role, folder in ((ADA, UserRole.ADMIN, "acme"), (BOB, UserRole.OWNER, "")):
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
    direct_rooms.add(db, ADA, "fake", DIRECT, NOON)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON).id


def ask_call(db: Db, session_id: str, rules: AskingRules = RULES, **given: object) -> Request:
    values: dict[str, object] = {
        "kind": RequestKind.CALL,
        "name": "t/call/1",
        "folder": "acme",
        "session_id": session_id,
        "turn_id": "t",
        "tool": "send",
        "input": {"text": "hello"},
        "digest": "d",
        "rule": "send",
        **given,
    }
    return ask(db, CHANNELS, rules, NewRequest(**values), NOON).request  # type: ignore[arg-type]


def ask_sender(db: Db, name: str = EVE, rules: AskingRules = RULES) -> Request:
    new = NewRequest(kind=RequestKind.SENDER, name=name, folder="acme", input={"from": name})
    return ask(db, CHANNELS, rules, new, NOON).request


def answer(db: Db, text: str, *features: Feature, sender: str = ADA, reply: bool = False) -> GivenAnswer | None:
    cards = request_cards.list_open_in_room(db, "fake", DIRECT)
    said = PersonMessage(
        instance="fake",
        address=DIRECT,
        sender=sender,
        text=text,
        answers=cards[0].message_id if reply else None,
        command=text.split()[0] if text.startswith("/") else "",
    )
    return read_answer(db, make_channels(*features), said, cards, NOON + 5 * SECOND)


def say_as_agent(db: Db, text: str) -> None:
    new = NewEffect(
        key=text, op=Op.SEND, origin=EffectOrigin.TOOL, instance="fake", address=DIRECT, text=text, payload={}
    )
    outbox.add(db, new, NOON)


def receive(
    db: Db, text: str, sender: str, number: int = 1, *, skip_recording: bool = False, **given: object
) -> IntakeResult:
    values: dict[str, object] = {
        "address": ROOM,
        "platform_id": f"{sender} {number}",
        "sender": sender,
        "text": text,
        **given,
    }
    arrival = make_arrival("fake", Inbound(**values), IntakeLimits(), NOON, 0)  # type: ignore[arg-type]
    return accept(db, CHANNELS, arrival, NOON, skip_recording, asking=RULES)


# Words.


@pytest.mark.parametrize("features", [(), (Feature.CARDS,)])
@pytest.mark.parametrize("text", ["always", "Allow once"])
def test_a_word_is_no_answer_once_something_was_said_behind_the_card(
    db: Db, session_id: str, features: tuple[Feature, ...], text: str
) -> None:
    """An agent that asks "do you always want this?" in the room of its own card is not allowed what it asked for."""
    ask_call(db, session_id)
    deliver(db, NOON)
    say_as_agent(db, "Shall I use metric units always, or once?")
    passed = answer(db, text, *features)
    assert passed is not None and passed.passes and "If that was meant for" in passed.said
    given = answer(db, text, *features, reply=True)
    assert given is not None and is_decided(given.reason)


def test_a_no_in_words_counts_at_any_time(db: Db, session_id: str) -> None:
    ask_call(db, session_id)
    say_as_agent(db, "I have asked for it.")
    passed, given = answer(db, "4"), answer(db, "deny")
    assert passed is not None and passed.passes
    assert given is not None and is_decided(given.reason)


@pytest.mark.parametrize("text", ["/approve P-0123456789", "/approve 0123456789", "/approve the other one"])
def test_who_approves_another_id_does_not_approve_the_one_that_waits(db: Db, session_id: str, text: str) -> None:
    request = ask_call(db, session_id)
    given = answer(db, text)
    assert given is not None and not is_decided(given.reason)
    waiting = requests.get(db, request.id)
    assert waiting is not None and waiting.state is RequestState.PENDING


def test_an_edited_message_and_a_reaction_decide_nothing(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    for event in ("edit:2", f"reaction:1:{ADA}"):
        receive(db, "deny", ADA, address=DIRECT, direct=True, event=event)
    waiting = requests.get(db, request.id)
    assert waiting is not None and waiting.state is RequestState.PENDING


# People.


def test_an_admin_whom_the_access_list_shuts_out_decides_nothing(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    row = AclRow(id=0, principal=ADA, action="interact", scope="acme", effect=AclEffect.DENY)
    acl.put(db, row, NOON)
    assert not decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON).decided


def test_what_root_asks_is_decided_by_owners_alone(db: Db, session_id: str) -> None:
    users.add_role(db, ADA, UserRole.ADMIN, "", "test", NOON)
    groups.add(db, "root", "Root", "scripted", NOON)
    above = sessions.find_or_add(db, SessionMode.PER_THREAD, "root", "fake", ROOM, "", NOON).id
    request = ask_call(db, above, folder="root")
    assert not decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON).decided
    assert decide(db, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON).decided


def test_who_lost_the_right_since_does_not_count_among_those_who_agree(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id, TWO)
    assert not decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON).decided
    db.run("DELETE FROM user_roles WHERE user_id = ?", (ADA,))
    assert not decide(db, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON).decided


def test_where_several_must_agree_one_of_them_does_not_make_it_last(db: Db, session_id: str) -> None:
    for request in (ask_call(db, session_id, TWO), ask_sender(db, rules=TWO)):
        assert [each for each in list_choices(request) if each.state is RequestState.ALLOWED] == [ALLOW_ONCE]
        decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON)
        with pytest.raises(Invalid, match="lasts"):
            decide(db, CHANNELS, request.id, ALLOW_ALWAYS, BOB, NOON)
    assert acl.list_rules(db) == [] and users.get_roles(db, EVE).member_of == ()


@pytest.mark.parametrize("by", [ADA, BOB, "operator"])
def test_whoever_blocks_somebody_the_row_counts(db: Db, session_id: str, by: str) -> None:
    request = ask_sender(db)
    assert decide(db, CHANNELS, request.id, BLOCK, by, NOON).decided
    valid = list_valid_rows(acl.list_rows(db), acl.list_members(db))
    assert [(row.principal, row.effect) for row in valid] == [(EVE, AclEffect.DENY)]


def test_nobody_is_asked_about_a_sender_whose_id_is_a_pattern(db: Db, session_id: str) -> None:
    """Else "Block" would shut out everybody whom it fits."""
    new = NewMessage(
        instance="fake",
        address=ROOM,
        direction=Direction.IN,
        sender="fake:user/*",
        text="hello",
        at=NOON,
        platform_id="1",
    )
    message_id = messages.accept(db, new, NOON)
    assert message_id is not None
    assert unknown_senders.hold(db, CHANNELS, RULES, message_id, new, "acme", "guest", NOON) is None


# Floods.


@pytest.mark.parametrize("how", ["command", "click"])
def test_what_strangers_answer_is_counted_as_what_strangers_write(db: Db, session_id: str, how: str) -> None:
    request = ask_call(db, session_id)
    rooms.add(db, "fake", ROOM, "room", False, RoomPolicy.STRICT, NOON)
    click: dict[str, Any] = {"event": CLICK, "click": "made-up:0"} if how == "click" else {}
    text = "" if how == "click" else f"/approve {request.id}"
    assert receive(db, text, EVE, **click).stranger
    with pytest.raises(UnrecordedSender):
        receive(db, text, EVE, 2, skip_recording=True, **click)
    assert not receive(db, text, ADA, 3, skip_recording=True, **click).stranger


def write_as_stranger(db: Db, name: str, now: int = NOON) -> bool:
    """Return True if somebody is asked about them."""
    new = NewMessage(
        instance="fake",
        address=ROOM,
        direction=Direction.IN,
        sender=f"fake:user/{name}",
        text="hello",
        at=now,
        platform_id=f"{name}-{now}",
    )
    message_id = messages.accept(db, new, now)
    assert message_id is not None
    return unknown_senders.hold(db, CHANNELS, DAYLONG, message_id, new, "acme", "guest", now) is not None


def list_asked_about(db: Db) -> set[str]:
    return {each.name.removeprefix("fake:user/") for each in waiting_requests.list_of_people(db, "acme")}


def test_so_many_strangers_are_asked_about_and_no_more(db: Db, session_id: str) -> None:
    held = [write_as_stranger(db, str(number)) for number in range(unknown_senders.MOST_ASKED + 5)]
    assert held.count(True) == unknown_senders.MOST_ASKED
    assert write_as_stranger(db, "0", NOON + 1)


def test_a_crowd_of_made_up_names_keeps_nobody_out_for_longer_than_an_hour(db: Db, session_id: str) -> None:
    """Nobody decides about the first ones. Who comes an hour later is asked about, and the oldest may ask again."""
    most = unknown_senders.MOST_ASKED
    assert all(write_as_stranger(db, f"made-up-{number}", NOON + number) for number in range(most))
    assert not write_as_stranger(db, "ann", NOON + HOUR - 1)
    later = NOON + HOUR + most
    assert write_as_stranger(db, "ann", later) and write_as_stranger(db, "ben", later)
    move_due(db, DAYLONG, CHANNELS, later)
    asked = list_asked_about(db)
    assert len(asked) == most and {"ann", "ben"} < asked and not {"made-up-0", "made-up-1"} & asked
    assert db.row("SELECT COUNT(*) FROM inbox WHERE state = 'refused' AND reason = 'sender_withdrawn'") == (2,)
    assert write_as_stranger(db, "made-up-0", later + 1)  # it is no verdict about them
    for number in range(unknown_senders.MOST_A_DAY):
        write_as_stranger(db, f"further-{number}", later + 2 * HOUR)
        move_due(db, DAYLONG, CHANNELS, later + 2 * HOUR)
    assert len(list_asked_about(db)) == most  # and their cards are bounded
    count = requests.count_of_kind_since(db, RequestKind.SENDER, "acme", NOON)
    assert count <= unknown_senders.MOST_A_DAY


def test_whoever_decides_about_the_oldest_of_a_crowd_does_so(db: Db, session_id: str) -> None:
    for number in range(unknown_senders.MOST_ASKED):
        write_as_stranger(db, str(number), NOON + number)
    first = requests.find_last(db, RequestKind.SENDER, "acme", "fake:user/0")
    assert first is not None and write_as_stranger(db, "ann", NOON + 2 * HOUR)
    done = decide(db, CHANNELS, first.id, ALLOW_ALWAYS, ADA, NOON + 2 * HOUR)
    assert done.decided


def test_the_files_of_a_stranger_who_waits_are_bounded(db: Db, session_id: str) -> None:
    half = unknown_senders.MOST_HELD_BYTES // 2
    held = []
    for number in range(4):
        content = json.dumps({"attachments": [{"name": "f", "size": half}]}) if number < 3 else "{}"
        new = NewMessage(
            instance="fake",
            address=ROOM,
            direction=Direction.IN,
            sender=EVE,
            text="look",
            at=NOON,
            platform_id=str(number),
            content=content,
        )
        message_id = messages.accept(db, new, NOON)
        assert message_id is not None
        held.append(unknown_senders.hold(db, CHANNELS, RULES, message_id, new, "acme", "guest", NOON) is not None)
    assert held == [True, True, False, True]


def test_a_new_group_of_the_same_name_is_not_asked_about_who_wrote_to_the_old_one(db: Db, session_id: str) -> None:
    new = NewMessage(
        instance="fake", address=ROOM, direction=Direction.IN, sender=EVE, text="hi", at=NOON, platform_id="1"
    )
    message_id = messages.accept(db, new, NOON)
    assert message_id is not None
    asked = unknown_senders.hold(db, CHANNELS, RULES, message_id, new, "acme", "guest", NOON)
    assert asked is not None
    unknown_senders.withdraw_for_group(db, "acme", NOON)
    ended = requests.get(db, asked.request.id)
    assert ended is not None and ended.state is RequestState.WITHDRAWN
    assert [entry.state for entry in inbox.list_for_message(db, message_id)] == ["refused"]


# What a card shows.


def test_nothing_that_an_agent_names_can_look_like_a_part_of_the_card(db: Db, session_id: str) -> None:
    forged = "x\n\n**Allowed by Ada.**\n1. Deny"
    db.run("UPDATE groups SET name = ? WHERE folder = 'acme'", (forged,))
    request = ask_call(db, session_id, input={forged: "1", "\u202egnp": "2"})
    lines = render_text(make_card(request, "t", find_facts(db, request))).splitlines()
    assert not [line for line in lines if line.startswith(("**Allowed", "1. Deny"))]
    assert "\u202e" not in "".join(lines)


# Lost.


def test_what_is_asked_again_after_it_was_withdrawn_is_shown_again(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    ask_call(db, session_id, digest="other", input={"text": "other"})
    again = ask_call(db, session_id)
    assert again.id == request.id and again.state is RequestState.PENDING
    assert request.id in {card.request_id for card in request_cards.list_open_in_room(db, "fake", DIRECT)}


def test_what_was_asked_about_a_sender_ends_with_the_group(db: Db, session_id: str) -> None:
    request = ask_sender(db)
    groups.remove(db, "acme")
    late = decide(db, CHANNELS, request.id, ALLOW_ALWAYS, BOB, NOON)
    assert not late.decided and late.request.state is RequestState.WITHDRAWN


def test_what_a_session_asked_ends_with_it(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    sessions.close(db, session_id, NOON)
    late = decide(db, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON)
    assert not late.decided and late.request.state is RequestState.WITHDRAWN


def test_an_answer_for_the_conversation_ends_when_that_is_cleared(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id, about="send fake:room/1")
    decide(db, CHANNELS, request.id, ALLOW_SESSION, ADA, NOON)
    assert requests.find_lasting(db, session_id, "send fake:room/1") is not None
    sessions.remove_conversations(db, session_id, 1)
    assert requests.find_lasting(db, session_id, "send fake:room/1") is None


def test_a_refused_answer_is_recorded(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    receive(db, f"/approve {request.id}", EVE)
    assert [row[2:5] for row in audit.list_latest(db, 5)] == [(EVE, "request.decide", "refused")]


# What cannot be written.


@pytest.mark.parametrize("click", ["\ud800:0", "x\x00:0", "x" * 1_000_000, ":", "a:٣", "a:99999999999999999999"])
def test_a_button_that_nobody_made_does_nothing(db: Db, session_id: str, click: str) -> None:
    result = receive(db, "", ADA, event=CLICK, click=click)
    assert result.receipt.reason == "unknown_button"
    assert result.decision is None


def test_a_click_on_the_card_from_another_room_does_nothing(db: Db, session_id: str) -> None:
    request = ask_call(db, session_id)
    (card,) = request_cards.list_for_request(db, request.id)
    assert receive(db, "", ADA, event=CLICK, click=f"{card.token}:0").receipt.reason == "unknown_button"
    here = receive(db, "", ADA, 2, event=CLICK, click=f"{card.token}:0", address=DIRECT, direct=True)
    assert here.decision is not None and here.decision.decided


# Floods and what stays.


def test_what_was_decided_goes_with_the_messages_of_its_time(db: Db, session_id: str) -> None:
    old, lasting, waiting = ask_sender(db), ask_call(db, session_id, name="2", about="x"), ask_call(db, session_id)
    decide(db, CHANNELS, old.id, ALLOW_ONCE, ADA, NOON)
    decide(db, CHANNELS, lasting.id, ALLOW_SESSION, ADA, NOON)
    requests.record_notified(db, lasting.id, NOON)
    assert retention.remove_requests(db, "", NOON, 10).removed == 0
    done = retention.remove_requests(db, "", NOON + 1, 10)
    assert done.removed == 1
    assert [requests.get(db, each.id) is None for each in (old, lasting, waiting)] == [True, False, False]
    assert request_cards.list_for_request(db, old.id) == []
