"""How an agent stands, and the one step that is safe to do next: decisions, from facts to values."""

from collections.abc import Iterable

from msgspec import Struct

from gatepost.core.clock import MINUTE
from gatepost.flow.overview.agent_states import AgentStanding, SafeStep
from gatepost.store.money.budgets import BudgetScopeKind, BudgetStatus
from gatepost.store.sessions.turns import TurnState
from gatepost.store.web.overview import FailedMessage, OpenErrands, OpenTurn

TOO_LONG = 15 * MINUTE  # a turn that runs so long is offered to be stopped


_RANKS = {each: rank for rank, each in enumerate(AgentStanding)}


class StepAdvice(Struct, frozen=True):
    """`target`: of a request, message, session, or the folder of a group ('': the whole gateway)."""

    step: SafeStep
    target: str


class AgentFacts(Struct, frozen=True, kw_only=True):
    """An agent as it stands: that of a group, in all its conversations together, or a managed one (`agent_id`)."""

    folder: str
    agent_id: str = ""
    title: str = ""
    provider: str = ""
    is_connected: bool = True
    is_parent: bool = False  # there are groups below it
    is_in_error: bool = False  # of a managed one: its last turn failed
    session_id: str = ""  # of its last conversation
    active_at: int | None = None
    awake: int = 0  # sandboxes
    turns: tuple[OpenTurn, ...] = ()
    queued: int = 0
    held: int = 0  # of these: until a person has decided
    queued_since: int | None = None
    requests: int = 0
    request_id: str = ""  # the oldest
    requested_at: int | None = None
    failure: FailedMessage | None = None
    spent: int = 0  # today
    budget: BudgetStatus | None = None  # the nearest to its end
    given: tuple[OpenErrands, ...] = ()  # work that it gave to others
    received: tuple[OpenErrands, ...] = ()

    @property
    def id(self) -> str:
        return self.agent_id or self.folder

    @property
    def running(self) -> OpenTurn | None:
        """The turn that runs the longest."""
        return next((each for each in self.turns if each.state is not TurnState.INTERRUPTED), None)

    @property
    def is_over_budget(self) -> bool:
        return self.budget is not None and (self.budget.is_spent or self.budget.refuses)


def find_standing(facts: AgentFacts, *, halted: bool) -> AgentStanding:
    if facts.requests or facts.held:
        return AgentStanding.WAITING
    if facts.is_over_budget:
        return AgentStanding.OVER_BUDGET
    if facts.running is None and (facts.failure is not None or facts.is_in_error):
        return AgentStanding.FAILING
    if halted and (facts.queued or facts.turns):
        return AgentStanding.STOPPED
    if facts.turns:
        return AgentStanding.WORKING
    if facts.queued:
        return AgentStanding.QUEUED
    return AgentStanding.READY if facts.awake else AgentStanding.ASLEEP


def find_since(facts: AgentFacts, standing: AgentStanding) -> int | None:
    """Since when it stands so, as far as that is known."""
    match standing:
        case AgentStanding.WAITING:
            return facts.requested_at or facts.queued_since
        case AgentStanding.FAILING if facts.failure is not None:
            return facts.failure.failed_at
        case AgentStanding.WORKING:
            return facts.turns[0].started_at
        case AgentStanding.QUEUED | AgentStanding.STOPPED:
            return facts.queued_since
    return facts.active_at


def find_step(facts: AgentFacts, standing: AgentStanding, now: int) -> StepAdvice | None:
    """None: nothing is to be done, or nothing that is surely right."""
    if facts.request_id:
        return StepAdvice(SafeStep.ANSWER, facts.request_id)
    if standing is AgentStanding.OVER_BUDGET and facts.budget is not None:
        scope = facts.budget.scope
        return StepAdvice(SafeStep.RAISE, scope.name if scope.kind is BudgetScopeKind.GROUP else "")
    if standing is AgentStanding.FAILING:
        if facts.failure is not None:
            return StepAdvice(SafeStep.TRACE, str(facts.failure.message_id))
        return StepAdvice(SafeStep.INSPECT, facts.agent_id)
    if facts.running is not None and now - facts.running.started_at >= TOO_LONG:
        return StepAdvice(SafeStep.STOP, facts.running.session_id)
    if not facts.is_connected and (facts.session_id or not facts.is_parent):
        return StepAdvice(SafeStep.CONNECT, facts.folder)
    return None


class StandingAgent(Struct, frozen=True):
    facts: AgentFacts
    standing: AgentStanding


def sort_agents(found: Iterable[AgentFacts], *, halted: bool) -> list[StandingAgent]:
    """Return who needs somebody first, then who works; among equals the latest first."""
    standing = [StandingAgent(each, find_standing(each, halted=halted)) for each in found]
    return sorted(
        standing,
        key=lambda each: (_RANKS[each.standing], -(each.facts.active_at or 0), each.facts.folder, each.facts.id),
    )


def count_standings(found: Iterable[StandingAgent]) -> dict[AgentStanding, int]:
    counted: dict[AgentStanding, int] = dict.fromkeys(AgentStanding, 0)
    for each in found:
        counted[each.standing] += 1
    return counted
