"""Messages that wait for a decision about their sender, their room or a budget, and earlier ones that wait no longer.
All in the transaction of a message."""

from collections.abc import Collection, Sequence

from gatepost.access.senders import Rights
from gatepost.core.clock import HOUR
from gatepost.flow.intake.accepted_message import (
    IntakeResult,
    MessageContext,
    TargetAccess,
    find_session,
    make_seen_room,
)
from gatepost.flow.intake.admission import asks_first
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.requests import spent_budgets, unknown_rooms, unknown_senders
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules
from gatepost.flow.requests.held_messages import release_admitted
from gatepost.messages.inbound import MessageKind, Receipt, Verb
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money.budgets import BudgetStatus
from gatepost.store.rights import requests
from gatepost.store.rights.requests import RequestKind

LET_IN = "who wrote there was let in meanwhile"
MOST_TOLD = 20  # strangers in an hour who are told that somebody was asked about them
ASKED = (
    "I do not know you yet, so I have asked whoever runs this. What you wrote is kept, and is answered once they let"
    " you in."
)


def is_asked_about(said: RoutedMessage) -> bool:
    """Return True if a message in a room without a route is asked about: it is said to us, and no command."""
    return said.is_spoken and not said.is_command and (said.direct or said.verb is Verb.MENTION)


def hold_unknown_room(
    context: MessageContext, said: RoutedMessage, new: NewMessage, rights: Rights, asking: AskingRules
) -> IntakeResult | None:
    """Hold a message in a room that no route leads from, where rooms ask first; None if nobody is asked about it."""
    arrival = context.arrival
    if not is_asked_about(said) or arrival.fault or arrival.stale:
        return None
    room = make_seen_room(arrival)
    asked = unknown_rooms.hold(context.db, context.channels, asking, context.id, new, room, rights, context.now)
    if asked is None:
        return None
    receipt = Receipt(message_id=context.id, new=True, state=InboxState.HELD)
    added = (asked,) if asked.added else ()
    context.rules.renew(context.db)
    said_so = rights == "guest" and _add_notice(context, added)
    return IntakeResult(receipt=receipt, delivered=True, stranger=rights == "guest", asked=added, notified=said_so)


def _add_notice(context: MessageContext, asked: Sequence[AskedRequest]) -> bool:
    """Tell somebody unknown in their direct chat that somebody was asked about them. A request is the first one about
    them once, so they are told once, also after a restart or a no."""
    arrival = context.arrival
    if not arrival.inbound.direct or not context.channels.asks_strangers(arrival.instance):
        return False
    first = [each.request for each in asked if each.added]
    if not first or requests.has_earlier(context.db, first[0]):
        return False
    since = context.now - HOUR
    if requests.count_of_kind_since(context.db, first[0].kind, first[0].folder, since) > MOST_TOLD:
        return False
    context.add_notice(ASKED, key=f"notice:asked_about:{arrival.instance}:{arrival.inbound.sender}")
    return True


def hold_strangers(
    context: MessageContext, new: NewMessage, rejected: Sequence[TargetAccess], asking: AskingRules
) -> tuple[AskedRequest, ...]:
    """Hold a message for each group that would let its sender in once somebody agrees. A command does not wait."""
    arrival = context.arrival
    if arrival.fault or arrival.stale or arrival.command is not None or arrival.inbound.kind is not MessageKind.CHAT:
        return ()
    room = make_seen_room(arrival)
    asked = [
        unknown_senders.hold(
            context.db, context.channels, asking, context.id, new, target.folder, target.rights, context.now, room
        )
        for target in rejected
        if asks_first(target)
    ]
    if any(each is not None and each.added for each in asked):
        context.rules.renew(context.db)
    held = tuple(each for each in asked if each is not None)
    _add_notice(context, held)
    return held


def hold_for_budget(
    context: MessageContext, new: NewMessage, target: TargetAccess, spent: BudgetStatus, asking: AskingRules
) -> AskedRequest | None:
    """Hold a message that a spent budget stops. None: it is refused. A command does not wait."""
    if context.arrival.command is not None:
        return None
    session = find_session(context, target.chosen)
    asked = spent_budgets.hold(
        context.db,
        context.channels,
        asking,
        context.id,
        new,
        target.folder,
        target.rights,
        spent,
        context.now,
        session.id if session is not None else "",
    )
    if asked is not None and asked.added:
        context.rules.renew(context.db)
    return asked


def release_earlier(
    context: MessageContext, admitted: Sequence[TargetAccess], waiting: Collection[tuple[RequestKind, str, str]]
) -> tuple[str, ...]:
    """Have messages that somebody wrote before they were let in go before what they write now. An invitation, a
    pairing, a role or a route may come while people are still asked about them or their room. A request for which
    nothing is held any more is withdrawn. `waiting`: whom people are asked about. Return the sessions that have
    something to work on."""
    if context.arrival.command is not None:
        return ()
    sender, nobodys = context.arrival.inbound.sender, unknown_rooms.NOBODYS
    concerned = [(RequestKind.SENDER, target.folder, sender) for target in admitted if not target.chosen.observe]
    if concerned:
        concerned.append((RequestKind.ROOM, nobodys, unknown_rooms.make_name(make_seen_room(context.arrival))))
    woken: list[str] = []
    for kind, folder, name in dict.fromkeys(concerned):
        if (kind, folder, name) in waiting:
            woken += _release(context, kind, folder, name)
    if woken:
        context.rules.renew(
            context.db
        )  # rooms were written: nothing that is read behind this may be kept if it is undone
    return tuple(dict.fromkeys(woken))


def _release(context: MessageContext, kind: RequestKind, folder: str, name: str) -> tuple[str, ...]:
    request = requests.find_last(context.db, kind, folder, name)
    if request is None:
        return ()
    held = inbox.list_held_for_request(context.db, folder, request.id)
    woken, left = release_admitted(context.db, context.channels, held, context.now)
    if held and not left:
        requests.withdraw(context.db, request.id, LET_IN, context.now)
    return woken
