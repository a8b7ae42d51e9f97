"""The overview of agents: facts from the store, how each agent stands by them, and the one step that is safe to do
next. Decisions are pure. Facts take as many statements for a thousand groups as for one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from gatepost.access.budgets import is_denial
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import DAY, MINUTE, Period, start_of_period
from gatepost.core.records import replace
from gatepost.flow.reports import AgentStatus, SafeStep
from gatepost.messages.inbound import is_person
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScopeKind, BudgetStatus
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.switches import Switch
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.turns import TurnState
from gatepost.store.web import overview
from gatepost.store.web.overview import (
    FailedMessage,
    GroupActivity,
    ManagedActivity,
    OpenErrands,
    OpenRequests,
    OpenTurn,
    QueuedMessages,
)

TOO_LONG = 15 * MINUTE  # a turn that runs so long is offered to be stopped


_RANKS = {each: rank for rank, each in enumerate(AgentStatus)}
FAILS_FOR = 7 * DAY  # what failed before that is history
_Budgets = Mapping[tuple[BudgetScopeKind, str], Sequence[BudgetStatus]]


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
    held_for: str = ""  # the oldest request that messages wait for …
    held_for_money: bool = False  # … and it is about a budget
    rest: Switch | None = None
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
    def decides(self) -> str:
        """Return the request that a person has to decide first; '' if there is none."""
        return self.request_id or self.held_for

    @property
    def is_over_budget(self) -> bool:
        """A call that was refused counts until the agent answers somebody again, also if calls of others fit since."""
        if self.held_for_money or (self.budget is not None and (self.budget.is_spent or self.budget.refuses)):
            return True
        failure, budget = self.failure, self.budget
        return (
            failure is not None
            and is_denial(failure.reason)
            and budget is not None
            and budget.refused
            and budget.starts_at <= failure.failed_at
        )

    @property
    def is_failing(self) -> bool:
        """A turn that failed for money is none of the agent's faults. With money it would go on."""
        return self.is_in_error or (self.failure is not None and not is_denial(self.failure.reason))


def find_standing(facts: AgentFacts, *, halted: bool) -> AgentStatus:
    if facts.requests or (facts.held and not facts.held_for_money):
        return AgentStatus.WAITING
    if facts.rest is not None and facts.running is None:
        return AgentStatus.RESTING
    if facts.is_over_budget:
        return AgentStatus.OVER_BUDGET
    if facts.running is None and facts.is_failing:
        return AgentStatus.FAILING
    if halted and (facts.queued or facts.turns):
        return AgentStatus.STOPPED
    if facts.turns:
        return AgentStatus.WORKING
    if facts.queued:
        return AgentStatus.QUEUED
    return AgentStatus.READY if facts.awake else AgentStatus.ASLEEP


def find_since(facts: AgentFacts, standing: AgentStatus) -> int | None:
    """Since when it stands so, as far as that is known."""
    match standing:
        case AgentStatus.WAITING:
            return facts.requested_at or facts.queued_since
        case AgentStatus.FAILING if facts.failure is not None:
            return facts.failure.failed_at
        case AgentStatus.WORKING:
            return facts.turns[0].started_at
        case AgentStatus.RESTING if facts.rest is not None:
            return facts.rest.since
        case AgentStatus.QUEUED | AgentStatus.STOPPED:
            return facts.queued_since
    return facts.active_at


def find_step(facts: AgentFacts, standing: AgentStatus, now: int) -> StepAdvice | None:
    """None: nothing is to be done, or nothing that is surely right."""
    if facts.decides:
        return StepAdvice(SafeStep.ANSWER, facts.decides)
    if standing is AgentStatus.RESTING and facts.rest is not None:
        return StepAdvice(SafeStep.WAKE, facts.rest.folder)
    if standing is AgentStatus.STOPPED:
        return StepAdvice(SafeStep.GO_ON, "")
    if standing is AgentStatus.OVER_BUDGET and facts.budget is not None:
        scope = facts.budget.scope
        return StepAdvice(SafeStep.RAISE, scope.name if scope.kind is BudgetScopeKind.GROUP else "")
    if standing is AgentStatus.FAILING:
        if facts.failure is not None:
            return StepAdvice(SafeStep.TRACE, str(facts.failure.message_id))
        return StepAdvice(SafeStep.INSPECT, facts.agent_id)
    if facts.running is not None and now - facts.running.started_at >= TOO_LONG:
        return StepAdvice(SafeStep.STOP, facts.running.session_id)
    if not facts.is_connected and (facts.session_id or not facts.is_parent):
        return StepAdvice(SafeStep.CONNECT, facts.folder)
    return None


def find_retry(facts: AgentFacts, standing: AgentStatus) -> StepAdvice | None:
    """Return how the message that failed is given to the agent again; None if it cannot be."""
    failure = facts.failure if standing is AgentStatus.FAILING else None
    if failure is None or not failure.sender or not is_person(failure.sender):
        return None
    return StepAdvice(SafeStep.RETRY, str(failure.message_id))


