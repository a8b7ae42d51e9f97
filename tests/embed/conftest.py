"""A bridge as a client sees it: lines to its stdin, lines from its stdout."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gatepost.embed import ToolHost
from gatepost_testing.waiting import PATIENCE_S

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The loop of whoever embeds it is mostly that of the standard library."""
    return "asyncio"


class Client:
    """One bridge process. Answers are found by their ids, in whatever order they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []  # everything it said
        self._count = 0

    def send(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self.process.stdin.write(line + b"\n")

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._count += 1
        self.send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params or {}})
        return self._count

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)
        assert line, "the bridge has ended"
        found: dict[str, Any] = json.loads(line)
        self.lines.append(found)
        return found

    async def answer(self, request: int) -> dict[str, Any]:
        while not (found := [line for line in self.lines if line.get("id") == request]):
            await self.next()
        return found[0]

    async def start(self) -> None:
        asked = self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        assert (await self.answer(asked))["result"]["protocolVersion"] == "2025-11-25"

    def begin(self, name: str, /, **arguments: Any) -> int:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = (await self.answer(self.begin(name, **arguments)))["result"]
        return result

    async def text(self, name: str, /, **arguments: Any) -> str:
        return str((await self.call(name, **arguments))["content"][0]["text"])


@asynccontextmanager
async def client_of(command: list[str], start: bool = True) -> AsyncIterator[Client]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=64 * 1024 * 1024)
    client = Client(process)
    try:
        if start:
            await client.start()
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        except TimeoutError:
            process.kill()
            raise


class Served:
    """A host and a client of it."""

    def __init__(self, host: ToolHost, client: Client) -> None:
        self.host, self.client = host, client


@pytest.fixture
def serving() -> Callable[..., Any]:
    @asynccontextmanager
    async def serve(*functions: Any, **options: Any) -> AsyncIterator[Served]:
        async with ToolHost(functions, **options) as host, client_of(host.command()) as client:
            yield Served(host, client)

    return serve


@pytest.fixture
def connecting() -> Callable[..., Any]:
    return client_of
