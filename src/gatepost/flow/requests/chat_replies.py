"""Answers to requests that people give in a chat: by a button, or by a number or a word if there are no buttons. A
question may take free text, and `/approve`, `/deny` and `/answer` always work. All of it happens in the transaction
that accepts the message.

A decision is about what was shown. So words that name no request allow something only if the platform confirmed its
card some seconds before, and no agent spoke or worked in the room around it. An agent that asks "1 or 2?" must not get
its own call allowed. A button and a reply refer to the card themselves, `/approve ID` does for whoever was shown the
request. A no is always safe.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gatepost.core.clock import MINUTE
from gatepost.core.errors import Invalid
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import SETTLES, show_to
from gatepost.flow.requests.choices import (
    ALLOW_ONCE,
    DENY,
    GROUP,
    MODEL,
    PRICE,
    AnswerChoice,
    find_answer,
    list_choices,
    show_beginning,
)
from gatepost.flow.requests.decide import Decision, answer_question, decide, find_to_decide
from gatepost.flow.requests.edited_input import is_editable, parse_edited
from gatepost.flow.requests.questions import (
    AgentQuestion,
    find_choice,
    find_clicked,
    find_next,
    find_own_words,
    parse_questions,
)
from gatepost.messages.card import CHANGED, LONGEST_LABEL, MOST_BUTTONS, OWN_WORDS, escape_markdown, is_number
from gatepost.messages.outbound import Feature
from gatepost.messages.text import one_line
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import EffectState, SentState
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.sessions import turns

NAMING = {  # /approve ID FOLDER, MODEL or IN/OUT
    RequestKind.ROOM: GROUP,
    RequestKind.BUDGET: MODEL,
    RequestKind.PRICE: PRICE,
}
APPROVE, REFUSE, ANSWER = "/approve", "/deny", "/answer"
COMMANDS = (APPROVE, REFUSE, ANSWER)
UNKNOWN_BUTTON = "This button is not known any more."
WHICH = "Several requests wait here. {0}write {1} and its id:\n\n{2}"
NONE_WAITS = "Nothing waits for a decision here. Write {} and the id of a request."
NOT_FOR_CARD = "If that was meant for “{1}”: {2}write /approve {0}, or /deny {0} and why."
NOT_FOR_QUESTION = "If that was meant for “{1}”: {2}write /answer {0} and your answer."
NO_ANSWER_TO_CARD = "{0} waits for yes or no: reply to its card, or write /approve {0} or /deny {0}."
ON_ITS_WAY = "A request is on its way to you. If that was meant for it: answer once you have read its card."
NAME_IT = "Read the card of {0} first. Then write /approve {0} or /deny {0}."
SHOWN_NOW = "You were not shown {0} yet, so nothing was decided. Its card comes to you now: read it and decide there."
NOT_SHOWN = "You were not shown {0} yet, so nothing was decided. The page Requests shows it, and lets you decide."
SHOWN_IN_PART = "Only a part of {0} could be shown, so nothing was decided. Decide it on the page Requests."
NO_SUCH = "No request of that id waits: {}."
NO_ARGUMENTS = (
    "Nothing was decided. Write /approve {0} and nothing else to allow it as it was asked,"
    ' /approve {0} {{"name": "value"}} with other arguments, or /deny {0} and why.'
)
IS_QUESTION = "{0} is a question: write /answer {0} and your answer, or /deny {0}."
NO_QUESTION = "{0} is no question: write /approve {0} or /deny {0}."
NO_ANSWER = "That is no answer to the question. It can be answered with: {}."
OWN_WORDS_OFFERED = "your own words"
LONGEST_ID = 60
LONGEST_TITLE = 1000  # characters of a card in which its title ends
LONGEST_ASKED = 100  # of a question, where somebody is told which ones wait
MOST_LISTED = 5  # of the newest that wait
SPOKE_BEFORE = MINUTE  # nor if an agent spoke so shortly before the card
MOST_SPOKEN = 100  # messages of a room that are looked at for that: where an agent said more, it spoke around the card
LATEST = 2**62
MOST_READ = 10  # requests that one text is compared with: where more than one wait, it decides none of them
DECIDED, ANSWERED = "decided", "answered"


class PersonMessage(Struct, frozen=True, kw_only=True):
    """An act of somebody in a room, as far as it can be an answer."""

    instance: str
    address: str
    sender: str
    text: str
    click: str = ""  # the id of a button
    answers: int | None = None  # the message that it replies to, by its id in the ledger
    command: str = ""
    thread: str = ""
    with_files: bool = False
    message_id: int = LATEST  # in the ledger
    said_at: int | None = None  # when the platform says that it was written

    @property
    def where(self) -> tuple[str, str]:
        return self.instance, self.address


class GivenAnswer(Struct, frozen=True):
    """`said`: for who answered, '' if the card says it. `decision`: None if nothing was decided about."""

    reason: str  # for the ledger
    said: str = ""
    decision: Decision | None = None
    passes: bool = False  # it is no answer, and goes on to the agent


def is_decided(reason: str) -> bool:
    """Return True if the ledger's reason of a message says that it decided a request, or answered one of its
    questions."""
    return bool(get_decided_request(reason))


def get_decided_request(reason: str) -> str:
    """The id of the request that a message decided, by its reason in the ledger; '' if it decided none."""
    word, _, request_id = reason.partition(" ")
    return request_id if word in (DECIDED, ANSWERED) else ""


def read_answer(
    db: Db,
    channels: ChannelInstances,
    said: PersonMessage,
    cards: tuple[RequestCard, ...],
    now: int,
    settles: int = SETTLES,
) -> GivenAnswer | None:
    """None if it is no answer. `cards`: those that are open in the room, the oldest first."""
    if said.click:
        return _read_click(db, channels, said, now)
    if said.command in COMMANDS:
        return _read_command(db, channels, said, cards, now, settles)
    return _read_text(db, channels, said, cards, now, settles) if cards else None


def _read_click(db: Db, channels: ChannelInstances, said: PersonMessage, now: int) -> GivenAnswer:
    """A button leads to its card only where the card was shown: made up or carried elsewhere, it does nothing."""
    token, _, number = said.click.partition(":")
    card = request_cards.get(db, token)
    request = requests.get(db, card.request_id) if card is not None else None
    if card is None or request is None or (card.instance, card.address) != said.where:
        return GivenAnswer("unknown_button", UNKNOWN_BUTTON)
    if request.kind is RequestKind.QUESTION:
        question = _get_question(request, card.part)
        found = find_own_words(question, said.text) if number == OWN_WORDS else find_clicked(question, number)
        if found is None:
            return GivenAnswer("unknown_button", UNKNOWN_BUTTON)
        return _answer(db, channels, request, card.part, found, said, now)
    if number == CHANGED and is_editable(request) and card.whole:
        return _decide_changed(db, channels, request, said.text, said, now)
    choices = list_choices(request)
    if not number.isascii() or not number.isdecimal() or len(number) > 2 or int(number) >= len(choices):
        return GivenAnswer("unknown_button", UNKNOWN_BUTTON)
    choice = choices[int(number)]
    if choice.state is RequestState.ALLOWED and not card.whole:
        return _refuse_part(request)
    return _decide(db, channels, request, choice, said, now)


def _refuse_part(request: Request) -> GivenAnswer:
    """Nobody allows what they saw a part of."""
    return GivenAnswer(f"not decided {request.id}", SHOWN_IN_PART.format(request.id))


def _read_command(
    db: Db, channels: ChannelInstances, said: PersonMessage, cards: tuple[RequestCard, ...], now: int, settles: int
) -> GivenAnswer:
    """`/approve ID`, `/approve ID {JSON}` with other arguments, `/deny ID WORDS` and `/answer ID WORDS`; without an id,
    the only request that waits in this room. An approval names an existing request or none at all: a typing error in an
    id must not allow something else. An agent knows the id, so the request must have been shown to the person who names
    it."""
    _, _, rest = said.text.strip().partition(" ")
    named, words = [*rest.split(None, 1), "", ""][:2]
    request = requests.get(db, named) if named and len(named) <= LONGEST_ID else None
    if request is None:
        waiting = _list_waiting(db, cards, questions=said.command == ANSWER)
        if named and (said.command == APPROVE or named.lower().startswith(requests.PREFIX) or len(waiting) != 1):
            return GivenAnswer("unknown_request", NO_SUCH.format(named[:LONGEST_ID]))
        if len(waiting) != 1:
            several = [card for card in cards if card.request_id in waiting]
            text = (
                _render_which(db, channels, said, several, said.command) if several else NONE_WAITS.format(said.command)
            )
            return GivenAnswer("unknown_request", text)
        request, words, named = requests.get(db, waiting[0]), rest, ""
        assert request is not None  # its card goes with it
    words = words.strip()
    if said.command == ANSWER:
        return _read_answer_words(db, channels, request, words, said, now)
    if said.command == APPROVE and request.kind is RequestKind.QUESTION:
        return GivenAnswer("unknown_request", IS_QUESTION.format(request.id))
    if said.command == APPROVE and (unseen := _find_unseen(db, channels, request, said, now, words)):
        return unseen
    if (
        said.command == APPROVE
        and not named
        and not _is_certain(db, channels, request, said, cards, now, settles, allows=True)
    ):
        return GivenAnswer(f"not decided {request.id}", NAME_IT.format(request.id))
    if said.command == APPROVE and words and not words.startswith("{") and request.kind not in NAMING:
        return GivenAnswer(f"not decided {request.id}", NO_ARGUMENTS.format(request.id))  # "no wait" is no yes
    if said.command == REFUSE or not words.startswith("{"):
        return _decide(db, channels, request, ALLOW_ONCE if said.command == APPROVE else DENY, said, now, words)
    return _decide_changed(db, channels, request, words, said, now)


def _decide_changed(
    db: Db, channels: ChannelInstances, request: Request, arguments: str, said: PersonMessage, now: int
) -> GivenAnswer:
    """`arguments`: the JSON object that takes the place of what was asked for."""
    try:
        return _decide(db, channels, request, ALLOW_ONCE, said, now, given=parse_edited(arguments))
    except Invalid as error:
        return GivenAnswer(f"not decided {request.id}", f"{error}. Nothing was decided.")


def _list_waiting(db: Db, cards: Sequence[RequestCard], *, questions: bool) -> list[str]:
    """The requests of these cards; `questions`: those that are one."""
    found = list(dict.fromkeys(card.request_id for card in cards))
    if not questions:
        return found
    threads = requests.list_question_threads(db, found)
    return [each for each in found if each in threads]


def _read_answer_words(
    db: Db, channels: ChannelInstances, request: Request, words: str, said: PersonMessage, now: int
) -> GivenAnswer:
    if request.kind is not RequestKind.QUESTION:
        return GivenAnswer("unknown_request", NO_QUESTION.format(request.id))
    part = find_next(request) or 0
    question = _get_question(request, part)
    found = find_choice(question, words) or find_own_words(question, words)
    if found is None:
        return _refuse_words(db, channels, request, question, said, now)
    return _answer(db, channels, request, part, found, said, now)


def _refuse_words(
    db: Db, channels: ChannelInstances, request: Request, question: AgentQuestion, said: PersonMessage, now: int
) -> GivenAnswer:
    """Refuse an answer that the question does not take, and list the possible answers to a person who may decide."""
    _, refusal = find_to_decide(db, channels, request.id, said.sender, said.where, now)
    if refusal is not None:
        return GivenAnswer(f"not decided {request.id}", refusal.said, refusal)
    own = (OWN_WORDS_OFFERED,) if question.own_words else ()
    offered = [one_line(each)[:LONGEST_LABEL] for each in question.options[:MOST_BUTTONS]]
    return GivenAnswer("no_answer", NO_ANSWER.format(", ".join((*offered, *own))))


class _Match(Struct, frozen=True):
    """The meaning of a text for one card: a decision, or an answer."""

    card: RequestCard
    request: Request
    choice: AnswerChoice | None = None
    answer: str = ""
    words: str = ""  # why somebody refuses

    @property
    def allows(self) -> bool:
        return self.choice is not None and self.choice.state is RequestState.ALLOWED


def _read_text(
    db: Db, channels: ChannelInstances, said: PersonMessage, cards: tuple[RequestCard, ...], now: int, settles: int
) -> GivenAnswer | None:
    """A reply to a card, or a number or word in the room where somebody was asked. Everything else is for the agent. So
    is a bare number where cards have buttons, and any bare answer but a no that may be meant for the agent."""
    replied = [card for card in cards if card.message_id == said.answers]
    if said.answers is not None and not replied:
        return None
    found = _list_meant(db, said, cards, replied)
    shown = bool(replied) or not is_number(said.text) or Feature.CARDS not in channels.get_kind(said.instance).features
    chosen = [each for card, request in found if shown and (each := _match_choice(card, request, said.text))]
    if not chosen:
        return _read_own_words(db, channels, said, found, now)
    first = chosen[0]
    if not replied and (is_number(said.text) or first.words or first.choice is None or first.allows):
        seen = _list_seen(db, found)
        chosen = [each for each in chosen if (each.card, each.request) in seen]
        if not chosen:
            return GivenAnswer("", ON_ITS_WAY, passes=True)
        found, first = seen, chosen[0]
        if first.choice is None or len(found) > 1:  # of several, none is decided
            last = max(card.message_id for card, _ in found)  # of what it can be an answer to, whatever else waits here
            certain = not messages.has_outgoing_after(db, *said.where, last)
        else:
            certain = _is_certain(db, channels, first.request, said, cards, now, settles, allows=first.allows)
        if not certain:
            newest = chosen[-1]
            template = NOT_FOR_QUESTION if newest.choice is None else NOT_FOR_CARD
            (title,) = _list_titles(db, [newest.card])
            way = "reply to its card, or " if _can_reply(channels, said.instance) else ""
            return GivenAnswer("", template.format(newest.request.id, title, way), passes=True)
    if len(found) > 1:
        asked = {request.kind is RequestKind.QUESTION for _, request in found}
        decide = f"{APPROVE} or {REFUSE}"
        command = ANSWER if asked == {True} else decide if asked == {False} else f"{APPROVE}, {REFUSE} or {ANSWER}"
        which = _render_which(db, channels, said, [card for card, _ in found], command)
        return GivenAnswer("which_request", which)
    if first.choice is None:
        return _answer(db, channels, first.request, first.card.part, first.answer, said, now)
    if first.allows and not first.card.whole:
        return _refuse_part(first.request)
    return _decide(db, channels, first.request, first.choice, said, now, first.words)


def _list_seen(db: Db, found: Sequence[tuple[RequestCard, Request]]) -> list[tuple[RequestCard, Request]]:
    """Those whose cards were delivered. A question counts from its first moment: an answer to it allows nothing."""
    asked = [card.message_id for card, request in found if request.kind is not RequestKind.QUESTION]
    states = outbox.list_states(db, asked) if asked else {}
    return [
        (card, request)
        for card, request in found
        if request.kind is RequestKind.QUESTION or _is_sent(states.get(card.message_id))
    ]


def _is_sent(state: SentState | None) -> bool:
    return state is not None and state.state is EffectState.SENT


def _is_certain(
    db: Db,
    channels: ChannelInstances,
    request: Request,
    said: PersonMessage,
    cards: Sequence[RequestCard],
    now: int,
    settles: int,
    *,
    allows: bool,
) -> bool:
    """Return True if words that name no request can only be meant for this one's card in the room. `allows`: they would
    allow it, so nothing that a ledger does not show may have led to them."""
    if (
        allows and Feature.PANE in channels.get_kind(said.instance).features
    ):  # an agent's prompt says what it likes for somebody
        return False
    card = max((each for each in cards if each.request_id == request.id), key=lambda each: each.message_id)
    state = outbox.list_states(db, [card.message_id]).get(card.message_id)
    if state is None or not _is_sent(state) or state.at + settles > min(said.said_at or now, now):
        return False
    if allows and turns.has_run_since(db, *said.where, state.at - SPOKE_BEFORE):  # it may have shown a draft
        return False
    return not _has_agent_spoken(db, said, card, state.at)


def _has_agent_spoken(db: Db, said: PersonMessage, card: RequestCard, shown_at: int) -> bool:
    """Return True if an agent spoke in the room around the card, has more to say there, or too much was said to know.
    Around the card: since the person's last words before it, or since a minute before it if that is earlier. The
    gateway's own lines count, too: they may offer something to choose from, or carry an agent's words."""
    own = identities.list_names(db, said.sender)
    spoken = outbox.list_latest_spoken(db, *said.where, said.message_id, MOST_SPOKEN)
    words = (each.accepted_at for each in spoken if not each.ours and each.said and each.sender in own)
    since = min(next((at for at in words if at < shown_at), 0), shown_at - SPOKE_BEFORE)
    if len(spoken) == MOST_SPOKEN and spoken[-1].accepted_at >= since:
        return True
    for each in spoken:
        if each.id > card.message_id and each.ours and (each.by_agent or not each.about_request):
            return True
        if each.by_agent and (each.waits or each.shown_at >= max(since, 1)):
            return True
    return False


def _find_unseen(
    db: Db, channels: ChannelInstances, request: Request, said: PersonMessage, now: int, words: str
) -> GivenAnswer | None:
    """Return the reply to somebody who allows what they were not shown; None if any of their identities was shown it.
    If they may decide, they are shown it instead."""
    person = identities.get_person(db, said.sender)
    own = [card for card in request_cards.list_for_request(db, request.id) if card.person == person]
    states = outbox.list_states(db, [card.message_id for card in own])
    shown = [card for card in own if _is_sent(states.get(card.message_id))]
    if any(card.whole for card in shown):
        return None
    group = words if request.kind is RequestKind.ROOM else ""
    request, refusal = find_to_decide(db, channels, request.id, said.sender, said.where, now, group)
    reason = f"not decided {request.id}"
    if refusal is not None:
        return GivenAnswer(reason, refusal.said, refusal)
    if shown:
        return _refuse_part(request)
    waits = any(state.state in (EffectState.PENDING, EffectState.SENDING) for state in states.values())
    room = None if waits else show_to(db, channels, request, person, said.where, now)
    if room is None:
        return GivenAnswer(reason, NAME_IT.format(request.id) if waits else NOT_SHOWN.format(request.id))
    text = SHOWN_NOW.format(request.id)
    return GivenAnswer(reason, text, Decision(request, False, text, (room,)))


def _render_which(
    db: Db, channels: ChannelInstances, said: PersonMessage, cards: Sequence[RequestCard], command: str
) -> str:
    """`cards`: the oldest first; the newest of them are listed by what they say."""
    newest = list({card.request_id: card for card in cards}.values())[-MOST_LISTED:]
    way = "Reply to one of them, or " if _can_reply(channels, said.instance) else "To say which, "
    lines = [f"- {title} ({card.request_id})" for title, card in zip(_list_titles(db, newest), newest, strict=True)]
    return WHICH.format(way, command, "\n".join(lines))


def _list_titles(db: Db, cards: Sequence[RequestCard]) -> list[str]:
    """Return the titles of cards as they were shown; a question's with its words."""
    texts = messages.list_beginnings(db, [card.message_id for card in cards], LONGEST_TITLE)
    known = {each.id: each for each in requests.list_by_ids(db, [card.request_id for card in cards])}
    titles: list[str] = []
    for card in cards:
        title = texts.get(card.message_id, "").partition("\n")[0].removeprefix("**").removesuffix("**")
        request = known.get(card.request_id)
        if request is not None and request.kind is RequestKind.QUESTION:
            asked = show_beginning(_get_question(request, card.part).text, LONGEST_ASKED)
            title = f"{title}: {escape_markdown(asked)}"
        titles.append(title or "a request")
    return titles