class StandingAgent(Struct, frozen=True):
    facts: AgentFacts
    standing: AgentStatus


def sort_agents(found: Iterable[AgentFacts], *, halted: bool) -> list[StandingAgent]:
    """Return who needs somebody first, then who works; among equals the latest first."""
    standing = [StandingAgent(each, find_standing(each, halted=halted)) for each in found]
    return sorted(
        standing,
        key=lambda each: (_RANKS[each.standing], -(each.facts.active_at or 0), each.facts.folder, each.facts.id),
    )


def count_standings(found: Iterable[StandingAgent]) -> dict[AgentStatus, int]:
    counted: dict[AgentStatus, int] = dict.fromkeys(AgentStatus, 0)
    for each in found:
        counted[each.standing] += 1
    return counted


def find_tightest(folder: str, known: _Budgets) -> BudgetStatus | None:
    """Return the budget nearest to its end among those that every call of the group must fit into."""
    every = [each for scope in budgets.list_scopes(folder, "") for each in known.get((scope.kind, scope.name), ())]
    return max(every, key=_get_share, default=None)


def _get_share(status: BudgetStatus) -> tuple[bool, bool, float, bool]:
    share = status.spent / status.limit if status.limit else 1.0
    return status.is_spent or status.refuses, status.refused, share, status.period is Period.DAY


def group_budgets(found: Iterable[BudgetStatus]) -> dict[tuple[BudgetScopeKind, str], list[BudgetStatus]]:
    by_scope: dict[tuple[BudgetScopeKind, str], list[BudgetStatus]] = defaultdict(list)
    for each in found:
        by_scope[each.scope.kind, each.scope.name].append(each)
    return by_scope


# What the store says of everybody.


class OpenWork(Struct, frozen=True, kw_only=True):
    """All that waits, runs or failed, of all groups."""

    managed: list[ManagedActivity]
    turns: list[OpenTurn]
    queues: list[QueuedMessages]
    requests: list[OpenRequests]
    failures: list[FailedMessage]
    errands: list[OpenErrands]
    budgets: list[BudgetStatus]
    for_money: frozenset[str]  # requests
    rests: dict[str, Switch]  # by the folder that was put to rest


def read_open_work(db: Db, now: int) -> OpenWork:
    return OpenWork(
        managed=overview.list_managed(db),
        turns=overview.list_turns(db),
        queues=overview.list_queues(db),
        requests=overview.list_requests(db),
        failures=overview.list_failures(db, now - FAILS_FOR),
        errands=overview.list_errands(db),
        budgets=budgets.list_shared(db, now),
        for_money=overview.list_money_requests(db),
        rests={each.folder: each for each in switches.list_resting(db)},
    )


class AwakeSandbox(Struct, frozen=True):
    session_id: str
    folder: str


class ProviderDefaults(Struct, frozen=True):
    """The defaults of groups that name no provider. `borrower`: the group of managed agents, which goes by
    `lender`'s."""

    provider: str
    demo: str
    lender: str = ""
    borrower: str = ""


def read_groups(db: Db, now: int) -> list[GroupActivity]:
    return overview.list_groups(db, start_of_period(Period.DAY, now))


def list_facts(
    groups: Sequence[GroupActivity], work: OpenWork, awake: Collection[AwakeSandbox], usual: ProviderDefaults
) -> list[AgentFacts]:
    """An entry for each group and each managed agent. A group that every gateway has is left
    out as long as nobody uses it."""
    managed = {each.id for each in work.managed}
    shares = _share_out(work, awake, managed)
    known = group_budgets(work.budgets)
    named = {each.folder: each.provider for each in groups}
    parents = {each.folder.rpartition("/")[0] for each in groups}
    made = (_make_group_facts(each, shares[each.folder, ""], work.rests, known, usual, named) for each in groups)
    found = [replace(each, is_parent=each.folder in parents) for each in made if not _is_shell(each, usual)]
    return found + [_make_managed_facts(each, shares[each.folder, each.id], work.rests, known) for each in work.managed]


def list_open_facts(work: OpenWork) -> list[AgentFacts]:
    """Only of those that have something open, as far as that alone is known: no group is read for it."""
    managed = {each.id: each for each in work.managed}
    shares, known = _share_out(work, (), managed), group_budgets(work.budgets)
    spent_up = {
        each.scope.name
        for each in work.budgets
        if each.scope.kind is BudgetScopeKind.GROUP and each.spent >= each.limit
    }
    places = {*shares, *((folder, "") for folder in spent_up)}
    found = []
    for folder, agent_id in sorted(place for place in places if place[0]):
        share = shares[folder, agent_id]
        if agent_id:
            found.append(_make_managed_facts(managed[agent_id], share, work.rests, known))
        else:
            found.append(replace(share.make_facts(folder, work.rests), budget=find_tightest(folder, known)))
    return found


