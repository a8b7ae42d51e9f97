"""Cards on their way: a request is shown to somebody in their direct room, a question where it was asked, and every
card says in the end what was decided."""

from msgspec import to_builtins

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.choices import make_card, make_decided_card, render_decision
from gatepost.flow.requests.questions import find_next
from gatepost.messages.card import render_text
from gatepost.messages.outbound import Feature, Op
from gatepost.store import agents, costs, groups, identities, outbox, request_cards
from gatepost.store.direct_rooms import DirectRoom
from gatepost.store.outbox import EffectOrigin, NewEffect
from gatepost.store.port import Db
from gatepost.store.request_cards import RequestCard
from gatepost.store.requests import Request, RequestKind


def show_card(db: Db, request: Request, person: str, room: DirectRoom, now: int) -> None:
    _add_card(db, request, person, (room.instance, room.address, ""), 0, now)


def show_question(db: Db, request: Request, now: int) -> tuple[tuple[str, str], ...]:
    """The next question that nobody has answered, in the room of the turn that asks. The rooms to ring: none for an
    agent that somebody manages, who sees it there."""
    part = find_next(request)
    if part is None or request.instance in ("", agents.INSTANCE):
        return ()
    asker = costs.find_asker(db, request.turn_id) if request.turn_id else ""
    person = identities.get_person(db, asker) if asker else ""
    _add_card(db, request, person, (request.instance, request.address, request.thread), part, now)
    return ((request.instance, request.address),)


def _add_card(db: Db, request: Request, person: str, place: tuple[str, str, str], part: int, now: int) -> None:
    instance, address, thread = place
    token = request_cards.make_token()
    card = make_card(request, token, _find_agent_name(db, request), part)
    effect = outbox.add(
        db,
        NewEffect(
            key=f"request:{request.id}:{token}",
            op=Op.CARD,
            origin=EffectOrigin.NOTICE,
            instance=instance,
            address=address,
            thread=thread,
            text=render_text(card),
            payload={"text": render_text(card), "card": to_builtins(card)},
            urgent=request.kind is not RequestKind.QUESTION,
        ),
        now,
    )
    request_cards.add(db, token, request.id, person, instance, address, effect.message_id, now, part)


def show_decision(db: Db, reach: ChannelInstances, request: Request, now: int) -> tuple[tuple[str, str], ...]:
    """Every open card of a request says what was decided. The rooms to ring."""
    return show_answer(db, reach, request, request.answered_by, now)


def show_answer(db: Db, reach: ChannelInstances, request: Request, by: str, now: int) -> tuple[tuple[str, str], ...]:
    """The same for a request that goes on: its open cards say who answered their question."""
    closed = request_cards.close(db, request.id)
    for card in closed:
        _show_in_card(db, reach, request, card, by, now)
    return tuple(dict.fromkeys((card.instance, card.address) for card in closed))


def make_decided_key(card: RequestCard) -> str:
    """The key of the effect by which a card says what was decided."""
    return f"request:{card.request_id}:{card.token}:decided"


def _show_in_card(db: Db, reach: ChannelInstances, request: Request, card: RequestCard, by: str, now: int) -> None:
    """In the card itself where the channel can edit, else in a line of its own."""
    said = render_decision(request, by, card.part)
    edits = Feature.EDIT in reach.features(card.instance)
    decided = make_decided_card(request, _find_agent_name(db, request), said, card.part)
    text = render_text(decided) if edits else f"{request.id}: {said}"
    outbox.add(
        db,
        NewEffect(
            key=make_decided_key(card),
            op=Op.EDIT if edits else Op.SEND,
            origin=EffectOrigin.NOTICE,
            instance=card.instance,
            address=card.address,
            thread=request.thread if request.kind is RequestKind.QUESTION else "",
            text=text,
            payload={"text": text, **({"card": to_builtins(decided)} if edits else {})},
            target_id=card.message_id,
            urgent=request.kind is not RequestKind.QUESTION,
        ),
        now,
    )


def _find_agent_name(db: Db, request: Request) -> str:
    group = groups.get(db, request.folder)
    return (group.name or group.folder) if group else request.folder
