"""Routes: add, list, remove, and what would become of a message."""

from typing import Any

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.intake import route_targets, routing
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Verb
from gatepost.serve.control.contract import (
    OPERATOR,
    NoArgs,
    OperationArgs,
    OperationDeps,
    operation,
    run_audited,
    to_json,
)
from gatepost.store import groups, routes
from gatepost.store.port import Db
from gatepost.store.routes import Route

DEFAULT_SEQ = 100


class AddRouteArgs(OperationArgs, frozen=True):
    match: str
    target: str
    seq: int = DEFAULT_SEQ
    session: str = "per-thread"
    also: bool = False
    window: str = ""


class RouteIdArgs(OperationArgs, frozen=True):
    id: int


class RouteTestArgs(OperationArgs, frozen=True):
    address: str
    instance: str = ""
    sender: str = ""
    verb: str = "message"
    text: str = ""
    thread: str = ""


def parse_window(text: str) -> tuple[int | None, int | None]:
    """`N/C`: at most N observed messages and C characters of them; either may be left out."""
    if not text:
        return None, None
    left, slash, right = text.partition("/")
    if not slash or not all(not part or (part.isascii() and part.isdigit()) for part in (left, right)):
        raise Invalid("window", f"{text!r} is not N/C (messages/characters), like 20/8000, 20/ or /8000")
    return (int(left) if left else None), (int(right) if right else None)


@operation("route.add", AddRouteArgs)
async def add(office: OperationDeps, args: AddRouteArgs) -> dict[str, Any]:
    window = parse_window(args.window)
    routing.check_syntax(args.match, args.target, args.session)
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        folder = route_targets.check(args.target, {group.folder for group in groups.list_all(db)})
        made = routes.get(
            db,
            routes.add(
                db, args.seq, args.match, args.target, folder, args.session, args.also, window, None, OPERATOR, now
            ),
        )
        assert made is not None
        return to_json(made)

    details = {"match": args.match, "target": args.target, "seq": args.seq, "session": args.session, "also": args.also}
    return await run_audited(office, "route.add", details, insert)


@operation("route.list", NoArgs)
async def list_routes(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return [route_to_json(route) for route in await office.store.read(routes.list_all)]


def route_to_json(route: Route) -> dict[str, Any]:
    """A route with why it holds for nothing, if it cannot be read."""
    return {**to_json(route), "fault": routing.why_unreadable(route)}


@operation("route.rm", RouteIdArgs)
async def remove(office: OperationDeps, args: RouteIdArgs) -> dict[str, Any]:
    def delete(db: Db) -> dict[str, Any]:
        route = routes.get(db, args.id)
        if route is None:
            raise NotFound("route", str(args.id), "`gatepost route list` shows them")
        routes.remove(db, args.id)
        return to_json(route)

    return await run_audited(office, "route.rm", {"id": args.id}, delete)


def explain_routing(db: Db, args: RouteTestArgs) -> dict[str, Any]:
    """Who would get such a message, and what each route says to it."""
    address = addresses.parse(args.address)
    if args.verb not in tuple(Verb):
        raise Invalid("verb", f"{args.verb!r} is none of {', '.join(Verb)}")
    facts = routing.make_match_input(
        args.instance or address.platform,
        address,
        sender=args.sender,
        verb=args.verb,
        text=args.text,
        thread=args.thread,
    )
    known = {group.folder for group in groups.list_all(db)}
    rows = routes.list_all(db)
    decision = routing.decide(rows, facts, known.__contains__)
    return {
        "why": decision.why,
        "dropped": decision.dropped_by is not None,
        "groups": [
            {
                "folder": each.folder,
                "route": each.route.id,
                "observe": each.observe,
                "topic": each.topic,
                "session": each.mode,
            }
            for each in decision.chosen
        ],
        "routes": [
            {**to_json(verdict.route), "held": verdict.held, "why": verdict.why}
            for verdict in routing.explain(rows, facts, known.__contains__)
        ],
    }


@operation("route.test", RouteTestArgs)
async def run_route_test(office: OperationDeps, args: RouteTestArgs) -> dict[str, Any]:
    return await office.store.read(explain_routing, args)
