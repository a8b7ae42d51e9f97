"""Messages in a room that no route leads from, where rooms ask first: they wait for somebody who decides."""

from gatepost.access.senders import Rights
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, make_seen_room
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.requests import unknown_rooms
from gatepost.flow.requests.asking import AskingRules
from gatepost.messages.inbound import Receipt, Verb
from gatepost.store.inbox import InboxState
from gatepost.store.messages import NewMessage


def is_asked_about(said: RoutedMessage) -> bool:
    """What is not said to us is nobody's business here, and a command does not wait."""
    return said.is_spoken and not said.is_command and (said.direct or said.verb is Verb.MENTION)


def hold_unknown_room(
    case: MessageContext, said: RoutedMessage, new: NewMessage, rights: Rights, asking: AskingRules
) -> IntakeResult | None:
    """None: nobody is asked about it."""
    arrival = case.arrival
    if not is_asked_about(said) or arrival.fault or arrival.stale:
        return None
    room = make_seen_room(arrival)
    asked = unknown_rooms.hold(case.db, case.reach, asking, case.id, new, room, rights, case.now)
    if asked is None:
        return None
    receipt = Receipt(message_id=case.id, new=True, state=InboxState.HELD)
    told = (asked,) if asked.added else ()
    case.rules.renew(case.db)
    return IntakeResult(receipt=receipt, delivered=True, stranger=rights == "guest", asked=told)
