"""MCP on one connection: lines in, lines out. It accepts both eras of the protocol.

It knows no transport: `send` gets a whole message without its newline. It decides nothing: calls go to the gate. Each
call is a task of its own, so a slow one delays nobody. One that was cancelled is never answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVarTuple

import msgspec

from gatepost import __version__
from gatepost.core import ids, log
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.json_limits import MOST_VALUES, has_few_values
from gatepost.gate import mcp_messages
from gatepost.gate.dispatch import Dispatch, ignore_progress
from gatepost.gate.eager_task import run_eagerly
from gatepost.gate.mcp_messages import CallParams, ListenParams, McpParams
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc import messages, protocol
from gatepost.jsonrpc.messages import RequestId, encode, render_notification
from gatepost.jsonrpc.protocol import SUBSCRIPTION, JsonRpcFailure, McpServerInfo, ServerEra
from gatepost.tools.call import Caller, Progress

TOO_MANY_VALUES = f"Invalid params: a message may hold at most {MOST_VALUES} values; put more into a file"
MOST_IN_FLIGHT = 256  # calls of one connection
LONGEST_METHOD = 200  # characters of an unknown one that the error repeats
MOST_LISTENING = 16  # subscriptions of one connection
MOST_WAITING = 16 * 1024 * 1024  # bytes of large calls in flight of one connection
MOST_UNREAD = 8 * 1024 * 1024  # bytes of answers that a caller has not read, beyond which no large one is added
LARGE = 64 * 1024  # bytes of an answer
LEFT_OUT = (
    f"the answer was left out, because {MOST_UNREAD} bytes of earlier ones wait to be read: read them. An effect of the"
    " call has happened; call again only if it has none"
)

SubmitTurn = Callable[[str, dict[str, object]], Awaitable[dict[str, object]]]

_INFO = McpServerInfo({"name": "gatepost", "version": __version__}, {"tools": {"listChanged": True}})
_STAMP = msgspec.Raw(encode(_INFO.stamp))
_LIST_FIELDS = encode(_INFO.list_fields)[1:]
_DISCOVERED = encode(_INFO.discovered())
_REVOKED = "the tools of this session are withdrawn: it is being ended"

Ts = TypeVarTuple("Ts")

_log = log.get("gate")


class _PendingCall:
    """A call that is not answered yet."""

    __slots__ = ("size", "task")

    def __init__(self, size: int) -> None:
        self.size = size
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Outflow:
    """How far a client is behind with reading."""

    def __init__(self, reads: asyncio.Semaphore, unread: Callable[[], int]) -> None:
        """`reads`: places for calls that only read. `unread`: bytes of answers that wait. Both are of the caller."""
        self.reads, self.unread = reads, unread
        self.is_full = False  # this connection has answers that are not read
        self._drained = asyncio.Event()

    def set_full(self, full: bool) -> None:
        self.is_full = full
        if not full:
            self._drained.set()
            self._drained.clear()

    async def drained(self) -> None:
        while self.is_full:
            await self._drained.wait()


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
        self._era = ServerEra()
        self._flights: dict[RequestId, _PendingCall] = {}
        self._listening: dict[RequestId, bool] = {}  # 2026: is it told of changes of the tools?
        self._revoked = False

    @property
    def busy(self) -> bool:
        return bool(self._flights)

    def receive(self, line: bytes) -> None:
        """Handle one line. The connection survives any input."""
        if len(line) <= MOST_VALUES:  # so it cannot hold more values
            try:
                call = mcp_messages.read_call_request(line)
            except (ValueError, RecursionError):
                pass
            else:
                return self._guard(call.id, self._call, call.id, call.params, len(line))
        return self._receive_any(line)

    def _receive_any(self, line: bytes) -> None:
        """A message that is no small call, or that is wrong somewhere."""
        try:
            message = messages.parse_or_fail(line)
        except JsonRpcFailure as failure:
            return self._fail(None, failure.code, failure.message)
        request, method = message.id, message.method
        if method is None:
            if message.result is msgspec.UNSET and message.error is msgspec.UNSET:
                known = request if isinstance(request, int | str) else None
                self._fail(known, protocol.INVALID_REQUEST, "Invalid request: there is no method")
            return None  # an answer: this side asks nothing
        if request is msgspec.UNSET:
            return self._notified(method, message.params)
        if request is None or message.jsonrpc != "2.0":
            return self._fail(
                request, protocol.INVALID_REQUEST, 'Invalid request: `jsonrpc` must be "2.0" and `id` not null'
            )
        return self._guard(request, self._request, request, method, bytes(message.params))

    def _guard(self, request: RequestId, handle: Callable[[*Ts], None], *args: *Ts) -> None:
        """Handle a request. Its faults become its answer."""
        try:
            if self._revoked:
                raise JsonRpcFailure(protocol.REVOKED, _REVOKED)
            if request in self._flights or request in self._listening:
                raise JsonRpcFailure(protocol.INVALID_REQUEST, protocol.render_id_in_use(request))
            handle(*args)
        except JsonRpcFailure as failure:
            self._fail(request, failure.code, failure.message, failure.data)
        except (ValueError, RecursionError) as error:
            self._fail(request, protocol.INVALID_PARAMS, f"Invalid params: {error}")

    def tools_changed(self) -> None:
        """Tell the client that its list of tools has changed."""
        if self._era.modern is False:
            self._send(render_notification("notifications/tools/list_changed"))
        for request, listens in self._listening.items():
            if listens:
                self._notify("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION: request}})

    def revoke(self) -> None:
        """Refuse everything from now on; what is in flight ends with an error."""
        self._revoked = True
        flights, self._flights = self._flights, {}
        for request, flight in flights.items():
            flight.cancel()
            self._fail(request, protocol.REVOKED, _REVOKED)

    def finish(self) -> None:
        """Take leave: subscriptions end in good order."""
        listening, self._listening = self._listening, {}
        for request in listening:
            meta = {SUBSCRIPTION: request, **_INFO.stamp}
            self._answer(request, encode({"resultType": "complete", "_meta": meta}))

    def cancel_all(self) -> None:
        """Nobody listens any more: what is in flight is cancelled."""
        flights, self._flights = self._flights, {}
        self._listening.clear()
        for flight in flights.values():
            flight.cancel()

    # Requests.

    def _request(self, request: RequestId, method: str, params: bytes) -> None:
        if not has_few_values(params):
            raise JsonRpcFailure(protocol.INVALID_PARAMS, TOO_MANY_VALUES)
        if method == "tools/call":
            self._call(request, mcp_messages.read_call(params), len(params))
        elif method == "tools/list":
            modern = self._check_era(mcp_messages.read_params(params))
            flight = self._add_pending_call(request, len(params))
            if (rest := run_eagerly(self._list(request, flight, modern))) is not None:
                flight.task = asyncio.get_running_loop().create_task(rest)
        elif method == "submit_turn":
            self._submit(request, params)
        elif method == "initialize":
            version = self._era.initialize(mcp_messages.read_initialize(params).protocolVersion)
            self._answer(request, encode(_INFO.initialized(version)))
        elif method == "ping" and not self._era.modern:
            self._answer(request, b"{}")
        elif method == "server/discover" and self._era.modern is not False:
            self._check_era(mcp_messages.read_params(params))
            self._answer(request, _DISCOVERED)
        elif method == "subscriptions/listen" and self._era.modern is not False:
            self._listen(request, mcp_messages.read_listen(params))
        else:
            raise JsonRpcFailure(protocol.METHOD_NOT_FOUND, "Method not found", method[:LONGEST_METHOD])

    def _check_era(self, params: McpParams | None) -> bool:
        return self._era.check(params.meta if params is not None else None)

    def _listen(self, request: RequestId, wanted: ListenParams) -> None:
        self._check_era(wanted)
        if len(self._listening) >= MOST_LISTENING:
            raise JsonRpcFailure(protocol.TOO_MANY, f"{MOST_LISTENING} subscriptions are open; cancel one")
        changes = bool(wanted.notifications.toolsListChanged)
        self._listening[request] = changes
        accepted = {"toolsListChanged": True} if changes else {}
        self._notify(
            "notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": {SUBSCRIPTION: request}}
        )

    def _call(self, request: RequestId, wanted: CallParams, size: int) -> None:
        meta = wanted.meta
        modern = self._era.check(meta)
        flight = self._add_pending_call(request, size)
        progress: Progress = ignore_progress
        if meta is not None and isinstance(token := meta.get("progressToken"), int | str):
            progress = self._make_progress(request, flight, token)
        quick = self._dispatch.is_quick(self._caller, wanted.name)
        work = self._run(request, flight, wanted, _STAMP if modern else msgspec.UNSET, progress, quick)
        rest = run_eagerly(work) if quick else work
        if rest is not None:
            flight.task = asyncio.get_running_loop().create_task(rest)

    async def _list(self, request: RequestId, flight: _PendingCall, modern: bool) -> None:
        try:
            tools, why = await self._dispatch.listed_for(self._caller), ""
        except GatepostError as error:
            tools, why = b"", str(error)
        if self._remove_pending_call(request, flight):
            if why:
                self._fail(request, protocol.INTERNAL_ERROR, why)
            else:
                self._answer(request, b'{"tools":%b,%b' % (tools, _LIST_FIELDS) if modern else b'{"tools":%b}' % tools)
            self._rest()

    def _add_pending_call(self, request: RequestId, size: int) -> _PendingCall:
        if len(self._flights) >= MOST_IN_FLIGHT:
            raise JsonRpcFailure(protocol.TOO_MANY, f"{MOST_IN_FLIGHT} calls are in flight; wait for an answer")
        if (
            size > MOST_WAITING // MOST_IN_FLIGHT
            and size + sum(each.size for each in self._flights.values()) > MOST_WAITING
        ):
            raise JsonRpcFailure(protocol.TOO_MANY, f"calls in flight have {MOST_WAITING} bytes; wait for an answer")
        flight = self._flights[request] = _PendingCall(size)
        return flight

    def _submit(self, request: RequestId, params: bytes) -> None:
        """Hidden: for agent loops that tell themselves when their turn ends. Needs no handshake."""
        if self._submit_turn is None or self._caller.session_id is None:
            raise JsonRpcFailure(protocol.METHOD_NOT_FOUND, "Method not found", "submit_turn")
        if not mcp_messages.read_turn(params).turn_id:
            raise JsonRpcFailure(protocol.INVALID_PARAMS, "Invalid params: turn_id is empty")
        given = mcp_messages.read_object(params)
        flight = self._add_pending_call(request, len(params))
        ending = self._submit_turn(self._caller.session_id, given)
        flight.task = asyncio.get_running_loop().create_task(self._end_turn(request, flight, ending))

    async def _run(
        self,
        request: RequestId,
        flight: _PendingCall,
        wanted: CallParams,
        stamp: msgspec.Raw | msgspec.UnsetType,
        progress: Progress,
        quick: bool,
    ) -> None:
        self._calls += 1
        caller, name, raw = self._caller, wanted.name, bytes(wanted.arguments)
        given, call_id = b"{}" if raw == b"null" else raw, f"{self._name}.{self._calls}"
        outflow = self._outflow if not quick and await self._dispatch.only_reads(caller, name, given) else None
        if outflow is not None:
            call = partial(self._dispatch.call, caller, name, given, call_id, progress)
            answer = await self._in_place(outflow, call)
        else:
            answer = await self._dispatch.call(caller, name, given, call_id, progress)
        if self._remove_pending_call(request, flight):
            if answer.code:
                self._fail(request, answer.code, answer.text)
            else:
                result = mcp_messages.render_answer(answer, stamp)
                if self._outflow is not None and len(result) > LARGE and self._outflow.unread() > MOST_UNREAD:
                    self._fail(request, protocol.TOO_MANY, LEFT_OUT)
                else:
                    self._answer(request, result)
            self._rest()

    def _make_progress(self, request: RequestId, flight: _PendingCall, token: int | str) -> Progress:
        def progress(done: float, total: float | None, text: str) -> None:
            if self._outflow is not None and self._outflow.is_full:
                return  # the next one has more
            if self._flights.get(request) is flight:
                fields = {"progressToken": token, "progress": done, "total": total, "message": text or None}
                self._notify(
                    "notifications/progress", {key: value for key, value in fields.items() if value is not None}
                )

        return progress

    async def _in_place(self, outflow: Outflow, call: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """Run a call that only reads when there is a place for it and the answers before it were read. Otherwise
        answers that the client never reads would all be kept in memory."""
        while True:
            await outflow.drained()
            async with outflow.reads:
                if not outflow.is_full:
                    return await call()

    async def _end_turn(self, request: RequestId, flight: _PendingCall, ending: Awaitable[dict[str, object]]) -> None:
        code, text, result = 0, "", b""
        try:
            result = encode(await ending)
        except Invalid as error:
            code, text = protocol.INVALID_PARAMS, f"Invalid params: {error}"
        except GatepostError as error:
            code, text = protocol.INTERNAL_ERROR, str(error)
        except Exception:  # noqa: BLE001  the dispatching loop: the connection outlives it
            _log.exception("submit_turn broke", folder=self._caller.folder)
            code, text = protocol.INTERNAL_ERROR, "submit_turn: internal error; the operator's log has it"
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

    def _notified(self, method: str, params: msgspec.Raw) -> None:
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
        self._send(messages.render_result(request, result))

    def _fail(self, request: RequestId | None, code: int, text: str, data: object = None) -> None:
        self._send(messages.render_error(request, code, text, data))

    def _notify(self, method: str, params: dict[str, object]) -> None:
        self._send(render_notification(method, params))
