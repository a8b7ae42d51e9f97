"""A message's life as spans: pure, on data."""

from typing import Any

from msgspec.structs import replace

from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import Op
from gatepost.serve.telemetry.spans import (
    OTHER,
    TraceSpan,
    TraceSpanKind,
    clean_name,
    make_root_id,
    make_trace,
    make_trace_id,
    make_turn_id,
)
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.sessions.trace_facts import (
    TracedCause,
    TracedDelivery,
    TracedEffect,
    TracedEntry,
    TracedMessage,
    TracedModelCall,
    TracedStep,
    TracedToolCall,
    TracedTurn,
    TracedWork,
    TraceFacts,
)
from gatepost.store.sessions.turns import TurnState

MESSAGE = TracedMessage(7, "tg", Direction.IN, MessageKind.CHAT, "mention", 12, 1000, "p-1")
ENTRY = TracedEntry(3, "acme/eng", "s-1", 5, InboxMode.TRIGGER, "member", "t-1", InboxState.ANSWERED, 1, 1000, 9000)
STEPS = (
    TracedStep(3, 1000, "queued"),
    TracedStep(3, 2000, "given"),
    TracedStep(3, 2500, "interrupted"),
    TracedStep(3, 4000, "working"),
    TracedStep(3, 9000, "answered"),
)
TURN = TracedTurn("t-1", "claude", 2, TurnState.DONE, 2000, 9000)
CALL = TracedModelCall(11, 4100, 5100, "claude-sonnet-4-5", 900, 40, 2500, True)
TOOL = TracedToolCall(5200, "send_file", "refused", 5350)
EFFECT = TracedEffect(4, 8, Op.SEND, EffectOrigin.RESULT, "tg", EffectState.SENT, 2, 30, 8000, 9500)
SENDS = (
    TracedStep(4, 8000, "pending"),
    TracedStep(4, 8100, "sending"),
    TracedStep(4, 8200, "retry"),
    TracedStep(4, 9000, "sending"),
    TracedStep(4, 9500, "sent"),
)
FACTS = TraceFacts(
    MESSAGE, (ENTRY,), STEPS, (TracedWork(TURN, (CALL,), (TOOL,), ()),), (TracedDelivery(EFFECT, SENDS),), ()
)


def render(spans: list[TraceSpan]) -> list[tuple[str, str, int, int]]:
    """The name of each span and of its parent, and when it began and ended."""
    names = {each.span_id: each.name for each in spans} | {b"": ""}
    return [(each.name, names[each.parent], each.start, each.end) for each in spans]


def get(spans: list[TraceSpan], name: str) -> TraceSpan:
    return next(each for each in spans if each.name == name)


def test_a_life_is_one_tree_with_the_time_of_each_part() -> None:
    assert render(make_trace(FACTS)) == [
        ("message", "", 1000, 9500),
        ("accept", "message", 1000, 1000),
        ("route", "message", 1000, 1000),
        ("queue", "message", 1000, 2000),
        ("queue", "message", 2500, 4000),
        ("turn", "message", 2000, 9000),
        ("chat claude-sonnet-4-5", "turn", 4100, 5100),
        ("execute_tool send_file", "turn", 5200, 5350),
        ("deliver", "message", 8000, 9500),
        ("send", "deliver", 8100, 8200),
        ("send", "deliver", 9000, 9500),
    ]


def test_spans_tell_costs_verdicts_and_tries() -> None:
    spans = make_trace(FACTS)
    root = get(spans, "message")
    assert root.attributes["gatepost.cost.usd"] == 0.0025 and root.attributes["gatepost.outcome"] == "answered"
    call = get(spans, "chat claude-sonnet-4-5")
    assert (call.kind, call.attributes["gen_ai.usage.input_tokens"]) == (TraceSpanKind.CLIENT, 900)
    tool = get(spans, "execute_tool send_file")
    assert tool.failed and tool.attributes["gatepost.gate.verdict"] == "refused"
    assert get(spans, "deliver").attributes["gatepost.delivery.tries"] == 2
    assert get(spans, "turn").attributes["gatepost.turn.attempt"] == 2 and not root.failed


def test_the_same_facts_have_the_same_ids_and_those_of_another_gateway_have_others() -> None:
    ids = [each.span_id for each in make_trace(FACTS)]
    assert ids == [each.span_id for each in make_trace(FACTS)] and len(set(ids)) == len(ids)
    other = make_trace(replace(FACTS, message=replace(MESSAGE, accepted_at=1001)))
    assert not set(ids) & {each.span_id for each in other}


def test_an_errand_is_linked_to_the_turn_that_gave_it_out_and_its_result_to_the_errand() -> None:
    causes = (TracedCause(5, 500, "t-0"), TracedCause(6, 600, ""))
    given, returned = make_trace(replace(FACTS, causes=causes))[0].links
    assert given.span_id == make_turn_id(make_trace_id(5, 500), "t-0")
    assert returned.span_id == make_root_id(make_trace_id(6, 600))


def test_what_was_said_without_anybodys_asking_is_a_trace_of_its_own() -> None:
    message = replace(MESSAGE, direction=Direction.OUT, verb="send")
    spans = make_trace(TraceFacts(message, (), (), (), (TracedDelivery(EFFECT, SENDS),), ()))
    assert [each.name for each in spans] == ["message", "deliver", "send", "send"]
    assert (spans[0].kind, spans[0].attributes["gatepost.outcome"]) == (TraceSpanKind.PRODUCER, "sent")


def test_a_delivery_that_failed_and_a_clock_that_was_set_back_are_shown_as_such() -> None:
    lost = TracedDelivery(replace(EFFECT, state=EffectState.UNCERTAIN, updated_at=10), ())
    spans = make_trace(replace(FACTS, deliveries=(lost,)))
    deliver = get(spans, "deliver")
    assert deliver.failed and (deliver.start, deliver.end) == (8000, 8000)


def test_a_name_that_may_hold_somebodys_words_is_not_passed_on() -> None:
    assert clean_name("openai/gpt-5.1:latest") == "openai/gpt-5.1:latest"
    for words in ("my password is hunter2", "a\nb", "", "ключ", "x" * 101, "{}"):
        assert clean_name(words) == OTHER
    model: Any = replace(CALL, model="tell him that I am ill")
    spans = make_trace(replace(FACTS, work=(TracedWork(TURN, (model,), (), ()),)))
    assert get(spans, "chat other").attributes["gen_ai.request.model"] == OTHER
