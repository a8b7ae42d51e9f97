"""The fast path of MCP over HTTP, for plain requests.

A request that is valid in every respect, and is answered at once, needs no machinery. Every other request goes to the
official SDK, together with the call that was already begun.

Nothing is refused here: a request that looks odd is not plain, and the SDK says what is wrong with it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from itertools import count

import msgspec
from starlette.types import Scope

from gatepost.gate import mcp_messages
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.eager_task import run_eagerly
from gatepost.gate.mcp_messages import CallParams, McpParams
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc.messages import JsonRpcMessage, RequestId, encode, render_error, render_result
from gatepost.jsonrpc.protocol import CAPABILITIES, ENVELOPE_VERSION, HANDSHAKE_VERSIONS, VERSION, McpServerInfo
from gatepost.serve.agents.eliciting_client import ELICITING, CallingClient, RetryClient, StreamClient
from gatepost.tools.call import Caller

AT_ONCE_S = 0.05  # a call that takes longer is the SDK's: it keeps streams alive and can continue them
CANCELLED = -32800  # the code of a call that was cancelled, where HTTP must have an answer
IDLE_S = 30 * 60.0  # a session that nobody uses ends
MOST_TOLD = 256  # words of progress that wait to be sent

_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)
_OWN_HEADER = b'"x-mcp-header"'  # in a tool's schema: an argument that must also be a header


class McpHeaders:
    """The headers of a request that MCP looks at."""

    __slots__ = ("found", "odd")

    def __init__(self, scope: Scope) -> None:
        self.found: dict[bytes, bytes] = {}
        self.odd = False  # something that only the SDK judges
        for name, value in scope["headers"]:
            self.odd |= name in self.found or name.startswith(b"mcp-param-")
            self.found[name] = value.strip(b" \t")  # the HTTP parser leaves the blanks around a value

    @property
    def session(self) -> str | None:
        given = self.found.get(b"mcp-session-id")
        return None if given is None else given.decode("latin-1")

    @property
    def version(self) -> bytes | None:
        return self.found.get(b"mcp-protocol-version")

    @property
    def old(self) -> bool:
        """Return True if it is of the revisions that have sessions."""
        return self.version is None or self.version in _VERSIONS

    @property
    def accepts_both(self) -> bool:
        accept, kind = self.found.get(b"accept", b""), self.found.get(b"content-type", b"")
        return b"application/json" in accept and b"text/event-stream" in accept and kind.startswith(b"application/json")


class HttpCallParams(CallParams, kw_only=True):
    requestState: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # of a call that is made again


_read_http_call = msgspec.json.Decoder(HttpCallParams).decode


class RunningCall:
    """A call under way, and what it has told of its progress. `client`: it can be asked meanwhile."""

    def __init__(
        self,
        dispatch: Dispatch,
        caller: Caller,
        name: str,
        raw: bytes,
        call_id: str,
        client: StreamClient | RetryClient | None = None,
    ) -> None:
        self.client = client
        self.progress: deque[tuple[float, float | None, str]] = deque(maxlen=MOST_TOLD)
        self.news = asyncio.Event()
        self.answer: ToolAnswer | None = None
        self.cancelled = False
        self.adopted = False  # somebody else waits for its end
        self._task: asyncio.Task[None] | None = None
        work = self._run(dispatch, caller, name, raw, call_id)
        rest = run_eagerly(work) if dispatch.is_quick(caller, name) else work
        if rest is not None:
            context = self._make_context(dispatch, caller, call_id)
            self._task = asyncio.get_running_loop().create_task(rest, context=context)

    def _make_context(self, dispatch: Dispatch, caller: Caller, call_id: str) -> Context | None:
        if self.client is None:
            return None
        if isinstance(self.client, StreamClient):
            self.client.changed = self.news.set
        answers = count(1)

        async def sees(name: str) -> bool:
            return any(each.name == name for each in await dispatch.visible_to(caller))

        async def call(name: str, raw: bytes) -> ToolAnswer:
            return await dispatch.call(caller, name, raw, f"{call_id}.{next(answers)}")

        context = copy_context()
        context.run(ELICITING.set, CallingClient(self.client, sees, call))
        return context

    async def _run(self, dispatch: Dispatch, caller: Caller, name: str, raw: bytes, call_id: str) -> None:
        try:
            self.answer = await dispatch.call(caller, name, raw, call_id, self._progress)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.news.set()

    def _progress(self, done: float, total: float | None, text: str) -> None:
        self.progress.append((done, total, text))
        self.news.set()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def give_up(self, answer: ToolAnswer) -> None:
        """Cancel the call and give this answer in its place, unless it has one already."""
        if self.answer is None:
            self.cancel()
            self.answer = answer
            self.news.set()

    async def settle(self, shows_progress: bool) -> bool:
        """Wait a moment. True: it has ended, and nothing of its progress is left to show, if it is shown."""
        is_late = False

        def end_moment() -> None:
            nonlocal is_late
            is_late = True
            self.news.set()

        timer: asyncio.TimerHandle | None = None
        try:
            while self.answer is None and not self.cancelled and not (shows_progress and self.progress):
                if is_late:
                    return False
                # By its own word, not by the clock: uvloop's timers may fire a hair before their time by its clock.
                timer = timer or asyncio.get_running_loop().call_later(AT_ONCE_S, end_moment)
                self.news.clear()
                await self.news.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return self.cancelled or not (shows_progress and self.progress)


@dataclass(slots=True, eq=False)
class McpHttpSession:
    """A session of the 2025 revisions, as far as the plain way needs it. The SDK has the rest."""

    caller: Caller
    seen: float  # when the SDK last heard of it
    name: str = ""
    events: object = None  # the SDK's side: what its streams have said lately
    serving: int = 0  # requests that the SDK is busy with
    begun: dict[RequestId, RunningCall] = field(default_factory=dict)
    flying: set[str] = field(default_factory=set)  # ids of requests without an answer; to the SDK, 5 and "5" are one
    tools_changed: Callable[[], None] | None = None  # tells the client
    forms: str = ""  # the revision, of a client that can be asked by forms

    def finish_request(self, request: RequestId) -> None:
        """It is answered, or never will be: its id may be used again."""
        self.begun.pop(request, None)
        self.flying.discard(str(request))

    def idle(self, now: float) -> float:
        return 0.0 if self.serving else now - self.seen


class FastPath:
    """Reads what is plain, and writes its answers."""

    def __init__(self, name: str, version: str, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        info = McpServerInfo({"name": name, "version": version}, {})
        self._stamp, self._list_fields = msgspec.Raw(encode(info.stamp)), encode(info.list_fields)[1:]
        self._judged: tuple[bytes, frozenset[str]] = (b"", frozenset())

    async def read(
        self, head: McpHeaders, message: JsonRpcMessage, caller: Caller, session: McpHttpSession | None
    ) -> CallParams | McpParams | None:
        """The parameters of a plain call, or of a plain listing; None: it is not plain."""
        if head.odd or not head.accepts_both or message.jsonrpc != "2.0" or not isinstance(message.id, int | str):
            return None
        if message.method not in ("tools/call", "tools/list"):
            return None
        try:
            read = _read_http_call if message.method == "tools/call" else mcp_messages.read_params
            params = read(message.params) or McpParams()
        except (ValueError, RecursionError):
            return None
        if head.old:
            plain = session is not None
        else:
            again = isinstance(params, HttpCallParams) and params.requestState is not msgspec.UNSET
            plain = self._is_modern(head, message, params) and not again
            plain = plain and not await self._wants_headers(caller, params)
        return params if plain else None

    def _is_modern(self, head: McpHeaders, message: JsonRpcMessage, params: McpParams) -> bool:
        """Return True if it is the 2026 revision's, and its headers say the same as its body."""
        name = params.name.encode() if isinstance(params, CallParams) else None
        meta = params.meta or {}
        return (
            head.version == ENVELOPE_VERSION.encode()
            and meta.get(VERSION) == ENVELOPE_VERSION
            and isinstance(meta.get(CAPABILITIES), dict)
            and head.found.get(b"mcp-method") == (message.method or "").encode()
            and head.found.get(b"mcp-name") == name
        )

    async def _wants_headers(self, caller: Caller, params: McpParams) -> bool:
        """Return True if an argument of the tool that is called must also be a header."""
        listed = await self._dispatch.listed_for(caller)
        if self._judged[0] is not listed:
            self._judged = (listed, _tools_with_headers(listed))
        return isinstance(params, CallParams) and params.name in self._judged[1]

    async def listed(self, request: RequestId, caller: Caller, modern: bool) -> bytes:
        tools = await self._dispatch.listed_for(caller)
        return render_result(
            request, b'{"tools":%b,%b' % (tools, self._list_fields) if modern else b'{"tools":%b}' % tools
        )

    def answered(self, request: RequestId, answer: ToolAnswer, modern: bool) -> bytes:
        if answer.code:
            return render_error(request, answer.code, answer.text)
        return render_result(request, mcp_messages.render_answer(answer, self._stamp if modern else msgspec.UNSET))


def _tools_with_headers(listed: bytes) -> frozenset[str]:
    if _OWN_HEADER not in listed:
        return frozenset()
    return frozenset(tool["name"] for tool in msgspec.json.decode(listed) if _OWN_HEADER in encode(tool))
