"""The tool socket, over real sockets on both event loops, with the official SDK's client as the oracle."""

import asyncio
import json
import os
import socket
import stat
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from gatepost.access.tiers import Tier
from gatepost.core.errors import SetupError
from gatepost.core.json_limits import MOST_VALUES
from gatepost.core.registry import Registry
from gatepost.core.token_bucket import Rate
from gatepost.gate.mcp_protocol import LEFT_OUT, MOST_UNREAD
from gatepost.gate.tool_socket import FLOOD, LARGEST_MESSAGE, MOST_CONNECTIONS, MOST_LINES, ToolSocket
from gatepost.jsonrpc.protocol import REVOKED
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Tool, tool
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.waiting import PATIENCE_S

SMALL: Registry[Tool] = Registry("tool")
ANYONE = 0
STUCK_S = 0.5  # what is not written by then waits for a reader
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@dataclass(frozen=True, slots=True)
class Pair:
    text: str
    size: int


class Gates:
    """What the slow tool waits for, made anew for each test's loop."""

    opened: asyncio.Event
    entered: asyncio.Event
    cancelled: asyncio.Event
    turn: int = 0  # of the loop, where a test counts them
    heard: ClassVar[list[int]] = []  # by call of echo: in which turn


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def echo(call: ToolCall, text: str) -> str:
    """Say it again."""
    Gates.heard.append(Gates.turn)
    return text


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def measure(call: ToolCall, text: str) -> Pair:
    """Say how it begins and how long it is."""
    return Pair(text[:100], len(text))


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def wait(call: ToolCall) -> str:
    """Wait for the test."""
    Gates.entered.set()
    call.progress(1, 2, "waiting")
    try:
        await Gates.opened.wait()
    except asyncio.CancelledError:
        Gates.cancelled.set()
        raise
    return "waited"


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@dataclass
class Served:
    tools: ToolSocket
    path: Path
    agent: GateAgent
    allowed: set[int]


@pytest.fixture
async def served(tmp_path: Path, store: SqliteStore) -> AsyncIterator[Served]:
    Gates.opened, Gates.entered, Gates.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    allowed = {os.getpid()}

    async def submit(session_id: str, params: dict[str, object]) -> dict[str, object]:
        return {"ok": True}

    tools = ToolSocket(agent.dispatch, agent.caller, lambda pid: pid in allowed or ANYONE in allowed, submit)
    path = tmp_path / "router.sock"
    await tools.open(path)
    yield Served(tools, path, agent, allowed)
    await tools.close()


class Raw:
    """A client that says what it is told to, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, served: Served) -> "Raw":
        return cls(*await asyncio.open_unix_connection(served.path, limit=2**25))

    async def hear(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.reader.readline(), PATIENCE_S)
        assert line.endswith(b"\n"), "the connection was closed"
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def tell(self, method: str, params: object = None, request: int | str | None = 1) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}
        if request is not None:
            message["id"] = request
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def ask(self, method: str, params: object = None, request: int | str = 1) -> dict[str, Any]:
        self.tell(method, params, request)
        return await self.hear()

    async def ready(self) -> "Raw":
        assert "result" in await self.ask("initialize", INITIALIZE, 0)
        return self

    async def ended(self) -> bytes:
        """Everything that still comes, to the end."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S)

    def close(self) -> None:
        self.writer.close()


