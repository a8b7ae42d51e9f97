"""OTLP over HTTP: spans as protobuf, and one bounded request. For a thread: all of it blocks.

Importing this loads the extra `otel`; `trace_receiver.open_client` does so with the first spans.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence

import httpx2
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from gatepost import __version__
from gatepost.serve.telemetry.spans import AttributeValue, TraceSpan, TraceSpanKind
from gatepost.serve.telemetry.trace_receiver import TIMEOUT_S, ExportOutcome, SendResult

MEDIA_TYPE = "application/x-protobuf"
LARGEST_ANSWER = 64 * 1024
LONGEST_PAUSE_S = 60.0
_BAD_PAYLOAD = frozenset((400, 413, 422))  # the same spans would be refused again


def encode(spans: Sequence[TraceSpan]) -> bytes:
    """Encode the body of a request. It is valid without spans, too."""
    request = ExportTraceServiceRequest()
    if spans:
        group = request.resource_spans.add()
        group.resource.attributes.extend(_encode_attributes(get_resource()))
        scope = group.scope_spans.add()
        scope.scope.name, scope.scope.version = "gatepost", __version__
        scope.spans.extend(map(_encode_span, spans))
    return bytes(request.SerializeToString())


def get_resource() -> dict[str, AttributeValue]:
    return {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "gatepost", "service.version": __version__}


def _encode_span(span: TraceSpan) -> Span:
    kinds = {
        TraceSpanKind.INTERNAL: Span.SPAN_KIND_INTERNAL,
        TraceSpanKind.CLIENT: Span.SPAN_KIND_CLIENT,
        TraceSpanKind.PRODUCER: Span.SPAN_KIND_PRODUCER,
        TraceSpanKind.CONSUMER: Span.SPAN_KIND_CONSUMER,
    }
    return Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent,
        name=span.name,
        kind=kinds[span.kind],
        start_time_unix_nano=span.start * 1000,
        end_time_unix_nano=span.end * 1000,
        attributes=_encode_attributes(span.attributes),
        links=[
            Span.Link(
                trace_id=each.trace_id,
                span_id=each.span_id,
                attributes=_encode_attributes({"gatepost.link": each.why}),
            )
            for each in span.links
        ],
        status=Status(code=Status.STATUS_CODE_ERROR if span.failed else Status.STATUS_CODE_UNSET),
    )


def _encode_attributes(attributes: Mapping[str, AttributeValue]) -> Iterator[KeyValue]:
    for name, value in attributes.items():
        if isinstance(value, bool):
            encoded = AnyValue(bool_value=value)
        elif isinstance(value, int):
            encoded = AnyValue(int_value=value)
        elif isinstance(value, float):
            encoded = AnyValue(double_value=value)
        else:
            encoded = AnyValue(string_value=str(value))
        yield KeyValue(key=name, value=encoded)


class OtlpClient:
    """Sends spans, one request at a time. It follows no redirect, reads no more of an answer than one can have, and
    never raises. Certificates are read with the first request."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._headers = {**headers, "content-type": MEDIA_TYPE, "user-agent": f"gatepost/{__version__}"}
        self._client: httpx2.Client | None = None

    def send(self, spans: Sequence[TraceSpan]) -> SendResult:
        try:
            if self._client is None:
                self._client = httpx2.Client(timeout=self._timeout_s, follow_redirects=False, trust_env=False)
            with self._client.stream("POST", self._url, content=encode(spans), headers=self._headers) as response:
                return self._read_answer(response)
        except httpx2.TimeoutException:
            return SendResult(ExportOutcome.LATER, f"it does not answer within {self._timeout_s:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return SendResult(ExportOutcome.LATER, f"it cannot be reached ({type(error).__name__})")

    def _read_answer(self, response: httpx2.Response) -> SendResult:
        until, answer = time.monotonic() + self._timeout_s, bytearray()
        for chunk in response.iter_raw():
            answer += chunk
            if len(answer) > LARGEST_ANSWER:
                return SendResult(ExportOutcome.LATER, f"it answers {response.status_code} with far too much")
            if time.monotonic() > until:
                return SendResult(ExportOutcome.LATER, f"its answer is not over after {self._timeout_s:g} s")
        return judge_answer(response.status_code, response.headers, bytes(answer))


def judge_answer(status: int, headers: Mapping[str, str], answer: bytes) -> SendResult:
    """Return what an answer means for the spans. A page that is no receiver of traces may also answer 200."""
    if status == 200:
        rejected = _count_rejected(headers.get("content-type", ""), answer)
        if rejected is None:
            return SendResult(ExportOutcome.LATER, "it answers 200, but not as a receiver of traces does")
        return SendResult(ExportOutcome.SENT, rejected=rejected)
    if status in _BAD_PAYLOAD:
        return SendResult(ExportOutcome.REFUSED, f"it answers {status}")
    if 300 <= status < 400:
        return SendResult(ExportOutcome.LATER, f"it answers {status}: it is elsewhere")
    return SendResult(ExportOutcome.LATER, f"it answers {status}", _read_pause(headers.get("retry-after", "")))


def _read_pause(text: str) -> float:
    return min(float(text), LONGEST_PAUSE_S) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _count_rejected(media_type: str, answer: bytes) -> int | None:
    """None: that is no answer of OTLP."""
    kind = media_type.partition(";")[0].strip().lower()
    if not answer:
        return 0
    if kind == "application/json":
        try:
            return 0 if isinstance(json.loads(answer), dict) else None
        except (ValueError, RecursionError):
            return None
    if kind != MEDIA_TYPE:
        return None
    try:
        return max(0, int(ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans))
    except DecodeError:
        return None
