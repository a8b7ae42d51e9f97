"""Answers to requests that people give in a chat: by a button, by a number or a word where there are no buttons, or by
`/approve` and `/deny`. All in the transaction that accepts the message."""

from typing import Any

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.choices import ALLOW_ONCE, DENY, GROUP, AnswerChoice, list_choices
from gatepost.flow.requests.deciding import Decision, decide
from gatepost.flow.requests.edited_input import parse_edited
from gatepost.messages.card import is_number, parse_choice
from gatepost.messages.outbound import Feature
from gatepost.store import identities, messages, request_cards, requests
from gatepost.store.port import Db
from gatepost.store.request_cards import RequestCard
from gatepost.store.requests import Request, RequestKind, RequestState

APPROVE, REFUSE = "/approve", "/deny"
UNKNOWN_BUTTON = "This button is not known any more."
WHICH = "Several requests wait here. Answer to one of them, or write {} and its id: {}."
NONE_WAITS = "Nothing waits for a decision here. Write {} and the id of a request."
NOT_FOR_CARD = "If that was meant for the request {0}: reply to its card, or write /approve {0} or /deny {0}."
NO_SUCH = "No request of that id waits: {}."
LONGEST_ID = 60
DECIDED = "decided"


class PersonMessage(Struct, frozen=True, kw_only=True):
    """What somebody did in a room, as far as it can be an answer."""

    instance: str
    address: str
    sender: str
    text: str
    click: str = ""  # the id of a button
    answers: int | None = None  # the message that it replies to, by its id in the ledger
    command: str = ""


class GivenAnswer(Struct, frozen=True):
    """`said`: for who answered, '' if the card says it. `decision`: None if nothing was decided about."""

    reason: str  # for the ledger
    said: str = ""
    decision: Decision | None = None
    passes: bool = False  # it is no answer, and goes on to the agent


def is_decided(reason: str) -> bool:
    """Whether the ledger's reason of a message says that it decided a request."""
    return bool(get_decided_request(reason))


def get_decided_request(reason: str) -> str:
    """The id of the request that a message decided, by its reason in the ledger; '' if it decided none."""
    word, _, request_id = reason.partition(" ")
    return request_id if word == DECIDED else ""


def read_answer(
    db: Db, reach: ChannelInstances, said: PersonMessage, cards: tuple[RequestCard, ...], now: int
) -> GivenAnswer | None:
    """None if it is no answer. `cards`: those that are open in the room, the oldest first."""
    if said.click:
        return _read_click(db, reach, said, now)
    if said.command in (APPROVE, REFUSE):
        return _read_command(db, reach, said, cards, now)
    return _read_text(db, reach, said, cards, now) if cards else None


def _read_click(db: Db, reach: ChannelInstances, said: PersonMessage, now: int) -> GivenAnswer:
    """A button leads to its card only where the card was shown: made up or carried elsewhere, it does nothing."""
    token, _, number = said.click.partition(":")
    card = request_cards.get(db, token)
    request = requests.get(db, card.request_id) if card is not None else None
    if card is None or request is None or (card.instance, card.address) != (said.instance, said.address):
        return GivenAnswer("unknown_button", UNKNOWN_BUTTON)
    choices = list_choices(request)
    if not number.isascii() or not number.isdecimal() or len(number) > 2 or int(number) >= len(choices):
        return GivenAnswer("unknown_button", UNKNOWN_BUTTON)
    return _decide(db, reach, request, choices[int(number)], said, now)


def _read_command(
    db: Db, reach: ChannelInstances, said: PersonMessage, cards: tuple[RequestCard, ...], now: int
) -> GivenAnswer:
    """`/approve ID`, `/approve ID {JSON}` with other arguments, and `/deny ID WORDS`; without an id, the only request
    that waits in this room. Whoever approves names what is approved, or nothing at all: a slip in an id must not allow
    something else."""
    _, _, rest = said.text.strip().partition(" ")
    named, words = [*rest.split(None, 1), "", ""][:2]
    request = requests.get(db, named) if named and len(named) <= LONGEST_ID else None
    if request is None:
        waiting = list(dict.fromkeys(card.request_id for card in cards))
        if named and (said.command == APPROVE or named.lower().startswith(requests.PREFIX) or len(waiting) != 1):
            return GivenAnswer("unknown_request", NO_SUCH.format(named[:LONGEST_ID]))
        if len(waiting) != 1:
            told = WHICH.format(said.command, ", ".join(waiting[:5])) if waiting else NONE_WAITS.format(said.command)
            return GivenAnswer("unknown_request", told)
        request, words = requests.get(db, waiting[0]), rest
        assert request is not None  # its card goes with it
    words = words.strip()
    if said.command == REFUSE or not words.startswith("{"):
        return _decide(db, reach, request, ALLOW_ONCE if said.command == APPROVE else DENY, said, now, words)
    try:
        return _decide(db, reach, request, ALLOW_ONCE, said, now, given=parse_edited(words))
    except Invalid as error:
        return GivenAnswer(f"not decided {request.id}", f"{error} Nothing was decided.")


def _read_text(
    db: Db, reach: ChannelInstances, said: PersonMessage, cards: tuple[RequestCard, ...], now: int
) -> GivenAnswer | None:
    """A reply to a card, or a number or word in the room where somebody was asked. Everything else is for the agent. So
    is a bare number where cards have buttons, and any bare answer but a no once something else was said there: an agent
    that asks "1 or 2?" or "always?" must not get its own call allowed."""
    replied = [card for card in cards if card.message_id == said.answers]
    if said.answers is not None and not replied:
        return None
    person = identities.get_person(db, said.sender)
    meant = replied or [card for card in cards if card.person == person]
    found = [(card, request) for card in meant if (request := requests.get(db, card.request_id)) is not None]
    chosen = [(request, choice) for _, request in found if (choice := _find_choice(request, said.text)) is not None]
    if not chosen or (not replied and is_number(said.text) and Feature.CARDS in reach.features(said.instance)):
        return None
    refuses = chosen[0][1].state is RequestState.DENIED and not is_number(said.text)
    last = cards[-1].message_id
    if not replied and not refuses and messages.has_outgoing_after(db, said.instance, said.address, last):
        return GivenAnswer("", NOT_FOR_CARD.format(chosen[0][0].id), passes=True)
    if len(found) > 1:
        return GivenAnswer("which_request", WHICH.format(APPROVE, ", ".join(request.id for _, request in found[:5])))
    return _decide(db, reach, *chosen[0], said, now)


def _find_choice(request: Request, text: str) -> AnswerChoice | None:
    choices = list_choices(request)
    at = parse_choice(text, [each.label for each in choices])
    return choices[at] if at is not None else None


def _decide(
    db: Db,
    reach: ChannelInstances,
    request: Request,
    choice: AnswerChoice,
    said: PersonMessage,
    now: int,
    words: str = "",
    given: dict[str, Any] | None = None,
) -> GivenAnswer:
    if request.kind is RequestKind.ROOM and words:
        given = {GROUP: words}  # /approve ID FOLDER
    decision = decide(db, reach, request.id, choice, said.sender, now, words=words, given=given)
    if not decision.decided:
        return GivenAnswer(f"not decided {request.id}", decision.said, decision)
    shown = (said.instance, said.address) in decision.rooms  # the card there says it
    return GivenAnswer(f"{DECIDED} {request.id}", "" if shown else decision.said, decision)
