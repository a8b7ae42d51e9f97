"""Decisions that come when things have changed: who somebody is by then, who agreed before, who can be asked now, and
on whose behalf the agent goes on."""

import itertools

import pytest
from tests.flow.requests.acme_people import ADA, BOB, CHANNELS, EVE, MAL, ROOM, RULES, add_people, hold_call

from gatepost.access.senders import Rights
from gatepost.core.clock import DAY, SECOND
from gatepost.flow import pairing, sender_rights
from gatepost.flow.groups import OWNER
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.requests.ask_approver import AskingRules, ask, list_approvers
from gatepost.flow.requests.choices import ALLOW_ALWAYS, ALLOW_ONCE, BLOCK, DENY, AnswerChoice
from gatepost.flow.requests.decide import answer_question, decide, expire, notify_agent
from gatepost.flow.requests.request_loop import move_due
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.messages.inbound import OPERATOR, Inbound
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.messages import inbox
from gatepost.store.money import costs
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, request_cards, requests, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms, origins, routes
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

_numbers = itertools.count(1)


@pytest.fixture
def acme(db: Db) -> Db:
    """A group whose room asks first, with an admin and an owner who can be reached."""
    add_people(db)
    routes.add(db, Route(seq=0, match="platform=fake", target="acme", folder="acme", created_by="t", created_at=NOON))
    return db


def say(db: Db, text: str, sender: str) -> IntakeResult:
    given = Inbound(address=ROOM, platform_id=f"m{next(_numbers)}", sender=sender, sender_name="x", text=text)
    return accept(db, CHANNELS, make_arrival("fake", given, IntakeLimits(), NOON, 0), NOON, asking=RULES)


def add_member(db: Db, person: str) -> None:
    users.add(db, person, "", NOON)
    users.add_member(db, person, "acme", "t", NOON)


def block(db: Db, who: str) -> None:
    acl.put(
        db,
        AclRow(
            id=0, principal=who, action="interact", scope=acl.ANYWHERE, effect=AclEffect.DENY, granted_by=acl.OPERATOR
        ),
        NOON,
    )


def list_session_messages(db: Db, sender: str) -> list[tuple[str, str, str]]:
    sql = "SELECT m.text, i.state, i.rights FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ?"
    return [(row[0], row[1], row[2]) for row in db.rows(f"{sql} ORDER BY m.id", (sender,))]


def get_waiting(db: Db) -> Request:
    (found,) = waiting_requests.list_pending(db)
    return found


def get_state(db: Db, request: Request) -> RequestState:
    found = requests.get(db, request.id)
    assert found is not None
    return found.state


def put_question(db: Db, turn_id: str) -> Request:
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON)
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
    return ask(db, CHANNELS, RULES, new, NOON).request


def start_turn(db: Db, turn_id: str) -> None:
    """Whatever waits becomes a turn."""
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON)
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
    decide(acme, CHANNELS, hold_call(acme).id, DENY, ADA, NOON + 1)
    start_turn(acme, "t2")
    assert costs.find_payer(acme, "t2") == EVE and list_people(acme, "t2") == [EVE]
    assert costs.find_asker(acme, "t2") == ""  # nobody's personal secrets


def test_who_answered_is_behind_the_turn_that_hears_it_and_who_asked_pays(acme: Db) -> None:
    add_member(acme, EVE)
    add_member(acme, MAL)
    say(acme, "go", EVE)
    start_turn(acme, "t")
    done = answer_question(acme, CHANNELS, put_question(acme, "t").id, 0, "that one", MAL, NOON + 1, ("fake", ROOM))
    assert done.decided and notify_agent(acme, done.request, {}, NOON + 1)
    start_turn(acme, "t2")
    assert list_people(acme, "t2") == [EVE, MAL] and costs.find_payer(acme, "t2") == EVE


def test_what_was_asked_between_two_turns_is_told_on_behalf_of_the_last_one(acme: Db) -> None:
    add_member(acme, EVE)
    say(acme, "go", EVE)
    start_turn(acme, "t")
    ended = expire(acme, CHANNELS, put_question(acme, ""), NOON + 1).request
    assert notify_agent(acme, ended, {}, NOON + 1)
    start_turn(acme, "t2")
    assert list_people(acme, "t2") == [EVE]


# Who somebody unknown is by the time of the decision.


@pytest.mark.parametrize("choice", [ALLOW_ONCE, ALLOW_ALWAYS])
def test_who_was_blocked_while_her_message_waited_is_not_let_in_by_an_allow(acme: Db, choice: AnswerChoice) -> None:
    say(acme, "let me in", EVE)
    request = get_waiting(acme)
    block(acme, EVE)
    assert not decide(acme, CHANNELS, request.id, choice, ADA, NOON + 1).decided
    assert [each[:2] for each in list_session_messages(acme, EVE)] == [("let me in", "refused")]
    assert get_state(acme, request) is RequestState.WITHDRAWN and not users.get_roles(acme, EVE).member_of


@pytest.mark.parametrize(("choice", "rights"), [(ALLOW_ONCE, "guest"), (ALLOW_ALWAYS, "member")])
def test_who_is_let_in_is_heard_by_the_rights_that_she_has_then(acme: Db, choice: AnswerChoice, rights: Rights) -> None:
    say(acme, "one", EVE)
    assert decide(acme, CHANNELS, get_waiting(acme).id, choice, ADA, NOON + 1).decided
    assert list_session_messages(acme, EVE) == [("one", "queued", rights)]


