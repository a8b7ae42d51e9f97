"""A bare answer decides only about a card that was seen: the platform confirmed it some seconds ago, and no agent spoke
just before it."""

import re

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.chat_replies import GivenAnswer, PersonMessage, is_decided, read_answer
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import acl, request_cards, requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .acme_people import ADA, BOB, add_people, deliver, hold_call

ROOM = "fake:direct/ada"
LATER = NOON + 10 * MINUTE


def make_channels(*features: Feature, local: bool = False) -> ChannelInstances:
    kind = ChannelKind(
        name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(features), always=local
    )
    return ChannelInstances({"fake": kind})


@pytest.fixture
def asked(db: Db) -> Request:
    """Ada is asked in a direct room; the card waits in the outbox."""
    add_people(db)
    return hold_call(db, rule="send(chatJid=fake:room/1)")


def say(
    db: Db,
    text: str,
    at: int,
    *,
    reply: bool = False,
    sender: str = ADA,
    address: str = ROOM,
    features: tuple[Feature, ...] = (),
    said_at: int | None = None,
    local: bool = False,
) -> GivenAnswer | None:
    """Return what a person writes, as intake reads it."""
    cards = request_cards.list_open_in_room(db, "fake", address)
    new = NewMessage(
        instance="fake",
        address=address,
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        platform_id=f"{sender}{text}{at}",
        sender=sender,
        text=text,
        at=at,
    )
    message_id = messages.accept(db, new, at)
    assert message_id is not None
    said = PersonMessage(
        instance="fake",
        address=address,
        sender=sender,
        text=text,
        answers=cards[0].message_id if reply else None,
        command=text.split()[0] if text.startswith("/") else "",
        message_id=message_id,
        said_at=said_at,
    )
    return read_answer(db, make_channels(*features, local=local), said, cards, at)


def speak(db: Db, text: str, at: int, *, origin: EffectOrigin = EffectOrigin.RESULT, op: Op = Op.SEND) -> OutboxEffect:
    new = NewEffect(
        key=f"agent:{text}", op=op, origin=origin, instance="fake", address=ROOM, text=text, payload={"text": text}
    )
    return outbox.add(db, new, at)


def run_turn(db: Db, begins: int, ends: int | None, address: str = ROOM) -> None:
    """A turn of the room, which may have shown drafts: the ledger has nothing of it."""
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", address, "", NOON)
    db.run(
        "INSERT INTO turns (id, session_id, folder, provider, instance, address, thread, rights, state, owner,"
        " next_at, lease_until, started_at, begun_at, ended_at)"
        " VALUES (?, ?, 'acme', 'scripted', 'fake', ?, '', 'member', ?, 'gw', ?, ?, ?, ?, ?)",
        (f"turn-{begins}", session.id, address, "done" if ends else "begun", begins, begins, begins, begins, ends),
    )


def is_waiting(db: Db, request: Request) -> bool:
    found = requests.get(db, request.id)
    return found is not None and found.state is RequestState.PENDING


@pytest.mark.parametrize("text", ["1", "2", "3", "allow once", "always", "yes"])
def test_a_bare_answer_before_the_card_is_delivered_decides_nothing_and_goes_to_the_agent(
    db: Db, asked: Request, text: str
) -> None:
    given = say(db, text, NOON + SECOND)
    assert given is not None and given.passes and asked.id not in given.said
    assert is_waiting(db, asked)
    assert acl.list_rules(db) == []


@pytest.mark.parametrize("text", ["1", "always", "yes"])
def test_a_bare_answer_within_seconds_of_the_card_decides_nothing(db: Db, asked: Request, text: str) -> None:
    deliver(db, LATER)
    given = say(db, text, LATER + 2 * SECOND)
    assert given is not None and given.passes and f"/approve {asked.id}" in given.said
    assert is_waiting(db, asked)


@pytest.mark.parametrize("text", ["1", "allow once", "yes", "OK."])
def test_a_bare_answer_some_seconds_after_the_card_decides(db: Db, asked: Request, text: str) -> None:
    deliver(db, LATER)
    given = say(db, text, LATER + 4 * SECOND)
    assert given is not None and is_decided(given.reason)


def test_an_answer_counts_from_the_moment_at_which_it_was_written(db: Db, asked: Request) -> None:
    """It may lie on the platform while the gateway is away, and so be older than the card that it seems to answer."""
    deliver(db, LATER)
    given = say(db, "1", LATER + MINUTE, said_at=LATER - SECOND)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


