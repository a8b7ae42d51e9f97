"""The overview: is everything well, who needs somebody, and what is the next step."""

from collections.abc import Sequence
from urllib.parse import urlencode

from gatepost.core.clock import iso
from gatepost.core.languages.catalogue import fill_text, translate_exact
from gatepost.core.money import render_about_usd
from gatepost.flow.reports import BUSY, IDLE, NEEDS_SOMEBODY, AgentStatus, SafeStep
from gatepost.flow.requests.choices import ACTS
from gatepost.serve.control.arguments.overview import (
    LONGEST_SEARCH,
    AgentOverview,
    GatewayOverview,
    OverviewBudget,
    OverviewExtent,
    OverviewPart,
    OverviewRequest,
    OverviewStep,
    OverviewWait,
    ShowOverviewArgs,
)
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.renderer import render_span
from gatepost.serve.web.dashboard.view import (
    Action,
    AgentCard,
    AgentCards,
    Badge,
    EmptyState,
    Fact,
    Filter,
    Link,
    Money,
    Note,
    PageView,
    Share,
    Tone,
)
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights.requests import RequestKind

LIMIT = 40
MOST_NOTES = 4  # findings that are shown at once
LONGEST_SHOWN = 240  # characters of a text of anybody
GROUP_PAGE, AGENT_PAGE, REQUESTS_PAGE = "/groups/{folder}", "/agents/{id}", "/requests"
# Steps that only show something lead to the page that shows more than an operation's answer.
STEP_PAGES = {SafeStep.TRACE: ("/ledger/{id}", "message"), SafeStep.INSPECT: (AGENT_PAGE, "id")}
# The page on which a finding of this subject can be looked at and mended.
SUBJECT_PAGES = {
    "channels": "/channels",
    "outbox": "/ledger",
    "ledger": "/ledger",
    "requests": "/requests",
    "tasks": "/tasks",
}
STATES = {
    AgentStatus.WAITING: ("Waiting", Tone.WARN),
    AgentStatus.OVER_BUDGET: ("Over budget", Tone.BAD),
    AgentStatus.FAILING: ("Failing", Tone.BAD),
    AgentStatus.STOPPED: ("Stopped", Tone.BAD),
    AgentStatus.WORKING: ("Working", Tone.GOOD),
    AgentStatus.QUEUED: ("Queued", Tone.PLAIN),
    AgentStatus.RESTING: ("At rest", Tone.QUIET),
    AgentStatus.READY: ("Ready", Tone.QUIET),
    AgentStatus.ASLEEP: ("Asleep", Tone.QUIET),
}
SINCE = frozenset(
    {AgentStatus.WAITING, AgentStatus.FAILING, AgentStatus.RESTING, *BUSY}
)  # states that say for how long
PARTS = {
    OverviewPart.ATTENTION: ("Need somebody", NEEDS_SOMEBODY),
    OverviewPart.BUSY: ("Have work", BUSY),
    OverviewPart.IDLE: ("Nothing to do", IDLE),
}
STEPS = {
    SafeStep.ANSWER: ("Decide", Tone.GOOD),
    SafeStep.RAISE: ("Raise the budget", Tone.PLAIN),
    SafeStep.TRACE: ("Look at the message", Tone.PLAIN),
    SafeStep.RETRY: ("Try again", Tone.GOOD),
    SafeStep.WAKE: ("Wake it", Tone.GOOD),
    SafeStep.GO_ON: ("Go on", Tone.GOOD),
    SafeStep.INSPECT: ("Look at the agent", Tone.PLAIN),
    SafeStep.STOP: ("Stop it", Tone.BAD),
    SafeStep.CONNECT: ("Connect an agent", Tone.PLAIN),
}
LOOK = "Look"
GO_ON = Action(label="Go on", operation="panic.off", asks=True)
NOTHING = "Nothing is shared with you here yet. An owner of this gateway can let you see an agent, under People."
MOST_OWNERS = 3  # that are named to whoever may see nothing


@page("/", "Overview", Section.AGENTS, "overview.show", order=1)
async def show_overview(request: PageRequest) -> PageView:
    part, words, start = (request.query.get(name, "") for name in ("part", "q", "start"))
    part = part if part in PARTS else ""
    place = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 0
    wanted = ShowOverviewArgs(
        part=OverviewPart(part or OverviewPart.ALL), words=words[:LONGEST_SEARCH], start=place, limit=LIMIT
    )
    found = await request.ask(wanted)
    if found.extent is OverviewExtent.NOTHING:
        return make_guest_view(await request.operation_deps.store.read(_list_owners))
    return make_view(found, request.now, {"part": part, "q": words}, place)