def called(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


@asynccontextmanager
async def over(path: Path) -> AsyncIterator[TransportStreams]:
    """The SDK's transport over our socket."""
    stream = await anyio.connect_unix(path)
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        buffer = b""
        async with received:
            try:
                async for part in stream:
                    *lines, buffer = (buffer + part).split(b"\n")
                    for line in lines:
                        await received.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def send() -> None:
        async for message in to_send:
            await stream.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as tasks, stream:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        yield read, write
        tasks.cancel_scope.cancel()
    for end in (read, write, to_send):
        await end.aclose()


# The oracle, on both wires.


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdks_client_lists_and_calls_on_either_wire(mode: Any, version: str, served: Served) -> None:
    async with Client(over(served.path), mode=mode) as client:
        assert client.protocol_version == version
        assert client.server_info is not None and client.server_info.name == "gatepost"
        assert {each.name for each in (await client.list_tools()).tools} == {"echo", "measure", "wait"}
        plain = await client.call_tool("echo", {"text": "ä€😀"})
        pair = await client.call_tool("measure", {"text": "four"})
        assert plain.content[0].text == "ä€😀"  # type: ignore[union-attr]
        assert pair.structured_content == {"text": "four", "size": 4}
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdks_client_sees_progress_and_its_cancellation_arrives(mode: Any, served: Served) -> None:
    told: asyncio.Queue[tuple[float, float | None, str | None]] = asyncio.Queue()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.put_nowait((done, total, message))

    async with Client(over(served.path), mode=mode) as client:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                await client.call_tool("wait", {}, progress_callback=progress)

            tasks.start_soon(call)
            with anyio.fail_after(PATIENCE_S):
                assert await told.get() == (1, 2, "waiting")
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE_S):
            await Gates.cancelled.wait()
        assert (await client.call_tool("echo", {"text": "still here"})).content[0].text == "still here"  # type: ignore[union-attr]
    assert told.empty()


async def test_the_sdks_client_is_told_of_changed_tools_on_the_2025_wire(served: Served) -> None:
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with Client(over(served.path), mode="legacy", message_handler=hear) as client:
        await client.list_tools()
        served.tools.tools_changed()
        await asyncio.wait_for(told.wait(), PATIENCE_S)


async def test_the_sdks_client_is_told_of_changed_tools_on_the_2026_wire(served: Served) -> None:
    async with Client(over(served.path)) as client:
        async with client.listen(tools_list_changed=True) as subscription:
            assert subscription.honored.tools_list_changed
            served.tools.tools_changed()
            with anyio.fail_after(PATIENCE_S):
                event = await anext(aiter(subscription))
            assert type(event).__name__ == "ToolsListChanged"


