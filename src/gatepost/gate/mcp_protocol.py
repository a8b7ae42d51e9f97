"""MCP on one connection: lines in, lines out. It speaks both wires, the 2025 handshake and the 2026-07-28 envelope, and
the first request that fits one of them chooses which.

It knows no transport: `send` takes a whole message without its newline. It decides nothing: calls go to the gate. Each
call is a task of its own, so a slow one holds nobody up; one that was cancelled is never answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from gatepost import __version__
from gatepost.core import ids, log
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.json_limits import MOST_VALUES, has_few_values
from gatepost.gate import mcp_messages
from gatepost.gate.caller import Caller
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch, ToolAnswer
from gatepost.gate.eager_task import run_eagerly
from gatepost.gate.mcp_messages import CallParams, CallResult, McpParams, McpTextContent, RequestId
from gatepost.tools.contract import Progress

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSION = "2026-07-28"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
UNSUPPORTED_VERSION, REVOKED, TOO_MANY = -32022, -32001, -32002
TOO_MANY_VALUES = f"Invalid params: a message may hold at most {MOST_VALUES} values; put more into a file"
MOST_IN_FLIGHT = 256  # calls of one connection
LONGEST_METHOD = 200  # characters of an unknown one that are said again
MOST_LISTENING = 16  # subscriptions of one connection
MOST_WAITING = 16 * 1024 * 1024  # bytes of large calls in flight of one connection
MOST_UNREAD = 8 * 1024 * 1024  # bytes of answers that a caller has not read, beyond which no large one is added
LARGE = 64 * 1024  # bytes of an answer
LEFT_OUT = (
    f"the answer was left out, because {MOST_UNREAD} bytes of earlier ones wait to be read: read them. An effect of the"
    " call has happened; call again only if it has none"
)

META = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES = META + "protocolVersion", META + "clientCapabilities"
_SUBSCRIPTION = META + "subscriptionId"
_SERVER = {"name": "gatepost", "version": __version__}
_OFFERED = {"tools": {"listChanged": True}}

SubmitTurn = Callable[[str, dict[str, object]], Awaitable[dict[str, object]]]

_encode = msgspec.json.Encoder().encode
_STAMP = _encode({META + "serverInfo": _SERVER})
_FRESH = b'"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":' + _STAMP
_DISCOVERED = b'{"supportedVersions":%b,"capabilities":%b,%b}' % (
    _encode([ENVELOPE_VERSION]),
    _encode(_OFFERED),
    _FRESH,
)
_REVOKED = "the tools of this session are withdrawn: it is being ended"

_log = log.get("gate")


class _Rejected(Exception):
    """This request gets an error."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code, self.text, self.data = code, text, data


class _PendingCall:
    """A call that is not answered yet."""

    __slots__ = ("size", "task")

    def __init__(self, size: int) -> None:
        self.size = size
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Outflow(Protocol):
    """How far the other side is behind with reading."""

    @property
    def reads(self) -> asyncio.Semaphore:
        """Places for calls that only read, of all connections of the caller."""
        ...

    @property
    def is_full(self) -> bool:
        """This connection has answers that are not read."""
        ...

    @property
    def unread(self) -> int:
        """Bytes of answers that wait on all connections of the caller."""
        ...

    async def drained(self) -> None:
        """Return when the connection is not full."""
        ...


