"""Decisions that come when things have changed: who somebody is by then, who agreed before, who can be asked now, and
on whose behalf the agent goes on."""

import itertools

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.requests.asking import AskingRules, ask
from gatepost.flow.requests.choices import DENY
from gatepost.flow.requests.deciding import decide, expire, notify_agent
from gatepost.flow.requests.question_answers import answer
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature
from gatepost.store import (
    acl,
    costs,
    direct_rooms,
    groups,
    origins,
    requests,
    rooms,
    routes,
    sessions,
    users,
)
from gatepost.store.acl import AclEffect, AclRow
from gatepost.store.port import Db
from gatepost.store.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import RoomPolicy
from gatepost.store.routes import Route
from gatepost.store.users import UserRole
from gatepost.testing.clock import NOON

ADA, BOB, EVE, MAL = "fake:user/ada", "fake:user/bob", "fake:user/eve", "fake:user/mal"
ROOM = "fake:room/1"
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
KIND = ChannelKind(name="fake", make=lambda around: pytest.fail("not made"), features=frozenset({Feature.EDIT}))
REACH = ChannelInstances({"fake": KIND})
_numbers = itertools.count(1)


@pytest.fixture
def acme(db: Db) -> Db:
    """A group whose room asks first, with an admin and an owner who can be reached."""
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for person, role, folder in ((ADA, UserRole.ADMIN, "acme"), (BOB, UserRole.OWNER, "")):
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
        direct_rooms.add(db, person, "fake", person.replace("user", "direct"), NOON)
    rooms.add(db, "fake", ROOM, ROOM, False, RoomPolicy.REQUEST_APPROVAL, NOON)
    routes.add(db, Route(seq=0, match="platform=fake", target="acme", folder="acme", created_by="t", created_at=NOON))
    return db


def say(db: Db, text: str, sender: str) -> IntakeResult:
    given = Inbound(address=ROOM, platform_id=f"m{next(_numbers)}", sender=sender, sender_name="x", text=text)
    return accept(db, REACH, make_arrival("fake", given, Config(), NOON, 0), NOON, asking=RULES)


def add_member(db: Db, person: str) -> None:
    users.add(db, person, "", NOON)
    users.add_member(db, person, "acme", "t", NOON)


def block(db: Db, who: str) -> None:
    acl.put(db, AclRow(0, who, "interact", acl.ANYWHERE, AclEffect.DENY, granted_by=acl.OPERATOR), NOON)


def list_said(db: Db, sender: str) -> list[tuple[str, str, str]]:
    sql = "SELECT m.text, i.state, i.rights FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ?"
    return [(row[0], row[1], row[2]) for row in db.rows(f"{sql} ORDER BY m.id", (sender,))]


def get_waiting(db: Db) -> Request:
    (found,) = requests.list_pending(db)
    return found


def get_state(db: Db, request: Request) -> RequestState:
    found = requests.get(db, request.id)
    assert found is not None
    return found.state


def hold_call(db: Db, quorum: int = 0) -> Request:
    session = sessions.find_or_add(db, "per-thread", "acme", "fake", ROOM, "", NOON)
    new = NewRequest(
        kind=RequestKind.CALL,
        name="t/1",
        folder="acme",
        session_id=session.id,
        turn_id="t",
        tool="send",
        input={"text": "original"},
        digest="d",
        about="send",
        rights="member",
        quorum=quorum,
    )
    return ask(db, REACH, RULES, new, NOON).request


def put_question(db: Db, turn_id: str) -> Request:
    session = sessions.find_or_add(db, "per-thread", "acme", "fake", ROOM, "", NOON)
    new = NewRequest(
        kind=RequestKind.QUESTION,
        asker=RequestAsker.AGENT,
        name="q",
        digest="q",
        folder="acme",
        session_id=session.id,
        turn_id=turn_id,
        instance="fake",
        address=ROOM,
        input={"question": "Which?"},
    )
    return ask(db, REACH, RULES, new, NOON).request


def start_turn(db: Db, turn_id: str) -> None:
    """Whatever waits becomes a turn."""
    session = sessions.find_or_add(db, "per-thread", "acme", "fake", ROOM, "", NOON)
    db.run(
        "INSERT INTO turns (id, session_id, folder, provider, instance, address, thread, rights, state, next_at, owner,"
        " lease_until, started_at, ended_at)"
        " VALUES (?, ?, 'acme', 'scripted', 'fake', ?, '', 'member', 'done', 0, '', 0, ?, ?)",
        (turn_id, session.id, ROOM, NOON, NOON),
    )
    db.run("UPDATE inbox SET turn_id = ? WHERE turn_id IS NULL", (turn_id,))


def list_people(db: Db, turn_id: str) -> list[str]:
    return [each.person for each in origins.get_for_turn(db, turn_id).origins if each.person]


# On whose behalf the agent goes on.


def test_who_asked_for_the_call_pays_for_the_turn_that_is_told_of_it(acme: Db) -> None:
    add_member(acme, EVE)
    say(acme, "go", EVE)
    start_turn(acme, "t")
    assert costs.find_payer(acme, "t") == EVE
    decide(acme, REACH, hold_call(acme).id, DENY, ADA, NOON + 1)
    start_turn(acme, "t2")
    assert costs.find_payer(acme, "t2") == EVE and list_people(acme, "t2") == [EVE]
    assert costs.find_asker(acme, "t2") == ""  # nobody's personal secrets


def test_who_answered_is_behind_the_turn_that_hears_it_and_who_asked_pays(acme: Db) -> None:
    add_member(acme, EVE)
    add_member(acme, MAL)
    say(acme, "go", EVE)
    start_turn(acme, "t")
    done = answer(acme, REACH, put_question(acme, "t").id, 0, "that one", MAL, NOON + 1, ("fake", ROOM))
    assert done.decided and notify_agent(acme, done.request, {}, NOON + 1)
    start_turn(acme, "t2")
    assert list_people(acme, "t2") == [EVE, MAL] and costs.find_payer(acme, "t2") == EVE


def test_what_was_asked_between_two_turns_is_told_on_behalf_of_the_last_one(acme: Db) -> None:
    add_member(acme, EVE)
    say(acme, "go", EVE)
    start_turn(acme, "t")
    ended = expire(acme, REACH, put_question(acme, ""), NOON + 1).request
    assert notify_agent(acme, ended, {}, NOON + 1)
    start_turn(acme, "t2")
    assert list_people(acme, "t2") == [EVE]
