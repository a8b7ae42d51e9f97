"""Routes: add, list, move, remove, and what would become of a message. Rooms: list them, and say who may talk in
one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import extend, replace
from gatepost.flow import sender_rights
from gatepost.flow.intake import decision_explanation, routing
from gatepost.flow.intake.message_outcome import render_reason
from gatepost.flow.intake.routed_message import RoutedMessage, make_question
from gatepost.messages import address as addresses
from gatepost.messages.address import Address
from gatepost.messages.inbound import Verb, is_untrusted, make_untrusted
from gatepost.serve.control.arguments.routes import (
    AddRouteArgs,
    ListRoutesArgs,
    MoveRouteArgs,
    RemoveRouteArgs,
    RouteListItem,
    RouteTestArgs,
    RouteTestEngagement,
    RouteTestGroup,
    RouteTestResult,
    RouteTestRow,
    RouteTestSender,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.people import identities
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import switches
from gatepost.store.rooms import channel_instances, rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route, parse_ttl
from gatepost.store.sessions import groups
from gatepost.store.sessions.sessions import SessionMode

if TYPE_CHECKING:
    from gatepost.flow.intake.decision_explanation import ExplainedTarget

from gatepost.channels.contract import CHANNELS
from gatepost.flow.channel_specs import check_platform, find_package_kinds
from gatepost.serve.control.arguments.routes import ListRoomsArgs, RoomPolicyArgs, RoomPolicyResult
from gatepost.store.rooms.rooms import Room

LONGEST_NUMBER, LONGEST_SHOWN = 18, 80  # characters
# Verbs of messages with a text; all others are actions.
SPOKEN = frozenset((Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.COMMENT, Verb.POST, Verb.UNTRUSTED))


def parse_window(text: str) -> tuple[int | None, int | None]:
    """`N/C`: at most N observed messages and C characters of them; either may be left out."""
    if not text:
        return None, None
    left, slash, right = text.partition("/")
    if not slash or not all(map(_is_size, (left, right))):
        raise Invalid(
            "window", f"{text[:LONGEST_SHOWN]!r} is not N/C (messages/characters), like 20/8000, 20/ or /8000"
        )
    return (int(left) if left else None), (int(right) if right else None)


def _is_size(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER)


@operation
async def add(deps: OperationDeps, args: AddRouteArgs) -> Route:
    messages, chars = parse_window(args.window)
    ttl_s = parse_ttl(args.ttl)
    routing.check_syntax(args.match, args.target, args.session)
    now = deps.clock.now()

    def insert(db: Db) -> Route:
        new = routes.make_route(
            args,
            folder=routing.check_target(args.target, {group.folder for group in groups.list_all(db)}),
            mode=SessionMode(args.session),
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
async def move(deps: OperationDeps, args: MoveRouteArgs) -> list[RouteListItem]:
    def change(db: Db) -> list[RouteListItem]:
        db.lock(LockKind.RULES, "routes")
        ordered = routes.list_all(db)
        for route_id in (args.id, *((args.before,) if args.before else ())):
            if all(each.id != route_id for each in ordered):
                raise NotFound("route", str(route_id), "`gatepost route list` shows them")
        for route_id, seq in plan_move(ordered, args.id, args.before).items():
            routes.set_seq(db, route_id, seq)
        return list_routes(db, ListRoutesArgs(), 0)

    return await deps.write(change)


def plan_move(ordered: Sequence[Route], route_id: int, before: int) -> dict[int, int]:
    """The new numbers, by route. A free number between the neighbours is taken; without one, those behind make room."""
    if route_id == before:
        return {}
    moved = next(each for each in ordered if each.id == route_id)
    others = [each for each in ordered if each.id != route_id]
    place = next((at for at, each in enumerate(others) if each.id == before), len(others))
    if place == ordered.index(moved):
        return {}
    ahead, behind = others[place - 1].seq if place else None, others[place].seq if place < len(others) else None
    if ahead is None and behind is not None:
        return {route_id: behind - 1}
    low = ahead or 0
    seq = (low + behind) // 2 if behind is not None and behind - low > 1 else low + 1
    changed = {route_id: seq}
    last = (seq, route_id)
    for each in others[place:]:
        if (each.seq, each.id) > last:
            break
        last = (last[0] + 1, each.id)
        changed[each.id] = last[0]
    return changed


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
    from gatepost.flow.intake import command_dispatch  # a command that lists routes starts without them

    address = addresses.parse(args.address)
    if args.verb not in tuple(Verb):
        raise Invalid("verb", f"{args.verb!r} is none of {', '.join(Verb)}")
    if args.sender:
        addresses.parse(args.sender, "sender", addresses.LIKE_USER)
    instance = args.instance or address.platform
    room = rooms.get(db, instance, args.address)
    policy = room.policy if room is not None else _get_first_policy(db, instance)
    command = command_dispatch.parse_known(args.text)
    said = _make_routed(args, address, instance, direct=args.direct or (room is not None and room.direct))
    said = replace(said, is_command=command is not None)
    found = decision_explanation.explain_decision(db, said, policy, command, now)
    facts = make_question(db, RuleCache(), said).facts
    known = {group.folder for group in groups.list_all(db)}
    verdicts = decision_explanation.explain_routes(routes.list_all(db), facts, known.__contains__)
    return RouteTestResult(
        why=found.target.decision.why,
        outcome=found.outcome,
        reason=found.reason,
        sentence=render_reason(found.reason),
        decided_by=found.target.by,
        sender=_describe_sender(db, said.sender) if said.sender else None,
        policy=policy,
        command=found.command,
        halted=switches.get(db, switches.PANIC) is not None,
        engaged=[
            RouteTestEngagement(each.folder, None if each.until is None else iso(each.until), each.route_id)
            for each in found.spoken.engaged
        ],
        dropped=found.target.decision.dropped_by is not None,
        groups=[_describe_target(each) for each in found.targets],
        routes=[extend(RouteTestRow, each.route, held=each.held, why=each.why) for each in verdicts],
    )


def _make_routed(args: RouteTestArgs, address: Address, instance: str, *, direct: bool) -> RoutedMessage:
    verb = Verb(args.verb)
    return RoutedMessage(
        instance=instance,
        address=address,
        sender=make_untrusted(args.sender) if verb is Verb.UNTRUSTED and args.sender else args.sender,
        text=args.text,
        verb=verb,
        thread=args.thread,
        event="message" if verb in SPOKEN else verb,
        direct=direct,
    )


def _get_first_policy(db: Db, instance: str) -> RoomPolicy:
    """Return the policy of a room without one of its own: that of its channel's kind."""
    find_package_kinds()
    row = channel_instances.get(db, instance)
    kind = CHANNELS.get(row.kind if row is not None else instance)
    return kind.policy if kind is not None else RoomPolicy.STRICT