@pytest.mark.parametrize("state", [EffectState.SENDING, EffectState.UNCERTAIN, EffectState.FAILED])
def test_a_card_that_was_perhaps_not_delivered_takes_no_bare_answer(db: Db, asked: Request, state: EffectState) -> None:
    effect = outbox.claim_head(db, "fake", ROOM, "pump", LATER, MINUTE)
    assert effect is not None
    if state is not EffectState.SENDING:
        outbox.record_outcome(db, effect.id, state, "", LATER)
    given = say(db, "1", LATER + MINUTE)
    assert given is None or given.passes
    assert is_waiting(db, asked)


@pytest.mark.parametrize("text", ["deny", "no", "No."])
def test_a_no_in_words_always_denies(db: Db, asked: Request, text: str) -> None:
    speak(db, "Shall I?", NOON)
    given = say(db, text, NOON + SECOND)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and found.state is RequestState.DENIED


@pytest.mark.parametrize("origin", [EffectOrigin.RESULT, EffectOrigin.TOOL, EffectOrigin.STATUS])
def test_an_agent_that_spoke_after_the_persons_last_words_and_before_the_card_gets_no_bare_answer(
    db: Db, origin: EffectOrigin
) -> None:
    add_people(db)
    say(db, "what can you do?", NOON - 20 * MINUTE)
    speak(db, "answer 1 daily, 2 weekly", NOON - 19 * MINUTE, origin=origin)
    deliver(db, NOON - 19 * MINUTE)
    asked = hold_call(db)
    deliver(db, NOON)
    given = say(db, "1", NOON + MINUTE)
    assert given is not None and given.passes and f"/approve {asked.id}" in given.said
    assert is_waiting(db, asked)


def test_what_somebody_wrote_after_the_card_does_not_end_what_the_agent_said_before_it(db: Db) -> None:
    add_people(db)
    say(db, "how often?", NOON - 20 * MINUTE)
    speak(db, "answer 1 daily, 2 weekly", NOON - 19 * MINUTE)
    deliver(db, NOON - 19 * MINUTE)
    asked = hold_call(db)
    deliver(db, NOON)
    say(db, "let me think", NOON + 30 * SECOND)
    given = say(db, "1", NOON + MINUTE)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


def test_an_agent_that_spoke_within_a_minute_before_the_card_gets_no_bare_answer(db: Db) -> None:
    add_people(db)
    speak(db, "answer 1 daily, 2 weekly", NOON - 50 * SECOND)
    deliver(db, NOON - 50 * SECOND)
    say(db, "one moment", NOON - 40 * SECOND)
    asked = hold_call(db)
    deliver(db, NOON)
    given = say(db, "1", NOON + MINUTE)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


def test_what_an_agent_said_before_the_persons_last_words_and_long_ago_keeps_nobody_from_answering(db: Db) -> None:
    add_people(db)
    speak(db, "good morning", NOON - 20 * MINUTE)
    deliver(db, NOON - 20 * MINUTE)
    say(db, "thanks", NOON - 10 * MINUTE)
    hold_call(db)
    deliver(db, NOON)
    given = say(db, "1", NOON + MINUTE)
    assert given is not None and is_decided(given.reason)


@pytest.mark.parametrize("op", [Op.SEND, Op.EDIT])
def test_an_agent_that_speaks_after_the_card_gets_no_bare_answer(db: Db, asked: Request, op: Op) -> None:
    deliver(db, LATER)
    speak(db, "1 or 2?", LATER + SECOND, op=op)
    given = say(db, "1", LATER + MINUTE)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


@pytest.mark.parametrize(
    ("begins", "ends"),
    [(LATER - 5 * MINUTE, None), (LATER - 5 * MINUTE, LATER - 50 * SECOND), (LATER + SECOND, LATER + 2 * SECOND)],
    ids=["open", "before the card", "after the card"],
)
@pytest.mark.parametrize("text", ["1", "yes", "always", "/approve"])
def test_a_turn_that_may_have_shown_a_draft_around_the_card_gets_no_bare_answer(
    db: Db, asked: Request, text: str, begins: int, ends: int | None
) -> None:
    """An answer that grows on a page is seen, and is in no ledger."""
    deliver(db, LATER)
    run_turn(db, begins, ends)
    given = say(db, text, LATER + MINUTE)
    assert given is not None and not is_decided(given.reason) and f"/approve {asked.id}" in given.said
    assert is_waiting(db, asked)


