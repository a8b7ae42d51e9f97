"""How an agent stands and what is safe to do next: a table of cases, no store."""

from typing import Any

import pytest

from gatepost.access.budgets import NO_ROOM
from gatepost.core.clock import HOUR, MINUTE, Period
from gatepost.core.records import replace
from gatepost.flow.overview import (
    TOO_LONG,
    AgentFacts,
    StepAdvice,
    count_standings,
    find_retry,
    find_since,
    find_standing,
    find_step,
    find_tightest,
    group_budgets,
    sort_agents,
)
from gatepost.flow.reports import AgentStatus, SafeStep
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus
from gatepost.store.rights.switches import Switch
from gatepost.store.sessions.turns import TurnState
from gatepost.store.web.overview import FailedMessage, OpenTurn

NOON = 1_800_000_000_000_000
FAILED = FailedMessage("s-1", "acme", 42, "no key", NOON - HOUR)


REFUSED = FailedMessage("s-1", "acme", 42, f"Today's budget of acme {NO_ROOM}: $1.00 of $2.00", NOON - HOUR)
REST = Switch("rest:acme", "", "op", NOON - MINUTE)


def make_turn(age: int = MINUTE, state: TurnState = TurnState.BEGUN) -> OpenTurn:
    return OpenTurn("s-1", "acme", state, "", NOON - age)


def make_budget(
    spent: int, limit: int, kind: BudgetScopeKind = BudgetScopeKind.GROUP, name: str = "acme"
) -> BudgetStatus:
    return BudgetStatus(BudgetScope(kind, name), Period.DAY, limit, spent, 0, NOON, NOON)


ASKS: dict[str, Any] = {"requests": 2, "request_id": "p-1", "requested_at": NOON - MINUTE}
CASES: list[tuple[str, dict[str, Any], AgentStatus, StepAdvice | None]] = [
    ("nothing to do", {}, AgentStatus.ASLEEP, None),
    ("a sandbox without work", {"awake": 1}, AgentStatus.READY, None),
    ("the demo's", {"is_connected": False}, AgentStatus.ASLEEP, StepAdvice(SafeStep.CONNECT, "acme")),
    ("a mere parent", {"is_connected": False, "is_parent": True}, AgentStatus.ASLEEP, None),
    (
        "a parent that people talk to",
        {"is_connected": False, "is_parent": True, "session_id": "s-1"},
        AgentStatus.ASLEEP,
        StepAdvice(SafeStep.CONNECT, "acme"),
    ),
    ("messages that wait", {"queued": 3, "queued_since": NOON}, AgentStatus.QUEUED, None),
    ("a turn", {"turns": (make_turn(),)}, AgentStatus.WORKING, None),
    ("a long turn", {"turns": (make_turn(TOO_LONG),)}, AgentStatus.WORKING, StepAdvice(SafeStep.STOP, "s-1")),
    (
        "a long turn that does not run now",
        {"turns": (make_turn(TOO_LONG, TurnState.INTERRUPTED),)},
        AgentStatus.WORKING,
        None,
    ),
    ("a request", ASKS, AgentStatus.WAITING, StepAdvice(SafeStep.ANSWER, "p-1")),
    (
        "a request of a long turn, which waits and does not run away",
        {**ASKS, "turns": (make_turn(TOO_LONG),)},
        AgentStatus.WAITING,
        StepAdvice(SafeStep.ANSWER, "p-1"),
    ),
    ("a request and a failure", {**ASKS, "failure": FAILED}, AgentStatus.WAITING, StepAdvice(SafeStep.ANSWER, "p-1")),
    ("held messages whose request is elsewhere", {"queued": 1, "held": 1}, AgentStatus.WAITING, None),
    (
        "messages that wait for money",
        {"queued": 1, "held": 1, "held_for": "p-2", "held_for_money": True},
        AgentStatus.OVER_BUDGET,
        StepAdvice(SafeStep.ANSWER, "p-2"),
    ),
    (
        "messages whose sender is unknown",
        {"queued": 1, "held": 1, "held_for": "p-2"},
        AgentStatus.WAITING,
        StepAdvice(SafeStep.ANSWER, "p-2"),
    ),
    (
        "a rest",
        {"rest": REST, "queued": 1, "failure": FAILED},
        AgentStatus.RESTING,
        StepAdvice(SafeStep.WAKE, "acme"),
    ),
    ("a rest, and somebody is asked", {"rest": REST, **ASKS}, AgentStatus.WAITING, StepAdvice(SafeStep.ANSWER, "p-1")),
    (
        "a call that a budget refused, though smaller ones of others fit since",
        {"failure": REFUSED, "budget": replace(make_budget(3, 5), refused=True, starts_at=NOON - 2 * HOUR)},
        AgentStatus.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, "acme"),
    ),
    (
        "a call that was refused yesterday",
        {"failure": REFUSED, "budget": replace(make_budget(3, 5), refused=True)},
        AgentStatus.ASLEEP,
        None,
    ),
    (
        "a call that was refused before the budget was raised",
        {"failure": REFUSED, "budget": replace(make_budget(3, 5), starts_at=NOON - 2 * HOUR)},
        AgentStatus.ASLEEP,
        None,
    ),
    ("a failure", {"failure": FAILED}, AgentStatus.FAILING, StepAdvice(SafeStep.TRACE, "42")),
    (
        "a failure, and it tries again",
        {"failure": FAILED, "turns": (make_turn(),)},
        AgentStatus.WORKING,
        None,
    ),
    (
        "a managed agent in error",
        {"agent_id": "s-1", "is_in_error": True},
        AgentStatus.FAILING,
        StepAdvice(SafeStep.INSPECT, "s-1"),
    ),
    (
        "a spent budget of its own",
        {"budget": make_budget(5, 5)},
        AgentStatus.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, "acme"),
    ),
    (
        "a spent budget of the gateway",
        {"budget": make_budget(6, 5, BudgetScopeKind.INSTANCE, "")},
        AgentStatus.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, ""),
    ),
    ("a budget of 0 and a model that is free", {"budget": make_budget(0, 0)}, AgentStatus.ASLEEP, None),
    (
        "a budget of 0 and a model that is not",
        {"budget": replace(make_budget(0, 0), refuses=True)},
        AgentStatus.OVER_BUDGET,
        StepAdvice(SafeStep.RAISE, "acme"),
    ),
    ("money left", {"budget": make_budget(4, 5)}, AgentStatus.ASLEEP, None),
]


