"""Routes: add, list, remove, and what would become of a message."""

from msgspec import Struct

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.intake import route_explanation, route_targets, routing
from gatepost.flow.intake.addressing import parse_address
from gatepost.flow.intake.engagement import PLAIN, parse_ttl
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.target_decision import DecidedBy, Spoken, decide_target
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Verb
from gatepost.serve.control.arguments.routes import AddRouteArgs, ListRoutesArgs, RemoveRouteArgs, RouteTestArgs
from gatepost.serve.control.contract import OperationDeps, extend, operation, read_operation
from gatepost.store import engagements, groups, identities, routes, sticky_choices
from gatepost.store.port import Db
from gatepost.store.routes import Route
from gatepost.store.sessions import SessionMode


class RouteListItem(Route, frozen=True, kw_only=True):
    fault: str  # why it matches nothing, if it cannot be read


class RouteTestRow(Route, frozen=True, kw_only=True):
    held: bool
    why: str


class RouteTestGroup(Struct, frozen=True):
    folder: str
    route: int
    observe: bool
    topic: str | None
    session: str


class RouteTestEngagement(Struct, frozen=True):
    """A group that is in the conversation; `until`: null if that never ends. `route`: by which it was spoken to."""

    folder: str
    until: str | None
    route: int | None


class RouteTestResult(Struct, frozen=True, kw_only=True):
    """Who would get such a message, and what each route says to it. `decided_by`: route, engagement, or what the sender
    chose or says. `engaged`: who is in the conversation of that room and thread."""

    why: str
    decided_by: DecidedBy
    engaged: list[RouteTestEngagement]
    dropped: bool
    groups: list[RouteTestGroup]
    routes: list[RouteTestRow]


def parse_window(text: str) -> tuple[int | None, int | None]:
    """`N/C`: at most N observed messages and C characters of them; either may be left out."""
    if not text:
        return None, None
    left, slash, right = text.partition("/")
    if not slash or not all(not part or (part.isascii() and part.isdigit()) for part in (left, right)):
        raise Invalid("window", f"{text!r} is not N/C (messages/characters), like 20/8000, 20/ or /8000")
    return (int(left) if left else None), (int(right) if right else None)


@operation
async def add(deps: OperationDeps, args: AddRouteArgs) -> Route:
    messages, chars = parse_window(args.window)
    ttl_s = parse_ttl(args.ttl)
    routing.check_syntax(args.match, args.target, args.session)
    now = deps.clock.now()

    def insert(db: Db) -> Route:
        new = Route(
            seq=args.seq,
            match=args.match,
            target=args.target,
            folder=route_targets.check(args.target, {group.folder for group in groups.list_all(db)}),
            mode=SessionMode(args.session),
            also=args.also,
            window_messages=messages,
            window_chars=chars,
            ttl_s=ttl_s,
            created_by=deps.caller,
            created_at=now,
        )
        return routes.add(db, new)

    return await deps.write(insert)


@read_operation
def list_routes(db: Db, args: ListRoutesArgs, now: int) -> list[RouteListItem]:
    return [extend(RouteListItem, route, fault=routing.why_unreadable(route)) for route in routes.list_all(db)]


@operation
async def remove(deps: OperationDeps, args: RemoveRouteArgs) -> Route:
    def delete(db: Db) -> Route:
        route = routes.get(db, args.id)
        if route is None:
            raise NotFound("route", str(args.id), "`gatepost route list` shows them")
        routes.remove(db, args.id)
        return route

    return await deps.write(delete)


@read_operation
def explain_routing(db: Db, args: RouteTestArgs, now: int) -> RouteTestResult:
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
        names=identities.list_names(db, args.sender) if args.sender else (),
    )
    known = {group.folder for group in groups.list_all(db)}
    rows = routes.list_all(db)
    place = (facts.channel, args.address, args.thread)
    engaged = tuple(each for each in engagements.list_at(db, *place) if each.is_on(now))
    spoken = Spoken(
        address=parse_address(args.text),
        choice=sticky_choices.get(db, *place, args.sender) if args.sender else None,
        engaged=engaged,
        plain=args.verb in PLAIN,
    )
    target = decide_target(RouteQuestion(rows, facts, known.__contains__), spoken)
    decision = target.decision
    verdicts = route_explanation.explain(rows, facts, known.__contains__)
    return RouteTestResult(
        why=decision.why,
        decided_by=target.by,
        engaged=[
            RouteTestEngagement(each.folder, None if each.until is None else iso(each.until), each.route_id)
            for each in engaged
        ],
        dropped=decision.dropped_by is not None,
        groups=[
            RouteTestGroup(each.folder, each.route.id, each.observe, each.topic, each.mode) for each in decision.chosen
        ],
        routes=[extend(RouteTestRow, each.route, held=each.held, why=each.why) for each in verdicts],
    )