def _list_owners(db: Db) -> list[str]:
    found = (users.get(db, each) for each in users.list_owners(db)[:MOST_OWNERS])
    return [each.name for each in found if each is not None and each.name]


def make_guest_view(owners: Sequence[str]) -> PageView:
    """`owners`: the names of those whom a guest can ask."""
    ask = f" Ask {' or '.join(owners)}." if owners else ""
    return PageView(
        lead="Your own conversations are in the chat.",
        blocks=[AgentCards(cards=[], empty=EmptyState(text=f"{NOTHING}{ask}"))],
    )


def make_view(found: GatewayOverview, now: int, query: dict[str, str], start: int) -> PageView:
    after = start + len(found.agents)
    more = f"?{urlencode({**_drop_empty(query), 'start': after})}" if after < found.total else ""
    cards = AgentCards(cards=[make_card(each, now) for each in found.agents], empty=_get_empty(query), more=more)
    return PageView(
        lead=render_summary(
            found.counts, len(found.findings) + bool(found.panic) + bool(found.homeless) + found.alerts
        ),
        banner=tuple(list_notes(found, now)),
        blocks=[cards],
        filters=(_make_filter(found.counts, query.get("part", "")),),
        searches=True,
    )


def _drop_empty(query: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}


def _get_empty(query: dict[str, str]) -> EmptyState:
    if any(query.values()):
        return EmptyState(text="No agent is like that. Choose all, or search for something else.")
    return EmptyState(text="There is no agent yet in the groups that you may see.")  # there is one in every gateway


def render_summary(counts: dict[str, int], notes: int) -> str:
    """One sentence that answers: is everything well?"""
    needy, busy, idle = (sum(counts.get(each, 0) for each in states) for _, states in PARTS.values())
    parts = [
        fill_text(one if number == 1 else many, number=number)
        for number, one, many in (
            (needy, "{Number} agent needs somebody", "{Number} agents need somebody"),
            (busy, "{Number} agent has work", "{Number} agents have work"),
            (idle, "{Number} agent has nothing to do", "{Number} agents have nothing to do"),
        )
        if number
    ]
    rest = ", ".join(parts)
    if needy or notes:
        return f"{rest}." if rest else ""
    return fill_text("All is well: {Rest}.", rest=rest) if rest else translate_exact("All is well.")


def _make_filter(counts: dict[str, int], chosen: str) -> Filter:
    choices = [("", f"All ({sum(counts.values())})")]
    for name, (label, states) in PARTS.items():
        choices.append((name, f"{label} ({sum(counts.get(each, 0) for each in states)})"))
    return Filter(name="part", label="Show", choices=tuple(choices), chosen=chosen)


# The banner.


def list_notes(found: GatewayOverview, now: int) -> list[Note]:
    notes: list[Note] = []
    if panic := found.panic:
        why = f" The operator's words: {_cut(panic.reason)}" if panic.reason else ""
        text = f"Everything is stopped, since {render_span(panic.since_at, now)}. Messages are kept.{why}"
        notes.append(Note(text=text, tone=Tone.BAD, action=GO_ON))
    if found.alerts:
        notes.append(_make_alerts(found.alerts))
    if found.homeless:
        notes.append(_make_homeless(found.homeless))
    notes += [_make_note(each) for each in found.findings[:MOST_NOTES]]
    if (left := len(found.findings) - MOST_NOTES) > 0:
        notes.append(Note(text=f"{left} more finding{'' if left == 1 else 's'}.", hint="System lists them"))
    return notes


def _make_alerts(count: int) -> Note:
    text = f"{count} thing{' is' if count == 1 else 's are'} not well. Alerts says who was told."
    return Note(text=text, tone=Tone.BAD, link=Link("See alerts", render_path("/alerts")))


def _make_homeless(count: int) -> Note:
    text = f"{count} requests wait that are about no agent, such as a new room."
    if count == 1:
        text = "One request waits that is about no agent, such as a new room."
    return Note(text=text, tone=Tone.WARN, link=Link(LOOK, render_path(REQUESTS_PAGE)))


def _make_note(finding: Finding) -> Note:
    text = f"{finding.subject.capitalize()}: {_cut(finding.text)}"
    hint = _cut(finding.remedy.replace("`", ""))
    page_path = SUBJECT_PAGES.get(finding.subject)
    link = Link(LOOK, render_path(page_path)) if page_path else None
    return Note(text=text, hint=hint, tone=Tone.BAD if finding.level == "fail" else Tone.WARN, link=link)


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_SHOWN else f"{flat[:LONGEST_SHOWN]}…"


