"""/status and /usage: what the agent of this chat is doing, and what it costs."""

from gatepost.core.clock import MINUTE, SECOND, Period, iso, start_of_period
from gatepost.core.money import render_usd
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.commands.contract import CommandCall, chat_command
from gatepost.flow.intake.slash_commands import CommandRight
from gatepost.flow.overview import StandingAgent, find_since, list_open_facts, read_open_work, sort_agents
from gatepost.flow.reports import BUSY, NEEDS_SOMEBODY, AgentStatus
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.flow.sessions.session_stop import works_for
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScopeKind, BudgetStatus, CapSpan
from gatepost.store.rights import switches, waiting_requests
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import Task
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import TurnState

OWN = " (of this conversation)"
USUAL = "the agent's own choice"
SEES = "op:overview.read"
MOST_ELSEWHERE = 5
NEEDS = {
    AgentStatus.WAITING: "waits for a person",
    AgentStatus.OVER_BUDGET: "has spent its budget",
    AgentStatus.FAILING: "fails",
}


@chat_command(
    "status",
    right=CommandRight.MEMBER,
    help="the agent, its provider and model, what runs now, and what waits; in a direct chat also who needs somebody"
    " elsewhere",
)
def answer_status(call: CommandCall) -> IntakeResult:
    here = {target.folder: session for target, session in call.list_sessions()}
    parts = [_render_status(call, target.folder, here.get(target.folder)) for target in call.targets]
    halted = switches.get(call.context.db, switches.PANIC)
    if elsewhere := _render_elsewhere(call, halted=halted is not None):
        parts.append(elsewhere)
    if halted is not None:
        parts.append(f"Everything is stopped by the operator: {halted.reason or 'no reason was given'}.")
    return call.answer("\n\n".join(parts))


def _render_elsewhere(call: CommandCall, *, halted: bool) -> str:
    """The overview in short, of the other agents that the sender may see. It is for the sender alone, so it is said in
    a direct chat. Most people have no such right, and then nothing is counted."""
    db, now = call.context.db, call.context.now
    if not call.context.arrival.inbound.direct:
        return ""
    rights = read_operation_rights(db, call.names[0])
    if not rights.has_any:
        return ""
    here = {target.folder for target in call.targets}
    facts = [each for each in list_open_facts(read_open_work(db, now)) if each.folder not in here]
    seen = [each for each in sort_agents(facts, halted=halted) if rights.allows(SEES, each.facts.folder)]
    needy = [each for each in seen if each.standing in NEEDS_SOMEBODY]
    busy = [each for each in seen if each.standing in BUSY]
    if not needy and not busy:
        return ""
    more = [f"… and {len(needy) - MOST_ELSEWHERE} more"] if len(needy) > MOST_ELSEWHERE else []
    lines = [_render_agent(each, now) for each in needy[:MOST_ELSEWHERE]]
    return "\n".join([f"Elsewhere: {len(needy)} need somebody, {len(busy)} have work", *lines, *more])


def _render_agent(agent: StandingAgent, now: int) -> str:
    facts, since = agent.facts, find_since(agent.facts, agent.standing)
    age = f", {_render_age(now - since)}" if since is not None else ""
    name = f"{facts.title or facts.agent_id} ({facts.folder})" if facts.agent_id else facts.folder
    return f"- {name}: {NEEDS[agent.standing]}{age}"


def _render_status(call: CommandCall, folder: str, session: Session | None) -> str:
    db, group = call.context.db, call.load_group(folder, session)
    own = session is not None and session.provider != ""
    model = session.model if session is not None and session.model else ""
    lines = [
        f"Agent: {group.name or folder} ({folder})",
        f"Provider: {group.provider}{OWN if own else ''}",
        f"Model: {model or group.model or USUAL}{OWN if model else ''}",
    ]
    if session is None:
        return "\n".join([*lines, "Now: nothing; this conversation has not begun"])
    lines += [f"Now: {_render_turn(call, session)}"]
    if waiting := inbox.count_waiting(db, session.id):
        lines.append(f"Waiting messages: {waiting}")
    if asked := waiting_requests.count_waiting(db, session.id):
        lines.append(f"Requests that wait for a person: {asked}")
    if task := tasks.find_next_in_room(db, folder, session.instance, session.address):
        lines.append(f"Next scheduled task: {_render_moment(task)}")
    if sessions.get_notes(db, session.id).pinned:
        lines.append("Pinned: a note; /pin shows it")
    return "\n".join(lines)


