"""The ledger: every message, where it is, and what holds it up; the whole life of one; and those that were not taken
in.

Retention stands beside it: what is kept, for how long, how much there is, and removing what is over age now.
"""

from collections.abc import Iterable, Iterator
from urllib.parse import urlencode

from gatepost.core.clock import iso
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.ledger import (
    LEDGER_STATES,
    CheckLedgerArgs,
    KeptFiles,
    KeptRows,
    ListDroppedArgs,
    ListLedgerArgs,
    MessageTraceView,
    ShowRetentionArgs,
    StoreSize,
    TraceMessageArgs,
    TraceMoment,
    render_size,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table, make_texts, shorten
from gatepost.serve.web.dashboard.view import (
    Action,
    EmptyState,
    Fact,
    Facts,
    Filter,
    Note,
    PageView,
    Span,
    SpanBlock,
    TimelineBlock,
    TimelineMoment,
    Tone,
)
from gatepost.store.messages.dropped import DroppedCount, DroppedMessage
from gatepost.store.messages.inbox import END as INBOX_END
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import END as OUTBOX_END
from gatepost.store.messages.outbox import EffectState, OutboxEffect
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine, LedgerStatus

# The life of a message as bars.

MOST_SPANS = 60
MILLISECOND = 1000  # of a time
GIVEN = ("given", "working")  # steps by which an agent has it
CALL_MOMENT, TURN = "call ", "turn "  # how moments of a turn begin
_BAD = (EffectState.FAILED, EffectState.UNCERTAIN)


def make_spans(trace: MessageTraceView) -> SpanBlock | None:
    """None: only one thing is known of it."""
    found = [*_list_working(trace.moments), *_list_model_calls(trace), *_list_sending(trace.moments)]
    found.sort(key=lambda each: (each.start, each.end))
    total = max((each.end for each in found), default=0.0)
    return SpanBlock(title="Where the time went", spans=found[:MOST_SPANS], total=total) if total > 0 else None


def render_span(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _make_span(label: str, start: float, end: float, tone: Tone = Tone.PLAIN) -> Span:
    start = max(start, 0.0)
    shown = render_span(end - start) if end > start else f"at {render_span(start)}"
    return Span(label=shorten(label, 60), start=start, end=max(end, start), shown=shown, tone=tone)


def _list_working(moments: Iterable[TraceMoment]) -> Iterator[Span]:
    """The wait before each turn, the turn, and the tools that it called."""
    waits: float | None = None
    works: float | None = None
    for each in moments:
        what, at = each.what, each.offset_ms
        if what == "queued":
            waits = at
        elif what in GIVEN and works is None:
            yield _make_span("Waits for its agent", waits or 0.0, at, Tone.QUIET)
            works = at
        elif what.startswith(CALL_MOMENT):
            yield _make_span(f"Tool {what.removeprefix(CALL_MOMENT)}", at, at, Tone.WARN)
        elif works is not None and (what.startswith(TURN) or what in INBOX_END):
            yield _make_span("Agent works", works, at, Tone.BAD if what.endswith("failed") else Tone.PLAIN)
            works = None


def _list_model_calls(trace: MessageTraceView) -> Iterator[Span]:
    for each in trace.model_calls:
        at = (each.at - trace.message.accepted_at) / MILLISECOND
        yield _make_span(f"Model {each.model}", at, at, Tone.WARN)


def _list_sending(moments: Iterable[TraceMoment]) -> Iterator[Span]:
    """A room's rows go out one after another, so the first that waits is the first that is sent."""
    waiting: list[float] = []
    sending: list[float] = []
    for each in moments:
        step, at = each.what.rpartition(" ")[2], each.offset_ms
        if each.what.startswith((CALL_MOMENT, TURN)):
            continue
        if step == EffectState.PENDING:
            waiting.append(at)
        elif step == EffectState.SENDING:
            if waiting:
                yield _make_span("Waits to be sent", waiting.pop(0), at, Tone.QUIET)
            sending.append(at)
        elif sending and (step in OUTBOX_END or step == "retry"):
            yield _make_span("Is sent", sending.pop(0), at, Tone.BAD if step in _BAD else Tone.PLAIN)


LIMIT = 100
CHECKED = 10_000  # messages: each view of the page costs the same, however many there are
CHECK = Action(label="Check everything", operation="ledger.check", asks=True)
LONGEST_WORDS, LONGEST_NUMBER = 200, 19  # characters
RETRIABLE = frozenset({InboxState.FAILED, EffectState.FAILED, EffectState.UNCERTAIN})
LINE = make_columns(LedgerLine, {"id": link("id", "Message", "/ledger/{id}")}, details=True)
MESSAGE = make_columns(Message, {"folder": link("folder", "Group", "/groups/{folder}")})
EFFECT, CALL = make_columns(OutboxEffect), make_columns(ModelCall)
DROPPED_LIMIT = 200
NOTHING_DROPPED = EmptyState(
    text="Nothing was dropped. Messages of strangers and of rooms without a route would be here."
)
DROPPED_MESSAGE, DROPPED_COUNT = make_columns(DroppedMessage), make_columns(DroppedCount)
RUN_RETENTION = Action(label="Remove what is over age", operation="keep.run", asks=True, tone=Tone.BAD)
NOTHING_KEPT = EmptyState(text="Nothing is kept.")
RETENTION_SETTING = {"setting": link("setting", "Setting", "/settings/{name}")}
KEPT_ROWS, KEPT_FILES = make_columns(KeptRows, RETENTION_SETTING), make_columns(KeptFiles, RETENTION_SETTING)


@page("/ledger", "Messages", Section.ACTIVITY, "ledger.list", order=20)
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
    return _list_retries(line, line.changed_at) if line.state in RETRIABLE else ()


def _list_retries(message: LedgerLine | Message, failed_at: int) -> tuple[Action, ...]:
    label = "Give again" if message.direction == Direction.IN else "Send again"
    given = {"message": message.id, "changed_at": iso(failed_at)}  # a second click means the same failure
    return (Action(label=label, operation="ledger.retry", args=given, asks=True, tone=Tone.WARN),)


@page("/ledger/{id}", "Message", Section.ACTIVITY, "ledger.trace")
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
    failed = [each.updated_at for each in trace.entries if each.state in RETRIABLE]
    failed += [each.updated_at for each in own if each.state in RETRIABLE]
    return _list_retries(message, failed[0]) if failed else ()


@page("/dropped", "Not let in", Section.ACTIVITY, "dropped.list", order=30)
async def show_dropped(request: PageRequest) -> PageView:
    found = await request.ask(ListDroppedArgs(limit=DROPPED_LIMIT))
    total = Note(text=f"{found.total} dropped; {found.only_counted} of them were only counted.")
    return PageView(
        blocks=[
            *([total] if found.total else []),
            make_table(found.counts, DROPPED_COUNT, NOTHING_DROPPED, title="By reason" if found.counts else ""),
            *([make_table(found.newest, DROPPED_MESSAGE, NOTHING_DROPPED, title="Newest")] if found.newest else []),
        ]
    )


@page("/keep", "Retention", Section.SYSTEM, "keep.show", order=60)
async def show_retention(request: PageRequest) -> PageView:
    found = await request.ask(ShowRetentionArgs())
    return PageView(
        lead="A running gateway removes what is over age every few hours. What something in flight needs stays.",
        actions=(RUN_RETENTION,) if await request.may("keep.run") else (),
        blocks=[
            make_table(found.rows, KEPT_ROWS, NOTHING_KEPT),
            make_table(found.files, KEPT_FILES, NOTHING_KEPT, title="Files"),
            make_store(found.store),
        ],
    )


def make_store(store: StoreSize) -> Facts:
    space = "goes back to the disk" if store.shrinks else "is used again; the file does not shrink"
    return Facts(title="Store", items=[Fact("Size", render_size(store.bytes)), Fact("Freed space", space)])
