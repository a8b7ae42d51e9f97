"""Questions: what is read from a request, what an answer means, and who may give it, whatever is thrown at them."""

import random

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.chat_replies import GivenAnswer, PersonMessage, read_answer
from gatepost.flow.requests.decide import answer_question
from gatepost.flow.requests.questions import (
    LONGEST_ANSWER,
    AgentQuestion,
    fill_defaults,
    find_choice,
    find_clicked,
    find_own_words,
    parse_questions,
)
from gatepost.flow.requests.request_loop import move_due
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature, Op
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, request_cards, requests, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

ADA, BOB, EVE, ROOM = "fake:user/ada", "fake:user/bob", "fake:user/eve", "fake:room/1"
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=3)
DRINK = {"question": "Which?", "header": "Drink", "options": [{"label": "Tea"}, {"label": "Coffee"}], "freeText": False}
WITH = {"question": "With?", "options": ["Milk", "Sugar", "Cake"], "multiSelect": True, "freeText": False}
NAME = {"question": "Who?"}


def make_channels(*features: Feature) -> ChannelInstances:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(features))
    return ChannelInstances({"fake": kind})


def put(db: Db, *questions: object, **more: object) -> Request:
    """An agent's question in a room where Ada is a member."""
    groups.add(db, "home", "Home", "scripted", NOON)
    users.add(db, ADA, "Ada", NOON)
    users.add_member(db, ADA, "home", "test", NOON)
    rooms.add(db, "fake", ROOM, ROOM, False, RoomPolicy.STRICT, NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", ROOM, "", NOON)
    given = {"kind": RequestKind.QUESTION, "asker": RequestAsker.AGENT, "name": "q", "digest": str(questions), **more}
    new = NewRequest(
        **given,  # type: ignore[arg-type]
        folder="home",
        session_id=session.id,
        instance="fake",
        address=ROOM,
        input={"questions": list(questions)},
    )
    return ask(db, make_channels(), RULES, new, NOON).request


def say(
    db: Db, text: str, *features: Feature, sender: str = ADA, thread: str = "", reply: bool = False
) -> GivenAnswer | None:
    cards = request_cards.list_open_in_room(db, "fake", ROOM)
    command = text.partition(" ")[0] if text.startswith("/") else ""
    said = PersonMessage(
        instance="fake",
        address=ROOM,
        sender=sender,
        text=text,
        thread=thread,
        command=command,
        answers=cards[0].message_id if reply else None,
    )
    return read_answer(db, make_channels(*features), said, cards, NOON + 1)


def state_of(db: Db, request: Request) -> RequestState:
    found = requests.get(db, request.id)
    assert found is not None
    return found.state


def test_whatever_a_sandbox_says_is_read_within_bounds_and_no_two_questions_are_one() -> None:
    odd = {
        "questions": [
            1,
            None,
            {"question": 7},
            {"question": "a", "options": {"x": 1}},
            {"question": "a", "options": [3, {}]},
        ]
    }
    assert [each.key for each in parse_questions(odd)] == ["a", "a (2)"]
    assert len(parse_questions({"questions": [{"question": str(at)} for at in range(1000)]})) == 20
    same = parse_questions({"questions": [DRINK, {**NAME, "header": "Drink"}]})
    assert [each.key for each in same] == ["Drink", "Who?"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", "Milk"),
        ("3,1", "Milk, Cake"),
        ("1 2", "Milk, Sugar"),
        ("milk, cake", "Milk, Cake"),
        ("#2)", "Sugar"),
        *((text, None) for text in ("1,4", "milk and cake", "", ",", "1," * 400, "0")),
    ],
)
def test_several_choices_are_read_as_one_answer_or_not_at_all(text: str, found: str | None) -> None:
    (question,) = parse_questions({"questions": [WITH]})
    assert find_choice(question, text) == found


@pytest.mark.parametrize(("numbers", "found"), [("0", "Milk"), ("2,0", "Milk, Cake"), ("0,0", "Milk"), ("", None)])
def test_a_click_names_the_buttons_that_the_card_has(numbers: str, found: str | None) -> None:
    (question,) = parse_questions({"questions": [WITH]})
    assert find_clicked(question, numbers) == found
    for made_up in ("3", "-1", "1.0", "٣", "0,", "999", ",".join("0" * 50), "words"):
        assert find_clicked(question, made_up) is None


