"""What people are told of a message is what becomes of it: each case is explained, then really sent."""

from collections.abc import Callable

import pytest

from gatepost.core.clock import Period
from gatepost.flow.intake.command_dispatch import parse_known
from gatepost.flow.intake.decision_explanation import ExplainedDecision, explain_decision
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.messages import address
from gatepost.messages.inbound import Verb, make_untrusted
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import NewCost
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON

from .conftest import MEMBER, OWNER, ROOM, STRANGER, World

STATES = {
    "wakes": "queued",
    "observes": "observed",
    "held": "held",
    "refused": "refused",
    "chosen": "answered",
    "answered": "answered",
}


async def explain(
    world: World, text: str, sender: str, verb: Verb = Verb.MESSAGE, *, direct: bool = False
) -> ExplainedDecision:
    command = parse_known(text)
    said = RoutedMessage(
        instance="tg",
        address=address.parse(ROOM),
        sender=make_untrusted(sender) if verb is Verb.UNTRUSTED else sender,
        text=text,
        verb=verb,
        direct=direct,
        is_command=command is not None,
    )
    room = await world.store.read(rooms.get, "tg", ROOM)
    policy = room.policy if room is not None else RoomPolicy.STRICT
    return await world.store.read(explain_decision, said, policy, command, NOON)


def add_route(match: str, target: str, seq: int) -> Callable[[Db], None]:
    def add(db: Db) -> None:
        folder = None if target == "drop" else target.partition("#")[0]
        new = Route(seq=seq, match=match, target=target, folder=folder, created_by="test", created_at=NOON)
        routes.add(db, new)

    return add


def set_policy(policy: RoomPolicy) -> Callable[[Db], None]:
    return lambda db: rooms.add(db, "tg", ROOM, "", False, policy, NOON)


def deny(principal: str, scope: str = "home") -> Callable[[Db], None]:
    row = AclRow(id=0, principal=principal, action="interact", scope=scope, effect=AclEffect.DENY)
    return lambda db: acl.put(db, row, NOON)


def pair(db: Db) -> None:
    assert identities.add(db, STRANGER, MEMBER, "test", NOON)


ALL, MENTIONS, CONTEXT = (
    add_route("", "home", 50),
    add_route("verb=mention", "home", 10),
    add_route("", "home#observe", 60),
)
ASKS, PUBLIC = set_policy(RoomPolicy.REQUEST_APPROVAL), set_policy(RoomPolicy.PUBLIC)
DROP, ROOT, PLAIN = add_route("", "drop", 1), add_route("", "root", 5), Verb.MESSAGE
Case = tuple[list[Callable[[Db], None]], str, str, Verb, str, str]

CASES: list[Case] = [
    ([ALL], "hi", OWNER, PLAIN, "wakes", ""),
    ([MENTIONS, CONTEXT], "hi", OWNER, PLAIN, "observes", ""),
    ([ALL], "hi", STRANGER, PLAIN, "refused", "unknown_sender_strict"),
    ([ALL, PUBLIC], "hi", STRANGER, PLAIN, "wakes", ""),
    ([ALL, ASKS], "hi", STRANGER, PLAIN, "held", "unknown_sender_request_approval"),
    ([MENTIONS, CONTEXT, ASKS], "hi", STRANGER, PLAIN, "refused", "unknown_sender_request_approval"),
    ([ALL, ASKS], "/status", STRANGER, PLAIN, "refused", "unknown_sender_request_approval"),
    ([ASKS], "hi", STRANGER, Verb.MENTION, "held", ""),
    ([ASKS], "hi", STRANGER, PLAIN, "refused", "unknown_sender_request_approval"),
    ([], "hi", STRANGER, PLAIN, "refused", "unknown_sender_strict"),
    ([], "hi", OWNER, PLAIN, "refused", "no_route"),
    ([], "/help", OWNER, PLAIN, "answered", ""),
    ([DROP], "hi", OWNER, PLAIN, "refused", "dropped_by_route 1"),
    ([ROOT], "hi", MEMBER, PLAIN, "refused", "root_is_for_owners"),
    ([ALL, deny(MEMBER)], "hi", MEMBER, PLAIN, "refused", "denied_by_the_access_list"),
    ([ALL, deny("tg:user/*"), PUBLIC], "hi", STRANGER, PLAIN, "refused", "denied_by_the_access_list"),
    ([ALL, deny("tg:user/*")], "hi", OWNER, PLAIN, "wakes", ""),
    ([ALL, pair], "hi", STRANGER, PLAIN, "wakes", ""),
    ([ALL, pair, deny(MEMBER)], "hi", STRANGER, PLAIN, "refused", "denied_by_the_access_list"),
    ([ALL, ASKS], "hi", STRANGER, Verb.UNTRUSTED, "refused", "untrusted_sender"),
    ([ALL], "@home", OWNER, PLAIN, "chosen", ""),
    ([ALL], "@home", STRANGER, PLAIN, "refused", "unknown_sender_strict"),
    ([ALL], "/status", MEMBER, PLAIN, "answered", ""),
    ([ALL], "/clear", MEMBER, PLAIN, "refused", "command_denied"),
    ([ALL], "/claer", MEMBER, PLAIN, "refused", "command_refused"),
    ([ALL], "/review", MEMBER, PLAIN, "wakes", ""),
]


@pytest.mark.runs_once
@pytest.mark.parametrize(("setup", "text", "sender", "verb", "outcome", "reason"), CASES)
async def test_what_is_explained_is_what_happens(
    world: World, setup: list[Callable[[Db], None]], text: str, sender: str, verb: Verb, outcome: str, reason: str
) -> None:
    for each in setup:
        await world.do(each)
    told = await explain(world, text, sender, verb)
    receipt = await world.send(text, sender, verb=verb)
    assert (told.outcome, told.reason) == (outcome, reason)
    assert receipt.state == STATES[told.outcome]
    if told.outcome == "refused":
        assert receipt.reason == reason


async def test_the_row_that_shuts_somebody_out_is_named(routed: World) -> None:
    await routed.do(deny("tg:user/777"))
    await routed.do(deny(MEMBER))
    (target,) = (await explain(routed, "hi", MEMBER)).targets
    rows = await routed.store.read(acl.list_rows)
    assert target.denied_by == next(row.id for row in rows if row.principal == MEMBER)


async def test_each_group_is_judged_apart(world: World) -> None:
    await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
    await world.route("", "acme", seq=5, also=True)
    await world.route("", "home", seq=6)
    told = await explain(world, "hi", MEMBER)
    assert {each.chosen.folder: each.outcome for each in told.targets} == {"acme": "refused", "home": "wakes"}


async def test_a_spent_budget_is_told_and_nothing_of_it_is_written(routed: World) -> None:
    def spend(db: Db) -> None:
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "home"), Period.DAY, 5, "test", NOON)
        costs.add_external(db, NewCost(key="c", at=NOON, folder="home", model="m", micro=5), NOON)

    await routed.do(spend)
    told = await explain(routed, "hi", OWNER)
    assert (told.outcome, told.reason) == ("held", "budget_spent")
    assert (await routed.send("hi")).state == "held"


async def test_without_a_sender_nobody_is_judged(routed: World) -> None:
    await routed.do(lambda db: users.add(db, "tg:user/5", "", NOON))
    assert (await explain(routed, "hi", "")).outcome == "wakes"