class McpProtocol:
    """The protocol's state for one connection. `quiet` is called whenever the last call in flight has ended."""

    def __init__(
        self,
        dispatch: Dispatch,
        caller: Caller,
        send: Callable[[bytes], None],
        submit_turn: SubmitTurn | None = None,
        quiet: Callable[[], None] = lambda: None,
        outflow: Outflow | None = None,
    ) -> None:
        """`outflow`: of the connection, if nothing else slows a caller that does not read."""
        self._dispatch, self._caller, self._send, self._outflow = dispatch, caller, send, outflow
        self._submit_turn, self._quiet = submit_turn, quiet
        self._name = ids.new("c")
        self._calls = 0
        self._modern: bool | None = None  # None: nobody has said which wire yet
        self._flights: dict[RequestId, _PendingCall] = {}
        self._listening: dict[RequestId, bool] = {}  # 2026: is it told of changes of the tools?
        self._revoked = False

    @property
    def busy(self) -> bool:
        return bool(self._flights)

    def receive(self, line: bytes) -> None:
        """One line. Whatever it is, the connection lives."""
        try:
            message = mcp_messages.read_message(line)
        except msgspec.ValidationError as error:
            batch = line.lstrip()[:1] == b"["
            return self._fail(
                None, INVALID_REQUEST, "batches are not accepted" if batch else f"Invalid request: {error}"
            )
        except (ValueError, RecursionError) as error:
            return self._fail(None, PARSE_ERROR, f"Parse error: {error}")
        request, method = message.id, message.method
        if method is None:
            if message.result is msgspec.UNSET and message.error is msgspec.UNSET:
                known = request if isinstance(request, int | str) else None
                self._fail(known, INVALID_REQUEST, "Invalid request: there is no method")
            return None  # an answer: this side asks nothing
        if request is msgspec.UNSET:
            return self._hear(method, message.params)
        if request is None or message.jsonrpc != "2.0":
            return self._fail(request, INVALID_REQUEST, 'Invalid request: `jsonrpc` must be "2.0" and `id` not null')
        try:
            self._request(request, method, bytes(message.params))
        except _Rejected as rejected:
            self._fail(request, rejected.code, rejected.text, rejected.data)
        except (ValueError, RecursionError) as error:
            self._fail(request, INVALID_PARAMS, f"Invalid params: {error}")
        return None

    def tools_changed(self) -> None:
        """What this caller may call is different now."""
        if self._modern is False:
            self._send(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        for request, told in self._listening.items():
            if told:
                self._notify("notifications/tools/list_changed", {"_meta": {_SUBSCRIPTION: request}})

    def revoke(self) -> None:
        """Refuse everything from now on; what is in flight ends with an error."""
        self._revoked = True
        flights, self._flights = self._flights, {}
        for request, flight in flights.items():
            flight.cancel()
            self._fail(request, REVOKED, _REVOKED)

    def finish(self) -> None:
        """Take leave: subscriptions end in good order."""
        listening, self._listening = self._listening, {}
        for request in listening:
            meta = {_SUBSCRIPTION: request, META + "serverInfo": _SERVER}
            self._answer(request, _encode({"resultType": "complete", "_meta": meta}))

    def cancel_all(self) -> None:
        """Nobody listens any more: what is in flight is cancelled."""
        flights, self._flights = self._flights, {}
        self._listening.clear()
        for flight in flights.values():
            flight.cancel()

    # Requests.

    def _request(self, request: RequestId, method: str, params: bytes) -> None:
        if self._revoked:
            raise _Rejected(REVOKED, _REVOKED)
        if not has_few_values(params):
            raise _Rejected(INVALID_PARAMS, TOO_MANY_VALUES)
        if request in self._flights or request in self._listening:
            raise _Rejected(INVALID_REQUEST, render_id_in_use(request))
        if method == "tools/call":
            self._call(request, params)
        elif method == "tools/list":
            modern = self._wire(mcp_messages.read_params(params))
            tools = self._dispatch.listed_for(self._caller)
            self._answer(request, b'{"tools":%b,%b}' % (tools, _FRESH) if modern else b'{"tools":%b}' % tools)
        elif method == "submit_turn":
            self._submit(request, params)
        elif method == "initialize":
            self._initialize(request, params)
        elif method == "ping" and not self._modern:
            self._answer(request, b"{}")
        elif method in ("server/discover", "subscriptions/listen"):
            self._modern_only(request, method, params)
        else:
            raise _Rejected(METHOD_NOT_FOUND, "Method not found", method[:LONGEST_METHOD])

    def _wire(self, params: McpParams | None) -> bool:
        """True: this is the 2026 wire, False: the 2025 one. The first request that is right on one of them decides."""
        meta = params.meta if params is not None else None
        if meta is None or _VERSION not in meta:
            if self._modern is None:
                raise _Rejected(INVALID_PARAMS, f"not initialized: send initialize, or the {ENVELOPE_VERSION} envelope")
            if self._modern:
                raise _Rejected(INVALID_PARAMS, f"params._meta is missing {_VERSION} and {_CAPABILITIES}")
            return False
        if self._modern is False:
            raise _Rejected(
                INVALID_REQUEST, f"this connection was initialized; the {ENVELOPE_VERSION} envelope is too late"
            )
        version = meta[_VERSION]
        if not isinstance(version, str) or not isinstance(meta.get(_CAPABILITIES), dict):
            raise _Rejected(INVALID_PARAMS, f"params._meta needs {_VERSION} (text) and {_CAPABILITIES} (object)")
        if version != ENVELOPE_VERSION:
            raise _unsupported(version)
        self._modern = True
        return True

    def _initialize(self, request: RequestId, params: bytes) -> None:
        wanted = mcp_messages.read_initialize(params).protocolVersion
        if self._modern:
            raise _unsupported(wanted)
        self._modern = False
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self._answer(request, _encode({"protocolVersion": version, "capabilities": _OFFERED, "serverInfo": _SERVER}))

    def _modern_only(self, request: RequestId, method: str, params: bytes) -> None:
        if self._modern is False:
            raise _Rejected(METHOD_NOT_FOUND, "Method not found", method)
        if method == "server/discover":
            self._wire(mcp_messages.read_params(params))
            return self._answer(request, _DISCOVERED)
        wanted = mcp_messages.read_listen(params)
        self._wire(wanted)
        if len(self._listening) >= MOST_LISTENING:
            raise _Rejected(TOO_MANY, f"{MOST_LISTENING} subscriptions are open; cancel one")
        told = bool(wanted.notifications.toolsListChanged)
        self._listening[request] = told
        honoured = {"toolsListChanged": True} if told else {}
        return self._notify(
            "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": {_SUBSCRIPTION: request}}
        )

    def _call(self, request: RequestId, params: bytes) -> None:
        wanted = mcp_messages.read_call(params)
        modern = self._wire(wanted)
        flight = self._add_pending_call(request, params)
        work = self._run(request, flight, wanted, modern)
        rest = run_eagerly(work) if self._dispatch.is_quick(self._caller, wanted.name) else work
        if rest is not None:
            flight.task = asyncio.get_running_loop().create_task(rest)

    def _add_pending_call(self, request: RequestId, params: bytes) -> _PendingCall:
        if len(self._flights) >= MOST_IN_FLIGHT:
            raise _Rejected(TOO_MANY, f"{MOST_IN_FLIGHT} calls are in flight; wait for an answer")
        size = len(params)
        if (
            size > MOST_WAITING // MOST_IN_FLIGHT
            and size + sum(each.size for each in self._flights.values()) > MOST_WAITING
        ):
            raise _Rejected(TOO_MANY, f"calls in flight have {MOST_WAITING} bytes; wait for an answer")
        flight = self._flights[request] = _PendingCall(size)
        return flight

    def _submit(self, request: RequestId, params: bytes) -> None:
        """Hidden: for agent loops that tell themselves when their turn ends. Needs no handshake."""
        if self._submit_turn is None or self._caller.session_id is None:
            raise _Rejected(METHOD_NOT_FOUND, "Method not found", "submit_turn")
        if not mcp_messages.read_turn(params).turn_id:
            raise _Rejected(INVALID_PARAMS, "Invalid params: turn_id is empty")
        given = mcp_messages.read_object(params)
        flight = self._add_pending_call(request, params)
        ending = self._submit_turn(self._caller.session_id, given)
        flight.task = asyncio.get_running_loop().create_task(self._end_turn(request, flight, ending))

    async def _run(self, request: RequestId, flight: _PendingCall, wanted: CallParams, modern: bool) -> None:
        self._calls += 1
        token = (wanted.meta or {}).get("progressToken")

        def progress(done: float, total: float | None, text: str) -> None:
            if self._outflow is not None and self._outflow.is_full:
                return  # the next one says more
            if isinstance(token, int | str) and self._flights.get(request) is flight:
                told = {"progressToken": token, "progress": done, "total": total, "message": text or None}
                self._notify("notifications/progress", {key: value for key, value in told.items() if value is not None})

        raw, name = bytes(wanted.arguments), wanted.name
        given, call_id = b"{}" if raw == b"null" else raw, f"{self._name}.{self._calls}"
        if self._outflow is not None and self._dispatch.only_reads(self._caller, name):
            answer = await self._in_place(self._outflow, lambda: self._call_tool(name, given, call_id, progress))
        else:
            answer = await self._call_tool(name, given, call_id, progress)
        if self._remove_pending_call(request, flight):
            if answer.code:
                self._fail(request, answer.code, answer.text)
            else:
                self._give(request, _encode(_result(answer, modern)))
            self._rest()

    def _call_tool(self, name: str, given: bytes, call_id: str, progress: Progress) -> Awaitable[ToolAnswer]:
        return self._dispatch.call(self._caller, name, given, call_id, progress)

    async def _in_place(self, outflow: Outflow, call: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """A call that only reads begins when there is a place for it and the answers before it were read: what is
        asked for and never read would be kept in memory, all of it."""
        while True:
            await outflow.drained()
            async with outflow.reads:
                if not outflow.is_full:
                    return await call()

    def _give(self, request: RequestId, result: bytes) -> None:
        if self._outflow is not None and len(result) > LARGE and self._outflow.unread > MOST_UNREAD:
            self._fail(request, TOO_MANY, LEFT_OUT)
        else:
            self._answer(request, result)

    async def _end_turn(self, request: RequestId, flight: _PendingCall, ending: Awaitable[dict[str, object]]) -> None:
        code, text, result = 0, "", b""
        try:
            result = _encode(await ending)
        except Invalid as error:
            code, text = INVALID_PARAMS, f"Invalid params: {error}"
        except GatepostError as error:
            code, text = INTERNAL_ERROR, str(error)
        except Exception:  # noqa: BLE001  the dispatching loop: the connection outlives it
            _log.exception("submit_turn broke", folder=self._caller.folder)
            code, text = INTERNAL_ERROR, "submit_turn: internal error; the operator's log has it"
        if self._remove_pending_call(request, flight):
            self._fail(request, code, text) if code else self._answer(request, result)
            self._rest()

    def _remove_pending_call(self, request: RequestId, flight: _PendingCall) -> bool:
        """False if it was cancelled meanwhile, and must not be answered."""
        if self._flights.get(request) is not flight:
            return False
        del self._flights[request]
        return True

    def _rest(self) -> None:
        if not self._flights:
            self._quiet()

    # Notifications.

    def _hear(self, method: str, params: msgspec.Raw) -> None:
        if method != "notifications/cancelled":
            return
        try:
            request = mcp_messages.read_cancelled(params).requestId
        except (ValueError, RecursionError):
            return  # a notification is never answered, not even a bad one
        self._listening.pop(request, None)
        flight = self._flights.pop(request, None)
        if flight is not None:
            flight.cancel()
            self._rest()

    # Answers.

    def _answer(self, request: RequestId, result: bytes) -> None:
        self._send(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(request), result))

    def _fail(self, request: RequestId | None, code: int, text: str, data: object = None) -> None:
        error = {"code": code, "message": text} if data is None else {"code": code, "message": text, "data": data}
        self._send(_encode({"jsonrpc": "2.0", "id": request, "error": error}))

    def _notify(self, method: str, params: dict[str, object]) -> None:
        self._send(_encode({"jsonrpc": "2.0", "method": method, "params": params}))


def render_id_in_use(request: RequestId) -> str:
    """What a second request of an id is told, on every transport."""
    return f"the request id {repr(request)[:80]} is already in use: wait for its answer, or take another id"


def _unsupported(version: str) -> _Rejected:
    supported = [ENVELOPE_VERSION]
    return _Rejected(
        UNSUPPORTED_VERSION,
        f"unsupported protocol version {version[:40]!r}",
        {"supported": supported, "requested": version[:40]},
    )


def _result(answer: ToolAnswer, modern: bool) -> CallResult:
    content = [McpTextContent(answer.text)] if answer.content is None else msgspec.Raw(answer.content)
    result = CallResult(content, isError=answer.failed)
    if answer.structured is not None:
        result.structuredContent = msgspec.Raw(answer.structured)
    if modern:
        result.resultType, result.meta = "complete", msgspec.Raw(_STAMP)
    return result