@pytest.mark.parametrize(("text", "reply"), [("no", False), ("no, not now", False), ("yes", True)])
def test_a_turn_around_the_card_keeps_nobody_from_a_no_or_a_reply(
    db: Db, asked: Request, text: str, reply: bool
) -> None:
    deliver(db, LATER)
    run_turn(db, LATER - 5 * MINUTE, None)
    given = say(db, text, LATER + MINUTE, reply=reply)
    assert given is not None and is_decided(given.reason)


@pytest.mark.parametrize(("ends", "address"), [(LATER - 2 * MINUTE, ROOM), (None, "fake:room/1")])
def test_a_turn_long_before_the_card_or_elsewhere_keeps_nobody_from_answering(
    db: Db, asked: Request, ends: int | None, address: str
) -> None:
    deliver(db, LATER)
    run_turn(db, LATER - 5 * MINUTE, ends, address)
    given = say(db, "yes", LATER + MINUTE)
    assert given is not None and is_decided(given.reason)


def test_a_notice_before_the_card_that_carries_an_agents_words_gets_no_bare_answer(db: Db) -> None:
    """The gateway says why a turn failed, in the words of its agent."""
    add_people(db)
    say(db, "fetch the report", NOON - 2 * MINUTE)
    speak(db, "It failed: shall I try again? Answer yes", NOON - 30 * SECOND, origin=EffectOrigin.NOTICE)
    deliver(db, NOON - 30 * SECOND)
    asked = hold_call(db)
    deliver(db, NOON)
    given = say(db, "yes", NOON + 5 * SECOND)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


def test_a_card_overtakes_what_its_agent_has_queued_and_is_not_answered_by_it(db: Db) -> None:
    """An agent says "answer 1 daily, 2 weekly", fifteen more messages, then makes a held call."""
    add_people(db)
    say(db, "how often?", NOON - 2 * MINUTE)
    speak(db, "answer 1 daily, 2 weekly", NOON - 90 * SECOND)
    for number in range(15):
        speak(db, f"filler {number}", NOON - 90 * SECOND)
    deliver(db, NOON - 89 * SECOND, most=1)
    asked = hold_call(db)
    assert asked.id in deliver(db, NOON, most=1)[0]
    given = say(db, "1", NOON + 8 * SECOND)
    assert given is not None and given.passes
    assert is_waiting(db, asked)
    assert deliver(db, NOON + MINUTE)[0] == "filler 0"


@pytest.mark.parametrize("queued", [5, 300])
def test_an_agent_that_has_more_to_say_gets_no_bare_answer_however_long_its_queue_is(db: Db, queued: int) -> None:
    add_people(db)
    for number in range(queued):
        speak(db, f"filler {number}", NOON - 5 * MINUTE)
    say(db, "hm", NOON - 4 * MINUTE)
    asked = hold_call(db)
    deliver(db, NOON, most=1)
    given = say(db, "1", NOON + MINUTE)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


def test_two_requests_one_after_another_can_each_be_answered_by_a_number(db: Db, asked: Request) -> None:
    """The line that says what was decided about the first is no agent's."""
    deliver(db, LATER)
    first = say(db, "1", LATER + MINUTE)
    assert first is not None and is_decided(first.reason)
    hold_call(db, name="t/2", digest="other")
    deliver(db, LATER + 2 * MINUTE)
    second = say(db, "1", LATER + 3 * MINUTE)
    assert second is not None and is_decided(second.reason)