def _render_moment(task: Task) -> str:
    return f"{(iso(task.next_at, task.zone) or '')[:16].replace('T', ' ')} {task.zone}"


def _render_turn(call: CommandCall, session: Session) -> str:
    db, now = call.context.db, call.context.now
    turn = turns.find_open(db, session.id)
    if turn is None:
        return "nothing"
    whom = "you" if works_for(db, turn, call.names) else "somebody else"
    if turn.state is TurnState.INTERRUPTED:
        return f"it will go on with what it was doing for {whom}, which was interrupted"
    return f"working for {whom} since {_render_age(now - turn.started_at)}"


def _render_age(age: int) -> str:
    return f"{age // MINUTE} min" if age >= 2 * MINUTE else f"{max(age, 0) // SECOND} s"


@chat_command("usage", right=CommandRight.MEMBER, help="what this conversation has cost, and what is left")
def answer_usage(call: CommandCall) -> IntakeResult:
    db, now = call.context.db, call.context.now
    today, month = start_of_period(Period.DAY, now), start_of_period(Period.MONTH, now)
    lines: list[str] = []
    capped = False
    for _, session in call.list_sessions():
        spent_today, spent = costs.sum_since(db, session.id, today, month)
        name = (
            f"{call.get_agent_name(session.folder)}, this conversation"
            if len(call.targets) > 1
            else "This conversation"
        )
        cap = budgets.find_session_cap(db, session.id)
        capped = capped or cap is not None
        left = f", {render_usd(cap.left)} left of {render_usd(cap.limit)} until /new" if cap is not None else ""
        lines.append(f"{name}: {render_usd(spent_today)} today, {render_usd(spent)} this month{left}")
    lines = lines or ["This conversation has cost nothing yet."]
    found = [each for target in call.targets for each in budgets.list_applicable(db, target.folder, call.names[0], now)]
    shown = [_render_budget(each) for each in dict.fromkeys(found)]
    begun = {session.folder for _, session in call.list_sessions()}
    shown += [line for target in call.targets for line in _list_caps(call, target.folder, begun=target.folder in begun)]
    if not shown and not capped:
        shown = ["There is no budget: nothing limits what it spends."]
    return call.answer("\n".join([*lines, *shown]))


def _list_caps(call: CommandCall, folder: str, *, begun: bool) -> list[str]:
    """The limits of single answers and runs; of a conversation that has begun, its own line says it."""
    name = f" ({call.get_agent_name(folder)})" if len(call.targets) > 1 else ""
    caps = {span: render_usd(cap.micro) for span, cap in budgets.list_caps(call.context.db, folder).items()}
    answer, run, conversation = (caps.get(span) for span in CapSpan)
    lines = [f"Each answer{name}: at most {answer}"] if answer else []
    lines += [f"Each run of a task{name}: at most {run}"] if run else []
    return lines + ([f"Each conversation{name}: at most {conversation}"] if conversation and not begun else [])


def _render_budget(status: BudgetStatus) -> str:
    scope = status.scope
    whose = {BudgetScopeKind.INSTANCE: "Whole gateway", BudgetScopeKind.USER: "You"}.get(scope.kind, scope.name)
    period = "today" if status.period is Period.DAY else "this month"
    return (
        f"{whose}, {period}: {render_usd(status.spent)} of {render_usd(status.limit)} spent,"
        f" {render_usd(status.left)} left"
    )
