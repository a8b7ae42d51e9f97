"""The word of each route on a message, for people who ask why one wins. The decision itself is in `routing.py`."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from gatepost.access.tiers import covers
from gatepost.core.records import replace
from gatepost.flow.intake.routing import (
    MatchInput,
    RouteTable,
    exists_everywhere,
    find_mismatch,
    make_route_table,
    maker_of,
    names_verb,
    resolve_target,
)
from gatepost.messages.inbound import SUBJECT_VERBS
from gatepost.store.rooms.routes import Route


class RouteVerdict(Struct, frozen=True):
    """The outcome of one route: `held` and why (not)."""

    route: Route
    held: bool
    why: str


def explain(
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