@pytest.mark.parametrize(("text", "state"), [("1", "allowed"), ("yes", "allowed"), ("no, that is dangerous", "denied")])
def test_a_reply_to_a_delivered_card_decides_at_once(db: Db, asked: Request, text: str, state: str) -> None:
    deliver(db, LATER)
    speak(db, "1 or 2?", LATER)
    deliver(db, LATER)
    given = say(db, text, LATER + SECOND // 2, reply=True)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and found.state == state
    assert found.reason == ("that is dangerous" if state == "denied" else "")


def test_a_reply_that_is_no_answer_goes_to_the_agent_and_gets_one(db: Db, asked: Request) -> None:
    deliver(db, LATER)
    given = say(db, "what is it for?", LATER + SECOND, reply=True)
    assert given is not None and given.passes and "yes or no" in given.said
    assert is_waiting(db, asked)


def test_no_with_a_reason_denies_as_the_next_words_and_is_the_agents_once_it_spoke(db: Db, asked: Request) -> None:
    early = say(db, "no, take the other one", NOON + SECOND)
    assert early is not None and early.passes
    assert is_waiting(db, asked)
    deliver(db, LATER)
    given = say(db, "No, that is dangerous", LATER + MINUTE)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and (found.state, found.reason) == (RequestState.DENIED, "that is dangerous")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("no because it is late", "because it is late"), ("No, that is dangerous", "that is dangerous")],
)
@pytest.mark.parametrize("features", [(), (Feature.CARDS, Feature.PANE)])
def test_a_bare_no_with_a_reason_denies_on_every_channel_also_while_the_agent_works(
    db: Db, asked: Request, text: str, reason: str, features: tuple[Feature, ...]
) -> None:
    deliver(db, LATER)
    run_turn(db, LATER - MINUTE, None)
    given = say(db, text, LATER + MINUTE, features=features)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and (found.state, found.reason) == (RequestState.DENIED, reason)


def test_a_bare_answer_that_does_not_count_is_told_of_the_newest_card_in_words(db: Db, asked: Request) -> None:
    newest = hold_call(db, name="t/2", digest="other", tool="delete", input={"messageId": "7"})
    deliver(db, LATER)
    hold_call(db, name="t/3", digest="third", tool="post")  # not shown yet
    speak(db, "1 or 2?", LATER + SECOND)
    given = say(db, "yes", LATER + MINUTE)
    assert given is not None and given.passes
    assert "Acme wants to delete a message" in given.said and f"/approve {newest.id}" in given.said
    assert asked.id not in given.said


def test_where_several_wait_each_is_told_in_words(db: Db, asked: Request) -> None:
    newest = hold_call(db, name="t/2", digest="other", tool="delete", input={"messageId": "7"})
    deliver(db, LATER)
    for text in ("yes", "/approve"):
        given = say(db, text, LATER + MINUTE)
        assert given is not None and not is_decided(given.reason)
        assert "- Acme wants to send a message" in given.said and asked.id in given.said
        assert "- Acme wants to delete a message" in given.said and newest.id in given.said


@pytest.mark.parametrize(
    ("features", "local", "replies"),
    [((Feature.REPLY,), False, True), ((), False, False), ((Feature.REPLY,), True, False)],
    ids=["platform", "no replies", "terminal"],
)
def test_only_who_can_reply_is_told_to(
    db: Db, asked: Request, features: tuple[Feature, ...], local: bool, replies: bool
) -> None:
    deliver(db, LATER)
    given = say(db, "yes", LATER + SECOND, features=features, local=local)
    assert given is not None and given.passes
    assert ("reply to its card" in given.said) == replies
    assert f"/approve {asked.id}, or /deny {asked.id} and why" in given.said


@pytest.mark.parametrize("text", ["nobody knows", "yesterday was fine", "no one came", "northern lights"])
def test_words_that_only_begin_like_an_answer_are_the_agents(db: Db, asked: Request, text: str) -> None:
    deliver(db, LATER)
    assert say(db, text, LATER + MINUTE) is None
    assert is_waiting(db, asked)


def test_what_a_prompt_of_an_agent_puts_into_somebodys_mouth_allows_nothing(db: Db, asked: Request) -> None:
    """A channel with prompts has buttons of the agent's whose title need not say what is said by them."""
    deliver(db, LATER)
    features = (Feature.CARDS, Feature.PANE)
    given = say(db, "always allow", LATER + MINUTE, features=features)
    assert given is not None and given.passes
    assert is_waiting(db, asked)


def test_approve_by_id_needs_a_card_that_was_shown(db: Db, asked: Request) -> None:
    """An agent knows the id, and can ask somebody to write it."""
    given = say(db, f"/approve {asked.id}", NOON + SECOND)
    assert given is not None and not is_decided(given.reason) and not given.passes
    assert is_waiting(db, asked)
    deliver(db, LATER)
    given = say(db, f"/approve {asked.id}", LATER + SECOND)
    assert given is not None and is_decided(given.reason)