def _is_shell(facts: AgentFacts, usual: ProviderDefaults) -> bool:
    """Return True if nobody uses a group that every gateway has: the place of managed agents, and the root."""
    return facts.folder in (usual.borrower, ROOT_FOLDER) and not (facts.session_id or facts.requests or facts.queued)


class _Share:
    """The part that belongs to one agent."""

    def __init__(self) -> None:
        self.awake = self.queued = self.held = self.requests = 0
        self.turns: list[OpenTurn] = []
        self.queued_since: int | None = None
        self.held_for = ""
        self.held_for_money = False
        self.request_id = ""
        self.requested_at: int | None = None
        self.failure: FailedMessage | None = None
        self.given: list[OpenErrands] = []
        self.received: list[OpenErrands] = []

    def add_queue(self, each: QueuedMessages, for_money: Collection[str]) -> None:
        self.queued, self.held = self.queued + each.count, self.held + each.held
        if each.held_for and not (self.held_for and self.held_for < each.held_for):
            self.held_for, self.held_for_money = each.held_for, each.held_for in for_money
        self.queued_since = min(self.queued_since or each.oldest_at, each.oldest_at)

    def add_requests(self, each: OpenRequests) -> None:
        self.requests += each.count
        if self.requested_at is None or each.asked_at < self.requested_at:
            self.request_id, self.requested_at = each.first, each.asked_at

    def make_facts(self, folder: str, rests: Mapping[str, Switch]) -> AgentFacts:
        return AgentFacts(
            folder=folder,
            awake=self.awake,
            turns=tuple(self.turns),
            queued=self.queued,
            held=self.held,
            queued_since=self.queued_since,
            held_for=self.held_for,
            held_for_money=self.held_for_money,
            rest=_find_rest(folder, rests),
            requests=self.requests,
            request_id=self.request_id,
            requested_at=self.requested_at,
            failure=self.failure,
            given=tuple(self.given),
            received=tuple(self.received),
        )


_Shares = dict[tuple[str, str], _Share]


def _share_out(work: OpenWork, awake: Collection[AwakeSandbox], managed: Collection[str]) -> _Shares:
    """By folder and managed agent ('': the group's own)."""
    shares: _Shares = defaultdict(_Share)

    def find(folder: str, session_id: str) -> _Share:
        return shares[folder, session_id if session_id in managed else ""]

    for sandbox in awake:
        find(sandbox.folder, sandbox.session_id).awake += 1
    for turn in work.turns:
        find(turn.folder, turn.session_id).turns.append(turn)
    for queue in work.queues:
        find(queue.folder, queue.session_id).add_queue(queue, work.for_money)
    for asked in work.requests:
        find(asked.folder, asked.session_id).add_requests(asked)
    for failure in work.failures:
        find(failure.folder, failure.session_id).failure = failure
    for errand in work.errands:
        shares[errand.caller_folder, ""].given.append(errand)
        shares[errand.folder, ""].received.append(errand)
    return shares


def _find_rest(folder: str, rests: Mapping[str, Switch]) -> Switch | None:
    """Return why a group is at rest: its own switch, or that of the nearest group above it."""
    above = folder if rests else ""
    while above:
        if above in rests:
            return rests[above]
        above = above.rpartition("/")[0]
    return None


def _make_group_facts(
    group: GroupActivity,
    share: _Share,
    rests: Mapping[str, Switch],
    known: _Budgets,
    usual: ProviderDefaults,
    named: Mapping[str, str],
) -> AgentFacts:
    """`named`: the providers of all groups, by their folders."""
    provider = _find_provider(group.folder, usual, named)
    return replace(
        share.make_facts(group.folder, rests),
        title=group.name,
        provider=provider,
        is_connected=provider != usual.demo,
        session_id=group.session_id or "",
        active_at=group.active_at,
        spent=group.spent,
        budget=find_tightest(group.folder, known),
    )


def _find_provider(folder: str, usual: ProviderDefaults, named: Mapping[str, str]) -> str:
    """Return the provider of a group or of the nearest above it that has one."""
    above = folder
    while above:
        if named.get(above):
            return named[above]
        above = above.rpartition("/")[0]
    return (named.get(usual.lender, "") if folder == usual.borrower else "") or usual.provider


def _make_managed_facts(
    agent: ManagedActivity, share: _Share, rests: Mapping[str, Switch], known: _Budgets
) -> AgentFacts:
    return replace(
        share.make_facts(agent.folder, rests),
        agent_id=agent.id,
        title=agent.title,
        provider=agent.provider,
        is_in_error=agent.state is SessionState.ERROR,
        session_id=agent.id,
        active_at=agent.active_at,
        budget=find_tightest(agent.folder, known),
    )