def test_own_words_are_bounded_and_only_where_they_are_asked_for() -> None:
    assert find_own_words(AgentQuestion("?", "?"), "x" * (LONGEST_ANSWER + 1)) is None
    assert find_own_words(AgentQuestion("?", "?"), "  \x00 ") is None
    assert find_own_words(AgentQuestion("?", "?", ("a",), own_words=False), "b") is None


def test_answers_are_kept_as_they_come_and_the_last_one_decides(db: Db) -> None:
    request = put(db, DRINK, WITH)
    first = say(db, "coffee")
    assert first is not None and first.reason == f"answered {request.id}" and first.decision is not None
    assert state_of(db, request) is RequestState.PENDING
    assert [card.part for card in request_cards.list_open_in_room(db, "fake", ROOM)] == [1]
    second = say(db, "3,1")
    assert second is not None and second.reason == f"decided {request.id}"
    ended = requests.get(db, request.id)
    assert ended is not None and ended.answer == {"answers": {"Drink": "Coffee", "With?": "Milk, Cake"}}
    assert ended.notified_at is None  # whoever waits tells it


@pytest.mark.parametrize("features", [(), (Feature.CARDS,)])
def test_a_bare_number_counts_where_the_card_shows_numbers(db: Db, features: tuple[Feature, ...]) -> None:
    request = put(db, DRINK)
    assert (say(db, "2", *features) is None) == bool(features)
    assert (state_of(db, request) is RequestState.PENDING) == bool(features)


def test_nothing_is_an_answer_once_the_agent_said_something_else_but_a_reply_and_a_command(db: Db) -> None:
    request = put(db, {**DRINK, "freeText": True})
    cards = request_cards.list_open_in_room(db, "fake", ROOM)
    effect = outbox.NewEffect(
        key="later",
        op=Op.SEND,
        origin=EffectOrigin.TOOL,
        instance="fake",
        address=ROOM,
        text="1 or 2?",
        payload={"text": "1 or 2?"},
    )
    outbox.add(db, effect, NOON)
    passed = say(db, "1")
    assert passed is not None and passed.passes and f"/answer {request.id}" in passed.said
    assert say(db, "something else") is None
    assert state_of(db, request) is RequestState.PENDING and messages.get(db, cards[0].message_id) is not None
    given = say(db, "something else", reply=True)
    assert given is not None and given.reason == f"decided {request.id}"


def test_what_is_said_in_another_thread_or_as_a_command_is_no_answer(db: Db) -> None:
    request = put(db, {**DRINK, "freeText": True})
    assert say(db, "1", thread="aside") is None
    assert say(db, "/stop") is None
    assert say(db, "/compact now") is None
    assert state_of(db, request) is RequestState.PENDING


def test_who_may_not_speak_to_the_group_answers_nothing_by_whatever_way(db: Db) -> None:
    request = put(db, {**DRINK, "freeText": True})
    (card,) = request_cards.list_open_in_room(db, "fake", ROOM)
    for given in (
        say(db, "1", sender=EVE),
        say(db, "my way", sender=EVE, reply=True),
        say(db, f"/answer {request.id} tea", sender=EVE),
        say(db, f"/deny {request.id}", sender=EVE),
        click(db, card, "0", EVE),
        click(db, card, "words", EVE, "hm"),
    ):
        assert (
            given is not None
            and given.reason == f"not decided {request.id}"
            and "Only people who may speak" in given.said
        )
    assert state_of(db, request) is RequestState.PENDING


def test_rights_are_those_of_the_moment(db: Db) -> None:
    request = put(db, DRINK)
    acl.put(db, AclRow(id=0, principal=ADA, action="interact", scope="home", effect=AclEffect.DENY), NOON)
    given = say(db, "1")
    assert given is not None and given.reason == f"not decided {request.id}"


def click(db: Db, card: RequestCard, number: str, sender: str, text: str = "") -> GivenAnswer | None:
    said = PersonMessage(instance="fake", address=ROOM, sender=sender, text=text, click=f"{card.token}:{number}")
    return read_answer(db, make_channels(Feature.CARDS), said, (card,), NOON + 1)


def count_statements(db: Db, rules: RuleCache, number: int) -> int:
    """Of one message in a room where nobody is asked anything."""
    inbound = Inbound(address="fake:room/2", platform_id=f"m{number}", sender=ADA, text="1")
    counting = CountingDb(db)
    result = accept(
        counting, make_channels(), make_arrival("fake", inbound, IntakeLimits(), NOON, 0), NOON + number, rules=rules
    )
    assert result.receipt.state == "queued"
    return counting.statements


