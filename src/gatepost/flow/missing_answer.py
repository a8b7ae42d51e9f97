"""Why a message has no answer: facts from the store, and one sentence with the step that helps. The decision is pure.

The sentence may be read by the author of the message. So it names no id and no command, no other person, and no agent
that only listens."""

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct

from gatepost.access.budgets import is_denial
from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND
from gatepost.flow.intake.message_outcome import render_reason
from gatepost.flow.overview import StepAdvice, find_tightest, group_budgets
from gatepost.flow.reports import SafeStep
from gatepost.messages.inbound import MessageKind, is_person
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import WATCHED, InboxEntry, InboxMode, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches, waiting_requests
from gatepost.store.rights.requests import RequestKind, RequestState
from gatepost.store.rights.switches import PANIC, Switch
from gatepost.store.sessions import groups, sessions

LONGEST_CAUSE = 200  # characters of why an agent failed
MOST_AHEAD = 99
ORDINALS = ("", "second", "third", "fourth", "fifth")
NOBODY = "No agent is set up for this chat."
LISTENS = "It was not addressed to an agent: the agent here answers only when it is mentioned."
_STRANGERS = ("unknown_sender_strict", "unknown_sender_request_approval", "sender_expired", "sender_withdrawn")
_SPENT = "budget_spent"


class MessageFacts(Struct, frozen=True, kw_only=True):
    """A message in one group, as it stands. `agent`: the group's name. `request`: what it, or the turn that works on
    it, waits for; `more`: the money that it asks for. `ahead`: messages of the same conversation before it. `budget`:
    the group whose budget a call did not fit into; '' for the gateway's. `is_open`: its conversation goes on."""

    message_id: int
    agent: str
    state: InboxState
    since: int
    mode: InboxMode = InboxMode.TRIGGER
    reason: str = ""
    next_at: int | None = None
    ahead: int = 0
    stop: Switch | None = None
    request_id: str = ""
    request: RequestKind | None = None
    more: str = ""
    budget: str = ""
    is_open: bool = True
    by_person: bool = True


class MissingAnswer(Struct, frozen=True):
    """`label`: of the button, '' if nothing helps but to wait."""

    text: str
    step: StepAdvice | None = None
    label: str = ""


class _Rank(IntEnum):
    """Choose whose reason is told, if several groups got a message."""

    DECISION, STOPPED, FAILED, WAITS, WORKS, REFUSED, QUIET, ANSWERED = range(8)


_RANKS = {
    InboxState.HELD: _Rank.DECISION,
    InboxState.FAILED: _Rank.FAILED,
    InboxState.RETRY: _Rank.WAITS,
    InboxState.QUEUED: _Rank.WAITS,
    InboxState.WORKING: _Rank.WORKS,
    InboxState.REFUSED: _Rank.REFUSED,
    InboxState.CANCELLED: _Rank.REFUSED,
    InboxState.ANSWERED: _Rank.ANSWERED,
}


def explain_missing(found: Iterable[MessageFacts], now: int) -> MissingAnswer:
    """Return why a message has no answer: of all the groups that got it, by the one that somebody can do most about."""
    facts = min(found, key=lambda each: (_get_rank(each), each.agent), default=None)
    return explain(facts, now) if facts is not None else MissingAnswer(NOBODY)


def _get_rank(facts: MessageFacts) -> _Rank:
    if facts.request_id:
        return _Rank.DECISION
    if facts.stop is not None and facts.state in (InboxState.QUEUED, InboxState.RETRY):
        return _Rank.STOPPED
    return _RANKS.get(facts.state, _Rank.QUIET)


def explain(facts: MessageFacts, now: int) -> MissingAnswer:
    agent = facts.agent
    if facts.request_id:
        return _explain_request(facts)
    match facts.state:
        case InboxState.QUEUED | InboxState.RETRY if facts.stop is not None:
            return _explain_stop(facts, facts.stop)
        case InboxState.QUEUED | InboxState.RETRY if facts.state is InboxState.QUEUED or facts.ahead:
            return MissingAnswer(_render_place(agent, facts.ahead))
        case InboxState.RETRY:
            wait = f" in {_render_span(facts.next_at - now)}" if facts.next_at and facts.next_at > now else " soon"
            return _show_cause(f"{agent} could not do it{_render_cause(facts.reason)}. It is tried again{wait}.", facts)
        case InboxState.WORKING:
            return MissingAnswer(f"{agent} has been at work on it for {_render_span(now - facts.since)}.")
        case InboxState.FAILED:
            return _explain_failure(facts, now)
        case InboxState.REFUSED:
            return _explain_refusal(facts)
        case InboxState.CANCELLED:
            return MissingAnswer("It was stopped before it was answered.")
        case InboxState.HELD:
            return MissingAnswer("It waits for a decision.")
        case InboxState.SILENT:
            return MissingAnswer(f"{agent} read it, and chose to say nothing.")
        case InboxState.OBSERVED:
            return MissingAnswer(LISTENS)
    return MissingAnswer(f"{agent} has answered it.")


def _explain_request(facts: MessageFacts) -> MissingAnswer:
    agent, step = facts.agent, StepAdvice(SafeStep.ANSWER, facts.request_id)
    match facts.request:
        case RequestKind.BUDGET:
            label = f"Allow {facts.more} more" if facts.more else "Decide"
            return MissingAnswer(f"{agent} has no money left for it. It waits until somebody allows more.", step, label)
        case RequestKind.PRICE:
            return MissingAnswer(
                f"Nobody has said yet what the model of {agent} costs. It waits for that.", step, "Decide"
            )
        case RequestKind.SENDER:
            text = f"Who wrote it is not let in to {agent} yet. Whoever decides about that was asked."
            return MissingAnswer(text, step, "Let in")
        case RequestKind.ROOM:
            text = "No agent answers in this chat yet. Whoever decides about that was asked."
            return MissingAnswer(text, step, "Decide")
    if facts.state is InboxState.HELD:
        return MissingAnswer("It waits for a decision.", step, "Decide")
    return MissingAnswer(f"{agent} waits for a decision before it goes on.", step, "Decide")


