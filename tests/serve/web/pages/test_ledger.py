"""The pages of the ledger, as data."""

from typing import Any

from tests.flows.page_desk import make_value

from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.ledger import MessageTraceView, TraceMoment
from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.ledger import list_actions, list_trace_actions, make_spans
from gatepost.store.messages.inbox import InboxEntry, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectState, OutboxEffect
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine

AT = 1_767_225_600 * SECOND


def moment(what: str, offset_ms: float) -> TraceMoment:
    return TraceMoment(at=AT, what=what, detail="", offset_ms=offset_ms)


def make_row(kind: Any, **given: Any) -> Any:
    """A row with these values, and with some others that no test here looks at."""
    return replace(make_value(kind, "words", ""), **given)


def trace(*moments: TraceMoment, **more: Any) -> MessageTraceView:
    message = make_row(Message, id=7, accepted_at=AT, direction=Direction.IN)
    rows: dict[str, Any] = {"entries": [], "model_calls": [], "effects": [], **more}
    return MessageTraceView(message=message, moments=list(moments), trace_id="", **rows)


def test_the_time_of_a_message_is_drawn_as_waiting_working_calling_and_sending() -> None:
    found = make_spans(
        trace(
            moment("accepted", 0), moment("queued", 0), moment("given", 40), moment("call send_message", 100),
            moment("send pending", 150), moment("send sending", 160), moment("turn done", 1500),
            moment("answered", 1500), moment("send sent", 2000),
            model_calls=[make_row(ModelCall, at=AT + 90_000, model="m")],
        )
    )  # fmt: skip
    assert found is not None and found.total == 2000
    assert [(each.label, each.start, each.end, each.shown) for each in found.spans] == [
        ("Waits for its agent", 0, 40, "40 ms"),
        ("Agent works", 40, 1500, "1.5 s"),
        ("Model m", 90, 90, "at 90 ms"),
        ("Tool send_message", 100, 100, "at 100 ms"),
        ("Waits to be sent", 150, 160, "10 ms"),
        ("Is sent", 160, 2000, "1.8 s"),
    ]


def test_a_failed_turn_and_an_uncertain_delivery_are_bad_and_one_moment_is_no_time() -> None:
    found = make_spans(trace(moment("working", 5), moment("turn failed", 9), moment("pending", 9),
                             moment("sending", 10), moment("uncertain", 30)))  # fmt: skip
    assert found is not None
    assert [each.tone for each in found.spans if each.label in ("Agent works", "Is sent")] == [Tone.BAD, Tone.BAD]
    assert make_spans(trace(moment("accepted", 0))) is None


def test_only_what_failed_or_is_uncertain_has_a_button_and_it_asks_first() -> None:
    for state, direction, label in (
        ("failed", "in", "Give again"),
        ("failed", "out", "Send again"),
        ("uncertain", "out", "Send again"),
    ):
        line = make_row(LedgerLine, id=7, state=state, direction=Direction(direction), changed_at=AT)
        [action] = list_actions(line)
        assert (action.label, action.operation, action.args, action.asks) == (
            label,
            "ledger.retry",
            {"message": 7, "changed_at": "2026-01-01T00:00:00.000Z"},
            True,
        )
    assert not list_actions(make_row(LedgerLine, id=7, state="sent", direction=Direction.OUT))
    failed_answer = make_row(OutboxEffect, message_id=8, state=EffectState.FAILED)
    assert not list_trace_actions(trace(effects=[failed_answer]))
    assert list_trace_actions(trace(entries=[make_row(InboxEntry, state=InboxState.FAILED, updated_at=AT)]))
