"""A card says in words who asks, for whom and where; a decided one says who decided by name."""

from typing import Any

import pytest
from msgspec import convert

from gatepost.channels.contract import ChannelKind
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import ask
from gatepost.flow.requests.choices import DENY, ChosenAnswer, find_answer, list_choices
from gatepost.flow.requests.decide import decide
from gatepost.messages.card import Card, render_hint
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import Feature
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import request_cards
from gatepost.store.rights.requests import NewRequest, Request, RequestKind
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions, turn_claims
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .acme_people import ADA, BOB, EVE, RULES, add_people

FAMILY, RELEASE, DIRECT = "fake:room/9", "fake:room/1", "fake:direct/ada"
WITH_CARDS = frozenset({Feature.EDIT, Feature.CARDS, Feature.THREADS})


def make_channels(features: frozenset[Feature] = WITH_CARDS) -> ChannelInstances:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=features)
    return ChannelInstances({"fake": kind})


def hold(db: Db, channels: ChannelInstances, given: dict[str, Any], sender: str = EVE, **more: Any) -> Request:
    """Eve (or `sender`) gives the agent its work in the family's chat, and it makes a held call."""
    add_people(db)
    users.set_name(db, ADA, "Ada")
    users.add(db, EVE, "Eve", NOON)
    rooms.add(db, "fake", FAMILY, "Family chat", False, RoomPolicy.PUBLIC, NOON)
    db.run("UPDATE rooms SET name = ? WHERE address = ?", ("Release", RELEASE))
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", FAMILY, "", NOON)
    said = NewMessage(
        instance="fake",
        address=FAMILY,
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        platform_id="1",
        sender=sender,
        text="send the *file* to all of them",
        at=NOON,
    )
    message_id = messages.accept(db, said, NOON)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)
    turn = turn_claims.claim(db, session.id, "scripted", "o", NOON, NOON, 10)
    assert turn is not None
    new: dict[str, Any] = {
        "kind": RequestKind.CALL,
        "name": "t/1",
        "folder": "acme",
        "session_id": session.id,
        "turn_id": turn.turn.id,
        "tool": "send",
        "input": given,
        "digest": "d",
        "instance": "fake",
        "address": FAMILY,
        "rooms": {"chatJid": "fake"},
    }
    return ask(db, channels, RULES, NewRequest(**(new | more)), NOON).request


def get_card(db: Db, request: Request) -> Card:
    (shown,) = request_cards.list_for_request(db, request.id)
    (row,) = outbox.list_for_message(db, shown.message_id)
    return convert(row.payload["card"], Card)


def test_a_card_says_who_asked_where_and_with_which_words_and_what_the_agent_wants(db: Db) -> None:
    request = hold(db, make_channels(), {"text": "hello", "chatJid": RELEASE, "replyToId": None, "thread": ""})
    card = get_card(db, request)
    assert card.title == "Acme wants to send a message in “Release”"
    assert card.text == "Asked by Eve in “Family chat”: “send the \\*file\\* to all of them”"
    assert [(each.name, each.value) for each in card.fields] == [
        ("text", "hello"),
        ("Details", f"{request.id} · tool send · room {RELEASE}"),
    ]


def test_a_card_speaks_the_language_of_whoever_decides_and_leaves_the_words_of_others(db: Db) -> None:
    add_people(db)
    users.set_language(db, ADA, "de")
    channels = make_channels()
    request = hold(db, channels, {"text": "Stopped.", "chatJid": RELEASE})
    card = get_card(db, request)
    assert card.title == "Acme möchte eine Nachricht senden in „Release“"
    assert card.text == "Gefragt von Eve in “Family chat”: “send the \\*file\\* to all of them”"
    assert card.fields[0].value == "Stopped."  # an argument is shown as it is
    assert "Einmal erlauben" in [each.label for each in card.buttons]
    meant = find_answer(list_choices(request), "einmal erlauben")
    assert meant == find_answer(list_choices(request), "allow once") and meant is not None
    assert "Antworte mit" in render_hint(card)
    assert find_answer(list_choices(request), "nein, zu früh") == ChosenAnswer(DENY, "zu früh")
    decide(db, channels, request.id, DENY, ADA, NOON)
    (row,) = outbox.OUTBOX.list(db, "WHERE op = 'edit'")
    assert row.payload["card"]["done"] == "Abgelehnt von Ada."


