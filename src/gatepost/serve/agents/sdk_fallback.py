"""The official SDK's Streamable HTTP on our gate. Its import takes most of a second: only when it is needed.

It keeps the sessions of the 2025 revisions and their streams, and judges what is not plain. One server is there for all
callers: who calls is in the request's scope, put there by `http.py`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequests,
    InputRequiredResult,
    JSONRPCMessage,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from starlette.types import Receive, Scope, Send

from gatepost.core import ids, log
from gatepost.core.errors import Invalid
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.mcp_messages import render_answer
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc.protocol import HANDSHAKE_VERSIONS, INVALID_PARAMS
from gatepost.serve.agents.elicitation_form import ElicitationForm, FormAction, FormResponse
from gatepost.serve.agents.eliciting_client import (
    FORMS_SINCE,
    NO_ANSWER,
    CallState,
    OpenForm,
    RetryClient,
    StreamClient,
    parse_state,
    render_state,
    supports_forms,
)
from gatepost.serve.agents.fast_path import CANCELLED, IDLE_S, McpHttpSession, RunningCall
from gatepost.tools.call import Caller

CALLER, SESSION, BEGUN = "gatepost.caller", "gatepost.session", "gatepost.begun"  # in a request's scope
MOST_EVENTS, MOST_KEPT = 256, 1024 * 1024  # of one session, and their bytes; the newest is kept whatever its size
MOST_SESSIONS = 10_000
Context = ServerRequestContext[Any, Any]

_encode = msgspec.json.Encoder().encode
_log = log.get("mcp")


class StreamForms:
    """The forms of one call, on its own stream, one at a time: elicitation in the words of the official SDK."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._session, self._request = ctx.session, ctx.request_id
        self._open: OpenForm | None = None
        self._task: asyncio.Task[None] | None = None

    async def set_open(self, wanted: OpenForm | None) -> None:
        """Ask this one. The client is told that another, which it has not answered, is over."""
        if wanted is self._open:
            return
        self._open, task, self._task = wanted, self._task, None
        if wanted is not None:
            self._task = asyncio.get_running_loop().create_task(self._ask(wanted))
        if task is not None and not task.done():
            task.cancel()  # the SDK writes the notification, and waits for that only so long
            await asyncio.wait({task})

    async def _ask(self, wanted: OpenForm) -> None:
        try:
            said = await self._session.elicit_form(wanted.form.message, wanted.form.schema, self._request)
            wanted.answer(_read_result(said))
        except Exception as error:  # noqa: BLE001  whatever a client makes of it, the request waits as before
            _log.info("a client did not take a form", request=wanted.form.request_id, error=type(error).__name__)
            wanted.answer(NO_ANSWER)


def _read_forms_version(ctx: ServerRequestContext[Any, Any]) -> str:
    """The revision that a client speaks, if it can be asked by forms; else nothing."""
    declared, version = ctx.session.client_capabilities, ctx.session.protocol_version
    known = declared is not None and supports_forms(declared.model_dump(by_alias=True, exclude_none=True))
    return version if known and version >= FORMS_SINCE else ""


def _read_retry(params: CallToolRequestParams, able: bool) -> RetryClient | None:
    """A call that is made again has its state, whatever its client declares now: its first part is not done twice."""
    if params.request_state is None:
        return RetryClient() if able else None
    try:
        state = parse_state(params.request_state)
    except Invalid as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    given = (params.input_responses or {}).get(state.request_id)
    return RetryClient(state, _read_result(given) if isinstance(given, ElicitResult) else NO_ANSWER, able)


def _render_wanted(state: CallState, form: ElicitationForm) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    requests: InputRequests = {form.request_id: ElicitRequest(params=params)}
    return InputRequiredResult(input_requests=requests, request_state=render_state(state))


def _read_result(said: ElicitResult) -> FormResponse:
    return FormResponse(FormAction(said.action), said.content)


class RecentEvents:
    """Events that the streams of one session have sent lately, for a client that comes back."""

    def __init__(self) -> None:
        self.name, self.numbers = ids.new("e"), count(1)
        self.kept: deque[tuple[str, str, JSONRPCMessage | None, int]] = deque()
        self.size = 0

    def keep(self, stream: str, message: JSONRPCMessage | None) -> str:
        event = f"{self.name}-{next(self.numbers)}"
        size = 0 if message is None else len(message.model_dump_json(by_alias=True))
        self.kept.append((event, stream, message, size))
        self.size += size
        while len(self.kept) > MOST_EVENTS or (self.size > MOST_KEPT and len(self.kept) > 1):
            self.size -= self.kept.popleft()[-1]
        return event

    def after(self, last: str) -> tuple[str | None, list[EventMessage]]:
        """The stream of an event, and what it has said since. None: it is not known any more."""
        kept = list(self.kept)
        at = next((number for number, each in enumerate(kept) if each[0] == last), None)
        if at is None:
            return None, []
        stream = kept[at][1]
        later = [each for each in kept[at + 1 :] if each[1] == stream]
        return stream, [EventMessage(message, event) for event, _, message, _ in later if message is not None]


EVENTS: ContextVar[RecentEvents] = ContextVar("events")  # of the session that a request is for


