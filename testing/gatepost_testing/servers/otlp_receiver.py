"""A receiver of OpenTelemetry traces on loopback: it decodes what it is sent, keeps it, and misbehaves on request.

    with OtlpReceiver() as receiver:
        ...                                          # telemetry.otlp_endpoint = receiver.url
        receiver.wait_for(lambda spans: len(spans) > 5)

An answer may also be none: `hold` keeps every request waiting until `release`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gatepost_testing.waiting import PATIENCE_S, block_until

LOOPBACK = "127.0.0.1"
PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"


class ReceivedLink(Struct, frozen=True):
    trace_id: str
    span_id: str


class ReceivedSpan(Struct, frozen=True, kw_only=True):
    """Ids in hexadecimal, times in nanoseconds."""

    trace_id: str
    span_id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    failed: bool
    attributes: Mapping[str, Any]
    links: tuple[ReceivedLink, ...]


class ReceiverAnswer(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    media_type: str = PROTOBUF
    headers: Mapping[str, str] = {}


class OtlpReceiver:
    def __init__(self, port: int = 0) -> None:
        self.bodies: list[bytes] = []  # of those requests that were taken
        self.requests = 0
        self.headers: list[Mapping[str, str]] = []  # of all requests, names in lower case
        self.answer = ReceiverAnswer()
        self._held = threading.Event()
        self._held.set()
        self._wished_port = port
        self._server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> "OtlpReceiver":
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._receive(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        ThreadingHTTPServer.daemon_threads = True
        self._server = ThreadingHTTPServer((LOOPBACK, self._wished_port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def hold(self) -> None:
        self._held.clear()

    def release(self) -> None:
        self._held.set()

    def _receive(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.requests += 1
        self._held.wait(PATIENCE_S)
        answer = self.answer if request.path == PATH else ReceiverAnswer(status=404)
        if answer == ReceiverAnswer():
            self.bodies.append(body)
        try:
            request.send_response(answer.status)
            for name, value in {"content-type": answer.media_type, **answer.headers}.items():
                request.send_header(name, value)
            request.send_header("content-length", str(len(answer.body)))
            request.end_headers()
            request.wfile.write(answer.body)
        except OSError:
            pass  # whoever asked did not wait

    def list_spans(self) -> list[ReceivedSpan]:
        return [span for body in list(self.bodies) for span in parse_spans(body)]

    def wait_for(self, holds: Callable[[Sequence[ReceivedSpan]], object]) -> list[ReceivedSpan]:
        """All spans so far, once this holds for them."""
        block_until(lambda: holds(self.list_spans()), "spans")
        return self.list_spans()


def parse_spans(body: bytes) -> list[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    return [
        ReceivedSpan(
            trace_id=each.trace_id.hex(),
            span_id=each.span_id.hex(),
            parent=each.parent_span_id.hex(),
            name=each.name,
            kind=each.kind,
            start=each.start_time_unix_nano,
            end=each.end_time_unix_nano,
            failed=each.status.code == each.status.STATUS_CODE_ERROR,
            attributes={item.key: _parse_value(item.value) for item in each.attributes},
            links=tuple(ReceivedLink(link.trace_id.hex(), link.span_id.hex()) for link in each.links),
        )
        for each in spans
    ]


def _parse_value(value: Any) -> object:
    return getattr(value, value.WhichOneof("value"))


def find_faults(spans: Sequence[ReceivedSpan]) -> list[str]:
    """Return what is wrong with traces that are over: each has one first span, every parent is there, and nothing is
    twice."""
    found = [f"{span_id} is there {times} times" for span_id, times in _count(spans).items() if times > 1]
    for trace_id in dict.fromkeys(each.trace_id for each in spans):
        own = [each for each in spans if each.trace_id == trace_id]
        roots = [each for each in own if not each.parent]
        if len(roots) != 1:
            found.append(f"{trace_id} has {len(roots)} first spans")
            continue
        known = {each.span_id for each in own}
        found += [f"the parent of {each.name} is not there" for each in own if each.parent and each.parent not in known]
        found += [f"{each.name} ends before it starts" for each in own if each.end < each.start]
        found += [f"{each.name} lies outside of its message" for each in own if not _contains(roots[0], each)]
    return found


def _count(spans: Sequence[ReceivedSpan]) -> Counter[str]:
    return Counter(each.span_id for each in spans)


def _contains(root: ReceivedSpan, span: ReceivedSpan) -> bool:
    return root.start <= span.start and span.end <= root.end
