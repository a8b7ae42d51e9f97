"""Requests on a store: who is asked, when the next one is, who may decide, and what follows, once."""

from collections.abc import Mapping

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.choices import ALLOW_ONCE, ALLOW_SESSION, DENY
from gatepost.flow.requests.decide import Decision, decide, expire, notify_agent
from gatepost.flow.requests.request_loop import move_due
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

NOON = 1_800_000_000_000_000
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
ADA, BOB, EVE = "fake:user/ada", "fake:user/bob", "fake:user/eve"


def make_channels(*features: Feature) -> ChannelInstances:
    kinds: Mapping[str, ChannelKind] = {
        "fake": ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(features))
    }
    return ChannelInstances(kinds)


CHANNELS = make_channels(Feature.EDIT)


@pytest.fixture
def session_id(db: Db) -> str:
    """A group with an admin and an owner who can be reached."""
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for person, role, folder in ((ADA, UserRole.ADMIN, "acme"), (BOB, UserRole.OWNER, "")):
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
        direct_rooms.add(db, person, "fake", f"{person}/direct", NOON)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/1", "", NOON).id


def new_call(session_id: str, name: str = "t/call/1", text: str = "hello") -> NewRequest:
    return NewRequest(
        kind=RequestKind.CALL,
        name=name,
        folder="acme",
        session_id=session_id,
        turn_id="t",
        tool="send",
        input={"text": text},
        digest=text,
        about="send fake:room/1",
        rights="member",
    )


def ask_for(db: Db, session_id: str, rules: AskingRules = RULES, **given: str) -> AskedRequest:
    return ask(db, CHANNELS, rules, new_call(session_id, **given), NOON)


def shown_to(db: Db, request: Request) -> list[str]:
    return [card.person for card in request_cards.list_for_request(db, request.id)]


def out(db: Db) -> list[OutboxEffect]:
    return outbox.OUTBOX.list(db, "ORDER BY id")


def told(db: Db, session_id: str) -> list[dict[str, object]]:
    rows = [messages.get(db, entry.message_id) for entry, _ in inbox.list_open(db, session_id)]
    return [message.content for message in rows if message is not None]


def test_nanoclaw_d24_the_nearest_who_can_be_reached_gets_one_card_with_its_row(db: Db, session_id: str) -> None:
    first, again = ask_for(db, session_id), ask_for(db, session_id)
    assert first.added and not again.added and again.request.id == first.request.id
    assert shown_to(db, first.request) == [ADA]
    assert first.rooms == (("fake", f"{ADA}/direct"),) and again.rooms == ()
    assert [effect.op for effect in out(db)] == [Op.CARD]


def test_arizuko_39_changed_arguments_are_another_request_and_the_first_is_withdrawn(db: Db, session_id: str) -> None:
    first, second = ask_for(db, session_id), ask_for(db, session_id, text="something else")
    assert second.request.id != first.request.id
    before = requests.get(db, first.request.id)
    assert before is not None and before.state is RequestState.WITHDRAWN


