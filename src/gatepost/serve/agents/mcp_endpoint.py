"""MCP over Streamable HTTP, in both eras of the protocol, on the same gate as the sockets.

The caller comes from `caller_of`, never from the words of a request. A call that ends at once is answered by JSON; one
that takes longer, or tells of its progress, becomes a stream of events. In a session a lost stream can be continued,
and its call goes on meanwhile; without one, a client that leaves cancels its call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import count
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from gatepost.core import ids
from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.json_limits import has_few_values
from gatepost.gate import mcp_messages
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.mcp_messages import CallParams, InitializeParams, McpParams
from gatepost.gate.mcp_protocol import LONGEST_METHOD, MOST_IN_FLIGHT, MOST_WAITING, TOO_MANY_VALUES
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc.messages import (
    JsonRpcMessage,
    RequestId,
    encode,
    parse_or_fail,
    render_error,
    render_notification,
    render_result,
)
from gatepost.jsonrpc.protocol import (
    CAPABILITIES,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SUBSCRIPTION,
    TOO_MANY,
    UNSUPPORTED_VERSION,
    JsonRpcFailure,
    McpServerInfo,
    agree_on,
    check_version,
    render_id_in_use,
)
from gatepost.serve.agents.eliciting_client import (
    FORMS_SINCE,
    NO_ANSWER,
    RetryClient,
    StreamClient,
    parse_state,
    render_state,
    supports_forms,
)
from gatepost.serve.agents.event_stream import EventStream, render_event
from gatepost.serve.agents.http_exchange import (
    ArgumentHeaders,
    ClientLeft,
    HttpExchange,
    McpHeaders,
    check_argument_headers,
    check_envelope,
    send_answer,
)
from gatepost.serve.agents.http_session import (
    IDLE_S,
    McpHttpSession,
    StreamForms,
    follow_call,
    read_response,
    read_token,
    render_form,
)
from gatepost.serve.agents.running_call import RunningCall
from gatepost.tools.call import Caller

SWEPT = 256  # new sessions between two looks for those that have ended by themselves
MOST_SESSIONS = 10_000
MOST_OF_CALLER = 256  # sessions of one caller; a further one ends the one that was idle for longest
MOST_LISTENING = 1000  # subscriptions
LARGEST = 10 * 1024 * 1024  # bytes of one message, as on the sockets
FAREWELL_S = 1.0  # for the last answers
CANCELLED = -32800  # a stream of 2025 ends with an answer, also that of a call that was cancelled
CONTINUED_SINCE = "2025-11-25"  # clients before it do not know events without a message
STOPPING = ToolAnswer(
    "The gateway is stopping. Agents go on where they were when it is up; ask again then.", failed=True
)

T = TypeVar("T")
CallerOf = Callable[[Scope], Awaitable[Caller]]

NO_MESSAGE = (
    'Invalid request: this is no JSON-RPC message: it needs "jsonrpc":"2.0" and a method (params, if any, an object),'
    " or an id and the result or error of what we asked"
)
NO_SESSION = "there is no session: send initialize first, and name the session that its answer gives"
_STATUS = {  # since 2026-07-28, errors of the request itself are HTTP's, too
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


class HttpCallParams(CallParams, kw_only=True):
    """`requestState`, `inputResponses`: of a call that is made again with what its first answer asked for."""

    requestState: str | None = None
    inputResponses: dict[str, msgspec.Raw] | None = None


class _InitializeParams(InitializeParams, kw_only=True):
    capabilities: dict[str, object] | None = None


_read_call = msgspec.json.Decoder(HttpCallParams).decode
_read_initialize = msgspec.json.Decoder(_InitializeParams).decode
_read_arguments = msgspec.json.Decoder(dict[str, object] | None).decode


class McpEndpoint:
    """An ASGI application that serves the gate's tools as the server `name`. Close it before the loop ends."""

    def __init__(
        self,
        name: str,
        version: str,
        dispatch: Dispatch,
        caller_of: CallerOf,
        events: EventBus,
        largest: int,
        elicits: bool = False,
    ) -> None:
        """`elicits`: its tools ask the clients that can be asked."""
        self._dispatch, self._caller_of, self._largest, self._elicits = dispatch, caller_of, largest, elicits
        self._info = McpServerInfo({"name": name, "version": version}, {"tools": {"listChanged": True}})
        self._stamp, self._list_fields = msgspec.Raw(encode(self._info.stamp)), encode(self._info.list_fields)[1:]
        self._argument_headers = ArgumentHeaders()
        self.sessions: dict[str, McpHttpSession] = {}
        self._listening: dict[EventStream, tuple[Caller, RequestId, bool]] = {}  # is it told of changes?
        self._running: set[RunningCall] = set()
        self._posting: set[asyncio.Task[object]] = set()
        self._calls, self._prefix = count(1), ids.new("c")
        self._late: set[asyncio.Task[None]] = set()  # of calls that became streams
        self._writing: dict[asyncio.Task[object], EventStream] = {}
        self._is_closing = False
        events.on_tools(self._tools_changed)

    async def close(self) -> None:
        """Calls under way are told so; then every stream and session ends."""
        self._is_closing = True
        for running in tuple(self._running):
            running.give_up(STOPPING)
        for stream, (_, request, _) in self._listening.items():
            meta = {SUBSCRIPTION: request, **self._info.stamp}
            stream.put(render_result(request, encode({"resultType": "complete", "_meta": meta})))
            stream.end()
        if self._posting:
            await asyncio.wait(self._posting, timeout=FAREWELL_S)
        self.sessions.clear()
        for stream in self._writing.values():
            stream.end()
        if self._writing:
            await asyncio.wait(self._writing, timeout=FAREWELL_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        try:
            if self._is_closing:
                raise Unavailable("MCP over HTTP", "the gateway is stopping")
            caller = await self._caller_of(scope)
        except GatepostError as error:
            status = 404 if isinstance(error, NotFound) else 503 if isinstance(error, Unavailable) else 403
            code = INTERNAL_ERROR if status == 503 else INVALID_REQUEST
            return await send_answer(send, status, render_error(None, code, str(error)))
        head = McpHeaders(scope)
        exchange = HttpExchange(receive, send, head, caller, self._find_session(head, caller))
        twice = head.find_twice()
        if twice is not None:
            return await exchange.refuse(400, HEADER_MISMATCH, f"the header {twice} is there twice")
        if scope["method"] == "POST":
            return await self._guard_post(exchange)
        if not head.old:
            return await exchange.refuse(405, INVALID_REQUEST, "this revision has POST alone", (b"allow", b"POST"))
        return await self._get_or_delete(exchange, scope["method"])

    # Sessions.

    def _find_session(self, head: McpHeaders, caller: Caller) -> McpHttpSession | None:
        session = self.sessions.get(head.session or "") if head.old else None
        if session is None or session.caller != caller:
            return None
        if session.idle(_now()) > IDLE_S:
            self._end_session(session)
            return None
        return session

    def _end_session(self, session: McpHttpSession) -> None:
        self.sessions.pop(session.name, None)
        session.end()

    def _add_session(self, session: McpHttpSession) -> None:
        if len(self.sessions) % SWEPT == 0 or len(self.sessions) >= MOST_SESSIONS:
            now = _now()
            for each in [each for each in self.sessions.values() if each.idle(now) > IDLE_S]:
                self._end_session(each)
        own = [each for each in self.sessions.values() if each.caller == session.caller]
        if len(own) >= MOST_OF_CALLER:
            oldest = min(own, key=lambda each: (bool(each.serving or each.calls), each.seen))
            self._end_session(oldest)
        if len(self.sessions) >= MOST_SESSIONS:
            raise JsonRpcFailure(TOO_MANY, f"{MOST_SESSIONS} sessions are open; end one, or try again later")
        self.sessions[session.name] = session

    async def _get_or_delete(self, exchange: HttpExchange, method: str) -> None:
        session, head = exchange.session, exchange.head
        if method not in ("GET", "DELETE"):
            allowed = (b"allow", b"GET, POST, DELETE")
            return await exchange.refuse(405, INVALID_REQUEST, "Method Not Allowed", allowed)
        if session is None:
            return await self._refuse_session(exchange)
        if method == "DELETE":
            self.sessions.pop(session.name, None)
            session.cancel_calls()
            # A client that ends its session closes its streams itself; to some, an end from both sides is an error.
            asyncio.get_running_loop().call_later(FAREWELL_S, session.end)
            return await exchange.answer(200, b"")
        if not head.accepts_events:
            return await exchange.refuse(406, INVALID_REQUEST, "a client must accept text/event-stream")
        missed: list[bytes] = []
        if head.last_event:
            stream, missed = session.continue_stream(head.last_event)
            if not stream.ended and head.version >= CONTINUED_SINCE:
                missed.append(session.make_first_event(stream))
        elif (own := session.open_own_stream()) is not None:
            stream = own
        else:
            return await exchange.refuse(409, INVALID_REQUEST, "the stream of this session is open already")
        await self._write(exchange, stream, missed)
        return None

    @staticmethod
    async def _refuse_session(exchange: HttpExchange) -> None:
        if exchange.head.session is not None:
            return await exchange.refuse(404, INVALID_REQUEST, "Session not found")
        return await exchange.refuse(400, INVALID_REQUEST, NO_SESSION)

    async def _write(self, exchange: HttpExchange, stream: EventStream, first: Iterable[bytes] = ()) -> bool:
        """Send a stream to its end; its session is in use meanwhile. False: the client has left before."""
        session, task = exchange.session, asyncio.current_task()
        assert task is not None
        self._writing[task] = stream
        if session is not None:
            session.serving += 1
        try:
            return await exchange.write_events(stream, first)
        finally:
            self._writing.pop(task, None)
            if session is not None:
                session.serving -= 1
                session.seen = _now()

    # Messages.

    async def _guard_post(self, exchange: HttpExchange) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._posting.add(task)
        try:
            await self._post(exchange)
        except ClientLeft:
            return
        finally:
            self._posting.discard(task)

    async def _post(self, exchange: HttpExchange) -> None:
        head = exchange.head
        if head.old and exchange.session is None and head.session is not None:
            return await self._refuse_session(exchange)
        if not head.accepts_json or not head.accepts_events:
            text = "a client must accept both application/json and text/event-stream"
            return await exchange.refuse(406, INVALID_REQUEST, text)
        if not head.sends_json:
            return await exchange.refuse(415, INVALID_REQUEST, "the content-type must be application/json")
        body = await exchange.read_body(self._largest)
        if body is None:
            text = f"a message may have at most {self._largest} bytes"
            return await exchange.refuse(413, INVALID_REQUEST, text, (b"connection", b"close"))
        if self._is_closing:  # while the body was on its way
            return await exchange.refuse(503, INTERNAL_ERROR, "the gateway is stopping")
        if exchange.session is not None and self.sessions.get(exchange.session.name) is not exchange.session:
            return await exchange.refuse(404, INVALID_REQUEST, "Session not found")
        if not has_few_values(body):
            return await exchange.refuse(400, INVALID_REQUEST, TOO_MANY_VALUES)
        try:
            message = parse_or_fail(body)
        except JsonRpcFailure as failure:
            return await exchange.refuse(400, failure.code, failure.message)
        if not _is_message(message) or (message.method is None and not head.old):
            return await exchange.refuse(400, INVALID_REQUEST, NO_MESSAGE)
        if not head.old:
            return await self._serve_envelope(exchange, message)
        if exchange.session is not None:
            return await self._serve_in_session(exchange, exchange.session, message)
        if message.method == "initialize" and isinstance(message.id, int | str):
            return await self._open_session(exchange, message.id, message.params)
        return await self._refuse_session(exchange)

    async def _open_session(self, exchange: HttpExchange, request: RequestId, params: msgspec.Raw) -> None:
        try:
            result, forms = self._initialize(params)
            session = McpHttpSession(exchange.caller, _now(), forms)
            self._add_session(session)
        except JsonRpcFailure as failure:
            status = 503 if failure.code == TOO_MANY else 400
            return await exchange.answer(status, render_error(request, failure.code, failure.message))
        exchange.session = session
        return await exchange.answer(200, render_result(request, result))

    def _initialize(self, params: msgspec.Raw) -> tuple[bytes, str]:
        """The answer to `initialize`, and the revision if the client can be asked by forms."""
        given = _parse(_read_initialize, params)
        version = agree_on(given.protocolVersion)
        asks = self._elicits and version >= FORMS_SINCE and supports_forms(given.capabilities)
        return encode(self._info.initialized(version)), version if asks else ""

    async def _serve_in_session(self, exchange: HttpExchange, session: McpHttpSession, message: JsonRpcMessage) -> None:
        session.seen = _now()
        request = message.id
        if not isinstance(request, int | str):
            self._accept_notification(session, message)
            return await exchange.answer(202, b"")
        if message.method is None:
            session.accept_answer(request, message.result)
            return await exchange.answer(202, b"")
        if str(request) in session.flying:
            return await exchange.answer(200, render_error(request, INVALID_REQUEST, render_id_in_use(request)))
        session.flying.add(str(request))
        running: RunningCall | None = None
        try:
            if message.method == "tools/call":
                running, params = self._begin_in_session(session, request, message.params)
                shows = _shows_progress(params)
                if not await running.settle(shows):
                    return await self._stream_in_session(exchange, session, request, running, params)
                answer = self._render_end(request, running, modern=False)
            else:
                answer = render_result(request, await self._ask_in_session(session, exchange.caller, message))
        except JsonRpcFailure as failure:
            answer = render_error(request, failure.code, failure.message, failure.data)
        except BaseException:
            session.finish_request(request)
            raise
        session.finish_request(request)
        return await exchange.answer(200, answer)

    @staticmethod
    def _accept_notification(session: McpHttpSession, message: JsonRpcMessage) -> None:
        if message.method != "notifications/cancelled":
            return
        try:
            running = session.calls.get(mcp_messages.read_cancelled(message.params).requestId)
        except (ValueError, RecursionError):
            return  # a notification is never answered, not even a bad one
        if running is not None:
            running.cancel()

    async def _ask_in_session(self, session: McpHttpSession, caller: Caller, message: JsonRpcMessage) -> bytes:
        if message.method == "tools/list":
            _parse(mcp_messages.read_params, message.params)
            return b'{"tools":%b}' % await self._list(caller)
        if message.method == "ping":
            return b"{}"
        if message.method == "initialize":
            result, session.forms = self._initialize(message.params)
            return result
        raise JsonRpcFailure(METHOD_NOT_FOUND, "Method not found", (message.method or "")[:LONGEST_METHOD])

    async def _serve_envelope(self, exchange: HttpExchange, message: JsonRpcMessage) -> None:
        """A request of the 2026 revision, which stands for itself."""
        request = message.id
        try:
            if not isinstance(request, int | str):
                check_version(exchange.head.version)
                return await exchange.answer(202, b"")
            if message.method == "tools/call":
                return await self._call_by_envelope(exchange, request, message)
            if message.method == "subscriptions/listen":
                return await self._listen(exchange, request, message)
            check_envelope(exchange.head, message, _parse(mcp_messages.read_params, message.params) or McpParams())
            if message.method == "tools/list":
                result = b'{"tools":%b,%b' % (await self._list(exchange.caller), self._list_fields)
            elif message.method == "server/discover":
                result = encode(self._info.discovered())
            else:
                raise JsonRpcFailure(METHOD_NOT_FOUND, "Method not found", (message.method or "")[:LONGEST_METHOD])
        except JsonRpcFailure as failure:
            known = request if isinstance(request, int | str) else None
            text = render_error(known, failure.code, failure.message, failure.data)
            return await exchange.answer(_STATUS.get(failure.code, 200), text)
        return await exchange.answer(200, render_result(request, result))

    async def _list(self, caller: Caller) -> bytes:
        try:
            return await self._dispatch.listed_for(caller)
        except GatepostError as error:
            raise JsonRpcFailure(INTERNAL_ERROR, str(error)) from None

    # Calls.

    def _begin_in_session(
        self, session: McpHttpSession, request: RequestId, raw: msgspec.Raw
    ) -> tuple[RunningCall, CallParams]:
        params = _parse(mcp_messages.read_call, raw)
        if len(session.calls) >= MOST_IN_FLIGHT:
            raise JsonRpcFailure(TOO_MANY, f"{MOST_IN_FLIGHT} calls are in flight; wait for an answer")
        if sum(each.size for each in session.calls.values()) + len(memoryview(params.arguments)) > MOST_WAITING:
            raise JsonRpcFailure(TOO_MANY, f"calls in flight have {MOST_WAITING} bytes; wait for an answer")
        running = self._begin(session.caller, params, StreamClient(session.forms) if session.forms else None)
        session.calls[request] = running
        return running, params

    def _begin(self, caller: Caller, params: CallParams, client: StreamClient | RetryClient | None) -> RunningCall:
        raw = bytes(params.arguments)
        call_id = f"{self._prefix}.{next(self._calls)}"
        given = b"{}" if raw == b"null" else raw
        running = RunningCall(self._dispatch, caller, params.name, given, call_id, client)
        self._running.add(running)
        running.when_ended(self._running.discard)
        return running

    async def _stream_in_session(
        self,
        exchange: HttpExchange,
        session: McpHttpSession,
        request: RequestId,
        running: RunningCall,
        params: CallParams,
    ) -> None:
        """The call goes on without its client, who may come back for the rest."""
        stream = session.open_call_stream(request)
        first = [session.make_first_event(stream)] if exchange.head.version >= CONTINUED_SINCE else []
        forms = StreamForms(session, stream, session.forms)

        async def follow() -> None:
            try:
                await follow_call(running, stream, params, forms)
                stream.put(self._render_end(request, running, modern=False))
            finally:
                running.cancel()
                session.finish_request(request)

        await self._write_call(exchange, stream, running, follow(), first)

    async def _call_by_envelope(self, exchange: HttpExchange, request: RequestId, message: JsonRpcMessage) -> None:
        params = _parse(_read_call, message.params)
        check_envelope(exchange.head, message, params)
        wanted = self._argument_headers.find(params.name, await self._list(exchange.caller))
        if wanted:
            check_argument_headers(wanted, _parse(_read_arguments, params.arguments), exchange.head)
        running = self._begin(exchange.caller, params, self._make_retry_client(params))
        if await running.settle(_shows_progress(params)):
            code = running.answer.code if running.answer is not None else 0
            answer = self._render_end(request, running, modern=True)
            return await exchange.answer(_STATUS.get(code, 200), answer)
        stream = EventStream()

        async def follow() -> None:
            try:
                await follow_call(running, stream, params)
                stream.put(self._render_end(request, running, modern=True))
            finally:
                running.cancel()
                stream.end()

        return await self._write_call(exchange, stream, running, follow(), is_kept=False)

    async def _write_call(
        self,
        exchange: HttpExchange,
        stream: EventStream,
        running: RunningCall,
        following: Coroutine[object, None, None],
        first: Iterable[bytes] = (),
        is_kept: bool = True,
    ) -> None:
        """Send the events of a call. `is_kept`: it goes on when its client has left."""
        task = asyncio.get_running_loop().create_task(following)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        if not await self._write(exchange, stream, first) and not is_kept:
            running.cancel()

    def _make_retry_client(self, params: HttpCallParams) -> RetryClient | None:
        """A call that is made again has its state, whatever its client declares now: nothing is done twice."""
        if not self._elicits:
            return None
        is_able = supports_forms((params.meta or {}).get(CAPABILITIES))
        if params.requestState is None:
            return RetryClient() if is_able else None
        try:
            state = parse_state(params.requestState)
        except Invalid as error:
            raise JsonRpcFailure(INVALID_PARAMS, str(error)) from None
        given = (params.inputResponses or {}).get(state.request_id)
        return RetryClient(state, NO_ANSWER if given is None else read_response(given), is_able)

    def _render_end(self, request: RequestId, running: RunningCall, *, modern: bool) -> bytes:
        answer = running.answer
        if answer is None:
            return render_error(request, CANCELLED, "Request cancelled")
        if isinstance(running.client, RetryClient) and running.client.wanted is not None:
            state, form = running.client.wanted
            asked = {"method": "elicitation/create", "params": render_form(form, names_mode=True)}
            result = {
                "resultType": "input_required",
                "inputRequests": {form.request_id: asked},
                "requestState": render_state(state),
                "_meta": self._info.stamp,
            }
            return render_result(request, encode(result))
        if answer.code:
            return render_error(request, answer.code, answer.text)
        return render_result(request, mcp_messages.render_answer(answer, self._stamp if modern else msgspec.UNSET))

    # Changes of the tools.

    async def _listen(self, exchange: HttpExchange, request: RequestId, message: JsonRpcMessage) -> None:
        params = _parse(mcp_messages.read_listen, message.params)
        check_envelope(exchange.head, message, params)
        if len(self._listening) >= MOST_LISTENING:
            raise JsonRpcFailure(TOO_MANY, f"{MOST_LISTENING} subscriptions are open; end one, or try again later")
        is_told = bool(params.notifications.toolsListChanged)
        accepted = {"toolsListChanged": True} if is_told else {}
        stream, meta = EventStream(), {SUBSCRIPTION: request}
        acknowledged = {"notifications": accepted, "_meta": meta}
        first = render_event(render_notification("notifications/subscriptions/acknowledged", acknowledged))
        self._listening[stream] = exchange.caller, request, is_told
        try:
            await self._write(exchange, stream, [first])
        finally:
            self._listening.pop(stream, None)

    def _tools_changed(self, folder: str | None) -> None:
        for session in self.sessions.values():
            if folder is None or session.caller.folder == folder:
                session.notify_tools_changed()
        for stream, (caller, request, is_told) in self._listening.items():
            if not is_told or stream.is_behind:  # one that waits is enough
                continue
            if folder is None or caller.folder == folder:
                params = {"_meta": {SUBSCRIPTION: request}}
                stream.put(render_notification("notifications/tools/list_changed", params))


def _shows_progress(params: CallParams) -> bool:
    return read_token(params) is not None


def _parse(read: Callable[[msgspec.Raw], T], params: msgspec.Raw) -> T:
    try:
        return read(params)
    except (ValueError, RecursionError) as error:
        raise JsonRpcFailure(INVALID_PARAMS, f"Invalid params: {error}") from None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_message(message: JsonRpcMessage) -> bool:
    """Return True if it is one of JSON-RPC's."""
    if message.jsonrpc != "2.0":
        return False
    if message.method is not None:
        return message.id is not None and bytes(message.params)[:1] in (b"{", b"n")
    given = message.result if message.error is msgspec.UNSET else message.error
    return isinstance(message.id, int | str) and given is not msgspec.UNSET and bytes(given)[:1] == b"{"