def _can_reply(channels: ChannelInstances, instance: str) -> bool:
    """Return True if people can refer to a card there. Nobody can at a terminal, which prints it as text."""
    features = channels.get_kind(instance).features
    return Feature.REPLY in features and (Feature.CARDS in features or not channels.is_local(instance))


def _list_meant(
    db: Db, said: PersonMessage, cards: Sequence[RequestCard], replied: Sequence[RequestCard]
) -> list[tuple[RequestCard, Request]]:
    """The cards that a text can be an answer to. A question is for everybody in its thread, the rest for who was
    asked."""
    if not replied:
        person = identities.get_person(db, said.sender)
        threads = requests.list_question_threads(db, [card.request_id for card in cards])
        replied = [
            card
            for card in cards
            if (threads[card.request_id] == said.thread if card.request_id in threads else card.person == person)
        ][-MOST_READ:]
    known = {each.id: each for each in requests.list_by_ids(db, [card.request_id for card in replied])}
    return [(card, known[card.request_id]) for card in replied if card.request_id in known]


def _read_own_words(
    db: Db,
    channels: ChannelInstances,
    said: PersonMessage,
    found: Sequence[tuple[RequestCard, Request]],
    now: int,
) -> GivenAnswer | None:
    """Words of one's own answer a question by a reply. Without one they do if nothing was said after the card, by who
    gave the agent its work: everybody else in the room may be talking about something else. A reply to another card
    that says neither yes nor no is the agent's."""
    if len(found) != 1 or said.command or said.with_files:
        return None
    card, request = found[0]
    if request.kind is not RequestKind.QUESTION:
        if said.answers is None:
            return None
        return GivenAnswer("", NO_ANSWER_TO_CARD.format(request.id), passes=True)
    question = _get_question(request, card.part)
    words = find_own_words(question, said.text)
    if said.answers is not None:
        if words is None:
            return _refuse_words(db, channels, request, question, said, now)
        return _answer(db, channels, request, card.part, words, said, now)
    asked = card.person in ("", identities.get_person(db, said.sender))
    if words is None or not asked or messages.has_outgoing_after(db, *said.where, card.message_id):
        return None
    return _answer(db, channels, request, card.part, words, said, now)


