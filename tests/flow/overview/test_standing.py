"""How an agent stands and what is safe to do next: a table of cases, no store."""

from typing import Any

import pytest

from gatepost.core.clock import HOUR, MINUTE
from gatepost.core.periods import Period
from gatepost.core.records import replace
from gatepost.flow.overview.agent_states import AgentStanding, SafeStep
from gatepost.flow.overview.facts import find_tightest, group_budgets
from gatepost.flow.overview.standing import (
    TOO_LONG,
    AgentFacts,
    StepAdvice,
    count_standings,
    find_since,
    find_standing,
    find_step,
    sort_agents,
)
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus
from gatepost.store.sessions.turns import TurnState
from gatepost.store.web.overview import FailedMessage, OpenTurn

NOON = 1_800_000_000_000_000
FAILED = FailedMessage("s-1", "acme", 42, "no key", NOON - HOUR)


def make_turn(age: int = MINUTE, state: TurnState = TurnState.BEGUN) -> OpenTurn:
    return OpenTurn("s-1", "acme", state, "", NOON - age)


def make_budget(
    spent: int, limit: int, kind: BudgetScopeKind = BudgetScopeKind.GROUP, name: str = "acme"
) -> BudgetStatus:
    return BudgetStatus(BudgetScope(kind, name), Period.DAY, limit, spent, 0, NOON, NOON)


ASKS: dict[str, Any] = {"requests": 2, "request_id": "p-1", "requested_at": NOON - MINUTE}
CASES: list[tuple[str, dict[str, Any], AgentStanding, StepAdvice | None]] = [
    ("nothing to do", {}, AgentStanding.ASLEEP, None),
    ("a sandbox without work", {"awake": 1}, AgentStanding.READY, None),
    ("the demo's", {"is_connected": False}, AgentStanding.ASLEEP, StepAdvice(SafeStep.CONNECT, "acme")),
    ("a mere parent", {"is_connected": False, "is_parent": True}, AgentStanding.ASLEEP, None),
    (
        "a parent that people talk to",
        {"is_connected": False, "is_parent": True, "session_id": "s-1"},
        AgentStanding.ASLEEP,
        StepAdvice(SafeStep.CONNECT, "acme"),
    ),
    ("messages that wait", {"queued": 3, "queued_since": NOON}, AgentStanding.QUEUED, None),
    ("a turn", {"turns": (make_turn(),)}, AgentStanding.WORKING, None),
    ("a long turn", {"turns": (make_turn(TOO_LONG),)}, AgentStanding.WORKING, StepAdvice(SafeStep.STOP, "s-1")),
    (
        "a long turn that does not run now",
        {"turns": (make_turn(TOO_LONG, TurnState.INTERRUPTED),)},
        AgentStanding.WORKING,
        None,
    ),
    ("a request", ASKS, AgentStanding.WAITING, StepAdvice(SafeStep.ANSWER, "p-1")),
    (
        "a request of a long turn, which waits and does not run away",
        {**ASKS, "turns": (make_turn(TOO_LONG),)},
        AgentStanding.WAITING,
        StepAdvice(SafeStep.ANSWER, "p-1"),
    ),
    ("a request and a failure", {**ASKS, "failure": FAILED}, AgentStanding.WAITING, StepAdvice(SafeStep.ANSWER, "p-1")),
    ("held messages whose request is elsewhere", {"queued": 1, "held": 1}, AgentStanding.WAITING, None),
    ("a failure", {"failure": FAILED}, AgentStanding.FAILING, StepAdvice(SafeStep.TRACE, "42")),
    (
        "a failure, and it tries again",
        {"failure": FAILED, "turns": (make_turn(),)},
        AgentStanding.WORKING,
        None,
    ),
    (
        "a managed agent in error",
        {"agent_id": "s-1", "is_in_error": True},
        AgentStanding.FAILING,
        StepAdvice(SafeStep.INSPECT, "s-1"),
    ),
    (
        "a spent budget of its own",
        {"budget": make_budget(5, 5)},
        AgentStanding.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, "acme"),
    ),
    (
        "a spent budget of the gateway",
        {"budget": make_budget(6, 5, BudgetScopeKind.INSTANCE, "")},
        AgentStanding.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, ""),
    ),
    ("a budget of 0 and a model that is free", {"budget": make_budget(0, 0)}, AgentStanding.ASLEEP, None),
    (
        "a budget of 0 and a model that is not",
        {"budget": replace(make_budget(0, 0), refuses=True)},
        AgentStanding.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, "acme"),
    ),
    ("money left", {"budget": make_budget(4, 5)}, AgentStanding.ASLEEP, None),
]


@pytest.mark.parametrize(("given", "standing", "step"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_case_of_the_table(given: dict[str, Any], standing: AgentStanding, step: StepAdvice | None) -> None:
    facts = AgentFacts(folder="acme", **given)
    found = find_standing(facts, halted=False)
    assert (found, find_step(facts, found, NOON)) == (standing, step)


def test_a_panic_stops_who_has_work_and_changes_nothing_for_the_others() -> None:
    busy, idle = AgentFacts(folder="acme", queued=1), AgentFacts(folder="beta")
    asks = AgentFacts(folder="gamma", **ASKS)
    assert find_standing(busy, halted=True) is AgentStanding.STOPPED
    assert find_standing(idle, halted=True) is AgentStanding.ASLEEP
    assert find_standing(asks, halted=True) is AgentStanding.WAITING


@pytest.mark.parametrize(
    ("given", "since"),
    [
        (ASKS, NOON - MINUTE),
        ({"turns": (make_turn(),)}, NOON - MINUTE),
        ({"failure": FAILED}, NOON - HOUR),
        ({"queued": 1, "queued_since": NOON - 3}, NOON - 3),
        ({"active_at": NOON - 7}, NOON - 7),
    ],
)
def test_since_when_it_stands_so(given: dict[str, Any], since: int) -> None:
    facts = AgentFacts(folder="acme", **given)
    assert find_since(facts, find_standing(facts, halted=False)) == since


def test_who_needs_somebody_comes_first_and_among_equals_the_latest() -> None:
    old, new = AgentFacts(folder="old", active_at=1), AgentFacts(folder="new", active_at=2)
    works, asks = AgentFacts(folder="works", turns=(make_turn(),)), AgentFacts(folder="asks", **ASKS)
    found = sort_agents([old, works, new, asks], halted=False)
    assert [each.facts.folder for each in found] == ["asks", "works", "new", "old"]
    assert {name: count for name, count in count_standings(found).items() if count} == {
        AgentStanding.WAITING: 1,
        AgentStanding.WORKING: 1,
        AgentStanding.ASLEEP: 2,
    }


def test_the_budget_nearest_to_its_end_counts_whosever_it_is() -> None:
    own, above = make_budget(1, 10, name="acme/eng"), make_budget(9, 10)
    whole, other = make_budget(5, 10, BudgetScopeKind.INSTANCE, ""), make_budget(10, 10, name="beta")
    known = group_budgets([own, above, whole, other])
    assert find_tightest("acme/eng", known) == above
    assert find_tightest("gamma", known) == whole
    assert find_tightest("acme/eng", group_budgets([other])) is None