@pytest.mark.parametrize(("given", "standing", "step"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_case_of_the_table(given: dict[str, Any], standing: AgentStatus, step: StepAdvice | None) -> None:
    facts = AgentFacts(folder="acme", **given)
    found = find_standing(facts, halted=False)
    assert (found, find_step(facts, found, NOON)) == (standing, step)


def test_a_message_that_failed_can_be_given_again_if_a_person_wrote_it() -> None:
    said = AgentFacts(folder="acme", failure=replace(FAILED, sender="web:user/owner"))
    assert find_retry(said, AgentStatus.FAILING) == StepAdvice(SafeStep.RETRY, "42")
    assert find_retry(said, AgentStatus.WORKING) is None
    assert find_retry(AgentFacts(folder="acme", failure=FAILED), AgentStatus.FAILING) is None


def test_a_panic_stops_who_has_work_and_changes_nothing_for_the_others() -> None:
    busy, idle = AgentFacts(folder="acme", queued=1), AgentFacts(folder="beta")
    asks = AgentFacts(folder="gamma", **ASKS)
    assert find_standing(busy, halted=True) is AgentStatus.STOPPED
    assert find_standing(idle, halted=True) is AgentStatus.ASLEEP
    assert find_standing(asks, halted=True) is AgentStatus.WAITING


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
        AgentStatus.WAITING: 1,
        AgentStatus.WORKING: 1,
        AgentStatus.ASLEEP: 2,
    }


def test_the_budget_nearest_to_its_end_counts_whosever_it_is() -> None:
    own, above = make_budget(1, 10, name="acme/eng"), make_budget(9, 10)
    whole, other = make_budget(5, 10, BudgetScopeKind.INSTANCE, ""), make_budget(10, 10, name="beta")
    known = group_budgets([own, above, whole, other])
    assert find_tightest("acme/eng", known) == above
    assert find_tightest("gamma", known) == whole
    assert find_tightest("acme/eng", group_budgets([other])) is None
