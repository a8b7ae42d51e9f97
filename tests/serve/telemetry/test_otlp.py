"""Requests to a receiver of traces: where they go, what they hold, and what answers mean."""

import subprocess
import sys

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.serve.telemetry import otlp
from gatepost.serve.telemetry.otlp import LARGEST_ANSWER, OtlpClient
from gatepost.serve.telemetry.spans import SpanLink, TraceSpan, TraceSpanKind
from gatepost.serve.telemetry.trace_receiver import (
    ExportOutcome,
    SendResult,
    check_telemetry,
    get_url,
    read_headers,
)
from gatepost_testing.servers.otlp_receiver import OtlpReceiver, ReceivedLink, ReceiverAnswer, parse_spans

SPAN = TraceSpan(
    trace_id=b"t" * 16,
    span_id=b"s" * 8,
    parent=b"p" * 8,
    name="turn",
    kind=TraceSpanKind.CLIENT,
    start=5,
    end=7,
    attributes={"text": "a", "whole": 3, "part": 0.5, "yes": True},
    links=(SpanLink(b"u" * 16, b"v" * 8, "errand"),),
    failed=True,
)


def config(endpoint: str) -> Config:
    return Config({"telemetry.otlp_endpoint": endpoint})


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", ""),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example/", "https://otel.example/v1/traces"),
        ("https://otel.example/otlp", "https://otel.example/otlp/v1/traces"),
        ("https://otel.example/api/v1/traces", "https://otel.example/api/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_the_path_of_traces_is_added_unless_it_is_there(given: str, url: str) -> None:
    assert get_url(config(given)) == url


@pytest.mark.parametrize(
    "given", ["127.0.0.1:4318", "ftp://x", "http://", "http://x:99999", "http://x?a=b", "http://ann:pw@x", "http://["]
)
def test_an_endpoint_that_could_never_work_is_named_with_the_way_out(given: str) -> None:
    with pytest.raises(SetupError, match=r"telemetry\.otlp_endpoint") as raised:
        get_url(config(given))
    assert "like http://127.0.0.1:4318" in str(raised.value) or "OTEL_EXPORTER_OTLP_HEADERS" in str(raised.value)


def test_headers_come_from_the_usual_variable() -> None:
    given = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20abc, x-team = ops ,broken"}
    assert read_headers(given) == {"authorization": "Bearer abc", "x-team": "ops"} and read_headers({}) == {}


def test_a_span_arrives_as_it_was_sent() -> None:
    with OtlpReceiver() as receiver:
        assert OtlpClient(f"{receiver.url}/v1/traces", {"x-key": "k"}).send([SPAN]) == SendResult(ExportOutcome.SENT)
    [span] = parse_spans(receiver.bodies[0])
    assert (span.trace_id, span.span_id, span.parent) == ((b"t" * 16).hex(), (b"s" * 8).hex(), (b"p" * 8).hex())
    assert (span.name, span.start, span.end, span.failed) == ("turn", 5000, 7000, True)
    assert span.attributes == {"text": "a", "whole": 3, "part": 0.5, "yes": True}
    assert span.links == (ReceivedLink((b"u" * 16).hex(), (b"v" * 8).hex()),)
    assert receiver.headers[0]["x-key"] == "k"


REJECTED = b"\x0a\x02\x08\x03"  # partial_success { rejected_spans: 3 }
BUSY = SendResult(ExportOutcome.LATER, "it answers 429", 60.0)


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (200, {}, b"", SendResult(ExportOutcome.SENT)),
        (200, {"content-type": "application/x-protobuf"}, REJECTED, SendResult(ExportOutcome.SENT, rejected=3)),
        (200, {"content-type": "application/json; charset=utf-8"}, b"{}", SendResult(ExportOutcome.SENT)),
        (429, {"retry-after": "9000"}, b"", BUSY),
        (429, {"retry-after": "-1"}, b"", SendResult(ExportOutcome.LATER, "it answers 429")),
        (503, {"retry-after": "Mon, 16 Nov"}, b"", SendResult(ExportOutcome.LATER, "it answers 503")),
        (413, {}, b"", SendResult(ExportOutcome.REFUSED, "it answers 413")),
    ],
)
def test_an_answer_says_whether_spans_are_taken_refused_or_wait(
    status: int, headers: dict[str, str], body: bytes, expected: SendResult
) -> None:
    assert otlp.judge_answer(status, headers, body) == expected


@pytest.mark.parametrize(
    "answer",
    [
        ReceiverAnswer(body=b"<html>", media_type="text/html"),
        ReceiverAnswer(body=b"\xff\xff\xff"),
        ReceiverAnswer(body=b"[" * 5000, media_type="application/json"),
        ReceiverAnswer(body=b"x" * (LARGEST_ANSWER + 1)),
        ReceiverAnswer(status=302, headers={"location": "http://127.0.0.1:1/"}),
    ],
    ids=["page", "rubbish", "deep", "huge", "elsewhere"],
)
def test_the_doctor_names_a_receiver_that_takes_no_traces(answer: ReceiverAnswer) -> None:
    with OtlpReceiver() as receiver:
        receiver.answer = answer
        [found] = check_telemetry(config(receiver.url))
        assert (found.level, found.subject) == ("warn", "telemetry") and receiver.url in found.text
        receiver.answer = ReceiverAnswer()
        assert [each.level for each in check_telemetry(config(receiver.url))] == ["ok"]
        assert receiver.requests == 2 and receiver.list_spans() == []
        url = receiver.url
    assert "cannot be reached" in next(iter(check_telemetry(config(url)))).text


def test_a_receiver_that_is_slow_is_not_waited_for() -> None:
    with OtlpReceiver() as receiver:
        receiver.hold()
        result = OtlpClient(f"{receiver.url}/v1/traces", {}, 0.05).send([SPAN])
    assert result.outcome is ExportOutcome.LATER and "does not answer" in result.reason


def test_the_doctor_says_nothing_of_traces_that_are_off_and_fails_for_what_could_never_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(check_telemetry(config(""))) == []
    assert [each.level for each in check_telemetry(config("nonsense"))] == ["fail"]
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1", None)  # as if it were not installed
    [found] = check_telemetry(config("http://127.0.0.1:1"))
    assert found.level == "fail" and "pip install 'gatepost[otel]'" in found.text


@pytest.mark.slow
def test_a_gateway_loads_neither_the_extra_nor_a_client_before_the_first_span() -> None:
    code = (
        "import sys, gatepost.app, gatepost.serve.telemetry.trace_export;"
        " print(sorted({'opentelemetry', 'google', 'httpx2'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
