"""A message's life as the spans of one trace: pure, from what the ledger knows.

    message
    ├─ accept · route (one for each group) · queue
    ├─ turn
    │  └─ chat (a model) · execute_tool (with the gate's verdict)
    └─ deliver
       └─ send (each try)

Nobody's words are in it. Names that an agent or a stranger may have chosen are kept only if they look like names. Ids
come from the ledger's own: whoever exports a message again, after a crash perhaps, gives the same ids.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from gatepost.core.money import MICRO
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.sessions.trace_facts import (
    TracedCause,
    TracedDelivery,
    TracedEntry,
    TracedModelCall,
    TracedStep,
    TracedToolCall,
    TracedWork,
    TraceFacts,
)
from gatepost.store.sessions.turns import TurnState

WAITING = frozenset((InboxState.QUEUED, InboxState.HELD, InboxState.RETRY, "interrupted"))  # steps that begin a wait
FAILED_SENDS = frozenset((EffectState.FAILED, EffectState.UNCERTAIN))
LET_THROUGH = "allowed"  # the verdict of a call that was
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,99}\Z")
OTHER = "other"
ROOT = "message"  # the part that names a trace's first span

AttributeValue = str | int | float | bool


class TraceSpanKind(StrEnum):
    INTERNAL = "internal"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class SpanLink(Struct, frozen=True):
    trace_id: bytes
    span_id: bytes
    why: str


class TraceSpan(Struct, frozen=True, kw_only=True):
    """`start`, `end`: microseconds since 1970. `parent`: empty for the first of a trace."""

    trace_id: bytes
    span_id: bytes
    parent: bytes
    name: str
    kind: TraceSpanKind = TraceSpanKind.INTERNAL
    start: int
    end: int
    attributes: Mapping[str, AttributeValue]
    links: tuple[SpanLink, ...] = ()
    failed: bool = False


def make_trace(facts: TraceFacts) -> list[TraceSpan]:
    """The first span comes first. It spans all others."""
    message = facts.message
    trace_id = make_trace_id(message.id, message.accepted_at)
    maker = _SpanMaker(trace_id, make_root_id(trace_id))
    spans = list(maker.list_spans(facts))
    return [maker.make_root(facts, max((each.end for each in spans), default=message.accepted_at)), *spans]


def clean_name(text: str) -> str:
    """Return what looks like a name of something, as it is; else a word for the rest."""
    return text if _NAME.match(text) else OTHER


class _SpanMaker:
    def __init__(self, trace_id: bytes, root: bytes) -> None:
        self._trace_id, self._root = trace_id, root

    def make_root(self, facts: TraceFacts, end: int) -> TraceSpan:
        message, sent = facts.message, facts.deliveries
        states = sorted({str(each.state) for each in facts.entries} or {str(each.effect.state) for each in sent})
        return TraceSpan(
            trace_id=self._trace_id,
            span_id=self._root,
            parent=b"",
            name=ROOT,
            kind=TraceSpanKind.CONSUMER if facts.entries else TraceSpanKind.PRODUCER,
            start=message.accepted_at,
            end=end,
            attributes={
                "gatepost.message.id": message.id,
                "gatepost.message.kind": message.kind,
                "gatepost.message.verb": clean_name(message.verb),
                "gatepost.message.direction": message.direction,
                "gatepost.message.chars": message.chars,
                "gatepost.channel": clean_name(message.instance),
                "gatepost.outcome": ",".join(states),
                "gatepost.cost.usd": sum(call.micro for work in facts.work for call in work.models) / MICRO,
            },
            links=tuple(map(self._link_cause, facts.causes)),
            failed=InboxState.FAILED in states or not FAILED_SENDS.isdisjoint(states),
        )

    def list_spans(self, facts: TraceFacts) -> Iterator[TraceSpan]:
        message = facts.message
        if facts.entries:
            size = {"gatepost.message.chars": message.chars}
            yield self._span(("accept",), "accept", message.accepted_at, message.accepted_at, size)
        for entry in facts.entries:
            yield self._make_route(entry)
            yield from self._list_waits(entry, facts.steps)
        for work in facts.work:
            yield from self._list_work(work, facts.entries)
        for delivery in facts.deliveries:
            yield from self._list_delivery(delivery)

    def _span(
        self,
        parts: tuple[object, ...],
        name: str,
        start: int,
        end: int,
        attributes: Mapping[str, AttributeValue],
        *,
        parent: bytes = b"",
        kind: TraceSpanKind = TraceSpanKind.INTERNAL,
        failed: bool = False,
        links: Iterable[SpanLink] = (),
    ) -> TraceSpan:
        """`end` may lie before `start`, if the machine's clock was set back: then it took no time."""
        return TraceSpan(
            trace_id=self._trace_id,
            span_id=make_span_id(self._trace_id, *parts),
            parent=parent or self._root,
            name=name,
            kind=kind,
            start=start,
            end=max(start, end),
            attributes=attributes,
            links=tuple(links),
            failed=failed,
        )

    def _make_route(self, entry: TracedEntry) -> TraceSpan:
        about: dict[str, AttributeValue] = {
            "gatepost.group": entry.folder,
            "gatepost.session.id": entry.session_id or "",
            "gatepost.route.mode": entry.mode,
            "gatepost.rights": clean_name(entry.rights),
            "gatepost.outcome": entry.state,
        }
        return self._span(("route", entry.id), "route", entry.created_at, entry.created_at, about)

    def _list_waits(self, entry: TracedEntry, steps: Iterable[TracedStep]) -> Iterator[TraceSpan]:
        """From each step by which it waits to the next one."""
        own = [each for each in steps if each.row_id == entry.id]
        for number, (step, following) in enumerate(pairwise(own)):
            if step.step in WAITING:
                about: dict[str, AttributeValue] = {"gatepost.group": entry.folder, "gatepost.queue.state": step.step}
                yield self._span(("queue", entry.id, number), "queue", step.at, following.at, about)

    def _list_work(self, work: TracedWork, entries: Iterable[TracedEntry]) -> Iterator[TraceSpan]:
        turn = work.turn
        entry = next(each for each in entries if each.turn_id == turn.id)
        span_id = make_turn_id(self._trace_id, turn.id)
        about: dict[str, AttributeValue] = {
            "gatepost.turn.id": turn.id,
            "gatepost.turn.state": turn.state,
            "gatepost.turn.attempt": turn.attempt,
            "gatepost.turn.messages": len(work.beside) + 1,
            "gatepost.provider": clean_name(turn.provider),
            "gatepost.group": entry.folder,
            "gatepost.session.id": entry.session_id or "",
        }
        yield self._span(
            ("turn", turn.id),
            "turn",
            turn.started_at,
            turn.ended_at or entry.updated_at,  # a turn that somebody ended may be closed a moment later
            about,
            failed=turn.state is TurnState.FAILED,
            links=[self._link(each, "same turn") for each in work.beside],
        )
        for call in work.models:
            yield self._make_model_call(turn.id, span_id, call)
        for used in work.tools:
            yield self._make_tool_call(turn.id, span_id, used)

    def _make_model_call(self, turn_id: str, parent: bytes, call: TracedModelCall) -> TraceSpan:
        model = clean_name(call.model)
        about: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": call.input,
            "gen_ai.usage.output_tokens": call.output,
            "gatepost.cost.usd": call.micro / MICRO,
            "gatepost.cost.measured": call.measured,
        }
        name, parts = f"chat {model}", ("model", turn_id, call.id)
        return self._span(parts, name, call.at, call.booked_at, about, parent=parent, kind=TraceSpanKind.CLIENT)

    def _make_tool_call(self, turn_id: str, parent: bytes, call: TracedToolCall) -> TraceSpan:
        """A call whose end is not known has no length."""
        tool = clean_name(call.tool)
        about: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gatepost.gate.verdict": clean_name(call.verdict),
        }
        name, parts = f"execute_tool {tool}", ("tool", turn_id, call.at, call.tool)
        end = call.ended_at if call.ended_at is not None else call.at
        return self._span(parts, name, call.at, end, about, parent=parent, failed=call.verdict != LET_THROUGH)

    def _list_delivery(self, delivery: TracedDelivery) -> Iterator[TraceSpan]:
        effect = delivery.effect
        about: dict[str, AttributeValue] = {
            "gatepost.delivery.op": effect.op,
            "gatepost.delivery.origin": effect.origin,
            "gatepost.delivery.tries": effect.tries,
            "gatepost.message.id": effect.message_id,
            "gatepost.message.chars": effect.chars,
            "gatepost.channel": clean_name(effect.instance),
            "gatepost.outcome": effect.state,
        }
        failed = effect.state in FAILED_SENDS
        made = self._span(
            ("deliver", effect.id, effect.created_at),
            "deliver",
            effect.created_at,
            effect.updated_at,
            about,
            failed=failed,
        )
        yield made
        for number, (step, following) in enumerate(pairwise(delivery.steps)):
            if step.step == EffectState.SENDING:
                about = {"gatepost.channel": clean_name(effect.instance), "gatepost.outcome": following.step}
                yield self._span(
                    ("send", effect.id, number),
                    "send",
                    step.at,
                    following.at,
                    about,
                    parent=made.span_id,
                    kind=TraceSpanKind.PRODUCER,
                    failed=following.step in FAILED_SENDS,
                )

    def _link_cause(self, cause: TracedCause) -> SpanLink:
        return self._link(cause, "errand" if cause.turn_id else "errand result")

    def _link(self, cause: TracedCause, why: str) -> SpanLink:
        other = make_trace_id(cause.message_id, cause.accepted_at)
        span = make_turn_id(other, cause.turn_id) if cause.turn_id else make_root_id(other)
        return SpanLink(other, span, why)


def make_trace_id(message_id: int, accepted_at: int) -> bytes:
    """Make the trace id of a message. Its number alone is not enough: every gateway has a message 1."""
    return hashlib.sha256(f"gatepost message {message_id} {accepted_at}".encode()).digest()[:16]


def make_span_id(trace_id: bytes, *parts: object) -> bytes:
    return hashlib.sha256(trace_id + "\0".join(map(str, parts)).encode()).digest()[:8]


def make_root_id(trace_id: bytes) -> bytes:
    return make_span_id(trace_id, ROOT)


def make_turn_id(trace_id: bytes, turn_id: str) -> bytes:
    return make_span_id(trace_id, "turn", turn_id)
