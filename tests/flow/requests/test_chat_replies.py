"""Answers that people type where they were asked: what counts as one, and who is told what."""

import pytest
from tests.flow.requests.acme_people import deliver

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.chat_replies import GivenAnswer, PersonMessage, is_decided, read_answer
from gatepost.messages.outbound import Feature, Op
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

ADA, DIRECT = "fake:user/ada", "fake:direct/ada"
LATER = NOON + 5 * SECOND
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)


def make_channels(*features: Feature) -> ChannelInstances:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(features))
    return ChannelInstances({"fake": kind})


@pytest.fixture
def request_of_eve(db: Db) -> Request:
    """Somebody unknown wants to be let in, and Ada is asked."""
    groups.add(db, "home", "Home", "scripted", NOON)
    users.add(db, ADA, "Ada", NOON)
    users.add_role(db, ADA, UserRole.OWNER, "", "test", NOON)
    direct_rooms.add(db, ADA, "fake", DIRECT, NOON)
    new = NewRequest(kind=RequestKind.SENDER, name="fake:user/eve", folder="home", input={"from": "fake:user/eve"})
    asked = ask(db, make_channels(), RULES, new, NOON).request
    deliver(db, NOON, DIRECT)
    return asked


def answer(db: Db, text: str, *features: Feature, reply: bool = False, address: str = DIRECT) -> GivenAnswer | None:
    cards = request_cards.list_open_in_room(db, "fake", DIRECT)
    command = text.partition(" ")[0] if text.startswith("/") else ""
    said = PersonMessage(
        instance="fake",
        address=address,
        sender=ADA,
        text=text,
        answers=cards[0].message_id if reply else None,
        command=command,
    )
    return read_answer(db, make_channels(*features), said, cards if address == DIRECT else (), LATER)


@pytest.mark.parametrize("text", ["1", " 1. ", "#3", "3)"])
def test_a_number_answers_only_where_the_card_shows_numbers(db: Db, request_of_eve: Request, text: str) -> None:
    """An agent that talks in the same room could ask for a number, and mean something else."""
    assert answer(db, text, Feature.CARDS) is None
    given = answer(db, text)
    assert given is not None and is_decided(given.reason)


@pytest.mark.parametrize(("text", "reply"), [("deny", False), ("Allow once", False), ("3", True)])
def test_words_and_a_reply_to_the_card_answer_on_every_channel(
    db: Db, request_of_eve: Request, text: str, reply: bool
) -> None:
    given = answer(db, text, Feature.CARDS, reply=reply)
    assert given is not None and is_decided(given.reason)


def test_who_decides_where_the_card_is_reads_it_there_and_elsewhere_in_a_line(db: Db, request_of_eve: Request) -> None:
    other = answer(db, f"/deny {request_of_eve.id}", address="fake:room/1")
    assert other is not None
    assert (other.reason, other.said) == (f"decided {request_of_eve.id}", "Denied by Ada.")
    late = answer(db, f"/approve {request_of_eve.id}")
    assert late is not None and not is_decided(late.reason)
    assert late.said == "It was decided before. Denied by Ada."


def test_who_decides_in_the_room_of_the_card_gets_no_second_line(db: Db, request_of_eve: Request) -> None:
    given = answer(db, f"/deny {request_of_eve.id}")
    assert given is not None
    assert (given.reason, given.said) == (f"decided {request_of_eve.id}", "")


def say_as_agent(db: Db, text: str) -> None:
    said = NewEffect(
        key=f"s{text}",
        op=Op.SEND,
        origin=EffectOrigin.NOTICE,
        instance="fake",
        address=DIRECT,
        thread="",
        text=text,
        payload={"text": text},
    )
    outbox.add(db, said, NOON)


def put_question(db: Db, thread: str = "", **more: object) -> Request:
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", DIRECT, thread, NOON)
    new = NewRequest(
        kind=RequestKind.QUESTION,
        asker=RequestAsker.AGENT,
        name=f"q{thread}{more}",
        digest=f"q{more}",
        folder="home",
        session_id=session.id,
        instance="fake",
        address=DIRECT,
        thread=thread,
        input={"question": "Tea?", **more},
    )
    return ask(db, make_channels(), RULES, new, NOON).request


@pytest.mark.parametrize("text", ["1", "allow once", "always"])
def test_a_question_in_another_thread_does_not_make_a_bare_answer_an_approval(
    db: Db, request_of_eve: Request, text: str
) -> None:
    """The card, then the agent says "1 or 2?", then it asks something in another thread of the room."""
    say_as_agent(db, "Short (1) or long (2)?")
    put_question(db, "other", options=["Yes", "No"], freeText=False)
    given = answer(db, text)
    assert given is not None and given.passes
    found = requests.get(db, request_of_eve.id)
    assert found is not None and found.state is RequestState.PENDING


def test_a_question_in_another_thread_does_not_make_words_an_answer(db: Db, request_of_eve: Request) -> None:
    answer(db, "deny")
    question = put_question(db)
    say_as_agent(db, "By the way, how are you?")
    put_question(db, "other")
    assert answer(db, "fine, thanks") is None
    found = requests.get(db, question.id)
    assert found is not None and found.state is RequestState.PENDING


@pytest.mark.parametrize("mixed", [False, True])
def test_who_must_say_which_is_told_the_command_that_answers_it(db: Db, request_of_eve: Request, mixed: bool) -> None:
    if not mixed:
        answer(db, "deny")
    for header in ("a", "b"):
        put_question(db, header=header, options=["Deny", "Sugar"])
    given = answer(db, "1")
    assert given is not None and given.reason == "which_request"
    assert f"write {'/approve, /deny or /answer' if mixed else '/answer'} and its id" in given.said


def test_a_text_costs_the_same_however_many_cards_are_open_in_its_room(db: Db, request_of_eve: Request) -> None:
    costs: list[int] = []
    for waiting in (3, 60):
        for number in range(waiting):
            put_question(db, header=f"{waiting}/{number}", options=["Tea", "Coffee"])
        counting = CountingDb(db)
        cards = request_cards.list_open_in_room(db, "fake", DIRECT)
        said = PersonMessage(instance="fake", address=DIRECT, sender=ADA, text="good morning")
        assert read_answer(counting, make_channels(), said, cards, NOON + 1) is None
        costs.append(counting.statements)
    assert costs[0] == costs[1] <= 5


def test_slash_answer_without_an_id_reads_no_more_where_many_wait(db: Db, request_of_eve: Request) -> None:
    for number in range(60):
        put_question(db, header=str(number))
    counting = CountingDb(db)
    given = answer(counting, "/answer")
    assert given is not None and "Several requests wait here" in given.said and counting.statements <= 5
