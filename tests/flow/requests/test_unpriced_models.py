"""A model without a price: owners are asked about the one that a conversation was given, once, and bounded."""

import pytest
from tests.flow.requests.acme_people import ADA, BOB, CHANNELS, ROOM, RULES, add_people

from gatepost.core.clock import DAY, MINUTE
from gatepost.egress.contract import Spender
from gatepost.flow.requests import unpriced_models
from gatepost.flow.requests.ask_approver import AskedRequest
from gatepost.flow.requests.choices import ALLOW_ONCE, DENY, find_answer, list_choices
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.unpriced_models import MOST_WAITING, ask_about_model, hold_failed
from gatepost.messages.inbound import Direction
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.sessions import replays, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost_testing.clock import NOON


@pytest.fixture
def turn(db: Db) -> Turn:
    add_people(db)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON)
    new = NewMessage(instance="fake", address=ROOM, direction=Direction.IN, sender="fake:user/eve", text="hi", at=NOON)
    message_id = messages.accept(db, new, NOON)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)
    claim = turn_claims.claim(db, session.id, "scripted", "test", NOON, MINUTE, 20, ready=True)
    assert claim is not None
    return claim.turn


def ask(db: Db, turn: Turn, model: str = "my-model", given: str = "my-model", now: int = NOON) -> AskedRequest | None:
    spender = Spender(turn.folder, turn.session_id, turn.id)
    return ask_about_model(db, CHANNELS, RULES, spender, model, given, now)


def get_asked(db: Db, turn: Turn) -> Request:
    asked = ask(db, turn)
    assert asked is not None and asked.added
    return asked.request


def test_owners_are_asked_once_about_the_model_that_the_conversation_was_given(db: Db, turn: Turn) -> None:
    asked = get_asked(db, turn)
    assert (asked.kind, asked.folder, asked.name) == (RequestKind.PRICE, "", "my-model")
    again = ask(db, turn)
    assert again is not None and not again.added and again.request.id == asked.id
    assert not decide(db, CHANNELS, asked.id, list_choices(asked)[0], ADA, NOON).decided  # an admin of acme alone
    assert decide(db, CHANNELS, asked.id, list_choices(asked)[0], BOB, NOON).decided


@pytest.mark.parametrize(("model", "given"), [("other", "my-model"), ("my-model", ""), ("m" * 101, "m" * 101)])
def test_nobody_is_asked_about_what_a_sandbox_makes_up(db: Db, turn: Turn, model: str, given: str) -> None:
    assert ask(db, turn, model, given) is None and waiting_requests.list_pending(db) == []


def test_nobody_is_asked_on_behalf_of_a_replay(db: Db, turn: Turn) -> None:
    db.run("UPDATE turns SET instance = ? WHERE id = ?", (replays.INSTANCE, turn.id))
    assert ask(db, turn) is None and waiting_requests.list_pending(db) == []


def test_people_are_asked_about_few_models_at_once(db: Db, turn: Turn) -> None:
    asked = [ask(db, turn, f"m-{number}", f"m-{number}") for number in range(MOST_WAITING + 2)]
    assert [each is not None for each in asked] == [True] * MOST_WAITING + [False] * 2


def test_a_no_is_remembered_for_a_day(db: Db, turn: Turn) -> None:
    decide(db, CHANNELS, get_asked(db, turn).id, DENY, BOB, NOON)
    assert ask(db, turn, now=NOON + DAY - MINUTE) is None
    assert ask(db, turn, now=NOON + DAY + MINUTE) is not None


@pytest.mark.parametrize(
    ("words", "price"),
    [("0.5/1.5", "0.5/1.5"), (" $0.5 / $1.5 ", "0.5/1.5"), ("1", "0"), ("it costs nothing", "0"), ("2", None)],
)
def test_a_price_in_words_is_an_answer(db: Db, turn: Turn, words: str, price: str | None) -> None:
    found = find_answer(list_choices(get_asked(db, turn)), words)
    assert found is not None and (found.choice.price or None) == price


@pytest.mark.parametrize("words", ["yes", "0.5", "1/2 of it", "0.5/1.5/2", "-1/2", "٣/٤"])
def test_a_yes_and_other_words_are_no_price(db: Db, turn: Turn, words: str) -> None:
    assert find_answer(list_choices(get_asked(db, turn)), words) is None


@pytest.mark.parametrize("price", ["", "cheap", "0.5", "-1/2"])
def test_without_a_price_nothing_is_decided(db: Db, turn: Turn, price: str) -> None:
    asked = get_asked(db, turn)
    decision = decide(db, CHANNELS, asked.id, ALLOW_ONCE, BOB, NOON, given={"price": price} if price else None)
    found = requests.get(db, asked.id)
    assert not decision.decided and f"/approve {asked.id}" in decision.said
    assert found is not None and found.state is RequestState.PENDING


def test_messages_wait_only_while_people_are_asked_about_their_model(db: Db, turn: Turn) -> None:
    (message_id,) = (each.id for _, each in inbox.list_for_turn(db, turn.id))
    get_asked(db, turn)
    for entry, _ in inbox.list_for_turn(db, turn.id):
        inbox.set_state(db, entry.id, inbox.InboxState.FAILED, "no price", None, NOON)
    turns.fail(db, turn, "no price", NOON)
    assert hold_failed(db, CHANNELS, turn, [message_id], "other", NOON) == ()
    assert hold_failed(db, CHANNELS, turn, [message_id], "my-model", NOON) == (message_id,)
    (entry,) = inbox.list_for_message(db, message_id)
    assert entry.state == "held"
    said = [each.text for each in messages.list_in_room(db, "fake", ROOM, 0, 100) if each.direction == "out"]
    assert said == [unpriced_models.WAITS.format("my-model")]