def test_the_next_person_is_asked_when_nobody_decides_and_then_it_expires(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    assert move_due(db, RULES, CHANNELS, NOON + 59 * SECOND).rooms == set()
    assert move_due(db, RULES, CHANNELS, NOON + 60 * SECOND).rooms == {("fake", f"{BOB}/direct")}
    assert shown_to(db, request) == [ADA, BOB]
    for minute in range(2, 10):
        move_due(db, RULES, CHANNELS, NOON + minute * 60 * SECOND)
    assert shown_to(db, request) == [ADA, BOB]
    moved = move_due(db, RULES, CHANNELS, NOON + 600 * SECOND)
    assert moved.sessions == {session_id} and len(moved.rooms) == 2
    ended = requests.get(db, request.id)
    assert ended is not None and ended.state is RequestState.EXPIRED and ended.notified_at is not None
    (said,) = told(db, session_id)
    assert (said["event"], said["state"]) == ("approval", "expired")
    assert waiting_requests.get_next_due(db) is None


def test_nobody_can_be_reached_and_it_waits(db: Db, session_id: str) -> None:
    for person in (ADA, BOB):
        direct_rooms.remove(db, person)
    asked = ask_for(db, session_id)
    assert asked.rooms == () and out(db) == []
    waiting = requests.get(db, asked.request.id)
    assert waiting is not None and waiting.state is RequestState.PENDING
    assert waiting.next_at == NOON + RULES.escalate  # somebody may be reached by then


@pytest.mark.parametrize(("by", "may"), [(ADA, True), (BOB, True), (EVE, False), ("operator", True)])
def test_the_right_is_judged_at_the_decision(db: Db, session_id: str, by: str, may: bool) -> None:
    request = ask_for(db, session_id).request
    decision = decide(db, CHANNELS, request.id, ALLOW_ONCE, by, NOON + 1)
    assert decision.decided is may
    left = requests.get(db, request.id)
    assert left is not None and left.state is (RequestState.ALLOWED if may else RequestState.PENDING)


def test_of_two_who_decide_the_first_counts_and_the_other_sees_who(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    first = decide(db, CHANNELS, request.id, DENY, BOB, NOON + 1, words="no")
    late = decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 2)
    assert first.decided and not late.decided
    assert late.said == f"It was decided before. Denied by {BOB}: no."


def test_every_card_says_what_was_decided_in_place_or_in_a_line(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    move_due(db, RULES, CHANNELS, NOON + 60 * SECOND)
    decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 61 * SECOND)
    edits = out(db)[2:]
    assert [(effect.op, effect.address) for effect in edits] == [
        (Op.EDIT, f"{ADA}/direct"),
        (Op.EDIT, f"{BOB}/direct"),
    ]
    assert all(f"Allowed by {ADA}." in effect.payload["text"] for effect in edits)
    assert request_cards.has_open(db) is False


def test_a_channel_that_cannot_edit_gets_a_line(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    decide(db, make_channels(), request.id, ALLOW_ONCE, ADA, NOON + 1)
    line = out(db)[-1]
    assert (line.op, line.payload["text"]) == (Op.SEND, f"Acme wants to send a message\nAllowed by {ADA}.")


def test_a_quorum_needs_so_many_people_and_one_denial_ends_it(db: Db, session_id: str) -> None:
    both = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=2)
    request = ask_for(db, session_id, both).request
    assert shown_to(db, request) == [ADA, BOB]
    answers = [decide(db, CHANNELS, request.id, ALLOW_ONCE, by, NOON + 1) for by in (ADA, ADA, BOB)]
    assert [each.decided for each in answers] == [False, False, True]
    assert answers[2].request.answered_by == f"{ADA}, {BOB}"
    other = ask_for(db, session_id, both, name="t/call/2").request
    decide(db, CHANNELS, other.id, ALLOW_ONCE, ADA, NOON + 2)
    assert decide(db, CHANNELS, other.id, DENY, BOB, NOON + 3).request.state is RequestState.DENIED


def test_an_answer_for_the_conversation_is_found_again(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    assert requests.find_lasting(db, session_id, "send fake:room/1") is None
    decide(db, CHANNELS, request.id, ALLOW_SESSION, ADA, NOON + 1)
    assert requests.find_lasting(db, session_id, "send fake:room/1") is not None
    assert requests.find_lasting(db, session_id, "send fake:room/2") is None


def test_the_agent_is_told_once_whoever_tries(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    decided: Decision = decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
    assert told(db, session_id) == []  # it has not run
    assert notify_agent(db, decided.request, {"result": "sent"}, NOON + 2)
    assert not notify_agent(db, decided.request, {"result": "sent"}, NOON + 3)
    assert [each["result"] for each in told(db, session_id)] == ["sent"]


def test_what_was_decided_does_not_expire(db: Db, session_id: str) -> None:
    request = ask_for(db, session_id).request
    decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
    move_due(db, RULES, CHANNELS, NOON + 10**12)
    left = requests.get(db, request.id)
    assert left is not None and left.state is RequestState.ALLOWED
    with pytest.raises(AssertionError):
        expire(db, CHANNELS, left, NOON + 10**12)


PHONE = "chat:user/ada"


def test_one_person_is_asked_once_and_decides_by_either_identity(db: Db, session_id: str) -> None:
    identities.add(db, PHONE, ADA, "test", NOON)
    direct_rooms.add(db, PHONE, "chat", "chat:direct/ada", NOON + 1)
    asked = ask_for(db, session_id)
    assert [card.person for card in request_cards.list_for_request(db, asked.request.id)] == [ADA]
    decision = decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, PHONE, NOON)
    assert decision.decided and decision.request.answered_by == ADA


def test_an_unpaired_identity_decides_nothing(db: Db, session_id: str) -> None:
    identities.add(db, PHONE, ADA, "test", NOON)
    identities.remove(db, PHONE)
    asked = ask_for(db, session_id)
    assert not decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, PHONE, NOON).decided


def test_a_person_has_one_vote_by_all_of_her_identities(db: Db, session_id: str) -> None:
    identities.add(db, PHONE, ADA, "test", NOON)
    asked = ask_for(db, session_id, AskingRules(RULES.escalate, RULES.expire, quorum=2))
    assert not decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, ADA, NOON).decided
    assert not decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, PHONE, NOON).decided
    assert decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, BOB, NOON).decided


def test_votes_of_two_who_turn_out_to_be_one_person_are_one(db: Db, session_id: str) -> None:
    users.add(db, PHONE, "", NOON)
    users.add_role(db, PHONE, UserRole.ADMIN, "acme", "test", NOON)
    asked = ask_for(db, session_id, AskingRules(RULES.escalate, RULES.expire, quorum=3))
    for by in (ADA, PHONE):
        assert not decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, by, NOON).decided
    identities.add(db, PHONE, ADA, "test", NOON)
    assert "2 of 3" in decide(db, CHANNELS, asked.request.id, ALLOW_ONCE, BOB, NOON).said
