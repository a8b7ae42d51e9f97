"""Being in a conversation: to enter one without being spoken to, and to leave it."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Refused
from gatepost.flow.intake import routing
from gatepost.flow.intake.engagement import TTL_S, get_ttl, make_engagement
from gatepost.flow.intake.routing import RouteChoice, make_route_table
from gatepost.flow.intake.target_decision import RouteQuestion
from gatepost.messages import address
from gatepost.store.messages import inbox
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import engagements, routes
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.sessions import groups
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.lookup_helpers import Jid

MOST = 200  # conversations of one room in which a group is, beyond which it enters no further one by itself
Topic = Annotated[
    Annotated[str, Meta(max_length=512)] | None,
    Meta(description="The thread in that room. Leave it out for the one of this turn."),
]


class EngagedPlace(Struct, frozen=True):
    """`until`: null if it never ends."""

    ok: bool
    jid: str
    topic: str
    until: str | None


class DisengagedPlace(Struct, frozen=True):
    """`was_engaged`: false if there was nothing to leave."""

    ok: bool
    jid: str
    topic: str
    was_engaged: bool


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="sessions", effects=(), idempotent=True)
async def engage(call: ToolCall, chatJid: Jid = None, topic: Topic = None) -> EngagedPlace:
    """Stay in the conversation of a room: what people write there reaches you without a mention until the time of your
    route is over. Your replies extend it.

    Being spoken to does this by itself: use it before you ask people something of your own accord. To leave use
    disengage.
    """
    place = _get_place(call, topic)

    def enter(db: Db) -> Engagement:
        way = _find_way(db, call, place)
        ttl_s = get_ttl(way.route, call.deps.config[TTL_S])
        if not ttl_s:
            raise Refused(call.caller.folder, call.tool, place[1], "its route says that nobody stays in a conversation")
        _check_free(db, call, place, way)
        _check_room(db, call, place)
        new = make_engagement(place, call.caller.folder, way.route.id, ttl_s, call.now)
        engagements.put(db, new)
        return new

    made = await call.write(enter)
    return EngagedPlace(ok=True, jid=place[1], topic=place[2], until=None if made.until is None else iso(made.until))


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="sessions", effects=(), idempotent=True)
async def disengage(call: ToolCall, chatJid: Jid = None, topic: Topic = None) -> DisengagedPlace:
    """Leave the conversation of a room: people must speak to you again, by a mention or a reply.

    For when they are done with you and talk among themselves. Routes that give you every message still do. To come back
    by yourself use engage.
    """
    place = _get_place(call, topic)
    removed = await call.write(engagements.remove, *place, call.caller.folder)
    return DisengagedPlace(ok=True, jid=place[1], topic=place[2], was_engaged=removed)


def _get_place(call: ToolCall, topic: str | None) -> tuple[str, str, str]:
    place = call.place
    return place.instance, place.address, place.thread if topic is None else topic


def _find_way(db: Db, call: ToolCall, place: tuple[str, str, str]) -> RouteChoice:
    """The route by which people reach this group there: whoever asks in this turn, or anybody."""
    instance, room, thread = place
    said = inbox.list_senders(db, call.turn.id) if call.turn is not None else []
    known = {group.folder for group in groups.list_all(db)}
    table = make_route_table(routes.list_all(db))
    for sender in [*said[:1], ""]:
        names = identities.list_names(db, sender) if sender else ()
        facts = routing.make_match_input(instance, address.parse(room), sender=sender, thread=thread, names=names)
        way = RouteQuestion(table, facts, known.__contains__).find_way(call.caller.folder)
        if way is not None:
            return way
    why = "no route leads people there to you; the operator can add one"
    raise Refused(call.caller.folder, call.tool, room, why)


def _check_room(db: Db, call: ToolCall, place: tuple[str, str, str]) -> None:
    """Refuse another engagement if the group has too many in this room. An agent may name threads that do not exist,
    and if a route has no end, nothing would remove their rows."""
    folder = call.caller.folder
    if engagements.get(db, *place, folder) is None and engagements.count(db, *place[:2], folder, MOST) >= MOST:
        why = f"you are in {MOST} conversations of this room; leave some with disengage"
        raise Refused(folder, call.tool, place[1], why)


def _check_free(db: Db, call: ToolCall, place: tuple[str, str, str], way: RouteChoice) -> None:
    """Another group that people are talking to is not pushed aside. Routes that go on (`also`) share a conversation."""
    if way.route.also:
        return
    for other in engagements.list_at(db, *place):
        route = routes.get(db, other.route_id) if other.route_id is not None else None
        if other.folder != call.caller.folder and other.is_on(call.now) and not (route is not None and route.also):
            raise Refused(call.caller.folder, call.tool, place[1], "another group is in this conversation")