async def test_claude_codes_way_in_works(served: Served) -> None:
    """It probes, subscribes, probes again and lists, all on the 2026 wire."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    raw = await Raw.to(served)
    assert "result" in await raw.ask("server/discover", {"_meta": meta}, 0)
    listen = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    assert "acknowledged" in (await raw.ask("subscriptions/listen", listen, 1))["method"]
    assert "result" in await raw.ask("server/discover", {"_meta": meta}, 2)
    assert len((await raw.ask("tools/list", {"_meta": meta}, 3))["result"]["tools"]) == 3
    raw.close()


# Who may come in.


async def test_arizuko_32_the_ninth_connection_is_closed_at_once(served: Served) -> None:
    eight = [await (await Raw.to(served)).ready() for _ in range(MOST_CONNECTIONS)]
    assert await (await Raw.to(served)).ended() == b""
    assert (await eight[0].ask("ping"))["result"] == {}
    eight[0].close()
    await eight[0].writer.wait_closed()
    for _ in range(200):  # its place is free once the server has seen it leave
        late = await Raw.to(served)
        late.tell("ping")
        if await asyncio.wait_for(late.reader.readline(), PATIENCE_S):
            break
    else:
        pytest.fail("the place of a client that left was never given to another")
    for client in (*eight[1:], late):
        client.close()


async def test_refused_connections_are_counted_and_not_a_line_each(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    eight = [await (await Raw.to(served)).ready() for _ in range(MOST_CONNECTIONS)]
    for _ in range(5):
        assert await (await Raw.to(served)).ended() == b""
    await served.tools.close()
    for raw in eight:
        raw.close()
    told = [record.getMessage() for record in caplog.records if record.name == "gate"]
    assert told == ["a connection too many was closed", "connections were refused"]


async def test_arizuko_32_a_foreign_process_is_closed_without_a_byte(served: Served) -> None:
    served.allowed.clear()
    assert await (await Raw.to(served)).ended() == b""


async def test_arizuko_32_a_garbage_line_is_answered_and_the_connection_lives(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    raw.writer.write(b"garbage\n\r\n   \n")
    answer = await raw.hear()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert (await raw.ask("ping"))["result"] == {}
    raw.close()


async def test_identity_comes_from_the_socket_and_not_from_what_is_said(served: Served) -> None:
    raw = await Raw.to(served)
    await raw.ask("initialize", {**INITIALIZE, "clientInfo": {"name": "root", "version": "1"}, "folder": "root"})
    tools = (await raw.ask("tools/list", {"folder": "root"}))["result"]["tools"]
    assert {each["name"] for each in tools} == {"echo", "measure", "wait"}
    raw.close()


async def test_a_bare_submit_turn_needs_no_handshake(served: Served) -> None:
    raw = await Raw.to(served)
    for _ in range(2):
        assert (await raw.ask("submit_turn", {"turn_id": "t-1"}))["result"] == {"ok": True}
    raw.close()


# Framing.


async def test_messages_in_pieces_and_in_heaps_are_the_same_messages(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    lines = b"".join(
        json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": called("echo", text=str(n))}).encode()
        + (b"\r\n" if n % 2 else b"\n")
        for n in range(1, 51)
    )
    for at in range(0, len(lines), 7):
        raw.writer.write(lines[at : at + 7])
        await raw.writer.drain()
    pieces = {(await raw.hear())["id"] for _ in range(50)}
    raw.writer.write(lines)
    heap = {(await raw.hear())["id"] for _ in range(50)}
    assert pieces == heap == set(range(1, 51))
    raw.close()


@pytest.mark.sqlite  # elsewhere a call waits for its reader, and what has waited is answered in heaps of its own
async def test_heaps_of_calls_leave_the_loop_to_others_in_between(served: Served) -> None:
    """However many connections the caller has."""
    loop, each = asyncio.get_running_loop(), 5 * MOST_LINES
    clients = [await (await Raw.to(served)).ready() for _ in range(3)]
    Gates.turn, Gates.heard = 0, []

    def turn() -> None:
        Gates.turn += 1
        if len(Gates.heard) < each * len(clients):
            loop.call_soon(turn)

    turn()
    ask = {"jsonrpc": "2.0", "method": "tools/call", "params": called("echo", text="")}
    for raw in clients:
        raw.writer.write(b"".join(json.dumps({**ask, "id": n}).encode() + b"\n" for n in range(each)))
        raw.writer.write_eof()  # nothing of what waits is lost by it
    for raw in clients:
        assert {(await raw.hear())["id"] for _ in range(each)} == set(range(each))
        assert await raw.ended() == b""
    assert max(Counter(Gates.heard).values()) <= 2 * MOST_LINES  # one may be read anew in the turn that ends the line


async def test_a_message_of_the_limit_passes_and_one_byte_more_is_refused_and_skipped(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    frame = len(json.dumps({"jsonrpc": "2.0", "method": "tools/call", "params": called("measure", text=""), "id": 1}))
    fits = "x" * (LARGEST_MESSAGE - frame)
    answer = await raw.ask("tools/call", called("measure", text=fits))
    assert answer["result"]["structuredContent"]["size"] == len(fits)

    refused = await raw.ask("tools/call", called("measure", text=fits + "x"))
    assert refused["id"] is None
    assert refused["error"] == {"code": -32600, "message": f"a message may have at most {LARGEST_MESSAGE} bytes"}
    huge = asyncio.create_task(_write(raw, b"y" * (3 * LARGEST_MESSAGE) + b"\n"))
    assert (await raw.hear())["error"]["code"] == -32600
    await huge
    assert (await raw.ask("ping"))["result"] == {}
    raw.close()


async def _write(raw: Raw, data: bytes) -> None:
    raw.writer.write(data)
    await raw.writer.drain()


async def test_what_was_asked_before_the_half_was_closed_is_still_answered(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    raw.tell("tools/call", called("wait"), 1)
    raw.writer.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode())  # no newline
    raw.writer.write_eof()
    assert (await raw.hear())["id"] == 2
    Gates.opened.set()
    assert (await raw.hear())["id"] == 1
    assert await raw.ended() == b""


async def test_a_slow_call_is_overtaken(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    raw.tell("tools/call", called("wait"), "slow")
    for number in range(20):
        assert (await raw.ask("tools/call", called("echo", text="x"), number))["id"] == number
    Gates.opened.set()
    assert (await raw.hear())["id"] == "slow"
    raw.close()


async def test_a_client_that_leaves_takes_its_calls_with_it(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    raw.tell("tools/call", called("wait"))
    await asyncio.wait_for(Gates.entered.wait(), PATIENCE_S)
    raw.writer.transport.abort()
    await asyncio.wait_for(Gates.cancelled.wait(), PATIENCE_S)


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_not_read(served: Served) -> None:
    """Its requests stay in its own buffers, and when it reads again every one of them is answered, in order."""
    loop = asyncio.get_running_loop()
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    await loop.sock_connect(client, os.fspath(served.path))
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"
    await loop.sock_sendall(client, line)
    await loop.sock_recv(client, 65536)

    ask = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}).encode() + b"\n"
    sent = 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while sent < 200_000:
                try:
                    async with asyncio.timeout(STUCK_S):
                        await loop.sock_sendall(client, ask * 100)
                except TimeoutError:
                    raise  # the kernel's buffers are full: nobody reads us
                sent += 100
    assert sent < 200_000, "everything was read although nothing of the answers was"

    answers = 0
    async with asyncio.timeout(60):
        while answers < sent:
            answers += (await loop.sock_recv(client, 1 << 20)).count(b"\n")
    assert answers >= sent
    client.close()


# Its life.


async def test_revoked_tools_answer_what_was_pending_and_refuse_the_rest(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    raw.tell("tools/call", called("wait"), 5)
    await asyncio.wait_for(Gates.entered.wait(), PATIENCE_S)
    served.tools.revoke()
    pending = await raw.hear()
    assert (pending["id"], pending["error"]["code"]) == (5, REVOKED)
    await asyncio.wait_for(Gates.cancelled.wait(), PATIENCE_S)
    assert (await raw.ask("tools/call", called("echo", text="x")))["error"]["code"] == REVOKED
    late = await Raw.to(served)
    assert (await late.ask("initialize", INITIALIZE))["error"]["code"] == REVOKED
    for client in (raw, late):
        client.close()


async def test_the_socket_is_its_owners_alone_and_goes_when_it_is_closed(served: Served, tmp_path: Path) -> None:
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.is_socket()] == ["router.sock"]
    raw = await (await Raw.to(served)).ready()
    await served.tools.close()
    assert await raw.ended() == b""
    assert not served.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a socket away")
async def test_the_socket_is_given_to_the_sandboxs_uid(served: Served, tmp_path: Path) -> None:
    given = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True)
    await given.open(tmp_path / "given.sock", 65534)
    found = (tmp_path / "given.sock").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (65534, 0o600)
    await given.close()


async def test_a_stale_socket_is_replaced_and_anything_else_is_left_alone(served: Served, tmp_path: Path) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(stale))
    again = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True)
    await again.open(stale)
    await again.close()

    precious = tmp_path / "precious"
    precious.write_text("mine")
    with pytest.raises(SetupError, match="not a socket"):
        await again.open(precious)
    assert precious.read_text() == "mine"
    with pytest.raises(SetupError, match="already serves"):
        await again.open(served.path)
    assert (await (await Raw.to(served)).ask("ping"))["result"] == {}


async def test_a_path_too_long_for_a_socket_is_said_in_words(served: Served, tmp_path: Path) -> None:
    tools = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True)
    with pytest.raises(SetupError, match="107 bytes"):
        await tools.open(tmp_path / ("x" * 110))


async def test_socat_serves_in_place_of_the_bridge(served: Served) -> None:
    served.allowed.add(ANYONE)
    try:
        process = await asyncio.create_subprocess_exec(
            "socat",
            "-t10",
            "STDIO",
            f"UNIX-CONNECT:{served.path}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        pytest.skip("socat is not installed")
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    out, _ = await asyncio.wait_for(
        process.communicate(b"".join(json.dumps(each).encode() + b"\n" for each in lines)), PATIENCE_S
    )
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]


async def test_stranger_04_a_call_of_many_values_is_refused_before_it_is_built(served: Served) -> None:
    raw = await (await Raw.to(served)).ready()
    answer = await raw.ask("tools/call", {"name": "echo", "arguments": {"text": [1] * (MOST_VALUES + 1)}}, 7)

    assert answer["error"]["code"] == -32602
    assert str(MOST_VALUES) in answer["error"]["message"]
    assert (await raw.ask("tools/call", called("echo", text=",[{" * MOST_VALUES), 8))["result"]["isError"] is False


async def test_stranger_04_a_caller_that_floods_is_slowed_and_reported(tmp_path: Path, served: Served) -> None:
    reported: list[str] = []
    rate = Rate(per_second=5_000, burst=50, patience_s=0)
    tools = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True, None, reported.append, rate)
    path = tmp_path / "flood.sock"
    await tools.open(path)
    raw = await Raw(*await asyncio.open_unix_connection(path)).ready()
    raw.writer.write(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(400)))

    assert [(await raw.hear())["id"] for _ in range(400)] == list(range(400))  # slowed, and none is lost
    assert reported == [FLOOD]
    await tools.close()


async def test_bytes_of_a_message_without_an_end_count_for_the_rate_of_its_caller(
    tmp_path: Path, served: Served
) -> None:
    tools = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True, None, lambda why: None)
    path = tmp_path / "endless.sock"
    await tools.open(path)
    raw = await Raw(*await asyncio.open_unix_connection(path)).ready()
    endless = asyncio.create_task(_write(raw, b"x" * (2 * LARGEST_MESSAGE)))
    assert (await raw.hear())["error"]["code"] == -32600
    assert tools.is_slowed
    endless.cancel()
    await tools.close()


async def test_a_message_that_is_begun_and_left_counts_for_the_rate_of_its_caller(
    tmp_path: Path, served: Served
) -> None:
    tools = ToolSocket(served.agent.dispatch, served.agent.caller, lambda pid: True, None, lambda why: None)
    path = tmp_path / "begun.sock"
    await tools.open(path)
    raw = await Raw(*await asyncio.open_unix_connection(path)).ready()
    await _write(raw, b"x" * LARGEST_MESSAGE)
    raw.writer.close()
    async with asyncio.timeout(PATIENCE_S):
        while not tools.is_slowed:  # noqa: ASYNC110  nothing tells that a connection is gone
            await asyncio.sleep(0.01)
    await tools.close()


PAGES: Registry[Tool] = Registry("tool")
PAGE = 200_000


class Begun:
    pages: int = 0


@tool(tier=Tier.WORKER, group="x", registry=PAGES, read_only=True)
async def page(call: ToolCall) -> str:
    """Say a page."""
    Begun.pages += 1
    await asyncio.sleep(0)
    return "x" * PAGE


@tool(tier=Tier.WORKER, group="x", effects=(), registry=PAGES)
async def act(call: ToolCall) -> str:
    """Do something and say a page."""
    Begun.pages += 1
    await asyncio.sleep(0)
    return "x" * PAGE


async def test_the_last_call_of_a_client_that_reads_late_is_made_once(tmp_path: Path, store: SqliteStore) -> None:
    """Its line has no end, and it has said all that it will."""
    Begun.pages = 0
    agent = await GateAgent.create(tmp_path, store, tools=PAGES)
    tools, path = ToolSocket(agent.dispatch, agent.caller, lambda pid: True), tmp_path / "late.sock"
    await tools.open(path)
    raw = Raw(*await asyncio.open_unix_connection(path, limit=2**25))
    raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
    calls = [{"jsonrpc": "2.0", "id": each, "method": "tools/call", "params": called("act")} for each in range(12)]
    first = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": INITIALIZE}
    raw.writer.write(b"\n".join(json.dumps(each).encode() for each in (first, *calls)))
    raw.writer.write_eof()
    await _at_rest(tools, store)
    raw.reader._transport.resume_reading()  # type: ignore[attr-defined]
    heard = [json.loads(line)["id"] async for line in raw.reader]
    assert sorted(heard, key=str) == sorted(["i", *range(12)], key=str)
    assert Begun.pages == 12
    await tools.close()


async def _at_rest(tools: ToolSocket, store: SqliteStore) -> int:
    """The bytes that nobody reads, once nothing has changed while the store wrote and read many times."""
    before, same = (-1, -1), 0
    while same < 20:
        await store.write(lambda db: None, durable=False)
        await store.read(lambda db: None)
        now = (tools.unread, Begun.pages)
        before, same = now, same + 1 if now == before else 0
    return tools.unread


async def _asked(tools: ToolSocket, path: Path, name: str, number: int) -> socket.socket:
    """A client that has asked for so much and reads nothing."""
    loop, client = asyncio.get_running_loop(), socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    await loop.sock_connect(client, os.fspath(path))
    asks = [{"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": INITIALIZE}] + [
        {"jsonrpc": "2.0", "id": each, "method": "tools/call", "params": called(name)} for each in range(number)
    ]
    await loop.sock_sendall(client, b"".join(json.dumps(each).encode() + b"\n" for each in asks))
    return client


@asynccontextmanager
async def _pages(tmp_path: Path, store: SqliteStore) -> AsyncIterator[tuple[ToolSocket, Path]]:
    Begun.pages = 0
    agent = await GateAgent.create(tmp_path, store, tools=PAGES)
    tools, path = ToolSocket(agent.dispatch, agent.caller, lambda pid: True), tmp_path / "pages.sock"
    await tools.open(path)
    yield tools, path
    await tools.close()


@pytest.mark.slow
async def test_stranger_new_no_call_is_begun_for_who_does_not_read(tmp_path: Path, store: SqliteStore) -> None:
    async with _pages(tmp_path, store) as (tools, path):
        clients = [await _asked(tools, path, "page", 100) for _ in range(2)]
        unread = await _at_rest(tools, store)
        assert Begun.pages < 40 and unread < 40 * PAGE

        answers = []
        async with asyncio.timeout(60):
            for client in clients:
                heard = b""
                while heard.count(b"\n") < 101:
                    heard += await asyncio.get_running_loop().sock_recv(client, 1 << 20)
                answers += [json.loads(line) for line in heard.splitlines()]
                client.close()
        assert Begun.pages == 200 and sum(len(each["result"].get("content", "")) for each in answers) == 200


async def test_stranger_new_a_large_answer_is_left_out_where_too_many_wait(tmp_path: Path, store: SqliteStore) -> None:
    async with _pages(tmp_path, store) as (tools, path):
        clients = [await _asked(tools, path, "act", 30) for _ in range(4)]
        unread = await _at_rest(tools, store)
        assert Begun.pages > 60
        assert unread <= MOST_UNREAD + 2 * PAGE

        lines: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            for client in clients:
                heard = b""
                while heard.count(b"\n") < 31:
                    heard += await asyncio.get_running_loop().sock_recv(client, 1 << 20)
                lines += [json.loads(line) for line in heard.splitlines()]
                client.close()
        left_out = [each["error"]["message"] for each in lines if "error" in each]
        assert left_out and set(left_out) == {LEFT_OUT}