def test_parameters_are_words_and_two_of_one_name_keep_their_own(db: Db) -> None:
    given = {"contextMode": "group", "run_at": 5, "chatJid": "fake:room/unnamed", "jid": "fake:room/other", "on": False}
    request = hold(db, make_channels(), given, tool="schedule_task")
    card = get_card(db, request)
    assert card.title == "Acme wants to schedule a task"
    assert [(each.name, each.value) for each in card.fields] == [
        ("context", "group"),
        ("run at", "5"),
        ("chatJid", "fake:room/unnamed"),
        ("jid", "fake:room/other"),
        ("on", "false"),
        ("Details", f"{request.id} · tool schedule_task"),
    ]


def test_a_name_of_a_stranger_cannot_look_like_a_part_of_the_card(db: Db) -> None:
    add_people(db)
    request = hold(db, make_channels(), {"text": "x", "chatJid": RELEASE})
    users.set_name(db, EVE, "Eve\n\n**Allowed by Ada.**\n1. Deny\u202e")
    db.run("UPDATE rooms SET name = ? WHERE address = ?", ("x\n\n1. Deny\u202e", RELEASE))
    decide(db, make_channels(), request.id, DENY, ADA, NOON)
    (row,) = outbox.OUTBOX.list(db, "WHERE op = 'edit'")
    lines = row.payload["text"].splitlines()
    assert "\u202e" not in row.payload["text"]
    assert not [line for line in lines if line.startswith(("**Allowed", "1. Deny"))]


def test_a_decided_card_says_who_decided_by_name(db: Db) -> None:
    channels = make_channels()
    request = hold(db, channels, {"text": "hello"})
    decided = decide(db, channels, request.id, DENY, ADA, NOON)
    assert decided.said == "Denied by Ada."
    (row,) = outbox.OUTBOX.list(db, "WHERE op = 'edit'")
    assert row.payload["card"]["done"] == "Denied by Ada."


def test_who_gave_the_agent_its_work_is_asked_first_if_they_may_decide(db: Db) -> None:
    """Ada is an admin of the group, and would come before an owner."""
    request = hold(db, make_channels(), {"text": "hello"}, sender=BOB)
    assert [each.person for each in request_cards.list_for_request(db, request.id)] == [BOB]


def test_where_nothing_is_edited_a_line_names_what_was_asked_and_no_id(db: Db) -> None:
    channels = make_channels(frozenset())
    request = hold(db, channels, {"text": "hello", "chatJid": RELEASE})
    decide(db, channels, request.id, DENY, ADA, NOON)
    *_, row = outbox.OUTBOX.list(db, "WHERE op = 'send' ORDER BY id")
    assert row.payload["text"] == "Acme wants to send a message in “Release”\nDenied by Ada."


@pytest.mark.parametrize("kind", RequestKind)
def test_no_title_has_the_id_of_its_request(db: Db, kind: RequestKind) -> None:
    request = hold(db, make_channels(), {"text": "hello", "question": "Which?"}, kind=kind)
    assert request.id not in get_card(db, request).title


@pytest.mark.parametrize(
    ("address", "features", "thread"),
    [(DIRECT, WITH_CARDS, "plans"), (FAMILY, WITH_CARDS, ""), (DIRECT, WITH_CARDS - {Feature.CARDS}, "")],
)
def test_a_card_is_in_the_thread_where_the_person_is(
    db: Db, address: str, features: frozenset[Feature], thread: str
) -> None:
    """If the request comes from the approver's own room. A terminal prints what is in the main thread everywhere."""
    channels = make_channels(features)
    request = hold(db, channels, {"text": "hello"}, address=address, thread="plans")
    decide(db, channels, request.id, DENY, ADA, NOON)
    rows = outbox.OUTBOX.list(db, "WHERE address = ? ORDER BY id", DIRECT)
    assert [row.thread for row in rows] == [thread, thread]
