"""Chats that nobody answers: when people are asked about them, whom they may choose, and what their answer makes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.access.senders import Rights
from gatepost.core.clock import HOUR, MINUTE
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.requests import unknown_rooms
from gatepost.flow.requests.ask_approver import AskedRequest
from gatepost.flow.requests.choices import ALLOW_ONCE, DENY, GROUPS, MOST_GROUPS, NEVER, make_group_choice
from gatepost.flow.requests.decide import decide, withdraw_crowded_out
from gatepost.flow.requests.held_messages import read_room, sum_files
from gatepost.flow.requests.unknown_rooms import (
    MOST_AN_HOUR,
    MOST_HELD,
    MOST_HELD_BYTES,
    MOST_OF_SENDER,
    NOBODYS,
    may_hold,
    rank_groups,
)
from gatepost.flow.requests.unknown_senders import MOST_ASKED
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, requests, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups
from gatepost_testing.arrivals import make_arrival
from gatepost_testing.clock import NOON

from .acme_people import BOB, CHANNELS, EVE, MAL, RULES, add_people

_numbers: Iterator[int] = iter(range(1, 10**9))


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    add_people(db)
    db.run("DELETE FROM routes")


def room(number: int = 1, **more: Any) -> SeenRoom:
    return SeenRoom("fake", f"fake:room/new-{number}", f"Room {number}", **more)


def hold(
    db: Db, where: SeenRoom, sender: str = EVE, size: int = 0, rights: Rights = "guest", now: int = NOON
) -> AskedRequest | None:
    content = json.dumps({"attachments": [{"size": size, "path": "in/x"}]} if size else {})
    new = make_arrival(
        now, instance=where.instance, address=where.address, sender=sender, sender_name="Eve", content=content,
        text=f"text {size}", platform_id=f"n{next(_numbers)}",
    )  # fmt: skip
    message_id = messages.accept(db, new, now)
    assert message_id is not None
    return unknown_rooms.hold(db, CHANNELS, RULES, message_id, new, where, rights, now)


def must_hold(db: Db, where: SeenRoom, **more: Any) -> Request:
    asked = hold(db, where, **more)
    assert asked is not None
    return asked.request


def add_route(db: Db, match: str, folder: str) -> None:
    routes.add(db, Route(seq=0, match=match, target=folder, folder=folder, created_by="t", created_at=NOON))


def list_routes(db: Db) -> list[tuple[str, str]]:
    return [(each.match, each.target) for each in routes.list_all(db)]


def states(db: Db) -> list[str]:
    return [str(row[0]) for row in db.rows("SELECT state FROM inbox ORDER BY id")]


def choose(db: Db, request: Request, folder: str) -> None:
    decide(db, CHANNELS, request.id, make_group_choice(folder), BOB, NOON + 1)


def test_one_card_asks_about_a_room_and_what_is_said_there_meanwhile_waits(db: Db) -> None:
    first, second = hold(db, room()), hold(db, room(), MAL)
    assert first is not None and first.added and second is not None and not second.added
    assert first.request.id == second.request.id
    held = inbox.list_held_for_request(db, NOBODYS, first.request.id)
    assert [message.sender for _, message in held] == [EVE, MAL]
    (waiting,) = waiting_requests.list_pending(db)
    assert waiting.kind is RequestKind.ROOM and waiting.about == EVE and "acme" in waiting.input[GROUPS]
    assert read_room(waiting) == room()


def test_a_room_holds_so_many_messages(db: Db) -> None:
    assert all(hold(db, room()) for _ in range(MOST_HELD))
    assert hold(db, room()) is None
    assert hold(db, room(2)) is not None


def test_a_room_holds_so_many_bytes_and_words_beside_them(db: Db) -> None:
    assert hold(db, room(), size=MOST_HELD_BYTES + 1) is None
    assert hold(db, room(), size=MOST_HELD_BYTES)
    assert hold(db, room(), size=1) is None
    assert hold(db, room())


def test_people_are_asked_about_so_many_rooms_at_once(db: Db) -> None:
    for number in range(MOST_OF_SENDER):
        assert hold(db, room(number))
    assert hold(db, room(99)) is None  # nobody fills the list alone
    for number in range(MOST_OF_SENDER, MOST_AN_HOUR):
        assert hold(db, room(number), f"fake:user/{number}")
    assert hold(db, room(98), MAL) is None
    for number in range(MOST_AN_HOUR, MOST_ASKED):
        assert hold(db, room(number), f"fake:user/{number}", now=NOON + HOUR + MINUTE)
    assert hold(db, room(97), MAL, now=NOON + HOUR + MINUTE) is not None  # the oldest gives way
    first = requests.find_last(db, RequestKind.ROOM, "", unknown_rooms.make_name(room(0)))
    assert first is not None
    decision = withdraw_crowded_out(db, CHANNELS, first, NOON + HOUR + MINUTE)
    assert decision is not None and decision.request.state is RequestState.WITHDRAWN
    assert waiting_requests.count_of_people(db, "") == MOST_ASKED


def test_nobody_is_asked_where_there_is_no_group_to_choose(db: Db) -> None:
    for group in groups.list_all(db):
        acl.put(db, AclRow(id=0, principal=EVE, action="interact", scope=group.folder, effect=AclEffect.DENY), NOON)
    assert hold(db, room()) is None
    assert hold(db, room(), MAL) is not None


@pytest.mark.parametrize("address", ["fake:room/*", "fake:room/a b", "fake:room/[a]", "fake:room/a|b", 'fake:room/"'])
def test_an_address_that_a_route_would_read_as_more_than_itself_is_not_asked_about(db: Db, address: str) -> None:
    assert not may_hold(db, SeenRoom("fake", address), NOON)
    assert hold(db, SeenRoom("fake", address)) is None
    assert not may_hold(db, SeenRoom("fa*ke", "fake:room/1"), NOON)


def test_a_room_that_was_refused_is_not_asked_about_again_soon(db: Db) -> None:
    decide(db, CHANNELS, must_hold(db, room()).id, DENY, BOB, NOON + 1)
    assert states(db) == ["refused"]
    assert hold(db, room()) is None and not may_hold(db, room(), NOON + 1)
    assert list_routes(db) == []


def test_a_refusal_for_good_is_a_route_that_can_be_taken_back(db: Db) -> None:
    decide(db, CHANNELS, must_hold(db, room()).id, NEVER, BOB, NOON + 1)
    assert list_routes(db) == [("channel=fake chat_jid=fake:room/new-1", "drop")]


def test_the_likeliest_group_is_offered_first_and_root_never(db: Db) -> None:
    for number, folder in enumerate(["zeta/deep", "zeta", "near", "routed", "x" * 200]):
        groups.add(db, folder, folder, "", number)
    add_route(db, "platform=fake", "near")
    add_route(db, "platform=other", "routed")
    ranked = rank_groups(groups.list_all(db), routes.list_all(db), room())
    assert ranked[:2] == ("near", "routed")
    assert "root" not in ranked and "x" * 200 not in ranked
    assert ranked[2] == "zeta" and len(ranked) == MOST_GROUPS  # those below another come last
    by_room = [Route(seq=0, match="chat_jid=fake:room/7", target="zeta", folder="zeta", created_by="t", created_at=1)]
    assert rank_groups(groups.list_all(db), by_room, room())[0] == "zeta"


def test_a_room_of_several_goes_to_the_group_by_mention_and_each_stranger_stays_one(db: Db) -> None:
    request = must_hold(db, room())
    hold(db, room(), MAL)
    choose(db, request, "acme")
    assert list_routes(db) == [
        ("channel=fake chat_jid=fake:room/new-1 verb=mention", "acme"),
        ("channel=fake chat_jid=fake:room/new-1", "acme#observe"),
    ]
    assert states(db) == ["queued", "queued"]
    assert users.get_roles(db, EVE).member_of == ()


def test_a_direct_chat_makes_its_person_a_member_and_nobody_else(db: Db) -> None:
    request = must_hold(db, room(direct=True))
    choose(db, request, "acme")
    assert list_routes(db) == [("channel=fake chat_jid=fake:room/new-1", "acme")]
    assert users.get_roles(db, EVE).member_of == ("acme",)
    named = users.get(db, EVE)
    assert named is not None and named.name == "Eve"


def test_only_an_owner_is_heard_by_root(db: Db) -> None:
    request = must_hold(db, room(direct=True))
    choose(db, request, "root")
    assert states(db) == ["refused"]
    assert users.get_roles(db, EVE).member_of == ()


def test_who_was_shut_out_meanwhile_is_not_delivered(db: Db) -> None:
    request = must_hold(db, room())
    hold(db, room(), MAL)
    acl.put(db, AclRow(id=0, principal=EVE, action="interact", scope="acme", effect=AclEffect.DENY), NOON)
    choose(db, request, "acme")
    assert states(db) == [InboxState.REFUSED, InboxState.QUEUED]


def test_an_answer_without_a_group_or_with_a_wrong_one_changes_nothing(db: Db) -> None:
    request = must_hold(db, room())
    assert "/approve" in unknown_rooms.find_fault(db, request, ALLOW_ONCE)
    assert "no group 'nowhere'" in unknown_rooms.find_fault(db, request, make_group_choice("nowhere"))
    assert unknown_rooms.find_fault(db, request, DENY) == ""
    assert unknown_rooms.find_fault(db, request, make_group_choice("acme")) == ""


def test_a_routes_place_is_behind_all_others(db: Db) -> None:
    add_route(db, "room=fake:room/other", "acme")
    db.run("UPDATE routes SET seq = 5000")
    choose(db, must_hold(db, room(direct=True)), "acme")
    assert [each.seq for each in routes.list_all(db)][-1] >= 5000


def test_what_was_decided_is_done_once(db: Db) -> None:
    request = must_hold(db, room())
    choose(db, request, "acme")
    left = requests.get(db, request.id)
    assert left is not None and left.settled_at == NOON + 1 and left.notified_at == NOON + 1


@pytest.mark.parametrize(
    ("content", "size"),
    [
        ({}, 0),
        ({"attachments": [{"size": 3}, {"size": 4}]}, 7),
        ({"attachments": [{"size": "3"}, {}, "x", {"size": None}]}, 0),
        ({"attachments": "no list"}, 0),
    ],
)
def test_the_files_of_a_message_are_summed_whatever_its_channel_says(content: dict[str, Any], size: int) -> None:
    assert sum_files(content) == size
