"""Engagement: a group that was spoken to in a room and thread is in that conversation for a while, and what people
write there needs no mention.

While a group is engaged, a message that speaks to nobody counts as one to it. The route by which it was spoken to is
not asked for a verb or words (`target_decision`). All else is asked as ever, so a route that was removed, one before it
that drops the message, or one that now gives the room to another ends it. The sender is judged for the group as always.

Engagements are written in the transaction in which the groups get the message, and only if something changes. A reply
of the group extends its engagement if a person's words led to it. One that a timer, another agent, a bot or the gateway
itself led to extends nothing.
"""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.access.senders import is_program
from gatepost.core.clock import SECOND
from gatepost.core.settings import setting
from gatepost.flow.intake.message_outcome import DecidedBy
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.intake.routing import RouteChoice, needs_words
from gatepost.flow.intake.target_decision import PLAIN, RouteQuestion, Spoken, TargetDecision
from gatepost.messages.inbound import Verb, is_person
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rooms import engagements
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.rooms.routes import NEVER_ENDS, Route
from gatepost.store.sessions.turns import Turn

TTL_S = setting(
    "engagement.ttl_s",
    600,
    help="How long a group stays in a conversation after somebody spoke to it, in seconds, where its route says nothing"
    " (0: not at all).",
)


def get_ttl(route: Route, default_s: int) -> int:
    """Return how long a group stays, in seconds; `NEVER_ENDS`, or 0 for not at all."""
    return max(default_s, 0) if route.ttl_s is None else route.ttl_s


def make_engagement(place: tuple[str, str, str], folder: str, route_id: int | None, ttl_s: int, now: int) -> Engagement:
    ends = ttl_s != NEVER_ENDS
    until, ttl = (now + ttl_s * SECOND, ttl_s * SECOND) if ends else (None, 0)
    return Engagement(*place, folder=folder, route_id=route_id, until=until, ttl=ttl, engaged_at=now)


class EngagingMessage(Struct, frozen=True):
    """A message that somebody gets, with what was decided about it. `default_s`: how long a group stays where its route
    says nothing."""

    said: RoutedMessage
    question: RouteQuestion
    spoken: Spoken
    target: TargetDecision
    default_s: int


def record_engagements(db: Db, message: EngagingMessage, given: Sequence[RouteChoice], now: int) -> bool:
    """Have those who get a message (`given`) stay for as long as their routes say. Return True if anything was written.
    Nothing is where they get every message anyway, nor while more than half of the time is left."""
    if not message.spoken.can_engage:
        return False
    engaging = [each for each in given if _engages(message, each)]
    if not engaging:
        return False
    woken = {each.folder for each in message.question.list_woken_plainly()}
    named = message.target.by in (DecidedBy.REPLY, DecidedBy.CHILD)
    apart = [each for each in engaging if each.folder not in woken and not (named and woken)]
    written = [_engage(db, message, each, now) for each in apart]
    return any(written)


def _engages(message: EngagingMessage, chosen: RouteChoice) -> bool:
    """Return True if this message speaks to the group: by a mention, a reply, its name or in a direct room. A route
    that names a time counts by whatever else it asks for, too."""
    said, by, route = message.said, message.target.by, chosen.route
    if chosen.observe or not get_ttl(route, message.default_s):
        return False
    if by in (DecidedBy.REPLY, DecidedBy.CHILD):
        return True
    if by is not DecidedBy.ROUTE or (said.verb in PLAIN and not needs_words(route)):
        return False  # so would be every other message
    return said.verb is Verb.MENTION or said.direct or route.ttl_s is not None


def _engage(db: Db, message: EngagingMessage, chosen: RouteChoice, now: int) -> bool:
    """Return True if anything was written. One group is engaged at a time of those whose routes do not go on
    (`also`)."""
    route, place, engaged = chosen.route, message.said.place, message.spoken.engaged
    ttl_s = get_ttl(route, message.default_s)
    known = next((each for each in engaged if each.folder == chosen.folder), None)
    same = known is not None and known.route_id == route.id and (known.until is None) == (ttl_s == NEVER_ENDS)
    if same and known is not None and known.is_fresh(now):
        return False
    engagements.put(db, make_engagement(place, chosen.folder, route.id, ttl_s, now))
    if not route.also:
        going_on = {each.id for each in message.question.table.routes if each.also}
        for other in engaged:
            if other.folder != chosen.folder and other.route_id not in going_on:
                engagements.remove(db, *place, other.folder)
    return True


def extend_by_reply(db: Db, turn: Turn, now: int) -> bool:
    """To be called when half of the time is over, in the transaction of the reply."""
    if not any(is_person(each) and not is_program(each) for each in inbox.list_senders(db, turn.id)):
        return False
    return engagements.extend(db, turn.instance, turn.address, turn.thread, turn.folder, turn.started_at, now)
