"""What is said to us in a room that no route leads from, where rooms ask first: it waits for somebody who decides."""

from gatepost.access.senders import Rights, is_person
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, make_seen_room
from gatepost.flow.requests import unknown_rooms
from gatepost.flow.requests.asking import AskingRules
from gatepost.messages.inbound import MessageKind, Receipt, Verb
from gatepost.store.inbox import InboxState
from gatepost.store.messages import NewMessage


def hold_unknown_room(
    case: MessageContext, new: NewMessage, rights: Rights, verb: Verb, asking: AskingRules
) -> IntakeResult | None:
    """None: nobody is asked about it. What is not said to us is nobody's business here, and a command does not wait."""
    arrival, inbound = case.arrival, case.arrival.inbound
    spoken = inbound.kind is MessageKind.CHAT and inbound.event == "message" and is_person(inbound.sender)
    if not spoken or not (inbound.direct or verb is Verb.MENTION):
        return None
    if arrival.fault or arrival.stale or arrival.command is not None:
        return None
    room = make_seen_room(arrival)
    asked = unknown_rooms.hold(case.db, case.reach, asking, case.id, new, room, rights, case.now)
    if asked is None:
        return None
    receipt = Receipt(message_id=case.id, new=True, state=InboxState.HELD)
    told = (asked,) if asked.added else ()
    case.rules.renew(case.db)
    return IntakeResult(receipt=receipt, delivered=True, stranger=rights == "guest", asked=told)
