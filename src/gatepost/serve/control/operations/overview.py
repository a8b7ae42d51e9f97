"""The overview: how every agent stands, who waits for whom, and whether the gateway is well."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from gatepost.access.operation_rights import OperationRights
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import Period, start_of_period
from gatepost.core.errors import NotFound
from gatepost.core.settings import Config
from gatepost.flow.groups import WORLD
from gatepost.flow.missing_answer import MissingAnswer, explain_missing, read_message_facts
from gatepost.flow.overview import (
    AgentFacts,
    AwakeSandbox,
    OpenWork,
    ProviderDefaults,
    StandingAgent,
    StepAdvice,
    count_standings,
    find_retry,
    find_since,
    find_step,
    list_facts,
    read_groups,
    read_open_work,
    sort_agents,
)
from gatepost.flow.reports import BUSY, IDLE, NEEDS_SOMEBODY, AgentStatus, SafeStep
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.flow.sessions.sandbox.effective_group import FOLDER
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.messages.inbound import OPERATOR, Direction
from gatepost.serve.control.arguments.agents import AnswerRequestArgs, ShowAgentArgs
from gatepost.serve.control.arguments.alerts import ListAlertsArgs
from gatepost.serve.control.arguments.connect import KeepConnectionArgs
from gatepost.serve.control.arguments.gateways import PanicOffArgs
from gatepost.serve.control.arguments.groups import WakeGroupArgs
from gatepost.serve.control.arguments.ledger import RetryMessageArgs, TraceMessageArgs
from gatepost.serve.control.arguments.overview import (
    READ,
    AgentOverview,
    ExplainMissingArgs,
    GatewayOverview,
    OverviewBudget,
    OverviewExtent,
    OverviewMessage,
    OverviewPart,
    OverviewRequest,
    OverviewStep,
    OverviewWait,
    PanicState,
    ShowOverviewArgs,
    WhyAnswer,
)
from gatepost.serve.control.arguments.sessions import StopSessionArgs
from gatepost.serve.control.arguments.spending import SetBudgetArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.declaration import OperationInfo
from gatepost.serve.control.rights import may_run
from gatepost.serve.health.health_check import HealthCheck
from gatepost.store.gateways import alerts
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import Message
from gatepost.store.money import ledger
from gatepost.store.money.budgets import BudgetScopeKind
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches
from gatepost.store.rights.requests import RequestKind
from gatepost.store.web import overview
from gatepost.store.web.overview import LastMessage, ShownRequest

HEALTH, AWAKE = "health", "awake"  # in `OperationDeps.extra`, while a gateway runs
READ_S = 5.0
MOST_WAITS = 5  # of one agent that are named
A_PERSON, ANOTHER = "a person", "another group"
PARTS = {
    OverviewPart.ALL: frozenset(AgentStatus),
    OverviewPart.ATTENTION: NEEDS_SOMEBODY,
    OverviewPart.BUSY: BUSY,
    OverviewPart.IDLE: IDLE,
}


class _Step(Struct, frozen=True):
    """`scoped`: the right is needed in the group, not for the whole gateway. `numbered`: the argument is a number."""

    operation: OperationInfo
    argument: str
    command: str
    scoped: bool = False
    numbered: bool = False


STEPS = {
    SafeStep.ANSWER: _Step(AnswerRequestArgs.info, "id", "gatepost permit allow {}"),
    SafeStep.RAISE: _Step(SetBudgetArgs.info, "folder", "gatepost budget set {} --daily USD", scoped=True),
    SafeStep.TRACE: _Step(TraceMessageArgs.info, "message", "gatepost trace {}"),
    SafeStep.RETRY: _Step(RetryMessageArgs.info, "message", "gatepost ledger retry {}", numbered=True),
    SafeStep.WAKE: _Step(WakeGroupArgs.info, "folder", "gatepost group wake {}", scoped=True),
    SafeStep.GO_ON: _Step(PanicOffArgs.info, "", "gatepost panic --off"),
    SafeStep.INSPECT: _Step(ShowAgentArgs.info, "id", "gatepost agent inspect {}"),
    SafeStep.STOP: _Step(StopSessionArgs.info, "id", "gatepost stop {}"),
    SafeStep.CONNECT: _Step(KeepConnectionArgs.info, "folder", "gatepost connect AGENT --folder {}"),
}


@operation
async def show_overview(deps: OperationDeps, args: ShowOverviewArgs) -> GatewayOverview:
    awake = _list_awake(deps)
    found = await deps.store.read(
        read_overview, deps.caller, args, deps.clock.now(), awake, get_defaults(deps.config), within=READ_S
    )
    health = deps.extra.get(HEALTH)
    if found.extent is not OverviewExtent.ALL or not isinstance(health, HealthCheck):
        return found
    found.findings.extend(await health.list_findings())
    return found


def _list_awake(deps: OperationDeps) -> list[AwakeSandbox]:
    listed: Callable[[], list[AwakeSandbox]] = deps.extra.get(AWAKE, list)
    return listed()


def get_defaults(config: Config) -> ProviderDefaults:
    return ProviderDefaults(config[PROVIDER], str(PROVIDER.default), WORLD, config[FOLDER])


def read_overview(
    db: Db, caller: str, args: ShowOverviewArgs, now: int, awake: list[AwakeSandbox], usual: ProviderDefaults
) -> GatewayOverview:
    """On one snapshot: what all groups have open, then the rest of those that are shown."""
    rights = _CallerRights(db, caller)
    halted = switches.get(db, switches.PANIC)
    groups = [each for each in read_groups(db, now) if rights.may_see(each.folder)]
    work = read_open_work(db, now)
    facts = [each for each in list_facts(groups, work, awake, usual) if rights.may_see(each.folder)]
    every = sort_agents(facts, halted=halted is not None)
    chosen = [each for each in every if _is_chosen(each, args)]
    return GatewayOverview(
        extent=_find_extent(rights, bool(groups)),
        panic=PanicState(halted.since, halted.reason) if halted is not None else None,
        findings=[],
        counts={str(name): count for name, count in count_standings(every).items()},
        total=len(chosen),
        homeless=_count_homeless(work) if rights.may_see(ROOT_FOLDER) else 0,
        agents=_read_details(db, chosen[args.start : args.start + args.limit], rights, now),
        alerts=_count_alerts(db, now) if rights.may_run(ListAlertsArgs.info, ROOT_FOLDER) else 0,
    )


def _count_alerts(db: Db, now: int) -> int:
    return sum(not each.is_muted(now) for each in alerts.list_open(db))


class _CallerRights:
    """The rights of the caller to see and do; each answer is kept."""

    def __init__(self, db: Db, caller: str) -> None:
        self._rights: OperationRights | None = read_operation_rights(db, caller) if caller != OPERATOR else None
        self._known: dict[str, bool] = {}

    def may_see(self, folder: str) -> bool:
        if self._rights is None:
            return True
        if folder not in self._known:
            self._known[folder] = self._rights.allows(f"op:{READ}", folder)
        return self._known[folder]

    def may_run(self, info: OperationInfo, folder: str) -> bool:
        return self._rights is None or may_run(self._rights, info, folder)


def _find_extent(rights: _CallerRights, has_groups: bool) -> OverviewExtent:
    if rights.may_see(ROOT_FOLDER):
        return OverviewExtent.ALL
    return OverviewExtent.SOME if has_groups else OverviewExtent.NOTHING


def _is_chosen(each: StandingAgent, args: ShowOverviewArgs) -> bool:
    facts = each.facts
    if each.standing not in PARTS[args.part]:
        return False
    if args.folder and facts.folder != args.folder and not facts.folder.startswith(f"{args.folder}/"):
        return False
    shown = f"{facts.folder} {facts.title} {facts.provider} {facts.agent_id}".casefold()
    return all(word in shown for word in args.words.casefold().split())


def _count_homeless(work: OpenWork) -> int:
    return sum(each.count for each in work.requests if not each.folder)


def _read_details(db: Db, shown: list[StandingAgent], rights: _CallerRights, now: int) -> list[AgentOverview]:
    last = overview.list_last_messages(db, [each.facts.session_id for each in shown if each.facts.session_id])
    asked = overview.list_asked(db, [each.facts.decides for each in shown if each.facts.decides])
    managed = [each.facts.agent_id for each in shown if each.facts.agent_id]
    costs = overview.sum_costs(db, managed, start_of_period(Period.DAY, now))
    return [
        make_agent_overview(
            each,
            last.get(each.facts.session_id),
            asked.get(each.facts.decides),
            costs.get(each.facts.agent_id, each.facts.spent),
            make_step(find_step(each.facts, each.standing, now), rights.may_run),
            make_step(find_retry(each.facts, each.standing), rights.may_run),
            list(list_waits(each.facts, asked.get(each.facts.decides), rights.may_see)),
        )
        for each in shown
    ]


def make_agent_overview(
    agent: StandingAgent,
    last: LastMessage | None,
    asked: ShownRequest | None,
    spent: int,
    step: OverviewStep | None,
    retry: OverviewStep | None,
    waits: list[OverviewWait],
) -> AgentOverview:
    facts = agent.facts
    return AgentOverview(
        id=facts.id,
        folder=facts.folder,
        title=facts.title,
        managed=bool(facts.agent_id),
        provider=facts.provider,
        state=agent.standing,
        since_at=find_since(facts, agent.standing),
        active_at=facts.active_at,
        last=_make_message(last) if last is not None else None,
        queued=facts.queued,
        sandboxes=facts.awake,
        spent=spent,
        budget=_make_budget(facts),
        requests=facts.requests,
        request=_make_request(asked) if asked is not None else None,
        waits=waits,
        failure=facts.failure.reason if facts.failure is not None else "",
        next=step,
        retry=retry,
    )


def _make_message(last: LastMessage) -> OverviewMessage:
    by = last.sender_name or last.sender if last.direction is Direction.IN else "agent"
    return OverviewMessage(last.id, last.direction, by, last.text, last.at)


def _make_budget(facts: AgentFacts) -> OverviewBudget | None:
    if facts.budget is None:
        return None
    scope = facts.budget.scope
    folder = scope.name if scope.kind is BudgetScopeKind.GROUP else ""
    return OverviewBudget(folder, Period(facts.budget.period), facts.budget.limit, facts.budget.spent)


def _make_request(asked: ShownRequest) -> OverviewRequest:
    return OverviewRequest(asked.id, asked.kind, asked.tool or asked.name, asked.why, asked.asked_at)


def list_waits(facts: AgentFacts, asked: ShownRequest | None, may_see: Callable[[str], bool]) -> Iterable[OverviewWait]:
    """A group that the caller may not see has no name."""
    if facts.requests and asked is not None:
        what = f"{asked.kind} {asked.tool or asked.name}".strip()
        yield OverviewWait(facts.id, A_PERSON, what, facts.requests, facts.requested_at)
    elif facts.held:
        what = "messages that wait for more money" if facts.held_for_money else "messages that are held"
        yield OverviewWait(facts.id, A_PERSON, what, facts.held, facts.queued_since)
    for errand in (*facts.given, *facts.received)[:MOST_WAITS]:
        who, whom = (each if may_see(each) else ANOTHER for each in (errand.caller_folder, errand.folder))
        yield OverviewWait(who, whom, "errand", errand.count, errand.oldest_at)


def make_step(found: StepAdvice | None, may: Callable[[OperationInfo, str], bool]) -> OverviewStep | None:
    """None as well if the caller may not do it."""
    if found is None:
        return None
    how = STEPS[found.step]
    if not may(how.operation, (found.target or ROOT_FOLDER) if how.scoped else ROOT_FOLDER):
        return None
    args: dict[str, Any] = {how.argument: int(found.target) if how.numbered else found.target} if how.argument else {}
    shown = found.target
    if found.step is SafeStep.RAISE and not found.target:
        args, shown = {"instance": True}, "--instance"
    return OverviewStep(found.step, how.operation.name, args, how.command.format(shown))


# Why one message has no answer.

PRESSED = frozenset({SafeStep.RETRY, SafeStep.WAKE, SafeStep.GO_ON})  # steps that say themselves what they do


@operation
async def explain_missing_answer(deps: OperationDeps, args: ExplainMissingArgs) -> WhyAnswer:
    return await deps.store.read(read_missing_answer, deps.caller, args.message, deps.clock.now(), within=READ_S)


def read_missing_answer(db: Db, caller: str, wanted: str, now: int) -> WhyAnswer:
    """A message that the caller may not ask about is as unknown as one that is not there."""
    rights = _CallerRights(db, caller)
    message = _find_message(db, wanted, rights)
    own = message is not None and caller != OPERATOR and message.sender in identities.list_names(db, caller)
    entries = inbox.list_for_message(db, message.id) if message is not None else []
    seen = [each for each in entries if own or rights.may_see(each.folder or ROOT_FOLDER)]
    if message is None or not seen:
        raise NotFound("message", wanted[:80], "it is not one that you wrote or may see")
    found = explain_missing(read_message_facts(db, message, seen, now), now)
    step = make_step(found.step, rights.may_run)
    return WhyAnswer(text=found.text, label=found.label if step else "", asks=_asks(db, found), next=step)


def _find_message(db: Db, wanted: str, rights: _CallerRights) -> Message | None:
    """By an id of a platform only for who may see everything: to look for one reads all messages."""
    if rights.may_see(ROOT_FOLDER):
        message_id = ledger.find_message(db, wanted)
        return messages.get(db, message_id) if message_id is not None else None
    return messages.get(db, int(wanted)) if wanted.isascii() and wanted.isdigit() and len(wanted) < 19 else None


def _asks(db: Db, found: MissingAnswer) -> bool:
    """Return True unless the label says all of it: a request for money is whole in it."""
    if found.step is None or found.step.step in PRESSED:
        return False
    asked = requests.get(db, found.step.target) if found.step.step is SafeStep.ANSWER else None
    return (
        asked is None or asked.kind is not RequestKind.BUDGET or asked.quorum > 1 or not found.label.startswith("Allow")
    )
