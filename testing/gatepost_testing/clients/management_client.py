"""Somebody who manages agents on a whole gateway, over whichever transport: the same calls, the same answers.

    async with a_desk(tmp_path / "h", "bridge") as desk:
        made = await desk("create_agent", initialPrompt="sweep")

`memory` calls the gateway's own dispatch; `http` goes over a control socket, `bridge` through a real `gatepost bridge`.
Both have the era of the handshake, and that of the stateless revision (`-2026`).
"""

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import httpx2
from msgspec import Struct
from starlette.applications import Starlette
from starlette.routing import Route

from gatepost.app import Gateway
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.process.listen_address import ListenAddress
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.serve.agents import bridge
from gatepost.serve.agents.mcp_servers import MANAGEMENT_PATH, MANAGER, make_management_app
from gatepost.serve.http import HttpServer, open_listener
from gatepost_testing.clients.mcp_http_client import (
    BOTH,
    ENVELOPE,
    INITIALIZE,
    make_call_params,
    make_request,
    parse_answer,
)
from gatepost_testing.gateway import running_gateway
from gatepost_testing.waiting import PATIENCE_S

TRANSPORTS = ("memory", "http", "http-2026", "bridge", "bridge-2026")
LARGEST = 4 * 1024 * 1024

# An agent that is busy until a file lies in its group's folder: `hold` waits for it, anything else is answered.
PATIENT = r"""
import asyncio
from gatepost.inside.providers.contract import TurnFailed, TurnResult, ConversationStarted, Text, provider


@provider("patient")
class Patient:
    takes_pushes = False

    def __init__(self, place):
        self.place, self.stop = place, asyncio.Event()

    async def query(self, batch, resume):
        self.stop.clear()
        taken = self.place.state / "taken"  # by a process before this one
        if not batch.continued:
            taken.write_text("".join(item.text for item in batch.items if item.kind != "system"))
        yield ConversationStarted(resume or "c-patient")
        for item in batch.items:
            if item.content.get("event") == "agent_finished":
                yield Text(f"heard of {item.content['title']}: {item.content['status']}")
        text = taken.read_text()
        while "hold" in text and not (self.place.agent / "go").exists():
            if self.stop.is_set():
                yield TurnFailed("interrupted")
                return
            await asyncio.sleep(0.02)
        if text:
            yield Text(f"done: {text}")
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError("one turn at a time")

    async def interrupt(self):
        self.stop.set()

    async def close(self):
        pass
"""


class ManagementResult(Struct, frozen=True):
    """The outcome of a call. `code`: a JSON-RPC error, no answer of the tool."""

    text: str
    structured: Any = None
    failed: bool = False
    code: int = 0


class ManagementTransport(Protocol):
    """One client of the management server."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ManagementResult: ...

    async def tools(self) -> list[dict[str, Any]]: ...


class ManagementClient:
    def __init__(self, gateway: Gateway, transport: str, line: ManagementTransport) -> None:
        self.gateway, self.transport = gateway, transport
        self._line = line

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A call that must succeed; its structured answer, which its text must say as well."""
        answer = await self.ask(name, **arguments)
        assert not answer.failed, answer.text
        found: dict[str, Any] = json.loads(answer.text)
        assert found == answer.structured
        return found

    async def ask(self, name: str, /, **arguments: Any) -> ManagementResult:
        async with asyncio.timeout(PATIENCE_S):
            return await self._line.call(name, arguments)

    async def tools(self) -> list[dict[str, Any]]:
        return await self._line.tools()

    def another(self) -> AbstractAsyncContextManager["ManagementClient"]:
        """Somebody else, at the same gateway: with a session, or a bridge, of their own."""
        return connect_client(self.gateway, self.transport)

    def release_agents(self, folder: str = "agents") -> None:
        """Write the file that patient agents of a group wait for."""
        with open_untrusted(self.gateway.home.group(folder)) as root:
            root.write_bytes("go", b"")


@asynccontextmanager
async def open_management_gateway(
    path: Path, transport: str = "memory", script: Mapping[str, Any] | None = None, **given: Any
) -> AsyncIterator[ManagementClient]:
    """A gateway with a script for its agents, and somebody in front of it. Settings as for `running_gateway`."""
    plugins = path / "plugins" / "providers"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / "patient.py").write_text(PATIENT)
    async with running_gateway(path, **given) as gateway:
        with open_untrusted(gateway.home.groups) as root:
            root.make_dir("agents", 0o700, sandbox_uid(gateway.config))
            if script is not None:
                root.write_bytes("agents/script.json", json.dumps(script).encode())
        async with serve_management(gateway) if transport != "memory" else contextlib.nullcontext():
            async with connect_client(gateway, transport) as desk:
                yield desk


