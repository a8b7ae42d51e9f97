"""Groups that a message speaks to stay in the conversation of its room and thread. Written in the transaction in which
they get it, and only if something changes."""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.access.senders import is_program
from gatepost.flow.intake.engagement import PLAIN, get_ttl, make_engagement
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.intake.routing import RouteChoice, needs_words
from gatepost.flow.intake.target_decision import DecidedBy, Spoken, TargetDecision
from gatepost.messages.inbound import Verb
from gatepost.store import engagements
from gatepost.store.port import Db
from gatepost.store.routes import NEVER_ENDS


class EngagingMessage(Struct, frozen=True):
    """One that somebody gets, with what was decided about it. `default_s`: how long a group stays where its route says
    nothing."""

    said: RoutedMessage
    question: RouteQuestion
    spoken: Spoken
    target: TargetDecision
    default_s: int


def record_engagements(db: Db, message: EngagingMessage, given: Sequence[RouteChoice], now: int) -> bool:
    """`given`: who gets it. They stay for as long as their routes say. Where they get every message anyway nothing is
    written; nor while more than half of the time is left. True if anything was."""
    engaging = [each for each in given if _engages(message, each)]
    if not engaging:
        return False
    woken = {each.folder for each in message.question.list_woken_plainly()}
    named = message.target.by in (DecidedBy.REPLY, DecidedBy.CHILD)
    apart = [each for each in engaging if each.folder not in woken and not (named and woken)]
    written = [_engage(db, message, each, now) for each in apart]
    return any(written)


def _engages(message: EngagingMessage, chosen: RouteChoice) -> bool:
    """Return True if this message speaks to the group: by a mention, a reply, its name, in a direct room, or by
    whatever its route asks for if that names a time."""
    said, by, route = message.said, message.target.by, chosen.route
    if not said.is_spoken or is_program(said.sender) or said.is_command:
        return False
    if chosen.observe or not get_ttl(route, message.default_s):
        return False
    if by in (DecidedBy.REPLY, DecidedBy.CHILD):
        return True
    if by is not DecidedBy.ROUTE or (said.verb in PLAIN and not needs_words(route)):
        return False  # so would be every other message
    return said.verb is Verb.MENTION or said.direct or route.ttl_s is not None


def _engage(db: Db, message: EngagingMessage, chosen: RouteChoice, now: int) -> bool:
    """True if anything was written. Of the groups whose routes do not go on (`also`) one is engaged at a time."""
    route, place, engaged = chosen.route, message.said.place, message.spoken.engaged
    ttl_s = get_ttl(route, message.default_s)
    known = next((each for each in engaged if each.folder == chosen.folder), None)
    same = known is not None and known.route_id == route.id and (known.until is None) == (ttl_s == NEVER_ENDS)
    if same and known is not None and known.is_fresh(now):
        return False
    engagements.put(db, make_engagement(place, chosen.folder, route.id, ttl_s, now))
    if not route.also:
        going_on = {each.id for each in message.question.routes if each.also}
        for other in engaged:
            if other.folder != chosen.folder and other.route_id not in going_on:
                engagements.remove(db, *place, other.folder)
    return True
