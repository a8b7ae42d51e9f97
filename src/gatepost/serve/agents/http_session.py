"""A session of MCP over HTTP, as the revisions of 2025 have it. It is its maker's: to all others it does not exist."""

import asyncio
from collections.abc import Mapping
from itertools import count

import msgspec

from gatepost.core import ids
from gatepost.gate.mcp_messages import CallParams
from gatepost.jsonrpc.messages import LONGEST_ID, RequestId, render_notification, render_request
from gatepost.serve.agents.elicitation_form import ElicitationForm, FormAction, FormResponse
from gatepost.serve.agents.eliciting_client import ARRAYS_SINCE, NO_ANSWER, OpenForm, StreamClient
from gatepost.serve.agents.event_stream import EventStream, RecentEvents, render_event
from gatepost.serve.agents.running_call import RunningCall
from gatepost.tools.call import Caller

IDLE_S = 30 * 60.0  # a session that nobody uses ends
OWN_STREAM = "own"  # the name of the one by GET; calls' streams are named by their requests


class _ElicitResult(msgspec.Struct):
    action: FormAction
    content: dict[str, object] | None = None


_read_result = msgspec.json.Decoder(_ElicitResult).decode


class McpHttpSession:
    """`forms`: the revision, of a client that can be asked by forms; else nothing."""

    def __init__(self, caller: Caller, now: float, forms: str) -> None:
        self.caller, self.seen, self.forms = caller, now, forms
        self.name = ids.token(16)
        self.serving = 0  # requests that are being answered
        self.calls: dict[RequestId, RunningCall] = {}
        self.flying: set[str] = set()  # ids of requests without an answer; 5 and "5" are one
        self.asked: dict[str, OpenForm] = {}  # forms that the client has not answered
        self._form_numbers = count(1)
        self._recent = RecentEvents()
        self._streams: dict[str, EventStream] = {}
        self._call_streams: dict[RequestId, EventStream] = {}
        self._stream_numbers = count(1)  # a request's id may be used again, its stream's name may not

    def idle(self, now: float) -> float:
        return 0.0 if self.serving or self.calls else now - self.seen

    def finish_request(self, request: RequestId) -> None:
        """It is answered, or never will be: its id may be used again."""
        self.calls.pop(request, None)
        self.flying.discard(str(request))
        stream = self._call_streams.pop(request, None)
        if stream is not None:
            self._streams.pop(stream.name, None)
            stream.end()

    def open_call_stream(self, request: RequestId) -> EventStream:
        self._call_streams[request] = stream = self._open_stream(f"call {next(self._stream_numbers)}")
        return stream

    def open_own_stream(self) -> EventStream | None:
        """None: somebody reads it already."""
        stream = self._streams.get(OWN_STREAM) or self._open_stream(OWN_STREAM)
        return None if stream.is_read else stream

    def _open_stream(self, name: str) -> EventStream:
        self._streams[name] = stream = EventStream(name, self._recent)
        return stream

    def make_first_event(self, stream: EventStream) -> bytes:
        """An event without a message, by which a client can continue the stream from its beginning."""
        return render_event(b"", self._recent.keep(stream.name, b""))

    def continue_stream(self, last: str) -> tuple[EventStream, list[bytes]]:
        """The stream of an event and what it has sent since. One that has ended, or that nobody knows, ends at once."""
        name, missed = self._recent.find_after(last)
        stream = self._streams.get(name or "")
        if stream is None:
            stream = EventStream()
            stream.end()
        return stream, missed

    def notify_tools_changed(self) -> None:
        stream = self._streams.get(OWN_STREAM)
        if stream is not None and not stream.is_behind:  # one that waits is enough
            stream.put(render_notification("notifications/tools/list_changed"))

    def accept_answer(self, request: object, result: msgspec.Raw | msgspec.UnsetType) -> None:
        """The client's answer to a form; whatever else it may be answers nothing."""
        form = self.asked.pop(request, None) if isinstance(request, str) else None
        if form is not None:
            form.answer(NO_ANSWER if isinstance(result, msgspec.UnsetType) else read_response(result))

    def make_form_id(self) -> str:
        return f"form-{next(self._form_numbers)}"

    def cancel_calls(self) -> None:
        for running in self.calls.values():
            running.cancel()

    def end(self) -> None:
        """Calls are cancelled, and every stream ends."""
        self.cancel_calls()
        for stream in self._streams.values():
            stream.end()


class StreamForms:
    """The forms of one call on its own stream, one at a time."""

    def __init__(self, session: McpHttpSession, stream: EventStream, version: str) -> None:
        self._session, self._stream, self._version = session, stream, version
        self._open: OpenForm | None = None
        self._id = ""

    def set_open(self, wanted: OpenForm | None) -> None:
        """Ask this one. The client is told that another, which it has not answered, is over."""
        if wanted is self._open:
            return
        if self._session.asked.pop(self._id, None) is not None:
            over = {"requestId": self._id, "reason": "it is answered elsewhere, or its call has ended"}
            self._stream.put(render_notification("notifications/cancelled", over))
        self._open = wanted
        if wanted is not None:
            self._id = self._session.make_form_id()
            self._session.asked[self._id] = wanted
            params = render_form(wanted.form, names_mode=self._version >= ARRAYS_SINCE)
            self._stream.put(render_request(self._id, "elicitation/create", params))


def render_form(form: ElicitationForm, *, names_mode: bool) -> dict[str, object]:
    """The params of `elicitation/create`."""
    mode = {"mode": "form"} if names_mode else {}
    return {**mode, "message": form.message, "requestedSchema": form.schema}


def read_response(result: msgspec.Raw) -> FormResponse:
    """A client's answer to a form. One that makes no sense is none."""
    try:
        found = _read_result(result)
    except (ValueError, RecursionError):
        return NO_ANSWER
    content: Mapping[str, object] | None = found.content
    return FormResponse(found.action, content)


async def follow_call(
    running: RunningCall, stream: EventStream, params: CallParams, forms: StreamForms | None = None
) -> None:
    """Put what a call tells, and what it asks, on its stream until it ends."""
    token = read_token(params)
    try:
        while True:
            while running.progress:
                done, total, text = running.progress.popleft()
                fields = {"progressToken": token, "progress": done, "total": total, "message": text or None}
                told = {key: value for key, value in fields.items() if value is not None}
                if token is not None:
                    stream.put(render_notification("notifications/progress", told))
                    await _wait_for_room(stream, running)
            if running.answer is not None or running.cancelled:
                return
            running.news.clear()
            if forms is not None and isinstance(running.client, StreamClient):
                forms.set_open(running.client.open)
            await running.news.wait()
    finally:
        if forms is not None:
            forms.set_open(None)


async def _wait_for_room(stream: EventStream, running: RunningCall) -> None:
    """A reader that does not read must not keep a call that has ended."""
    if not stream.is_full or running.ended.is_set():
        return
    either = {asyncio.ensure_future(stream.wait_for_room()), asyncio.ensure_future(running.ended.wait())}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in either:
            each.cancel()


def read_token(params: CallParams) -> int | str | None:
    """The token by which a client knows the progress of its call; None: it did not ask for it."""
    token = (params.meta or {}).get("progressToken")
    return token if isinstance(token, int) or (isinstance(token, str) and len(token) <= LONGEST_ID) else None
