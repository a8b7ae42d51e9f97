"""The life of a message as bars: how long it waited, how long its agent worked, and how long the answers took to send.

A trace has moments; a bar lies between two of them. A single moment (a call of a tool or a model) is a short bar.
"""

from collections.abc import Iterable, Iterator

from gatepost.serve.control.arguments.ledger import MessageTraceView, TraceMoment
from gatepost.serve.web.dashboard.tables import shorten
from gatepost.serve.web.dashboard.view import Span, SpanBlock, Tone
from gatepost.store.messages.inbox import END as INBOX_END
from gatepost.store.messages.outbox import END as OUTBOX_END
from gatepost.store.messages.outbox import EffectState

MOST_SPANS = 60
MILLISECOND = 1000  # of a time
GIVEN = ("given", "working")  # steps by which an agent has it
CALL, TURN = "call ", "turn "  # how moments of a turn begin
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
        elif what.startswith(CALL):
            yield _make_span(f"Tool {what.removeprefix(CALL)}", at, at, Tone.WARN)
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
        if each.what.startswith((CALL, TURN)):
            continue
        if step == EffectState.PENDING:
            waiting.append(at)
        elif step == EffectState.SENDING:
            if waiting:
                yield _make_span("Waits to be sent", waiting.pop(0), at, Tone.QUIET)
            sending.append(at)
        elif sending and (step in OUTBOX_END or step == "retry"):
            yield _make_span("Is sent", sending.pop(0), at, Tone.BAD if step in _BAD else Tone.PLAIN)
