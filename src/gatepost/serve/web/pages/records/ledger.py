"""The ledger: every message, where it is, and what holds it up; and the whole life of one."""

from urllib.parse import urlencode

from gatepost.core.clock import iso
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.ledger import (
    LEDGER_STATES,
    CheckLedgerArgs,
    ListLedgerArgs,
    MessageTraceView,
    TraceMessageArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table, make_texts
from gatepost.serve.web.dashboard.view import (
    Action,
    EmptyState,
    Filter,
    Note,
    PageView,
    TimelineBlock,
    TimelineMoment,
    Tone,
)
from gatepost.serve.web.message_spans import make_spans
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectState, OutboxEffect
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine, LedgerStatus

LIMIT = 100
CHECKED = 10_000  # messages: each view of the page costs the same, however many there are
CHECK = Action(label="Check everything", operation="ledger.check", asks=True)
LONGEST_WORDS, LONGEST_NUMBER = 200, 19  # characters
AGAIN = frozenset({InboxState.FAILED, EffectState.FAILED, EffectState.UNCERTAIN})
LINE = make_columns(LedgerLine, {"id": link("id", "Message", "/ledger/{id}")}, details=True)
MESSAGE = make_columns(Message, {"folder": link("folder", "Group", "/groups/{folder}")})
EFFECT, CALL = make_columns(OutboxEffect), make_columns(ModelCall)


@page("/ledger", "Ledger", Section.CONVERSATIONS, "ledger.list", order=40)
async def show_ledger(request: PageRequest) -> PageView:
    state, words, before = (request.query.get(name, "") for name in ("state", "q", "before"))
    older_than = int(before) if before.isascii() and before.isdigit() and len(before) < LONGEST_NUMBER else 0
    wanted = ListLedgerArgs(state=state, words=words[:LONGEST_WORDS], before=older_than, limit=LIMIT)
    found = await request.ask(wanted)
    check = await request.ask(CheckLedgerArgs(newest=CHECKED))
    kept = {name: value for name, value in (("state", state), ("q", words)) if value}
    more = f"?{urlencode({**kept, 'before': found[0].id})}" if len(found) == LIMIT else ""
    choices = tuple((each, each or "All") for each in ("", *LEDGER_STATES))
    return PageView(
        lead="Every message that came or went, newest first. Nothing leaves this list without a reason.",
        blocks=[
            make_note(check),
            make_table(found[::-1], LINE, get_empty(state, words), actions=list_actions, more=more),
        ],
        actions=(CHECK,),
        filters=(Filter(name="state", label="State", choices=choices, chosen=state),),
        searches=True,
    )


def make_note(check: LedgerStatus) -> Note:
    whole = not check.unaccounted and not check.overdue
    return Note(
        text=f"Among the newest {CHECKED:,} messages: {check.unaccounted} unaccounted, {check.in_flight} on their"
        f" way, {check.overdue} overdue.",
        tone=Tone.GOOD if whole else Tone.BAD,
    )


def get_empty(state: str, words: str) -> EmptyState:
    if words:
        return EmptyState(text=f"No message has “{words}”.")
    return EmptyState(text="No message is in this state." if state else "Nobody has said anything yet.")


def list_actions(line: LedgerLine) -> tuple[Action, ...]:
    return _list_retries(line, line.changed_at) if line.state in AGAIN else ()


def _list_retries(message: LedgerLine | Message, failed_at: int) -> tuple[Action, ...]:
    label = "Give again" if message.direction == Direction.IN else "Send again"
    given = {"message": message.id, "changed_at": iso(failed_at)}  # a second click means the same failure
    return (Action(label=label, operation="ledger.retry", args=given, asks=True, tone=Tone.WARN),)


@page("/ledger/{id}", "Message", Section.CONVERSATIONS, "ledger.trace")
async def show_message(request: PageRequest) -> PageView:
    trace = await request.ask(TraceMessageArgs(message=request.params["id"]))
    message = trace.message
    entries = [
        TimelineMoment(at=iso(each.at), what=each.what, who=f"+{each.offset_ms:.0f} ms", text=each.detail)
        for each in trace.moments
    ]
    effects = make_table(
        trace.effects,
        EFFECT,
        EmptyState(text="Nothing was sent because of it."),
        title="What was sent",
    )
    calls = make_table(
        trace.model_calls,
        CALL,
        EmptyState(text="No model was called."),
        title="Model calls",
    )
    return PageView(
        title=f"Message {message.id}",
        actions=list_trace_actions(trace),
        blocks=[
            make_facts(message, MESSAGE),
            *make_texts(Message, message),
            *([spans] if (spans := make_spans(trace)) is not None else []),
            TimelineBlock(title="Its life", entries=entries, empty="Nothing is known of it."),
            effects,
            calls,
        ],
    )


def list_trace_actions(trace: MessageTraceView) -> tuple[Action, ...]:
    message = trace.message
    own = [each for each in trace.effects if each.message_id == message.id]
    failed = [each.updated_at for each in trace.entries if each.state in AGAIN]
    failed += [each.updated_at for each in own if each.state in AGAIN]
    return _list_retries(message, failed[0]) if failed else ()
