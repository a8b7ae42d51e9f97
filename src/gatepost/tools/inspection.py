"""Inspection: who gets what is said in a room, where it came to nothing, and who somebody is. As far as it concerns the
caller's own part of the tree, or its world."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier, TreeScope, may_act_on, world_of
from gatepost.core.clock import iso
from gatepost.flow.intake import decision_explanation, routing
from gatepost.flow.intake.target_decision import RouteQuestion, Spoken, decide_target
from gatepost.gate.tool_answers import LISTED, fitting
from gatepost.messages import address as addresses
from gatepost.store.messages import room_history
from gatepost.store.messages.room_history import RoomFailures
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import engagements, routes
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.sessions import groups
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.lookup_helpers import (
    MOST,
    Jid,
    RouteInfo,
    get_own_part,
    is_visible_route,
    render_route,
    update_search_index,
)


class RouteCheck(Struct, frozen=True, kw_only=True):
    """One route and what it makes of a message in the room."""

    route: RouteInfo
    holds: bool
    why: str


class RoutingFailure(Struct, frozen=True, kw_only=True):
    room: str
    folder: str
    count: int
    newest: str
    reason: str


class EngagedGroup(Struct, frozen=True):
    """`until`: null if it never ends."""

    folder: str
    until: str | None


class RoomRouting(Struct, frozen=True, kw_only=True):
    """`folders`: who gets it, as far as they are in your part of the tree; `elsewhere`: others get it as well.
    `engaged`: which of your part are in the conversation, and need no mention (engage, disengage).
    `more`: routes or rooms were left out that were not asked for or do not fit."""

    jid: str
    resolved_folder: str | None
    folders: list[str]
    elsewhere: bool
    why: str
    engaged: list[EngagedGroup]
    routes: list[RouteCheck]
    count: int
    errored: list[RoutingFailure]
    more: bool


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="history", read_only=True, idempotent=True)
async def inspect_routing(
    call: ToolCall,
    chatJid: Jid = None,
    limit: Annotated[int, Meta(description="At most so many routes (1–200).")] = 50,
) -> RoomRouting:
    """See which group gets what people write in a room, and why, and where messages came to nothing.

    To change it use add_route; for all routes without a room list_routes.
    """
    place, own, most = call.place, call.caller.folder, min(max(limit, 1), MOST)

    def read(db: Db) -> RoomRouting:
        rows, known = routes.list_all(db), {group.folder for group in groups.list_all(db)}
        facts = routing.make_match_input(place.instance, addresses.parse(place.address), thread=place.thread)
        there = engagements.list_at(db, place.instance, place.address, place.thread)
        engaged = tuple(each for each in there if each.is_on(call.now))
        question = RouteQuestion(routing.make_route_table(rows), facts, known.__contains__)
        spoken = Spoken(engaged=engaged, plain=True)
        chosen = decide_target(question, spoken).decision.chosen
        mine = [each.folder for each in chosen if may_act_on(TreeScope.SUBTREE, own, each.folder)]
        verdicts = decision_explanation.explain_routes(rows, facts, known.__contains__)
        asked = [
            RouteCheck(route=render_route(each.route, own), holds=each.held, why=each.why)
            for each in verdicts
            if is_visible_route(call, each.route)
        ]
        why = next((each.why for each in asked if each.holds), "no route of your part of the tree holds")
        kept, no_room = fitting(asked[:most], LISTED // 2)
        errored, none_left = fitting(
            (_render_failure(each) for each in room_history.list_failed(db, get_own_part(call), most)), LISTED // 4
        )
        return RoomRouting(
            jid=place.address,
            resolved_folder=mine[0] if mine else None,
            folders=mine,
            elsewhere=len(mine) < len(chosen),
            why=why,
            engaged=[_render_engaged(each) for each in engaged if may_act_on(TreeScope.SUBTREE, own, each.folder)],
            routes=kept,
            count=len(kept),
            errored=errored,
            more=no_room or none_left or len(asked) > most,
        )

    return await call.read(read)


def _render_engaged(each: Engagement) -> EngagedGroup:
    return EngagedGroup(each.folder, None if each.until is None else iso(each.until))


def _render_failure(each: RoomFailures) -> RoutingFailure:
    return RoutingFailure(
        room=each.address, folder=each.folder, count=each.count, newest=iso(each.newest) or "", reason=each.reason
    )


class PersonRole(Struct, frozen=True):
    """`folder`: '' is everywhere."""

    role: UserRole
    folder: str


class Person(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    roles: list[PersonRole]
    member_of: list[str]
    known_since: str


class Identity(Struct, frozen=True, kw_only=True):
    """`identity`: null if nobody of that name has to do with your world. `subs`: every name of the same person."""

    sub: str
    identity: Person | None
    subs: list[str]


@tool(tier=Tier.AGENT, group="history", read_only=True, idempotent=True)
async def inspect_identity(
    call: ToolCall, sub: Annotated[str, Meta(description="A sender as messages show it, such as telegram:user/9.")]
) -> Identity:
    """See who somebody is that wrote to you or belongs to your world: their name and identities, their roles and
    memberships in it."""
    part, world = get_own_part(call), world_of(call.caller.folder)

    def is_near(folder: str) -> bool:
        return part.everything or world_of(folder) == world

    def read(db: Db) -> Identity:
        names, unknown = identities.list_names(db, sub), Identity(sub=sub, identity=None, subs=[])
        user = users.get(db, names[0])
        if user is None:
            return unknown
        sender_roles = users.get_roles(db, sub)
        member_of = [each for each in sender_roles.member_of if is_near(each)]
        roles = [(role, folder) for role, folder in sender_roles.roles if not folder or is_near(folder)]
        belongs = bool(member_of) or any(folder for _, folder in roles)
        if not (part.everything or belongs or any(room_history.has_written(db, part, each) for each in names)):
            return unknown
        person = Person(
            id=user.id,
            name=user.name,
            roles=[PersonRole(role, folder) for role, folder in roles],
            member_of=member_of,
            known_since=iso(user.created_at) or "",
        )
        return Identity(sub=sub, identity=person, subs=list(names))

    await update_search_index(call)
    return await call.read(read)
