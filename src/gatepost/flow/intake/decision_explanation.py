"""Explanations for people who ask about a message: the outcome that it would have, and why a route wins.

The whole decision is made in the order and by the functions of the real one. Nothing is written. Left out is what no
question has: codes, answers to cards, and files.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from gatepost.access import acl, senders
from gatepost.access.senders import Rights
from gatepost.access.tiers import covers
from gatepost.core.records import replace
from gatepost.flow import sender_rights
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.accepted_message import TargetAccess
from gatepost.flow.intake.admission import admit, asks_first, decide_message, find_spent_budget
from gatepost.flow.intake.command_dispatch import find_mistyped
from gatepost.flow.intake.held_arrivals import is_asked_about
from gatepost.flow.intake.message_outcome import MessageOutcome
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.intake.routing import (
    MatchInput,
    RouteChoice,
    RouteTable,
    exists_everywhere,
    find_mismatch,
    make_route_table,
    maker_of,
    names_verb,
    resolve_target,
)
from gatepost.flow.intake.slash_commands import COMMANDS, CommandAction, SlashCommand
from gatepost.flow.intake.target_decision import Spoken, TargetDecision
from gatepost.flow.requests import spent_budgets, unknown_rooms, unknown_senders
from gatepost.messages.inbound import SUBJECT_VERBS
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.port import Db
from gatepost.store.rights.acl import AclEffect
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route

NO_ROUTE = "no_route"


class ExplainedTarget(Struct, frozen=True):
    """`reason`: a code of the ledger, '' if the sender may speak there. `denied_by`: the row of the access list."""

    chosen: RouteChoice
    rights: Rights
    outcome: MessageOutcome
    reason: str = ""
    denied_by: int | None = None


class ExplainedDecision(Struct, frozen=True):
    """`outcome`, `reason`: of the message where no group is chosen. `command`: of those that the gateway knows."""

    target: TargetDecision
    spoken: Spoken
    targets: tuple[ExplainedTarget, ...]
    outcome: MessageOutcome
    reason: str = ""
    command: str = ""


def explain_decision(
    db: Db, said: RoutedMessage, policy: RoomPolicy, command: SlashCommand | None, now: int
) -> ExplainedDecision:
    """Explain what would become of a message. `policy`: of the room. Without a sender nobody is judged."""
    rules = RuleCache()
    decided = decide_message(db, rules, said, policy, now)
    target, spoken = decided.target, decided.spoken
    name = command.head if command is not None and command.name in COMMANDS else ""
    if decided.choosing:
        chosen = tuple(ExplainedTarget(each.chosen, each.rights, MessageOutcome.CHOSEN) for each in decided.choosing)
        return ExplainedDecision(target, spoken, chosen, MessageOutcome.CHOSEN, command=name)
    if not target.decision.chosen:
        outcome, reason = _explain_unrouted(db, rules, said, policy, command, target, now)
        return ExplainedDecision(target, spoken, (), outcome, reason, name)
    if said.sender:
        admitted, rejected = admit(db, rules, said.sender, policy, target.decision)
        targets = [_explain_admitted(db, rules, said, each, command, now) for each in admitted]
        targets += [_explain_rejected(db, rules, said, each, now) for each in rejected]
    else:
        targets = [ExplainedTarget(each, "guest", _outcome_of(each)) for each in target.decision.chosen]
    return ExplainedDecision(target, spoken, tuple(targets), targets[0].outcome, targets[0].reason, name)


def _outcome_of(chosen: RouteChoice) -> MessageOutcome:
    return MessageOutcome.OBSERVES if chosen.observe else MessageOutcome.WAKES


def _explain_unrouted(
    db: Db,
    rules: RuleCache,
    said: RoutedMessage,
    policy: RoomPolicy,
    command: SlashCommand | None,
    target: TargetDecision,
    now: int,
) -> tuple[MessageOutcome, str]:
    dropped = target.decision.dropped_by
    if dropped is not None:
        return MessageOutcome.REFUSED, f"dropped_by_route {dropped.id}"
    if not said.sender:
        return MessageOutcome.REFUSED, NO_ROUTE
    room, asks = SeenRoom(said.instance, str(said.address)), policy is RoomPolicy.REQUEST_APPROVAL
    if asks and is_asked_about(said) and unknown_rooms.may_hold(db, room, now):
        return MessageOutcome.HELD, ""
    rights = senders.rights_of(rules.read(db, sender_rights.read_access, said.sender).roles, "")
    verdict = senders.check_sender(policy, rights)
    if not verdict.allowed:
        return MessageOutcome.REFUSED, verdict.reason
    spec = COMMANDS.get(command.name) if command is not None else None
    if command is not None and spec is not None and spec.anywhere and slash_commands.may_use(command, rights):
        return MessageOutcome.ANSWERED, ""
    return MessageOutcome.REFUSED, NO_ROUTE


def _explain_admitted(
    db: Db, rules: RuleCache, said: RoutedMessage, target: TargetAccess, command: SlashCommand | None, now: int
) -> ExplainedTarget:
    chosen, rights = target.chosen, target.rights
    if command is not None and not chosen.observe:
        if command.act is CommandAction.DROP:
            return ExplainedTarget(chosen, rights, MessageOutcome.REFUSED, "dropped command")
        if not slash_commands.may_use(command, rights):
            return ExplainedTarget(chosen, rights, MessageOutcome.REFUSED, "command_denied")
        if find_mistyped(db, command, chosen.folder):
            return ExplainedTarget(chosen, rights, MessageOutcome.REFUSED, "command_refused")
        if command.act is not CommandAction.PASS:
            return ExplainedTarget(chosen, rights, MessageOutcome.ANSWERED)
    place = (said.instance, str(said.address), said.thread)
    spent = None if chosen.observe else find_spent_budget(db, rules, said.kind, said.sender, chosen, place, now)
    if spent is not None:
        waits = command is None and spent_budgets.may_hold(db, said.kind, spent_budgets.make_spent(spent))
        outcome = MessageOutcome.HELD if waits else MessageOutcome.REFUSED
        return ExplainedTarget(chosen, rights, outcome, spent_budgets.SPENT)
    return ExplainedTarget(chosen, rights, _outcome_of(chosen))


def _explain_rejected(db: Db, rules: RuleCache, said: RoutedMessage, target: TargetAccess, now: int) -> ExplainedTarget:
    waits = asks_first(target) and not said.is_command
    if waits and unknown_senders.may_hold(db, target.folder, said.sender, now):
        return ExplainedTarget(target.chosen, target.rights, MessageOutcome.HELD, target.reason)
    denied_by = _find_denial(db, rules, said.sender, target.folder)
    return ExplainedTarget(target.chosen, target.rights, MessageOutcome.REFUSED, target.reason, denied_by)


def _find_denial(db: Db, rules: RuleCache, sender: str, folder: str) -> int | None:
    """Return the row of the access list that shuts the sender out; None if none does."""
    access = rules.read(db, sender_rights.read_access, sender)
    denying = [row for row in access.rows if row.effect is AclEffect.DENY]
    found = (row.id for row in denying if acl.applies(row, access.names, "interact", folder, {}, {}))
    return next(found, None) if access.judge(folder) is None else None


class RouteVerdict(Struct, frozen=True):
    """The outcome of one route: `held` and why (not)."""

    route: Route
    held: bool
    why: str


def explain_routes(
    routes: Iterable[Route], facts: MatchInput, exists: Callable[[str], bool] = exists_everywhere
) -> list[RouteVerdict]:
    """Return every route in order with what became of it; those behind the winner are said to be so."""
    table = make_route_table(routes)
    if table.makers:
        return _explain_with_agent_routes(table, facts, exists)
    verdicts: list[RouteVerdict] = []
    winner: Route | None = None
    for route in table.routes:
        if winner is not None:
            verdicts.append(RouteVerdict(route, False, f"not asked: route {winner.id} has won"))
            continue
        why = _render_mismatch(route, facts)
        if not why:
            _, why = resolve_target(route, facts, exists)
        verdicts.append(RouteVerdict(route, not why, why or _render_match(route, facts)))
        if not why and not (route.also and route.target != "drop"):
            winner = route
    return verdicts


def _explain_with_agent_routes(
    table: RouteTable, facts: MatchInput, exists: Callable[[str], bool]
) -> list[RouteVerdict]:
    """Explain routes where agents made some: theirs hold only for what is given to their group, or below it."""
    decision = table.decide(replace(facts, efforts={}), exists)
    facts = replace(facts, efforts={})
    won = {each.route.id for each in decision.chosen}
    verdicts: list[RouteVerdict] = []
    for route in table.routes:
        maker = maker_of(route)
        why = _render_mismatch(route, facts) or resolve_target(route, facts, exists)[1]
        if not why and route.id not in won and route != decision.dropped_by:
            behind = any(covers(maker, each.folder) for each in decision.chosen) if maker else True
            why = "another route has won" if behind else f"the operator's routes give nothing of this to {maker}"
        verdicts.append(RouteVerdict(route, not why, why or _render_match(route, facts)))
    return verdicts


def _render_mismatch(route: Route, facts: MatchInput) -> str:
    missed = find_mismatch(route, facts)
    if missed is None or isinstance(missed, str):
        return missed or ""
    value: str = getattr(facts, missed.key)
    return f"{missed.written} does not hold for {value[:80]!r}"


def _render_match(route: Route, facts: MatchInput) -> str:
    held = route.match or "everything matches"
    if route.target == "drop":
        return f"{held}: dropped"
    if facts.verb in SUBJECT_VERBS and not names_verb(route):
        held += f" (observed: only a match with verb={facts.verb} wakes somebody)"
    return f"{held}: goes to {route.target}" + (", and on to the next routes" if route.also else "")
