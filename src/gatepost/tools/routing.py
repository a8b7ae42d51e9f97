"""Routes, as far as they lead into the caller's part of the tree. An operator's route says which world gets a message;
what is made here says where in that world it goes (`flow/intake/routing.py` holds it to that)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier, TreeScope, may_act_on
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow.intake import routing
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import DEFAULT_SEQ, RouteFields, parse_ttl
from gatepost.store.sessions import groups
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.lookup_helpers import RouteInfo, is_own_route, is_visible_route, render_route

Seq = Annotated[int, Meta(ge=0, le=2**31)]
Position = Annotated[int, Meta(ge=0, le=2**62)]


class RouteSpec(RouteFields, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A route as an agent writes it."""

    match: str = ""
    seq: Seq = DEFAULT_SEQ
    session: str = "per-thread"
    observe_window_messages: Annotated[int, Meta(ge=0, le=1000)] | None = None
    observe_window_chars: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    ttl: Annotated[str, Meta(max_length=40)] = ""  # 10m, 1h30m, 0, never; '': the gateway's own


class RouteList(Struct, frozen=True):
    """`more`: there are others, which do not fit; give the last id as `after`."""

    routes: list[RouteInfo]
    count: int
    more: bool


class AddedRoute(Struct, frozen=True):
    id: int


class UpdatedRoutes(Struct, frozen=True):
    updated: bool
    count: int


class DeletedRoute(Struct, frozen=True):
    deleted: bool
    id: int


OneRoute = Annotated[
    str | RouteSpec,
    Meta(description='A route: {"match": "platform=telegram verb=mention", "target": "acme/eng", "seq": 10}.'),
]
ManyRoutes = Annotated[str | list[RouteSpec], Meta(description="All of them: a list of routes as for add_route.")]


def _parse_route(given: str | RouteSpec) -> RouteSpec:
    if isinstance(given, RouteSpec):
        return given
    try:
        return msgspec.json.decode(given, type=RouteSpec)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Invalid("route", f"invalid route json: {error}") from None


def _parse_routes(given: str | list[RouteSpec]) -> list[RouteSpec]:
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given, type=list[RouteSpec])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Invalid("routes", f"invalid route json: {error}") from None


def _target(wanted: RouteSpec) -> str:
    """The group that a route leads to, or lies above what it leads to."""
    target = routing.parse_target(wanted.target)
    if target.drops:
        raise Invalid("target", "only the operator's routes drop messages")
    return routing.find_target_parent(target)