def _match_choice(card: RequestCard, request: Request, text: str) -> _Match | None:
    if request.kind is RequestKind.QUESTION:
        found = find_choice(_get_question(request, card.part), text)
        return _Match(card, request, answer=found) if found is not None else None
    choices = list_choices(request)
    if not card.whole and is_number(text):  # it shows fewer
        choices = tuple(each for each in choices if each.state is RequestState.DENIED)
    answer = find_answer(choices, text)
    return _Match(card, request, answer.choice, words=answer.words) if answer is not None else None


def _get_question(request: Request, part: int) -> AgentQuestion:
    asked = parse_questions(request.input)
    return asked[part] if part < len(asked) else AgentQuestion("", "", own_words=False)


def _answer(
    db: Db, channels: ChannelInstances, request: Request, part: int, text: str, said: PersonMessage, now: int
) -> GivenAnswer:
    decision = answer_question(db, channels, request.id, part, text, said.sender, now, said.where)
    if not decision.decided and not decision.kept:
        return GivenAnswer(f"not decided {request.id}", decision.said, decision)
    shown = said.where in decision.rooms  # the card there says it
    word = DECIDED if decision.decided else ANSWERED
    return GivenAnswer(f"{word} {request.id}", "" if shown else decision.said, decision)


def _decide(
    db: Db,
    channels: ChannelInstances,
    request: Request,
    choice: AnswerChoice,
    said: PersonMessage,
    now: int,
    words: str = "",
    given: dict[str, Any] | None = None,
) -> GivenAnswer:
    if request.kind in NAMING and words and choice.state is RequestState.ALLOWED:
        given = {NAMING[request.kind]: words}
    decision = decide(db, channels, request.id, choice, said.sender, now, words=words, given=given, where=said.where)
    if not decision.decided:
        return GivenAnswer(f"not decided {request.id}", decision.said, decision)
    shown = said.where in decision.rooms  # the card there says it
    return GivenAnswer(f"{DECIDED} {request.id}", "" if shown else decision.said, decision)