class SessionEventStore(EventStore):
    """The SDK asks one store for all sessions and names none: each request, and each session's own task, carries its
    session's events with it. So nobody can continue a stream of somebody else."""

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        return EVENTS.get().keep(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        stream, missed = EVENTS.get().after(last_event_id)
        for each in missed:
            await send_callback(each)
        return stream


class _SdkServer(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's transport asks for it without saying that our tools change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class SdkFallback:
    """The SDK's side of one endpoint. `running()` is its whole life."""

    def __init__(self, name: str, version: str, dispatch: Dispatch, largest: int, elicits: bool = False) -> None:
        self._dispatch, self._elicits = dispatch, elicits
        self._name, self._calls = ids.new("h"), count(1)
        self._listening: dict[str, tuple[InMemorySubscriptionBus, ListenHandler]] = {}  # by folder
        self._telling: set[asyncio.Task[None]] = set()
        server = _SdkServer(
            name,
            version=version,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._listen,
        )
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        server.middleware.clear()  # spans that nobody collects
        self._manager = StreamableHTTPSessionManager(
            server,
            event_store=SessionEventStore(),
            # The caller and the host name were checked before.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            session_idle_timeout=IDLE_S,
            max_request_body_size=largest,
            max_sessions=MOST_SESSIONS,
        )

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        session: McpHttpSession,
        known: bool,
        begun: RunningCall | None,
    ) -> None:
        """One request of a session, or the one that makes it. `begun`: the call is under way already."""
        if not isinstance(session.events, RecentEvents):
            session.events = RecentEvents()
        EVENTS.set(session.events)
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        marked = {"headers": headers, CALLER: session.caller, SESSION: session if known else None, BEGUN: begun}
        await self._manager.handle_request({**scope, **marked}, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            try:
                yield
            finally:
                for _, handler in self._listening.values():
                    handler.close()
                await asyncio.sleep(0)  # streams say that they end before they are cut

    def tools_changed(self, folder: str | None) -> None:
        """For those who listen on the 2026 wire; those who have a session are told through it."""
        for of, (bus, _) in self._listening.items():
            if folder is None or of == folder:
                self._send_soon(bus.publish(ToolsListChanged()))

    def _send_soon(self, telling: Any) -> None:
        task = asyncio.get_running_loop().create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    # Calls from the SDK.

    async def _list(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return _parse_tools(await self._dispatch.listed_for(_caller(ctx)))

    async def _call(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        scope = ctx.request.scope if ctx.request is not None else {}
        running: RunningCall | None = scope.get(BEGUN)
        session: McpHttpSession | None = scope.get(SESSION)
        if running is None:
            raw = _encode(params.arguments or {})
            call_id, client = f"{self._name}.{next(self._calls)}", self._make_client(ctx, params)
            running = RunningCall(self._dispatch, _caller(ctx), params.name, raw, call_id, client)
        running.adopted = True
        if session is not None and ctx.request_id is not None:
            session.begun[ctx.request_id] = running
        forms = StreamForms(ctx)
        try:
            while True:
                while running.progress:
                    done, total, text = running.progress.popleft()
                    await ctx.session.report_progress(done, total, text or None)
                if running.answer is not None or running.cancelled:
                    break
                running.news.clear()
                if isinstance(running.client, StreamClient):
                    await forms.set_open(running.client.open)
                await running.news.wait()
        finally:
            running.cancel()
            if session is not None and ctx.request_id is not None:
                session.finish_request(ctx.request_id)  # perhaps long after its client has hung up
            await forms.set_open(None)
        if running.answer is None:
            raise MCPError(CANCELLED, "Request cancelled")
        if isinstance(running.client, RetryClient) and running.client.wanted is not None:
            return _render_wanted(*running.client.wanted)
        return _result(running.answer)

    def _make_client(self, ctx: Context, params: CallToolRequestParams) -> StreamClient | RetryClient | None:
        if not self._elicits:
            return None
        version = _read_forms_version(ctx)
        if ctx.session.protocol_version in HANDSHAKE_VERSIONS:
            return StreamClient(version) if version else None
        return _read_retry(params, able=bool(version))

    async def _listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        folder = _caller(ctx).folder
        if folder not in self._listening:
            bus = InMemorySubscriptionBus()
            self._listening[folder] = bus, ListenHandler(bus)
        wanted = SubscriptionFilter(tools_list_changed=params.notifications.tools_list_changed)
        return await self._listening[folder][1](ctx, params.model_copy(update={"notifications": wanted}))

    async def _initialized(self, ctx: Context, params: NotificationParams) -> None:
        session: McpHttpSession | None = ctx.request.scope.get(SESSION) if ctx.request is not None else None
        if session is not None:
            client = ctx.session  # not the whole context, which holds the request
            session.forms = _read_forms_version(ctx) if self._elicits else ""
            session.tools_changed = lambda: self._send_soon(client.send_tool_list_changed())


def _caller(ctx: Context) -> Caller:
    assert ctx.request is not None
    caller = ctx.request.scope[CALLER]
    assert isinstance(caller, Caller)
    return caller


@lru_cache(64)
def _parse_tools(tools: bytes) -> ListToolsResult:
    return ListToolsResult.model_validate_json(b'{"tools":%b}' % tools)


def _result(answer: ToolAnswer) -> CallToolResult:
    if answer.code:
        raise MCPError(answer.code, answer.text)
    return CallToolResult.model_validate_json(render_answer(answer, msgspec.UNSET))
