"""Cards on their way: a request is shown to somebody in their direct room, a question where it was asked, and every
card says in the end what was decided.

Nobody decides about what they do not see. A card that does not fit its platform follows the messages that show all of
it, part by part. If that is too much, it can only be denied there. One that is not delivered is shown elsewhere.
"""

from msgspec import Struct, to_builtins

from gatepost.core.languages.catalogue import speaking, translate
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import split_text
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.choices import (
    LONGEST_INPUT,
    LONGEST_NAME,
    CardFacts,
    get_size,
    is_too_long,
    make_card,
    make_decided_card,
    make_refusal_card,
    render_decision,
    show_beginning,
)
from gatepost.flow.requests.questions import find_next
from gatepost.messages.card import Card, escape_line, escape_markdown, render_text
from gatepost.messages.outbound import Feature, Op
from gatepost.messages.text_size import TextUnit, measure
from gatepost.store.gateways import incarnations
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.money import costs
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests, waiting_requests
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.direct_rooms import DirectRoom
from gatepost.store.sessions import agents, errands, groups

KEY = "request:"  # how the keys of cards and their parts begin
PAGE = "/page"
MOST_PAGES = 20
LONGEST_PAGE = 8000  # characters, where a channel has no limit
MOST_MARKED, LONGEST_MARKED = 100, 2000  # cards of a restored store, and characters of each: one transaction
SMALLEST_PAGE = 300  # below that a channel shows no parts
LONGEST_ASKED = 300  # characters of a question above its answer
LONGEST_HEAD = 60  # characters before a part
ABOVE = "All of it is in the messages above: {} parts."
UNDELIVERED = frozenset({EffectState.FAILED, EffectState.UNCERTAIN, EffectState.CANCELLED})


class FittedCard(Struct, frozen=True):
    card: Card
    pages: tuple[str, ...] = ()  # that go out before it, as markdown
    whole: bool = True


def show_card(db: Db, channels: ChannelInstances, request: Request, person: str, room: DirectRoom, now: int) -> None:
    place = (room.instance, room.address)
    _add_card(db, channels, request, person, place, find_thread(channels, request, place), 0, now)


def find_thread(channels: ChannelInstances, request: Request, place: tuple[str, str]) -> str:
    """The thread of a card: that of the request where it was asked in this room, else the main one. A terminal prints
    the main one's cards in every thread."""
    same = (request.instance, request.address) == place
    return request.thread if same and Feature.CARDS in channels.get_kind(place[0]).features else ""