# A card.


def make_card(agent: AgentOverview, now: int) -> AgentCard:
    last, step = agent.last, agent.next
    pressed = agent.retry if step is None or _get_link(step) else step
    return AgentCard(
        key=agent.id,
        title=_make_title(agent),
        href=_get_href(agent),
        state=make_badge(agent, now),
        facts=list_facts(agent),
        by=_cut(last.by)[:60] if last else "",
        last=_cut(last.text) if last else "",
        last_at=iso(last.at) if last else None,
        waits=" · ".join(render_wait(each, agent, now) for each in agent.waits),
        trouble=_cut(agent.failure) if agent.state == AgentStatus.FAILING else "",
        action=_make_action(pressed) if pressed else None,
        link=_get_link(step) if step else None,
    )


def _make_title(agent: AgentOverview) -> str:
    """Return the name of an agent. A group that has no other name than its folder's last part goes by the whole folder:
    several may end alike."""
    title, folder = _cut(agent.title), agent.folder
    return folder if not title or (not agent.managed and title == folder.rpartition("/")[2]) else title


def _get_href(agent: AgentOverview) -> str:
    if agent.managed:
        return render_path(AGENT_PAGE, id=agent.id)
    return render_path(GROUP_PAGE, folder=agent.folder)


def make_badge(agent: AgentOverview, now: int) -> Badge:
    text, tone = STATES[agent.state]
    if agent.state in SINCE and agent.since_at:
        text = f"{text}, {render_span(agent.since_at, now)}"
    return Badge(text, tone)


def list_facts(agent: AgentOverview) -> list[Fact]:
    sandboxes, budget = agent.sandboxes, agent.budget
    facts = [
        Fact("Agent", f"{agent.provider}, managed" if agent.managed else agent.provider),
        Fact("Queue", agent.queued or "empty"),
        Fact("Sandbox", "asleep" if not sandboxes else "awake" if sandboxes == 1 else f"{sandboxes} awake"),
        Fact("Today", Money(agent.spent)),
    ]
    if budget is not None:
        facts.append(Fact("Budget", Share(budget.spent, budget.limit, render_budget(budget, agent.folder))))
    return facts


def render_budget(budget: OverviewBudget, folder: str) -> str:
    whose = "" if budget.folder == folder else f", {budget.folder or 'the gateway'}"
    return f"{render_about_usd(budget.spent)} of {render_about_usd(budget.limit)} a {budget.period}{whose}"


def render_wait(wait: OverviewWait, agent: AgentOverview, now: int) -> str:
    """As seen from the agent."""
    since = f", {render_span(wait.since_at, now)}" if wait.since_at else ""
    many = f" and {wait.count - 1} more" if wait.count > 1 else ""
    request = agent.request
    if wait.who == agent.id and request is not None and agent.waits[0] is wait:
        why = f" ({_cut(request.why)})" if request.why and "`" not in request.why else ""
        return f"{_render_request(request)}{why}{many}{since}"
    if wait.who == agent.folder:
        return f"Waits for {wait.whom}: {_cut(wait.what)}{many}{since}"
    return f"{wait.who} waits for it: {_cut(wait.what)}{many}{since}"


def _render_request(request: OverviewRequest) -> str:
    match request.kind:
        case RequestKind.CALL | RequestKind.TOOL:
            plain = _cut(request.what).replace("_", " ")
            return f"Asks to {ACTS.get(request.what) or f'use {plain}'}"
        case RequestKind.SENDER:
            return "Somebody wrote who is not let in"
        case RequestKind.BUDGET:
            return "Needs more money"
        case RequestKind.PRICE:
            return "Needs to know what its model costs"
        case RequestKind.HOST:
            return f"Asks to reach {_cut(request.what)}"
        case RequestKind.QUESTION:
            return "Has a question"
    return "Asks for a decision"


def _get_link(step: OverviewStep) -> Link | None:
    if step.step not in STEP_PAGES:
        return None
    path, name = STEP_PAGES[step.step]
    return Link(STEPS[step.step][0], render_path(path, id=step.args[name]))


def _make_action(step: OverviewStep) -> Action:
    label, tone = STEPS[step.step]
    return Action(label=label, operation=step.operation, args=step.args, asks=True, tone=tone)