def test_a_message_in_another_room_costs_no_statement_more_while_somebody_is_asked(db: Db) -> None:
    add_defaults(db, NOON)
    users.add(db, ADA, "Ada", NOON)
    users.add_member(db, ADA, "home", "test", NOON)
    rules = RuleCache()
    before = [count_statements(db, rules, number) for number in range(3)][-1]
    put(db, {**DRINK, "freeText": True})
    assert [count_statements(db, rules, number) for number in range(3, 6)][-1] == before


def test_a_button_of_an_answered_question_answers_no_other(db: Db) -> None:
    request = put(db, DRINK, {**DRINK, "header": "Second"})
    (card,) = request_cards.list_open_in_room(db, "fake", ROOM)
    click(db, card, "0", ADA)
    again = click(db, card, "1", ADA)
    assert again is not None and again.said == "That was answered before: Tea."
    found = requests.get(db, request.id)
    assert found is not None and found.answer == {"answers": {"Drink": "Tea"}}


def test_defaults_count_only_if_every_question_has_an_answer_then(db: Db) -> None:
    request = put(db, {**DRINK, "default": "Tea"}, NAME)
    assert fill_defaults(request) == ({"Drink": "Tea"}, False)
    move_due(db, RULES, make_channels(), NOON + 601 * SECOND)
    ended = requests.get(db, request.id)
    assert ended is not None and (ended.state, ended.answer) == (RequestState.EXPIRED, {"answers": {}})
    assert request_cards.list_open_in_room(db, "fake", ROOM) == ()


@pytest.mark.parametrize("asker", [RequestAsker.AGENT, RequestAsker.PROVIDER])
def test_a_question_expires_whoever_asks_it(db: Db, asker: RequestAsker) -> None:
    longest, request = 600, put(db, DRINK, asker=asker, expires_at=NOON + 9999 * SECOND)
    assert (request.expires_at, request.quorum) == (NOON + longest * SECOND, 1)
    move_due(db, RULES, make_channels(), NOON + (longest - 1) * SECOND)
    assert state_of(db, request) is RequestState.PENDING
    assert len(request_cards.list_for_request(db, request.id)) == 1  # nobody else is asked meanwhile
    move_due(db, RULES, make_channels(), NOON + longest * SECOND)
    assert state_of(db, request) is RequestState.EXPIRED


@pytest.mark.parametrize("seed", range(8))
def test_a_sweep_finds_no_question_that_waits_for_ever(db: Db, seed: int) -> None:
    """Answers, refusals, deaths of turns and sessions in any order: when the longest time is over, nothing waits."""
    chance = random.Random(seed)
    known = [
        put(
            db,
            *chance.choices((DRINK, WITH, NAME), k=chance.randrange(5)),
            name=f"q{at}",
            asker=asker,
            turn_id=f"t{at}",
        )
        for at in range(12)
        for asker in (chance.choice((RequestAsker.AGENT, RequestAsker.PROVIDER)),)
    ]
    now = NOON
    for _ in range(60):
        now += chance.randrange(5) * SECOND
        request = chance.choice(known)
        step = chance.randrange(6)
        if step < 3:
            answer_question(db, make_channels(), request.id, chance.randrange(4), "x", chance.choice((ADA, EVE)), now)
        elif step == 3:
            requests.withdraw_for_turn(db, request.session_id or "", request.turn_id, "it ended", now)
        elif step == 4:
            requests.withdraw_calls(db, request.turn_id, "it was stopped", now)
        else:
            move_due(db, RULES, make_channels(), now)
    assert all(
        each.next_at is not None and each.next_at <= NOON + 600 * SECOND for each in waiting_requests.list_pending(db)
    )
    while move_due(db, RULES, make_channels(), NOON + 600 * SECOND).more:
        pass
    assert waiting_requests.list_pending(db) == [] and waiting_requests.get_next_due(db) is None
    assert not request_cards.has_open(db)


def test_what_can_be_answered_is_told_only_to_who_may_answer(db: Db) -> None:
    request = put(db, DRINK)
    for text, reply in ((f"/answer {request.id} water", False), ("water", True)):
        given = say(db, text, sender=EVE, reply=reply)
        assert given is not None and given.reason == f"not decided {request.id}" and "Coffee" not in given.said
        told = say(db, text, reply=reply)
        assert told is not None and told.said.endswith("with: Tea, Coffee.")
