"""Routes, as far as they lead into the caller's part of the tree. An operator's route says which world gets a message;
what is made here says where in that world it goes (`flow/intake/routing.py` holds it to that)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gatepost.access.structure import Within, reaches
from gatepost.access.tiers import Tier
from gatepost.core.bounds import fitting
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow.intake import routing, targets
from gatepost.store import groups, routes
from gatepost.store.port import Db
from gatepost.tools.contract import Call, tool
from gatepost.tools.looking import Shown, concerns, is_own, shown

DEFAULT_SEQ = 100
Seq = Annotated[int, Meta(ge=0, le=2**31)]
Position = Annotated[int, Meta(ge=0, le=2**62)]


class Wanted(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A route as an agent writes it."""

    target: str
    match: str = ""
    seq: Seq = DEFAULT_SEQ
    session: str = "per-thread"
    also: bool = False
    observe_window_messages: Annotated[int, Meta(ge=0, le=1000)] | None = None
    observe_window_chars: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None


class Routes(Struct, frozen=True):
    """`more`: there are others, which do not fit; give the last id as `after`."""

    routes: list[Shown]
    count: int
    more: bool


class Added(Struct, frozen=True):
    id: int


class Updated(Struct, frozen=True):
    updated: bool
    count: int


class Deleted(Struct, frozen=True):
    deleted: bool
    id: int


OneRoute = Annotated[
    str | Wanted,
    Meta(description='A route: {"match": "platform=telegram verb=mention", "target": "acme/eng", "seq": 10}.'),
]
ManyRoutes = Annotated[str | list[Wanted], Meta(description="All of them: a list of routes as for add_route.")]


def _one(given: str | Wanted) -> Wanted:
    if isinstance(given, Wanted):
        return given
    try:
        return msgspec.json.decode(given, type=Wanted)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Invalid("route", f"invalid route json: {error}") from None


def _many(given: str | list[Wanted]) -> list[Wanted]:
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given, type=list[Wanted])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Invalid("routes", f"invalid route json: {error}") from None


def _target(wanted: Wanted) -> str:
    """The group that a route leads to, or lies above what it leads to."""
    target = targets.parse(wanted.target)
    if target.drops:
        raise Invalid("target", "only the operator's routes drop messages")
    return targets.parent_of(target)


def _about_one(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [_target(_one(arguments["route"]))] if "route" in arguments else []


def _about_many(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [_target(each) for each in _many(arguments["routes"])] if "routes" in arguments else []


@tool(tier=Tier.WORLD, group="routing", read_only=True, idempotent=True)
async def list_routes(
    call: Call,
    after: Annotated[
        Position, Meta(description="Only routes after the one with this id, if the last answer said `more`.")
    ] = 0,
) -> Routes:
    """See the routes that lead to your group and those below it, in the order in which they are asked.

    For what would become of a message in one room use inspect_routing.
    """

    def look(db: Db) -> Routes:
        rows = [each for each in routes.in_order(db) if concerns(call, each)]
        start = next((place for place, each in enumerate(rows, 1) if each.id == after), 0)
        if after and not start:
            raise NotFound("route", str(after), "call list_routes without `after`")
        found, more = fitting(shown(each, call.caller.folder) for each in rows[start:])
        return Routes(found, len(found), more)

    return await call.read(look)


@tool(tier=Tier.WORLD, about=_about_one, group="routing")
async def add_route(call: Call, route: OneRoute) -> Added:
    """Send some of the messages that reach your part of the tree to another group in it. For all but full rewrites.

    The lowest seq is asked first. To replace all of your routes use set_routes, to remove one delete_route.
    """
    wanted = _one(route)
    await _judge(call, [wanted])

    def add(db: Db) -> int:
        routing.check_number(routes.in_order(db), call.caller.folder, [wanted.match])
        return _add(db, call, wanted, _known(db, call))

    number = await call.write(add)
    return Added(number)


@tool(tier=Tier.WORLD, about=_about_many, group="routing", destructive=True, idempotent=True)
async def set_routes(call: Call, routes: ManyRoutes) -> Updated:
    """Replace every route that your part of the tree has made by these. Only for a wholesale change.

    The operator's routes stay. For one more use add_route, for one less delete_route.
    """
    wanted = _many(routes)
    if len(wanted) > routing.MOST_BY_AGENTS:
        raise Invalid("routes", f"are {len(wanted)}; at most {routing.MOST_BY_AGENTS} are possible")
    routing.check_size(call.caller.folder, [each.match for each in wanted])
    await _judge(call, wanted)

    def replace(db: Db) -> None:
        for route in _in_order(db):
            if is_own(route, call.caller.folder):
                _remove(db, route.id)
        routing.check_number(_in_order(db), call.caller.folder, [each.match for each in wanted])
        known = _known(db, call)
        for each in wanted:
            _add(db, call, each, known)

    await call.write(replace)
    return Updated(updated=True, count=len(wanted))


_in_order, _remove = routes.in_order, routes.remove  # `routes` is what the tool above calls its parameter


@tool(tier=Tier.WORLD, group="routing", destructive=True, idempotent=True)
async def delete_route(
    call: Call, id: Annotated[int, Meta(ge=0, le=2**62, description="As list_routes shows it.")]
) -> Deleted:
    """Remove one route that your part of the tree has made. The operator's stay: to be exempt from one, add your own
    before it with add_route."""
    if not id:
        raise Invalid("id", "id required")

    def remove(db: Db) -> None:
        route = routes.get(db, id)
        if route is None or not concerns(call, route):
            raise NotFound("route", str(id), "use list_routes to see them")
        if not is_own(route, call.caller.folder):
            raise Refused(call.caller.folder, call.tool, f"route {id}", "the operator made it")
        routes.remove(db, id)

    await call.write(remove)
    return Deleted(deleted=True, id=id)


async def _judge(call: Call, wanted: list[Wanted]) -> None:
    """Off the loop and before the transaction: others need not wait while an agent's patterns are compiled."""

    def judge() -> None:
        for each in wanted:
            routing.judge(each.match, each.target, each.session)

    await call.in_thread(judge)


def _known(db: Db, call: Call) -> set[str]:
    return {group.folder for group in groups.every(db) if reaches(Within.SUBTREE, call.caller.folder, group.folder)}


def _add(db: Db, call: Call, wanted: Wanted, known: set[str]) -> int:
    """Insert a route that was judged before."""
    folder = targets.check(wanted.target, known)
    return routes.add(
        db,
        wanted.seq,
        wanted.match,
        wanted.target,
        folder,
        wanted.session,
        wanted.also,
        (wanted.observe_window_messages, wanted.observe_window_chars),
        None,
        f"{routing.MADE_BY}{call.caller.folder}",
        call.now,
    )