def _about_one(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [_target(_parse_route(arguments["route"]))] if "route" in arguments else []


def _about_many(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [_target(each) for each in _parse_routes(arguments["routes"])] if "routes" in arguments else []


@tool(tier=Tier.WORLD, group="routing", read_only=True, idempotent=True)
async def list_routes(
    call: ToolCall,
    after: Annotated[
        Position, Meta(description="Only routes after the one with this id, if the last answer said `more`.")
    ] = 0,
) -> RouteList:
    """See the routes that lead to your group and those below it, in the order in which they are asked.

    For what would become of a message in one room use inspect_routing.
    """

    def read(db: Db) -> RouteList:
        rows = [each for each in routes.list_all(db) if is_visible_route(call, each)]
        start = next((place for place, each in enumerate(rows, 1) if each.id == after), 0)
        if after and not start:
            raise NotFound("route", str(after), "call list_routes without `after`")
        found, more = fitting(render_route(each, call.caller.folder) for each in rows[start:])
        return RouteList(found, len(found), more)

    return await call.read(read)


@tool(tier=Tier.WORLD, about=_about_one, group="routing", effects=(Subject.CHANGE_RIGHTS,))
async def add_route(call: ToolCall, route: OneRoute) -> AddedRoute:
    """Send some of the messages that reach your part of the tree to another group in it. For all but full rewrites.

    The lowest seq is asked first. To replace all of your routes use set_routes, to remove one delete_route.
    """
    wanted = _parse_route(route)
    await _check_routes(call, [wanted])

    def add(db: Db) -> int:
        db.lock(LockKind.RULES, "routes")
        routing.check_route_count(routes.list_all(db), call.caller.folder, [wanted.match])
        return _add(db, call, wanted, _list_known_folders(db, call))

    number = await call.write(add)
    return AddedRoute(number)


@tool(
    tier=Tier.WORLD,
    about=_about_many,
    group="routing",
    effects=(Subject.CHANGE_RIGHTS,),
    destructive=True,
    idempotent=True,
)
async def set_routes(call: ToolCall, routes: ManyRoutes) -> UpdatedRoutes:
    """Replace every route that your part of the tree has made by these. Only for a wholesale change.

    The operator's routes stay. For one more use add_route, for one less delete_route.
    """
    wanted = _parse_routes(routes)
    if len(wanted) > routing.MOST_BY_AGENTS:
        raise Invalid("routes", f"are {len(wanted)}; at most {routing.MOST_BY_AGENTS} are possible")
    routing.check_size(call.caller.folder, [each.match for each in wanted])
    await _check_routes(call, wanted)

    def replace(db: Db) -> None:
        db.lock(LockKind.RULES, "routes")
        for route in _in_order(db):
            if is_own_route(route, call.caller.folder):
                _remove(db, route.id)
        routing.check_route_count(_in_order(db), call.caller.folder, [each.match for each in wanted])
        known = _list_known_folders(db, call)
        for each in wanted:
            _add(db, call, each, known)

    await call.write(replace)
    return UpdatedRoutes(updated=True, count=len(wanted))


_in_order, _remove = routes.list_all, routes.remove  # `routes` is what the tool above calls its parameter


@tool(
    tier=Tier.WORLD, group="routing", effects=(Subject.CHANGE_RIGHTS, Subject.ERASE), destructive=True, idempotent=True
)
async def delete_route(
    call: ToolCall, id: Annotated[int, Meta(ge=0, le=2**62, description="As list_routes shows it.")]
) -> DeletedRoute:
    """Remove one route that your part of the tree has made. The operator's stay: to be exempt from one, add your own
    before it with add_route."""
    if not id:
        raise Invalid("id", "id required")

    def remove(db: Db) -> None:
        route = routes.get(db, id)
        if route is None or not is_visible_route(call, route):
            raise NotFound("route", str(id), "use list_routes to see them")
        if not is_own_route(route, call.caller.folder):
            raise Refused(call.caller.folder, call.tool, f"route {id}", "the operator made it")
        routes.remove(db, id)

    await call.write(remove)
    return DeletedRoute(deleted=True, id=id)


async def _check_routes(call: ToolCall, wanted: list[RouteSpec]) -> None:
    """Off the loop and before the transaction: others need not wait while an agent's patterns are compiled."""

    def judge() -> None:
        for each in wanted:
            routing.check_syntax(each.match, each.target, each.session)
            parse_ttl(each.ttl)

    await call.in_thread(judge)


def _list_known_folders(db: Db, call: ToolCall) -> set[str]:
    return {
        group.folder for group in groups.list_all(db) if may_act_on(TreeScope.SUBTREE, call.caller.folder, group.folder)
    }


def _add(db: Db, call: ToolCall, wanted: RouteSpec, known: set[str]) -> int:
    """Insert a route that was judged before."""
    folder = routing.check_target(wanted.target, known)
    new = routes.make_route(
        wanted,
        folder=folder,
        mode=SessionMode(wanted.session),
        window_messages=wanted.observe_window_messages,
        window_chars=wanted.observe_window_chars,
        ttl_s=parse_ttl(wanted.ttl),
        created_by=f"{routing.MADE_BY}{call.caller.folder}",
        created_at=call.now,
    )
    return routes.add(db, new).id