def _describe_sender(db: Db, sender: str) -> RouteTestSender:
    roles = sender_rights.read_access(db, sender).roles
    person = identities.get_person(db, sender)
    return RouteTestSender(sender, person, roles.known, is_untrusted(sender))


def _describe_target(each: "ExplainedTarget") -> RouteTestGroup:
    chosen = each.chosen
    return RouteTestGroup(
        folder=chosen.folder,
        route=chosen.route.id,
        observe=chosen.observe,
        topic=chosen.topic,
        session=chosen.mode,
        outcome=each.outcome,
        rights=each.rights,
        reason=each.reason,
        sentence=render_reason(each.reason),
        denied_by=each.denied_by,
    )


@read_operation
def list_rooms(db: Db, args: ListRoomsArgs, now: int) -> list[Room]:
    return rooms.list_all(db)


@operation
async def set_room_policy(deps: OperationDeps, args: RoomPolicyArgs) -> RoomPolicyResult:
    address = addresses.parse(args.address)
    check_platform(deps.home, "address", address.platform)
    instance = args.instance or address.platform
    now = deps.clock.now()

    def update(db: Db) -> RoomPolicyResult:
        """Set the policy, and add the room if it is unknown: a refused sender leaves no room, so a policy may come
        first."""
        known = rooms.set_policy(db, instance, args.address, args.policy)
        if not known:
            rooms.add(db, instance, args.address, "", False, args.policy, now)
        return RoomPolicyResult(instance, args.address, args.policy, not known)

    return await deps.write(update, instance=instance)