def test_block_on_a_card_of_an_identity_that_was_paired_meanwhile_does_not_shut_its_person_out(acme: Db) -> None:
    say(acme, "one", EVE)
    request = get_waiting(acme)
    assert say(acme, pairing.issue_code(acme, ADA, "operator", NOON), EVE).receipt.reason == "paired"
    decide(acme, CHANNELS, request.id, BLOCK, BOB, NOON + 1)
    assert sender_rights.find_rights(acme, ADA, "acme") == "admin"


def test_an_admin_cannot_block_an_admin_by_a_card(acme: Db) -> None:
    say(acme, "one", EVE)
    request = get_waiting(acme)
    users.add(acme, EVE, "", NOON)
    users.add_role(acme, EVE, UserRole.ADMIN, "", "operator", NOON)
    late = decide(acme, CHANNELS, request.id, BLOCK, ADA, NOON + 1)
    assert not late.decided and get_state(acme, request) is RequestState.WITHDRAWN
    assert sender_rights.find_rights(acme, EVE, "acme") == "admin"
    assert list_session_messages(acme, EVE) == [("one", "queued", "admin")] and len(late.wake) == 1
    assert late.rooms == (("fake", "fake:direct/ada"),)  # the card says so


@pytest.mark.parametrize("how", ["denied", "expired"])
def test_a_member_loses_nothing_when_the_old_card_is_denied_or_nobody_decides(acme: Db, how: str) -> None:
    say(acme, "one", EVE)
    request = get_waiting(acme)
    add_member(acme, EVE)
    if how == "denied":
        decide(acme, CHANNELS, request.id, DENY, ADA, NOON + 1)
    else:
        move_due(acme, RULES, CHANNELS, NOON + 600 * SECOND)
    assert list_session_messages(acme, EVE) == [("one", "queued", "member")]
    assert get_state(acme, request) is RequestState.WITHDRAWN


# Who agreed.


def test_whoever_runs_the_gateway_and_the_owner_in_a_chat_have_one_vote(acme: Db) -> None:
    request = hold_call(acme, quorum=2)
    decide(acme, CHANNELS, request.id, ALLOW_ONCE, OPERATOR, NOON + 1)
    second = decide(acme, CHANNELS, request.id, ALLOW_ONCE, OWNER, NOON + 2)
    assert not second.decided and "1 of 2" in second.said
    assert decide(acme, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 3).decided


def test_a_vote_for_what_was_withdrawn_does_not_count_when_it_is_asked_again(acme: Db) -> None:
    request = hold_call(acme, quorum=2)
    decide(acme, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
    requests.withdraw(acme, request.id, "something else was asked in its place", NOON + 2)
    again = hold_call(acme, quorum=2)
    assert again.id == request.id and again.state is RequestState.PENDING
    assert not decide(acme, CHANNELS, again.id, ALLOW_ONCE, BOB, NOON + 3).decided


# Who is asked.


def test_who_can_be_reached_later_is_asked(acme: Db) -> None:
    for person in (ADA, BOB):
        direct_rooms.remove(acme, person)
    request = hold_call(acme)
    direct_rooms.add(acme, ADA, "fake", "fake:direct/ada", NOON + 1)
    move_due(acme, RULES, CHANNELS, NOON + 300 * SECOND)
    assert [card.person for card in request_cards.list_for_request(acme, request.id)] == [ADA]


def test_who_waits_for_nobody_is_not_looked_at_without_a_pause(acme: Db) -> None:
    for person in (ADA, BOB):
        direct_rooms.remove(acme, person)
    rules = AskingRules(escalate=0, expire=600 * SECOND, quorum=1)
    hold_call(acme)
    move_due(acme, rules, CHANNELS, NOON + 60 * SECOND)
    due = waiting_requests.get_next_due(acme)
    assert due is not None and due >= NOON + 120 * SECOND


def test_who_is_shut_out_is_not_asked(acme: Db) -> None:
    """They may not decide, so the card would only tell them what others do, and cost the time until the next is
    asked."""
    block(acme, ADA)
    request = hold_call(acme)
    assert [card.person for card in request_cards.list_for_request(acme, request.id)] == [BOB]
    assert ADA not in list_approvers(acme, "acme")  # nor is she told of newcomers


def test_after_a_restore_no_agent_is_told_that_nobody_decided_in_time(acme: Db) -> None:
    """Somebody did, perhaps, after the backup was made: the agent would tell people what is wrong."""
    asked = hold_call(acme)
    begin_incarnation(acme, CHANNELS, RULES, IncarnationReason.RESTORED, NOON + DAY)
    moved = move_due(acme, RULES, CHANNELS, NOON + DAY)
    found = requests.get(acme, asked.id)
    assert found is not None and found.state is RequestState.PENDING
    assert not moved.sessions
    assert asked.session_id is not None and inbox.count_waiting(acme, asked.session_id) == 0
    (card,) = [each for each in waiting_requests.list_pending(acme) if each.kind is RequestKind.RESTORED]
    assert card.input["asked, perhaps decided before"] == "1"
