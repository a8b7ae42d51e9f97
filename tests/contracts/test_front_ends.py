"""One table of scenarios on every front end of the gate, in both eras of the protocol, and the answers compared.

The front ends: the core in memory, on its socket, through the bridge inside a sandbox, over HTTP, and over HTTP through
the bridge. What the socket answers is what all must answer. The official client then sees the same on each.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from gatepost.gate.mcp_protocol import McpProtocol
from gatepost.gate.tool_socket import LARGEST_MESSAGE, ToolSocket
from gatepost.inside import bridge as inside_bridge
from gatepost.serve.agents import bridge as http_bridge
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.clients.mcp_http_client import (
    ENVELOPE,
    INITIALIZE,
    McpHttpClient,
    make_call_params,
    make_request,
    parse_messages,
    serve_mcp,
)
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import FEW, SlowToolEvents
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.slow  # real clients and processes, again and again

OLD, NEW = "2025-11-25", "2026-07-28"
ERAS = (OLD, NEW)
Message = dict[str, Any]


class Line:
    """A client of one front end: messages out, messages in."""

    def __init__(self, era: str, send: Callable[[bytes], None]) -> None:
        self.era, self._send = era, send
        self.heard: asyncio.Queue[Message] = asyncio.Queue()

    def tell(self, message: Message | bytes) -> None:
        self._send(message if isinstance(message, bytes) else json.dumps(message).encode())

    async def hear(self) -> Message:
        return await asyncio.wait_for(self.heard.get(), PATIENCE_S)

    def begin(self, method: str, params: Message | None = None, request: int | str = 1) -> None:
        given = dict(params or {})
        if self.era == NEW:
            given["_meta"] = {**ENVELOPE, **given.get("_meta", {})}
        self.tell(make_request(method, given, request))

    async def ask(self, method: str, params: Message | None = None, request: int | str = 1) -> Message:
        self.begin(method, params, request)
        return await self.hear()

    async def open(self) -> Message:
        if self.era == NEW:
            return await self.ask("server/discover", request=0)
        answer = await self.ask("initialize", INITIALIZE, 0)
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


@dataclass
class Gate:
    """One gate with all of its front ends."""

    agent: GateAgent
    socket: Path
    web: McpHttpClient
    stack: AsyncExitStack
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"unix:{self.web.path}:{self.web.address}"

    async def line(self, front: str, era: str) -> Line:
        return await FRONTS[front](self, era)

    async def memory(self, era: str) -> Line:
        line = Line(era, lambda raw: talk.receive(raw))
        talk = McpProtocol(self.agent.dispatch, self.agent.caller, lambda raw: line.heard.put_nowait(json.loads(raw)))
        self.agent.deps.events.on_tools(lambda folder: talk.tools_changed())
        return line

    async def over_socket(self, era: str) -> Line:
        reader, writer = await asyncio.open_unix_connection(self.socket, limit=2**25)
        self.stack.callback(writer.close)
        return self._lines(era, reader, writer)

    async def through(self, era: str, command: list[str]) -> Line:
        child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**25)
        assert child.stdin is not None and child.stdout is not None
        self.stack.push_async_callback(child.wait)
        self.stack.callback(child.stdin.close)
        return self._lines(era, child.stdout, child.stdin)

    def _lines(self, era: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Line:
        line = Line(era, lambda raw: writer.write(raw + b"\n"))

        async def listen() -> None:
            while raw := await reader.readline():
                line.heard.put_nowait(json.loads(raw))

        self.tasks.append(asyncio.create_task(listen()))
        return line

    async def over_http(self, era: str) -> Line:
        posts: dict[Any, asyncio.Task[None]] = {}

        def send(raw: bytes) -> None:
            message = _read(raw)
            if era == NEW and message.get("method") == "notifications/cancelled":
                posts[message["params"]["requestId"]].cancel()
            else:
                posts[message.get("id")] = asyncio.create_task(post(raw, message))
                self.tasks.append(posts[message.get("id")])

        async def post(raw: bytes, message: Message) -> None:
            headers = _modern_headers(message) if era == NEW else self.web.session
            async with self.web.streamed("POST", raw, headers) as response:
                if "mcp-session-id" in response.headers:
                    session = response.headers["mcp-session-id"]
                    self.web.session = {"mcp-session-id": session, "mcp-protocol-version": OLD}
                async for each in _messages(response):
                    line.heard.put_nowait(each)
            if message.get("method") == "notifications/initialized":
                self.tasks.append(asyncio.create_task(listen()))

        async def listen() -> None:
            async with self.web.streamed("GET", None, self.web.session) as response:
                async for each in _messages(response):
                    line.heard.put_nowait(each)

        line = Line(era, send)
        return line


FRONTS: dict[str, Callable[[Gate, str], Awaitable[Line]]] = {
    "memory": Gate.memory,
    "socket": Gate.over_socket,
    "inside bridge": lambda gate, era: gate.through(era, inside_bridge.command(str(gate.socket))),
    "http": Gate.over_http,
    "http bridge": lambda gate, era: gate.through(era, http_bridge.command(gate.url)),
}


def _read(raw: bytes) -> Message:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _modern_headers(message: Message) -> dict[str, str]:
    headers = {"mcp-protocol-version": NEW, "mcp-method": message.get("method", "")}
    name = message.get("params", {}).get("name")
    return {**headers, "mcp-name": name} if name else headers


async def _messages(response: httpx2.Response) -> AsyncIterator[Message]:
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        if await response.aread():
            for each in parse_messages(response):
                yield each
        return
    async for line in response.aiter_lines():
        if line.startswith("data:") and line.removeprefix("data:").strip():
            yield json.loads(line.removeprefix("data:"))


@pytest.fixture
async def gate(tmp_path: Path, store: SqliteStore) -> AsyncIterator[Gate]:
    SlowToolEvents.renew()
    agent = await GateAgent.create(tmp_path / "home", store, tools=FEW)
    tools = ToolSocket(agent.dispatch, agent.caller, lambda pid: True)
    agent.deps.events.on_tools(lambda folder: tools.tools_changed())
    path = tmp_path / "r.sock"
    await tools.open(path)
    async with serve_mcp(agent, tmp_path / "c.sock", LARGEST_MESSAGE) as web, AsyncExitStack() as stack:
        made = Gate(agent, path, web, stack)
        yield made
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await tools.close()


# The scenarios: each comes to something that can be compared.


async def opening(line: Line, gate: Gate) -> Any:
    return await line.open()


async def listing(line: Line, gate: Gate) -> Any:
    await line.open()
    return await line.ask("tools/list")


async def call_that_works(line: Line, gate: Gate) -> Any:
    await line.open()
    return [await line.ask("tools/call", make_call_params(name, text="ä€😀"), name) for name in ("echo", "measure")]


async def call_that_fails(line: Line, gate: Gate) -> Any:
    await line.open()
    return await line.ask("tools/call", make_call_params("fail"))


async def unknown_and_forbidden(line: Line, gate: Gate) -> Any:
    await line.open()
    return [await line.ask("tools/call", make_call_params(name)) for name in ("nothing", "rule")]


async def bad_arguments(line: Line, gate: Gate) -> Any:
    await line.open()
    wrong = [make_call_params("echo", text=5), make_call_params("echo"), make_call_params("echo", text="x", more=1)]
    return [await line.ask("tools/call", each) for each in wrong]


async def unknown_method(line: Line, gate: Gate) -> Any:
    await line.open()
    return (await line.ask("no/such"))["error"]["code"]


async def progress(line: Line, gate: Gate) -> Any:
    await line.open()
    line.begin("tools/call", make_call_params("count_to", {"progressToken": "p"}, number=3))
    return [await line.hear() for _ in range(4)]


async def cancelling(line: Line, gate: Gate) -> Any:
    """It ends, has no result, and the next call is answered."""
    await line.open()
    line.begin("tools/call", make_call_params("wait"), 7)
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    line.tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    await asyncio.wait_for(SlowToolEvents.cancelled.wait(), PATIENCE_S)
    line.begin("tools/call", make_call_params("echo", text="next"), 8)
    while (answer := await line.hear())["id"] != 8:
        assert answer["error"]["code"] == -32800  # HTTP of 2025 must end a stream with an answer
    return answer


async def at_once(line: Line, gate: Gate) -> Any:
    """A slow call holds nobody up, and everybody gets their own."""
    await line.open()
    line.begin("tools/call", make_call_params("wait"), "slow")
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    for number in range(20):
        line.begin("tools/call", make_call_params("echo", text=f"n{number}"), number)
    quick = sorted([await line.hear() for _ in range(20)], key=lambda answer: answer["id"])
    SlowToolEvents.opened.set()
    return [*quick, await line.hear()]


async def changed_tools(line: Line, gate: Gate) -> Any:
    await line.open()
    if line.era == NEW:
        wanted = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
        acknowledged = await line.ask("subscriptions/listen", wanted, 5)
    else:
        acknowledged = {}
    while line.heard.empty():  # a bridge opens its stream when it comes to it
        gate.agent.deps.events.tools("acme/eng")
        await asyncio.sleep(0.05)
    return [acknowledged, await line.hear()]


async def malformed(line: Line, gate: Gate) -> Any:
    await line.open()
    found = []
    for raw in (b"{bad", b'"text"', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'):
        line.tell(raw)
        answer = await line.hear()
        found.append(answer["error"]["code"])  # whose it was, a bridge may know better
    return [*found, await line.ask("tools/call", make_call_params("echo", text="still here"))]


async def oversized(line: Line, gate: Gate) -> Any:
    await line.open()
    line.begin("tools/call", make_call_params("echo", text="x" * LARGEST_MESSAGE))
    code = (await line.hear())["error"]["code"]
    return [code, await line.ask("tools/call", make_call_params("echo", text="still here"), 2)]


SCENARIOS = (
    opening,
    listing,
    call_that_works,
    call_that_fails,
    unknown_and_forbidden,
    bad_arguments,
    unknown_method,
    progress,
    cancelling,
    at_once,
    changed_tools,
    malformed,
    oversized,
)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_every_front_end_answers_as_the_socket_does(scenario: Any, era: str, gate: Gate) -> None:
    expected = await scenario(await gate.line("socket", era), gate)
    for front in FRONTS:
        if front == "socket" or (front == "memory" and scenario is oversized):  # how much is too much, transports say
            continue
        SlowToolEvents.renew()
        assert (front, await scenario(await gate.line(front, era), gate)) == (front, expected)


# The official client.


@asynccontextmanager
async def official(gate: Gate, front: str, mode: Any) -> AsyncIterator[Client]:
    if front == "http":
        transport = httpx2.AsyncHTTPTransport(uds=str(gate.web.path))
        async with httpx2.AsyncClient(transport=transport, timeout=PATIENCE_S) as inner:
            address = f"http://localhost{gate.web.address}"
            async with Client(streamable_http_client(address, http_client=inner), mode=mode) as client:
                yield client
        return
    command = http_bridge.command(gate.url) if front == "http bridge" else inside_bridge.command(str(gate.socket))
    program = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(program), mode=mode) as client:
        yield client


@pytest.mark.parametrize("mode", ["legacy", NEW, "auto"])
@pytest.mark.parametrize("front", ["inside bridge", "http", "http bridge"])
async def test_the_official_client_sees_the_same_everywhere(front: str, mode: str, gate: Gate) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with official(gate, front, mode) as client:
        assert client.protocol_version == (OLD if mode == "legacy" else NEW)
        if mode != NEW:  # a client that is told the version does not ask who is there
            assert client.server_info is not None and client.server_info.name == "gatepost"
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [tool.name for tool in await gate.agent.dispatch.visible_to(gate.agent.caller)]
        answer = await client.call_tool("measure", {"text": "four"})
        assert answer.structured_content == {"text": "four", "size": 4}
        assert (await client.call_tool("fail", {})).is_error
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
        assert not (await client.call_tool("count_to", {"number": 3}, progress_callback=on_progress)).is_error
        assert told == [(number, 3, f"at {number}") for number in (1, 2, 3)]
