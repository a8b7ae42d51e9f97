"""The bridge between the official client and the official Streamable HTTP server, in both eras of the protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ElicitResult
from pydantic import BaseModel

from gatepost.core.process.listen_address import ListenAddress
from gatepost.serve.agents import bridge
from gatepost.serve.http import HttpServer, bind
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.slow  # real clients and processes, again and again

BOTH = pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class Who(BaseModel):
    name: str


@dataclass
class Official:
    """The official server on a unix socket. Started again, it knows nothing of before."""

    path: Path
    options: dict[str, Any] = field(default_factory=dict)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"unix:{self.path}:/mcp/agents"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """In a task of its own: clients come and go across its restarts."""
        ready, end = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(self._serve(ready, end))
        await asyncio.wait({running, asyncio.ensure_future(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield
        finally:
            end.set()
            await asyncio.wait_for(running, PATIENCE_S)

    async def _serve(self, ready: asyncio.Event, end: asyncio.Event) -> None:
        inner = self._make()
        app = inner.streamable_http_app(streamable_http_path="/mcp/agents", **self.options)
        server = HttpServer(app, bind(ListenAddress("unix", path=self.path)))
        async with inner.session_manager.run():
            running = asyncio.create_task(server.run())
            ready.set()
            await end.wait()
            server.stop()
            await running
            self.path.unlink(missing_ok=True)

    def _make(self) -> MCPServer:
        inner = MCPServer("official")

        @inner.tool()
        async def echo(text: str) -> str:
            return text

        @inner.tool(name="größe")
        async def unusual(text: str) -> str:
            return text.upper()

        @inner.tool()
        async def steps(ctx: Context) -> str:
            for step in range(3):
                await ctx.report_progress(step, 3)
            return "done"

        @inner.tool()
        async def hold() -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        @inner.tool()
        async def change(ctx: Context) -> str:
            await ctx.notify_tools_changed()
            await ctx.session.send_tool_list_changed()
            return "changed"

        @inner.tool()
        async def ask(ctx: Context) -> str:
            answer = await ctx.elicit("Who?", Who)
            return answer.data.name if answer.action == "accept" else answer.action

        return inner


@pytest.fixture
async def official(tmp_path: Path) -> AsyncIterator[Official]:
    served = Official(tmp_path / "control.sock", {"transport_security": OPEN})
    async with served.serving():
        yield served


def connected(official: Official, mode: str, **more: Any) -> Client:
    program, *arguments = bridge.command(official.url)
    return Client(stdio_client(StdioServerParameters(command=program, args=arguments)), mode=mode, **more)


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@BOTH
async def test_paseo_30_tools_are_listed_and_called(official: Official, mode: str) -> None:
    async with connected(official, mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"echo", "steps"}
        assert text_of(await client.call_tool("echo", {"text": "a\nü\u2028"})) == "a\nü\u2028"
        assert text_of(await client.call_tool("größe", {"text": "x"})) == "X"
        version = client.session.protocol_version
    assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28")


@pytest.mark.parametrize("options", [{"json_response": True}, {"stateless_http": True}, {}], ids=str)
async def test_paseo_30_whichever_way_the_server_answers(tmp_path: Path, options: dict[str, Any]) -> None:
    """Without our leave for any Host: a server that checks it lets localhost in."""
    served = Official(tmp_path / "control.sock", options)
    async with served.serving(), connected(served, "legacy") as client:
        assert text_of(await client.call_tool("echo", {"text": "here"})) == "here"


@BOTH
async def test_paseo_34_progress_arrives_before_the_answer(official: Official, mode: str) -> None:
    seen: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected(official, mode) as client:
        assert text_of(await client.call_tool("steps", {}, progress_callback=progressed)) == "done"
    assert seen == [0, 1, 2]


@BOTH
async def test_paseo_35_a_slow_call_is_overtaken_and_a_cancelled_one_stops_at_the_server(
    official: Official, mode: str
) -> None:
    async with connected(official, mode) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "hold", {})
        await official.started.wait()
        assert text_of(await client.call_tool("echo", {"text": "quick"})) == "quick"
        tasks.cancel_scope.cancel()
    await asyncio.wait_for(official.stopped.wait(), PATIENCE_S)


@BOTH
async def test_paseo_36_fifty_calls_at_once_get_each_its_own_answer(official: Official, mode: str) -> None:
    answers: dict[int, str] = {}

    async def call(number: int) -> None:
        answers[number] = text_of(await client.call_tool("echo", {"text": str(number) * 2000}))

    async with connected(official, mode) as client, anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(call, number)
    assert answers == {number: str(number) * 2000 for number in range(50)}


@BOTH
async def test_paseo_33_the_client_does_not_notice_that_the_server_was_restarted(tmp_path: Path, mode: str) -> None:
    served = Official(tmp_path / "control.sock", {"transport_security": OPEN})
    first = served.serving()
    await first.__aenter__()
    async with connected(served, mode) as client:
        assert text_of(await client.call_tool("echo", {"text": "1"})) == "1"
        await first.__aexit__(None, None, None)
        waiting = asyncio.create_task(client.call_tool("echo", {"text": "2"}))
        async with served.serving():
            assert text_of(await waiting) == "2"
            assert text_of(await client.call_tool("echo", {"text": "3"})) == "3"


async def test_what_the_server_says_by_itself_arrives(official: Official) -> None:
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    async with connected(official, "legacy", message_handler=heard) as client:
        async with asyncio.timeout(PATIENCE_S):
            while not changed.is_set():  # it is not kept for a stream that is still being opened
                assert text_of(await client.call_tool("change", {})) == "changed"


async def test_what_the_client_subscribed_to_arrives(official: Official) -> None:
    async with connected(official, "2026-07-28") as client, client.listen(tools_list_changed=True) as changes:
        assert text_of(await client.call_tool("change", {})) == "changed"
        async with asyncio.timeout(PATIENCE_S):
            assert "ToolsListChanged" in repr(await anext(aiter(changes)))


async def test_a_question_of_the_server_is_answered_by_the_client(official: Official) -> None:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": params.message})

    async with connected(official, "legacy", elicitation_callback=answer) as client:
        assert text_of(await client.call_tool("ask", {})) == "Who?"


@BOTH
async def test_paseo_13_a_megabyte_passes(official: Official, mode: str) -> None:
    async with connected(official, mode) as client:
        assert text_of(await client.call_tool("echo", {"text": "x" * 1_000_000})) == "x" * 1_000_000
