"""The pages of the ledger, as data."""

from typing import Any

from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.message_spans import make_spans
from gatepost.serve.web.pages.ledger import list_actions, list_trace_actions

AT = "2026-01-01T00:00:00.000Z"


def moment(what: str, offset_ms: float) -> dict[str, Any]:
    return {"at": AT, "what": what, "detail": "", "offset_ms": offset_ms}


def trace(*moments: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": 7, "accepted_at": AT, "direction": "in"}
    return {"message": message, "entries": [], "moments": list(moments), "model_calls": [], "effects": [], **more}


def test_the_time_of_a_message_is_drawn_as_waiting_working_calling_and_sending() -> None:
    found = make_spans(
        trace(
            moment("accepted", 0), moment("queued", 0), moment("given", 40), moment("call send_message", 100),
            moment("send pending", 150), moment("send sending", 160), moment("turn done", 1500),
            moment("answered", 1500), moment("send sent", 2000),
            model_calls=[{"at": "2026-01-01T00:00:00.090Z", "model": "m"}],
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
        [action] = list_actions({"id": 7, "state": state, "direction": direction, "changed_at": AT})
        assert (action.label, action.operation, action.args, action.asks) == (
            label,
            "ledger.retry",
            {"message": 7, "changed_at": AT},
            True,
        )
    assert not list_actions({"id": 7, "state": "sent", "direction": "out"})
    failed_answer = {"message_id": 8, "state": "failed"}
    assert not list_trace_actions(trace(effects=[failed_answer]))
    assert list_trace_actions(trace(entries=[{"state": "failed", "updated_at": AT}]))