@asynccontextmanager
async def serve_management(gateway: Gateway) -> AsyncIterator[None]:
    """The management server on the control socket of a gateway that has no daemon around it."""
    endpoint = make_management_app(gateway.management, gateway.tool_deps, LARGEST)
    with open_listener(ListenAddress("unix", path=gateway.home.control)) as sock:
        server = HttpServer(Starlette(routes=[Route(MANAGEMENT_PATH, endpoint)]), sock)
        running = asyncio.create_task(server.run())
        try:
            yield
        finally:
            await endpoint.close()
            server.stop()
            await running


@asynccontextmanager
async def connect_client(gateway: Gateway, transport: str) -> AsyncIterator[ManagementClient]:
    way, _, era = transport.partition("-")
    if way == "memory":
        yield ManagementClient(gateway, transport, _InMemoryTransport(gateway))
    elif way == "http":
        wire = httpx2.AsyncHTTPTransport(uds=str(gateway.home.control))
        async with httpx2.AsyncClient(transport=wire, base_url="http://localhost", timeout=PATIENCE_S) as client:
            http = _HttpTransport(client, modern=bool(era))
            await http.open()
            yield ManagementClient(gateway, transport, http)
    elif way == "bridge":
        async with _open_bridge(f"unix:{gateway.home.control}:{MANAGEMENT_PATH}", modern=bool(era)) as stdio:
            yield ManagementClient(gateway, transport, stdio)
    else:
        raise ValueError(f"there is no transport {transport!r}, only {', '.join(TRANSPORTS)}")


class _InMemoryTransport:
    def __init__(self, gateway: Gateway) -> None:
        self._management, self._count = gateway.management, count(1)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ManagementResult:
        raw = json.dumps(dict(arguments)).encode()
        answer: ToolAnswer = await self._management.call(MANAGER, name, raw, f"desk{next(self._count)}")
        structured = None if answer.structured is None else json.loads(answer.structured)
        return ManagementResult(answer.text, structured, answer.failed or bool(answer.code), answer.code)

    async def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(await self._management.listed_for(MANAGER))
        return found


class _McpTransport:
    """Requests as MCP has them, in either era."""

    def __init__(self, *, modern: bool) -> None:
        self.modern, self.count = modern, count(1)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ManagementResult:
        return parse_result(await self.ask("tools/call", make_call_params(name, None, **arguments)))

    async def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.ask("tools/list", {}))["result"]["tools"]
        return found

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return make_request(method, {**params, "_meta": ENVELOPE} if self.modern else params, next(self.count))


class _HttpTransport(_McpTransport):
    def __init__(self, client: httpx2.AsyncClient, *, modern: bool) -> None:
        super().__init__(modern=modern)
        self._client = client
        self._headers = {"accept": BOTH, "content-type": "application/json"}

    async def open(self) -> None:
        if self.modern:
            self._headers["mcp-protocol-version"] = "2026-07-28"
            return
        answer = await self._post(make_request("initialize", INITIALIZE, 0))
        self._headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {"mcp-method": method} if self.modern else {}
        if self.modern and "name" in params:
            headers["mcp-name"] = params["name"]
        return parse_answer(await self._post(self.message(method, params), headers))

    async def _post(self, message: dict[str, Any], headers: Mapping[str, str] | None = None) -> httpx2.Response:
        content = json.dumps(message).encode()
        return await self._client.post(MANAGEMENT_PATH, content=content, headers={**self._headers, **(headers or {})})


class _BridgeTransport(_McpTransport):
    """Answers are found by their ids, in whatever order they come."""

    def __init__(self, process: Process, *, modern: bool) -> None:
        super().__init__(modern=modern)
        self._process = process
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}

    async def open(self) -> None:
        if self.modern:
            return
        await self._send(make_request("initialize", INITIALIZE, 0))
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self._send(self.message(method, params))

    async def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if "id" in message:
            self._waiting[message["id"]] = waiting  # before it is sent: the answer may come while it is written
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()
        return await waiting if "id" in message else {}

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self._waiting.pop(message["id"]).set_result(message)
        for waiting in self._waiting.values():
            waiting.cancel("the bridge has ended")


@asynccontextmanager
async def _open_bridge(url: str, *, modern: bool) -> AsyncIterator[_BridgeTransport]:
    process = await asyncio.create_subprocess_exec(*bridge.command(url), stdin=PIPE, stdout=PIPE, limit=2**25)
    assert process.stdin is not None
    line = _BridgeTransport(process, modern=modern)
    listening = asyncio.create_task(line.listen())
    try:
        await line.open()
        yield line
    finally:
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            code = await process.wait()
            await listening
    assert code == 0, f"the bridge ended with {code}"


def parse_result(message: Mapping[str, Any]) -> ManagementResult:
    """The result of a tools/call, whichever way it came."""
    if "error" in message:
        return ManagementResult(message["error"]["message"], None, True, message["error"]["code"])
    result = message["result"]
    (block,) = result["content"]
    return ManagementResult(block["text"], result.get("structuredContent"), result["isError"])