def show_question(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[tuple[str, str], ...]:
    """The next question that nobody has answered, in the room of the turn that asks. The rooms to ring: none for an
    agent that somebody manages, who sees it there."""
    part = find_next(request)
    if part is None or request.instance in ("", agents.INSTANCE):
        return ()
    asker = costs.find_asker(db, request.turn_id) if request.turn_id else ""
    person, place = identities.get_person(db, asker) if asker else "", (request.instance, request.address)
    _add_card(db, channels, request, person, place, request.thread, part, now)
    return (place,)


def _add_card(
    db: Db,
    channels: ChannelInstances,
    request: Request,
    person: str,
    place: tuple[str, str],
    thread: str,
    part: int,
    now: int,
) -> None:
    token = request_cards.make_token()
    with speaking(channels.find_language(db, *place)):
        fitted = fit_card(channels, place[0], request, token, find_facts(db, request), part)
    key, card = f"{KEY}{request.id}:{token}", fitted.card
    for number, text in enumerate(fitted.pages, start=1):
        new = _make_effect(request, f"{key}{PAGE}{number}", Op.SEND, place, thread, text, {})
        outbox.add(db, new, now)
    new = _make_effect(request, key, Op.CARD, place, thread, render_text(card), {"card": to_builtins(card)})
    effect = outbox.add(db, new, now)
    request_cards.add(
        db, token, request.id, person, *place, effect.message_id, now, part, whole=fitted.whole and not request.cut
    )


def _make_effect(
    request: Request,
    key: str,
    op: Op,
    place: tuple[str, str],
    thread: str,
    text: str,
    more: dict[str, object],
    target_id: int | None = None,
) -> NewEffect:
    """By which somebody decides goes out before what an agent has queued. A question is its agent's own."""
    instance, address = place
    return NewEffect(
        key=key,
        op=op,
        origin=EffectOrigin.NOTICE,
        instance=instance,
        address=address,
        thread=thread,
        text=text,
        payload={"text": text, **more},
        target_id=target_id,
        urgent=request.kind is not RequestKind.QUESTION,
    )


# What fits.


def fit_card(
    channels: ChannelInstances, instance: str, request: Request, token: str, facts: CardFacts, part: int = 0
) -> FittedCard:
    """The card as a platform shows it whole, with what goes out before it; or one by which it can only be denied."""
    is_question = request.kind is RequestKind.QUESTION
    if not is_question and (request.cut or is_too_long(request)):
        return _make_refusal(channels, instance, request, token, facts)
    card = make_card(request, token, facts, part)
    if channels.fits_card(instance, card):
        return FittedCard(card)
    limit, unit = _find_page_size(channels, instance)
    pages = list_pages(card, limit, unit) if card.size <= min(LONGEST_INPUT, MOST_PAGES * limit) else []
    rest = shorten_card(card, translate(ABOVE.format(len(pages))))
    if 0 < len(pages) <= MOST_PAGES and channels.fits_card(instance, rest):
        return FittedCard(rest, tuple(pages))
    if is_question:  # nothing is allowed by its answer
        return FittedCard(rest, whole=False)
    return _make_refusal(channels, instance, request, token, facts)


def _make_refusal(
    channels: ChannelInstances, instance: str, request: Request, token: str, facts: CardFacts
) -> FittedCard:
    card = make_refusal_card(request, token, facts, channels.get_page())
    short = card if channels.fits_card(instance, card) else shorten_card(card, translate("Decide it on the dashboard."))
    return FittedCard(short, whole=False)


def shorten_card(card: Card, text: str) -> Card:
    """The card without what was said before it."""
    return replace(card, text=text, fields=(), buttons=tuple(replace(each, about="") for each in card.buttons))


def _find_page_size(channels: ChannelInstances, instance: str) -> tuple[int, TextUnit]:
    return min(channels.get_kind(instance).max_text or LONGEST_PAGE, LONGEST_PAGE), channels.get_kind(
        instance
    ).text_unit


def list_pages(card: Card, limit: int, unit: TextUnit) -> list[str]:
    """All that a card says, in messages of a platform. Words of others are escaped once they are split, so that no
    mark of theirs is torn off its escape; that may double them."""
    if limit < SMALLEST_PAGE:
        return []
    room = limit - LONGEST_HEAD
    parts = split_text(card.text, room, unit) if card.text else []
    lines = [f"{each.name}: {each.value}" for each in card.fields]
    lines += [f"{each.label}: {each.about}" for each in card.buttons if each.about]
    for line in lines:
        parts += [escape_line(each) for each in split_text(line, room // 2, unit)]
    joined: list[str] = []
    for each in parts:
        if joined and measure(joined[-1], unit) + measure(each, unit) + 2 <= room:
            joined[-1] = f"{joined[-1]}\n\n{each}"
        else:
            joined.append(each)
    count = len(joined)
    return [f"{translate(f'Part {number} of {count}:')}\n{each}" for number, each in enumerate(joined, start=1)]


# What it says.


def find_facts(db: Db, request: Request) -> CardFacts:
    facts = _find_origin(db, request)
    waits = request.state is RequestState.PENDING
    return replace(facts, restored=True) if waits and incarnations.is_restored_since(db, request.asked_at) else facts


def _find_origin(db: Db, request: Request) -> CardFacts:
    group = groups.get(db, request.folder)
    agent = (group.name or group.folder) if group else request.folder
    named = {name: value for name, value in request.input.items() if isinstance(value, str) and name in request.rooms}
    known = {name: room for name, value in named.items() if (room := _find_room(db, request.rooms[name], value))}
    if not request.turn_id or request.instance in ("", agents.INSTANCE, errands.INSTANCE):
        return CardFacts(agent=agent, rooms=known)
    last = inbox.find_last_of_people(db, request.turn_id)
    cause = messages.get(db, last[0]) if last is not None else None
    if cause is None:
        return CardFacts(agent=agent, rooms=known)
    return CardFacts(
        agent=agent,
        asked_by=find_name(db, identities.get_person(db, cause.sender), cause.sender_name),
        asked_in=_find_room(db, request.instance, request.address),
        said=cause.text,
        rooms=known,
    )


def _find_room(db: Db, instance: str, address: str) -> str:
    """Return the name that people gave to a room, or '' if it has none."""
    room = rooms.get(db, instance, address)
    return room.name if room is not None and room.name != address else ""


def find_name(db: Db, person: str, otherwise: str = "") -> str:
    """Return the name of a person, or the names of all who decided together."""
    known = [users.get(db, each) for each in request_cards.split_voters(person)]
    names = [show_beginning(user.name, LONGEST_NAME) if user is not None else "" for user in known]
    return request_cards.join_voters(names) if all(names) else show_beginning(otherwise, LONGEST_NAME) or person


# What was decided.


def show_decision(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[tuple[str, str], ...]:
    """Every open card of a request says what was decided. The rooms to ring."""
    return show_answer(db, channels, request, request.answered_by, now)


def show_answer(db: Db, channels: ChannelInstances, request: Request, by: str, now: int) -> tuple[tuple[str, str], ...]:
    """The same for a request that goes on: its open cards say who answered their question."""
    closed = request_cards.close(db, request.id)
    for card in closed:
        _show_in_card(db, channels, request, card, by, now)
    return tuple(dict.fromkeys((card.instance, card.address) for card in closed))


def make_decided_key(card: RequestCard) -> str:
    """The key of the effect by which a card says what was decided."""
    return f"{KEY}{card.request_id}:{card.token}:decided"


def _show_in_card(db: Db, channels: ChannelInstances, request: Request, card: RequestCard, by: str, now: int) -> None:
    said = render_decision(request, by, card.part, find_name(db, by))
    _show_line_in_card(db, channels, request, card, said, make_decided_key(card), now)


def _show_line_in_card(
    db: Db, channels: ChannelInstances, request: Request, card: RequestCard, said: str, key: str, now: int
) -> None:
    """In the card itself where the channel can edit, else in a line of its own."""
    edits = Feature.EDIT in channels.get_kind(card.instance).features
    place = (card.instance, card.address)
    thread = request.thread if request.kind is RequestKind.QUESTION else find_thread(channels, request, place)
    with speaking(channels.find_language(db, *place)):
        decided = make_decided_card(request, find_facts(db, request), said, card.part)
    text, more = render_decided_line(decided, is_question=request.kind is RequestKind.QUESTION), dict[str, object]()
    if edits:
        if not card.whole or not channels.fits_card(card.instance, decided):
            decided = shorten_card(decided, "")
        text, more = render_text(decided), {"card": to_builtins(decided)}
    op = Op.EDIT if edits else Op.SEND
    outbox.add(db, _make_effect(request, key, op, place, thread, text, more, card.message_id), now)


def show_failure(
    db: Db, channels: ChannelInstances, request: Request, failure: str, now: int
) -> tuple[tuple[str, str], ...]:
    """Write on the cards of an allowed call that it failed, if they can be edited. People who allowed it are told in
    any case: below their card, or in their direct room if they have none. Return the rooms to ring."""
    by = request.answered_by
    deciders = request_cards.split_voters(by)
    said = f"{render_decision(request, by, name=find_name(db, by))} {failure}"
    shown = [
        each
        for each in request_cards.list_for_request(db, request.id)
        if (each.person in deciders or Feature.EDIT in channels.get_kind(each.instance).features)
        and outbox.find_by_key(db, make_decided_key(each)) is not None
    ]
    for card in shown:
        _show_line_in_card(db, channels, request, card, said, f"{make_decided_key(card)}:failed", now)
    rooms = [(card.instance, card.address) for card in shown]
    for number, person in enumerate(deciders):
        if person in {card.person for card in shown}:
            continue
        known = [each for each in direct_rooms.list_for_people(db, (person,)) if channels.is_known(each.instance)]
        for room in known[:1]:
            place = (room.instance, room.address)
            with speaking(channels.find_language(db, *place)):
                decided = make_decided_card(request, find_facts(db, request), said)
            line = render_decided_line(decided, is_question=False)
            key = f"{KEY}{request.id}:{number}:failed"
            outbox.add(db, _make_effect(request, key, Op.SEND, place, "", line, {}), now)
            rooms.append(place)
    return tuple(dict.fromkeys(rooms))


def render_decided_line(card: Card, *, is_question: bool) -> str:
    """Return the line that follows a card which cannot be edited: what was asked, and what was decided."""
    asked = split_text(card.text, LONGEST_ASKED)[0] if is_question and card.text else escape_markdown(card.title)
    return f"{asked}\n{escape_line(card.done)}"


# What a restored store offers again.


def mark_restored(db: Db, channels: ChannelInstances, now: int) -> tuple[tuple[str, str], ...]:
    """Write on cards that wait that they may have been decided before, where cards can be edited and are short. The
    page says it of all. Return the rooms to ring."""
    rooms = list[tuple[str, str]]()
    for request in waiting_requests.list_waiting(db, None, MOST_MARKED):
        facts = find_facts(db, request)
        if not facts.restored or get_size(request) > LONGEST_MARKED:  # the first: it is about the restore itself
            continue
        for card in request_cards.list_for_request(db, request.id):
            place = (card.instance, card.address)
            if len(rooms) == MOST_MARKED or not (card.open and channels.is_known(card.instance)):
                continue
            if Feature.EDIT not in channels.get_kind(card.instance).features:
                continue
            with speaking(channels.find_language(db, *place)):
                fitted = fit_card(channels, card.instance, request, card.token, facts, card.part)
            if fitted.pages or (card.whole and not fitted.whole):
                continue
            key, more = f"{KEY}{request.id}:{card.token}:restored:{now}", {"card": to_builtins(fitted.card)}
            thread = request.thread if request.kind is RequestKind.QUESTION else find_thread(channels, request, place)
            text = render_text(fitted.card)
            outbox.add(db, _make_effect(request, key, Op.EDIT, place, thread, text, more, card.message_id), now)
            rooms.append(place)
    return tuple(dict.fromkeys(rooms))


# What was not delivered.


def record_card_outcome(db: Db, effect: OutboxEffect, state: EffectState, now: int) -> None:
    """Somebody else is asked at once, or the same person elsewhere, when a card or a part of it does not arrive. Its
    other parts are not sent then: nobody decides by a part."""
    if not effect.key.startswith(KEY) or state not in UNDELIVERED:
        return
    request_id, _, rest = effect.key.removeprefix(KEY).partition(":")
    token, _, page = rest.partition(PAGE)
    request = requests.get(db, request_id)
    if ":" in token or request is None or request.kind is RequestKind.QUESTION:  # what was decided, or no approval
        return
    whole = f"{KEY}{request_id}:{token}"
    later = [f"{whole}{PAGE}{number}" for number in range(int(page) + 1, MOST_PAGES + 1)] if page else []
    if page:
        outbox.cancel_by_keys(db, [*later, whole], "a part of it was not delivered", now)
    request_cards.close_one(db, token)
    waiting_requests.defer(db, request_id, now)
