"""MCP over Streamable HTTP, in both eras of the protocol, on the same gate as the sockets.

A plain request is answered here; every other goes to the official SDK, which is loaded in a thread at the first such
request. The caller comes from `caller_of`, never from the words of a request. A session is its maker's: to everybody
else it does not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import msgspec
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from gatepost.core import ids
from gatepost.core.errors import GatepostError, NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.json_limits import has_few_values
from gatepost.gate import mcp_messages
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.mcp_messages import CallParams
from gatepost.gate.mcp_protocol import TOO_MANY_VALUES
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc.messages import JsonRpcMessage, parse_or_fail, render_error
from gatepost.jsonrpc.protocol import (
    CAPABILITIES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    JsonRpcFailure,
    render_id_in_use,
)
from gatepost.serve.agents.eliciting_client import RetryClient, StreamClient, supports_forms
from gatepost.serve.agents.fast_path import CANCELLED, IDLE_S, FastPath, McpHeaders, McpHttpSession, RunningCall
from gatepost.tools.call import Caller

if TYPE_CHECKING:
    from gatepost.serve.agents.sdk_fallback import SdkFallback

SWEPT = 256  # new sessions between two looks for those that have ended by themselves
LARGEST = 10 * 1024 * 1024  # bytes of one message, as on the sockets
FAREWELL_S = 1.0  # for the last answers
STOPPING = ToolAnswer(
    "The gateway is stopping. Agents go on where they were when it is up; ask again then.", failed=True
)

CallerOf = Callable[[Scope], Awaitable[Caller]]

NO_MESSAGE = (
    'Invalid request: this is no JSON-RPC message: it needs "jsonrpc":"2.0" and a method (params, if any, an object),'
    " or an id and the result or error of what we asked"
)
_FOREIGN = b"pydantic"  # in what the SDK would say of a message: a page about its own models


@dataclass(slots=True)
class _Exchange:
    """One request, and whatever is known of it so far."""

    scope: Scope
    receive: Receive
    send: Send
    head: McpHeaders
    caller: Caller
    session: McpHttpSession | None
    begun: RunningCall | None = None  # the call that it is about

    async def answer(self, status: int, body: bytes, close: bool = False) -> None:
        named = self.head.session if self.session is not None else None
        await _send(self.send, status, body, named, close)

    async def refuse(self, status: int, code: int, text: str, close: bool = False) -> None:
        await _send(self.send, status, render_error(None, code, text), None, close)


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
        self._elicits = elicits
        self._name, self._version, self._dispatch = name, version, dispatch
        self._caller_of, self._largest = caller_of, largest
        self._plain = FastPath(name, version, dispatch)
        self.sessions: dict[str, McpHttpSession] = {}
        self._calls, self._prefix = count(1), ids.new("c")
        self._official: asyncio.Future[SdkFallback] | None = None
        self._living: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._late: dict[asyncio.Task[object], RunningCall] = {}  # calls that were not answered at once
        events.on_tools(self._tools_changed)

    async def close(self) -> None:
        """Calls under way are told so; then every stream and session ends."""
        for running in self._late.values():
            running.give_up(STOPPING)
        if self._late:
            await asyncio.wait(self._late, timeout=FAREWELL_S)
        self._ending.set()
        if self._living is not None:
            await asyncio.wait({self._living})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        try:
            caller = await self._caller_of(scope)
        except GatepostError as error:
            status = 404 if isinstance(error, NotFound) else 503 if isinstance(error, Unavailable) else 403
            return await _send(send, status, render_error(None, INVALID_REQUEST, str(error)))
        head = McpHeaders(scope)
        session = self.sessions.get(head.session or "") if head.old else None
        if session is not None and session.caller != caller:
            session = None
        exchange = _Exchange(scope, receive, send, head, caller, session)
        if head.old and session is None and (head.session is not None or scope["method"] in ("GET", "DELETE")):
            status, text = (400, "there is no session") if head.session is None else (404, "Session not found")
            return await exchange.refuse(status, INVALID_REQUEST, text)
        if scope["method"] != "POST":
            return await self._forward_to_sdk(exchange)
        body = await _read(receive, head, self._largest)
        if body is None:
            text = f"a message may have at most {self._largest} bytes"
            return await exchange.refuse(413, INVALID_REQUEST, text, close=True)
        return await self._post(exchange, body)

    async def _post(self, exchange: _Exchange, body: bytes) -> None:
        if not has_few_values(body):
            return await exchange.refuse(400, INVALID_REQUEST, TOO_MANY_VALUES)
        try:
            message = parse_or_fail(body)
        except JsonRpcFailure as failure:
            return await exchange.refuse(400, failure.code, failure.message)
        session = exchange.session
        if session is not None and message.method == "notifications/cancelled" and _cancel(session, message):
            return await exchange.answer(202, b"")
        request = message.id if session is not None and message.method is not None else None
        if session is not None and isinstance(request, int | str):
            if str(request) in session.flying:
                return await exchange.answer(200, render_error(request, INVALID_REQUEST, render_id_in_use(request)))
            session.flying.add(str(request))
        try:
            if session is None or session.idle(self._now()) < IDLE_S / 3:  # the SDK must hear of it now and then
                answered = await self._answer(exchange, message)
                if answered is not None:
                    return await exchange.answer(*answered)
            if not _is_message(message):
                return await exchange.refuse(400, INVALID_REQUEST, NO_MESSAGE)
            exchange.receive = _replay_body(body, exchange.receive)
            return await self._forward_to_sdk(exchange)
        finally:
            if session is not None and isinstance(request, int | str):
                running = session.begun.get(request)
                if running is None or not running.adopted:  # else the SDK lets it go: a stream can be continued
                    session.finish_request(request)

    async def _answer(self, exchange: _Exchange, message: JsonRpcMessage) -> tuple[int, bytes] | None:
        """Status and answer, if the request is plain. None: it is not, or its call, now begun, takes longer."""
        head, caller, request = exchange.head, exchange.caller, message.id
        params = await self._plain.read(head, message, caller, exchange.session)
        if params is None or not isinstance(request, int | str):
            return None
        if not isinstance(params, CallParams):
            return 200, await self._plain.listed(request, caller, not head.old)
        raw, shows_progress = bytes(params.arguments), "progressToken" in (params.meta or {})
        raw, call_id = b"{}" if raw == b"null" else raw, f"{self._prefix}.{next(self._calls)}"
        running = RunningCall(self._dispatch, caller, params.name, raw, call_id, self._make_client(exchange, params))
        exchange.begun = running
        if exchange.session is not None:
            exchange.session.begun[request] = running
        if not await running.settle(shows_progress):
            return None
        if running.answer is None:
            return 200, render_error(request, CANCELLED, "Request cancelled")
        if isinstance(running.client, RetryClient) and running.client.wanted is not None:
            return None  # the SDK writes what it wants
        status = 400 if running.answer.code == INVALID_PARAMS and not head.old else 200
        return status, self._plain.answered(request, running.answer, not head.old)

    def _make_client(self, exchange: _Exchange, params: CallParams) -> StreamClient | RetryClient | None:
        if not self._elicits:
            return None
        if exchange.session is not None:
            return StreamClient(exchange.session.forms) if exchange.session.forms else None
        return RetryClient() if supports_forms((params.meta or {}).get(CAPABILITIES)) else None

    # The rest is the SDK's.

    async def _forward_to_sdk(self, exchange: _Exchange) -> None:
        scope, session, begun = exchange.scope, exchange.session, exchange.begun
        try:
            official = await self._load()
        except Unavailable as error:
            if begun is not None:
                begun.cancel()
            return await exchange.refuse(503, INTERNAL_ERROR, str(error))
        served = session or McpHttpSession(exchange.caller, self._now())

        refused: AsgiMessage | None = None

        async def watch(message: AsgiMessage) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                if session is None and message["status"] == 200:
                    self._add_session(served, message)
                elif message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] == 200):
                    self.sessions.pop(served.name, None)
                if message["status"] >= 400:
                    refused = message
                    return None
            elif refused is not None:
                start, refused = refused, None
                return await _send_refusal(exchange.send, start, message, known=session is not None)
            return await exchange.send(message)

        served.serving += 1
        task = asyncio.current_task()
        if task is not None and begun is not None:
            self._late[task] = begun
        try:
            await official.serve(scope, exchange.receive, watch, served, session is not None, begun)
        finally:
            if task is not None:
                self._late.pop(task, None)
            served.serving -= 1
            served.seen = self._now()
            if begun is not None and not begun.adopted:
                begun.cancel()
        return None

    def _add_session(self, session: McpHttpSession, message: AsgiMessage) -> None:
        """The SDK has made a session, if it says so."""
        session.name = next((value.decode() for name, value in message["headers"] if name == b"mcp-session-id"), "")
        if not session.name:
            return
        if len(self.sessions) % SWEPT == 0:
            now = self._now()
            for name in [name for name, each in self.sessions.items() if each.idle(now) > IDLE_S]:
                del self.sessions[name]
        self.sessions[session.name] = session

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _load(self) -> "SdkFallback":
        if self._ending.is_set():
            raise Unavailable("MCP over HTTP", "the gateway is stopping")
        if self._official is None:
            self._official = asyncio.get_running_loop().create_future()
            self._living = asyncio.create_task(self._run_sdk(self._official))
        return await asyncio.shield(self._official)

    async def _run_sdk(self, made: "asyncio.Future[SdkFallback]") -> None:
        try:
            kind = await asyncio.to_thread(_import_sdk_fallback)
        except ImportError as error:
            self._official = None  # the next one tries again
            made.set_exception(Unavailable("MCP over HTTP", f"the library for it does not load: {error}"))
            return
        official = kind(self._name, self._version, self._dispatch, self._largest, self._elicits)
        async with official.running():
            made.set_result(official)
            await self._ending.wait()

    def _tools_changed(self, folder: str | None) -> None:
        for session in self.sessions.values():
            if session.tools_changed is not None and (folder is None or session.caller.folder == folder):
                session.tools_changed()
        if self._official is not None and self._official.done():
            self._official.result().tools_changed(folder)


def _import_sdk_fallback() -> "type[SdkFallback]":
    from gatepost.serve.agents.sdk_fallback import SdkFallback

    return SdkFallback


async def _read(receive: Receive, head: McpHeaders, largest: int) -> bytes | None:
    """The whole body; None: it is too large. One whose length already shows that is not read at all."""
    said = head.found.get(b"content-length", b"0")
    if said.isdigit() and int(said) > largest:
        return None
    first = await receive()
    if not first.get("more_body"):
        body: bytes = first.get("body", b"")
        return body
    chunks, size, more = [first["body"]], len(first["body"]), True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        size, more = size + len(chunks[-1]), message.get("more_body", False)
        if size > largest:
            return None
    return b"".join(chunks)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """The body for another reader, then whatever comes."""
    given = False

    async def receive_again() -> AsgiMessage:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _send(send: Send, status: int, body: bytes, session: str | None = None, close: bool = False) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    if body:
        headers.append((b"content-type", b"application/json"))
    if session is not None:
        headers.append((b"mcp-session-id", session.encode("latin-1")))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_refusal(send: Send, start: AsgiMessage, body: AsgiMessage, known: bool) -> None:
    """Send a refusal of the SDK, without the id of a session that was not made and without the texts of its models."""
    headers = [each for each in start["headers"] if known or each[0].lower() != b"mcp-session-id"]
    said = body.get("body", b"")
    if _FOREIGN in said:
        said = render_error(None, INVALID_REQUEST, NO_MESSAGE)
        headers = [each for each in headers if each[0].lower() != b"content-length"]
        headers.append((b"content-length", b"%d" % len(said)))
    await send({**start, "headers": headers})
    await send({**body, "body": said})


def _is_message(message: JsonRpcMessage) -> bool:
    """Return True if it is one of JSON-RPC's. The SDK takes it from there."""
    if message.jsonrpc != "2.0":
        return False
    if message.method is not None:
        return message.id is not None and bytes(message.params)[:1] in (b"{", b"n")
    given = message.result if message.error is msgspec.UNSET else message.error
    return isinstance(message.id, int | str) and given is not msgspec.UNSET and bytes(given)[:1] == b"{"


def _cancel(session: McpHttpSession, message: JsonRpcMessage) -> bool:
    """Return True if it is about a call that was just begun here."""
    try:
        running = session.begun.get(mcp_messages.read_cancelled(message.params).requestId)
    except (ValueError, RecursionError):
        return False
    if running is not None:
        running.cancel()
    return running is not None