def _explain_stop(facts: MessageFacts, stop: Switch) -> MissingAnswer:
    if stop.name == PANIC:
        return MissingAnswer("Everything is stopped here. It is kept.", StepAdvice(SafeStep.GO_ON, ""), "Go on")
    return MissingAnswer(f"{facts.agent} is at rest. It is kept.", StepAdvice(SafeStep.WAKE, stop.folder), "Wake it")


def _render_place(agent: str, ahead: int) -> str:
    if not ahead:
        return f"It is next: {agent} begins with it as soon as there is a place."
    place = ORDINALS[ahead] if ahead < len(ORDINALS) else f"number {ahead + 1}"
    return f"It is {place} in line: {agent} is at what was written before."


def _explain_failure(facts: MessageFacts, now: int) -> MissingAnswer:
    agent, age = facts.agent, _render_span(now - facts.since)
    if is_denial(facts.reason):
        step = StepAdvice(SafeStep.RAISE, facts.budget)
        return MissingAnswer(f"There was no money left for it, {age} ago.", step, "Raise the limit")
    text = f"{agent} failed {age} ago{_render_cause(facts.reason)}."
    if not (facts.is_open and facts.by_person and facts.mode is not InboxMode.TASK):
        return _show_cause(text, facts)
    return MissingAnswer(text, StepAdvice(SafeStep.RETRY, str(facts.message_id)), "Try again")


def _explain_refusal(facts: MessageFacts) -> MissingAnswer:
    if facts.reason == _SPENT:
        step = StepAdvice(SafeStep.RAISE, facts.budget)
        return MissingAnswer(f"{facts.agent} had no money left for it.", step, "Raise the limit")
    text = f"{_keep_plain(render_reason(facts.reason)).rstrip('.') or 'It was not let in'}."
    return _show_cause(text, facts) if facts.reason in _STRANGERS else MissingAnswer(text)


def _show_cause(text: str, facts: MessageFacts) -> MissingAnswer:
    return MissingAnswer(text, StepAdvice(SafeStep.TRACE, str(facts.message_id)), "See what happened")


def _render_cause(reason: str) -> str:
    """Return the cause behind a colon, in one sentence without its end."""
    cause = _keep_plain(reason.removeprefix("interrupted: ")).rstrip(".")
    return f": {cause}" if cause else ""


def _keep_plain(reason: str) -> str:
    """Return the first line without what is for operators: a sentence with a command."""
    line = reason.strip().partition("\n")[0]
    while "`" in line:
        before = line[: line.index("`")]
        end = max(before.rfind(". "), before.rfind("; "), before.rfind(" ("))
        line = before[:end] if end > 0 else ""
    return line[:LONGEST_CAUSE].strip(" ;,")


def _render_span(age: int) -> str:
    for size, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if age >= size:
            return f"{age // size} {unit}{'s' if age >= 2 * size else ''}"
    seconds = max(age // SECOND, 1)
    return f"{seconds} second{'s' if seconds > 1 else ''}"


# What the store says of one message.


def read_message_facts(db: Db, message: Message, entries: Iterable[InboxEntry], now: int) -> list[MessageFacts]:
    """Leave out groups that only watch another one: they are nobody's business in this room."""
    seen = [each for each in entries if not each.reason.startswith(WATCHED)]
    return [_read_entry(db, message, each, now) for each in seen]


def _read_entry(db: Db, message: Message, entry: InboxEntry, now: int) -> MessageFacts:
    group = groups.get(db, entry.folder) if entry.folder else None
    session = sessions.get(db, entry.session_id) if entry.session_id else None
    waits = entry.next_at is not None
    asked = _find_request(db, entry) if waits else None
    fits_not = entry.reason == _SPENT or is_denial(entry.reason)
    return MessageFacts(
        message_id=message.id,
        agent=(group.name if group is not None else "") or entry.folder or "The agent",
        state=entry.state,
        since=entry.updated_at,
        mode=entry.mode,
        reason=entry.reason,
        next_at=entry.next_at,
        ahead=inbox.count_ahead(db, entry, MOST_AHEAD) if waits else 0,
        stop=switches.find_stop(db, entry.folder) if waits and entry.folder else None,
        request_id=asked.id if asked is not None else "",
        request=asked.kind if asked is not None else None,
        more=str(asked.input.get("more", "")) if asked is not None and asked.kind is RequestKind.BUDGET else "",
        budget=_find_budget(db, entry.folder, now) if fits_not and entry.folder else "",
        is_open=session is not None and session.closed_at is None,
        by_person=message.kind is MessageKind.CHAT and is_person(message.sender),
    )


def _find_request(db: Db, entry: InboxEntry) -> requests.Request | None:
    """Return what the row itself waits for, or the turn that has it."""
    request_id = entry.reason if entry.state is InboxState.HELD else ""
    if not request_id and entry.turn_id:
        request_id = waiting_requests.find_pending(db, entry.turn_id)
    found = requests.get(db, request_id) if request_id else None
    return found if found is not None and found.state is RequestState.PENDING else None


def _find_budget(db: Db, folder: str, now: int) -> str:
    tightest = find_tightest(folder, group_budgets(budgets.list_applicable(db, folder, "", now)))
    return tightest.scope.name if tightest is not None and tightest.scope.kind is BudgetScopeKind.GROUP else ""