@pytest.mark.parametrize("words", ["no wait", "never", "not yet!", "always", '"text"', "[1]", '{"text": "x"'])
def test_words_behind_the_id_that_are_no_arguments_decide_nothing(db: Db, asked: Request, words: str) -> None:
    deliver(db, LATER)
    given = say(db, f"/approve {asked.id} {words}", LATER + MINUTE)
    assert given is not None and not is_decided(given.reason) and not given.passes
    assert "Nothing was decided" in given.said
    assert re.search(r"[^.:]\. Nothing was decided\.\Z|\ANothing", given.said)  # two sentences
    assert is_waiting(db, asked)


@pytest.mark.parametrize("room", ["", ', "chatJid": ""', ', "chatJid": null'])
def test_changed_arguments_without_a_room_go_to_the_room_on_the_card(db: Db, room: str) -> None:
    """The tool would take the room of the turn, in which others read."""
    add_people(db)
    shown = {"text": "original", "chatJid": "fake:room/2"}
    asked = hold_call(db, input=shown, rooms={"chatJid": "fake", "toJid": "fake"}, editable=True)
    deliver(db, LATER)
    given = say(db, f'/approve {asked.id} {{"text": "kinder"{room}}}', LATER + MINUTE)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and found.answer == {"text": "kinder", "chatJid": "fake:room/2"}


def test_changed_arguments_that_name_another_room_go_there(db: Db) -> None:
    add_people(db)
    shown = {"text": "original", "chatJid": "fake:room/2"}
    asked = hold_call(db, input=shown, rooms={"chatJid": "fake"}, editable=True)
    deliver(db, LATER)
    given = say(db, f'/approve {asked.id} {{"text": "kinder", "chatJid": "fake:room/3"}}', LATER + MINUTE)
    assert given is not None and is_decided(given.reason)
    found = requests.get(db, asked.id)
    assert found is not None and found.answer == {"text": "kinder", "chatJid": "fake:room/3"}


def test_deny_by_id_needs_no_card(db: Db, asked: Request) -> None:
    given = say(db, f"/deny {asked.id}", NOON + SECOND)
    assert given is not None and is_decided(given.reason)


def test_who_approves_without_having_seen_it_is_shown_it(db: Db, asked: Request) -> None:
    """Bob may decide, and only Ada has a card."""
    deliver(db, LATER)
    there = "fake:direct/bob"
    given = say(db, f"/approve {asked.id}", LATER + SECOND, sender=BOB, address=there)
    assert given is not None and not is_decided(given.reason) and given.decision is not None
    assert given.decision.rooms == (("fake", there),)
    assert is_waiting(db, asked)
    (card,) = request_cards.list_open_in_room(db, "fake", there)
    assert (card.request_id, card.person) == (asked.id, BOB)
    again = say(db, f"/approve {asked.id}", LATER + 2 * SECOND, sender=BOB, address=there)
    assert again is not None and not is_decided(again.reason)
    assert len(request_cards.list_for_request(db, asked.id)) == 2  # not another one
    deliver(db, LATER + 3 * SECOND, there)
    given = say(db, f"/approve {asked.id}", LATER + 4 * SECOND, sender=BOB, address=there)
    assert given is not None and is_decided(given.reason)


def test_a_card_of_another_identity_of_the_same_person_was_shown_to_them(db: Db, asked: Request) -> None:
    deliver(db, LATER)
    identities.add(db, "web:user/ada", ADA, "test", NOON)
    given = say(db, f"/approve {asked.id}", LATER + SECOND, sender="web:user/ada", address="fake:room/2")
    assert given is not None and is_decided(given.reason)


def test_approve_without_an_id_is_a_bare_answer(db: Db, asked: Request) -> None:
    deliver(db, LATER)
    given = say(db, "/approve", LATER + SECOND)
    assert given is not None and not is_decided(given.reason) and f"/approve {asked.id}" in given.said
    given = say(db, "/approve", LATER + MINUTE)
    assert given is not None and is_decided(given.reason)


def test_a_number_answers_the_question_that_is_seen_and_not_the_card_that_is_not(db: Db, asked: Request) -> None:
    question = hold_call(
        db,
        kind=RequestKind.QUESTION,
        name="q",
        digest="q",
        instance="fake",
        address=ROOM,
        input={"question": "Tea?", "options": ["Yes", "No"]},
    )
    given = say(db, "1", NOON + SECOND)
    assert given is not None and given.reason == f"decided {question.id}"
    assert is_waiting(db, asked)
