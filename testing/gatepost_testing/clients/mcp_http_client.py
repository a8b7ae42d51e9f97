"""MCP over HTTP for tests: an endpoint on a unix socket, and a client that speaks bare HTTP to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from gatepost.core.process.listen_address import ListenAddress
from gatepost.serve.agents.mcp_endpoint import McpEndpoint
from gatepost.serve.agents.mcp_servers import GROUPS_PATH, make_groups_app
from gatepost.serve.http import HttpServer, bind
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.waiting import PATIENCE_S

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
BOTH = "application/json, text/event-stream"
LARGEST = 2 * 1024 * 1024


@dataclass
class McpHttpClient:
    """The endpoint and a client that speaks bare HTTP to it."""

    agent: GateAgent
    endpoint: McpEndpoint
    path: Path
    client: httpx2.AsyncClient
    address: str = f"{GROUPS_PATH}/acme/eng"
    session: dict[str, str] = field(default_factory=dict)

    async def post(self, message: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = {"accept": BOTH, "content-type": "application/json", **self.session, **(headers or {})}
        return await self.client.post(more.get("address", self.address), content=raw, headers=sent)

    def streamed(
        self, method: str, body: bytes | None, headers: dict[str, str]
    ) -> contextlib.AbstractAsyncContextManager[httpx2.Response]:
        """An answer that is read as it comes."""
        sent = {"accept": BOTH, "content-type": "application/json", **headers}
        return self.client.stream(method, self.address, content=body, headers=sent)

    async def ask(self, method: str, params: dict[str, Any] | None = None, request: int = 1) -> dict[str, Any]:
        return parse_answer(await self.post(make_request(method, params, request)))

    async def modern(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx2.Response:
        whole = {**(params or {}), "_meta": {**ENVELOPE, **(params or {}).get("_meta", {})}}
        sent = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, **headers}
        if "name" in whole:
            sent.setdefault("mcp-name", whole["name"])
        return await self.post(make_request(method, whole), sent)

    async def initialize(self) -> httpx2.Response:
        answer = await self.post(make_request("initialize", INITIALIZE, 0))
        self.session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


def make_request(method: str, params: dict[str, Any] | None = None, request: int | str = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "method": method, **({} if params is None else {"params": params})}


def make_call_params(name: str, meta: dict[str, Any] | None = None, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}


def parse_answer(response: httpx2.Response) -> dict[str, Any]:
    """The last message of an answer, be it JSON or a stream."""
    return parse_messages(response)[-1]


def parse_messages(response: httpx2.Response) -> list[dict[str, Any]]:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line]
    return [response.json()]


@contextlib.asynccontextmanager
async def serve_mcp(agent: GateAgent, path: Path, largest: int = LARGEST) -> AsyncIterator[McpHttpClient]:
    endpoint = make_groups_app(agent.dispatch, agent.deps, largest)
    server = HttpServer(Starlette(routes=[Mount(GROUPS_PATH, endpoint)]), bind(ListenAddress("unix", path=path)))
    running = asyncio.create_task(server.run())
    transport = httpx2.AsyncHTTPTransport(uds=str(path))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
            yield McpHttpClient(agent, endpoint, path, client)
    finally:
        await endpoint.close()
        server.stop()
        await running
