"""A small MCP client over `router.sock`, for providers that have none of their own: one JSON-RPC message a line.

Calls may run side by side; answers are matched by id. A tool's failure is an answer, not an exception; only a lost
connection raises (OSError).
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

PROTOCOL = "2025-11-25"
LARGEST = 16 * 1024 * 1024


class McpToolHints(msgspec.Struct, frozen=True, rename="camel"):
    """What the server says about a tool's effects."""

    read_only_hint: bool = False
    idempotent_hint: bool = False


class McpTool(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    annotations: McpToolHints = McpToolHints()


class McpToolResult(msgspec.Struct, frozen=True):
    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False


class _Error(msgspec.Struct):
    message: str = ""


class _Message(msgspec.Struct):
    id: int | str | None = None
    result: dict[str, Any] | None = None
    error: _Error | None = None


class _Content(msgspec.Struct):
    text: str = ""


class _CallResult(msgspec.Struct, rename="camel"):
    content: list[_Content] = []
    structured_content: dict[str, Any] | None = None
    is_error: bool = False


class _ToolPage(msgspec.Struct, rename="camel"):
    tools: list[McpTool] = []
    next_cursor: str | None = None


_read = msgspec.json.Decoder(_Message).decode


class McpClient:
    """A connection after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int | str, asyncio.Future[_Message]] = {}
        self._last = 0
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, path: Path) -> "McpClient":
        reader, writer = await asyncio.open_unix_connection(str(path), limit=LARGEST)
        tools = cls(reader, writer)
        await tools._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "gatepost-runner", "version": "1"},
            },
        )
        tools._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return tools

    async def list_tools(self) -> list[McpTool]:
        found: list[McpTool] = []
        cursor: str | None = None
        while True:
            answer = await self._ask("tools/list", {"cursor": cursor} if cursor else {})
            page = msgspec.convert(answer.result or {}, _ToolPage)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                return found

    async def call(self, name: str, args: dict[str, Any], call_id: str | None = None) -> McpToolResult:
        """Use a tool. `call_id`, if given, is the request's id: the same use has the same one in another process."""
        answer = await self._ask("tools/call", {"name": name, "arguments": args}, call_id)
        if answer.error is not None:
            return McpToolResult(answer.error.message, None, True)
        called = msgspec.convert(answer.result or {}, _CallResult)
        text = "\n".join(part.text for part in called.content if part.text)
        return McpToolResult(text, called.structured_content, called.is_error)

    @property
    def closed(self) -> bool:
        return self._listening.done()

    async def close(self) -> None:
        self._listening.cancel()
        self._writer.close()

    async def _ask(self, method: str, params: dict[str, Any], request_id: str | None = None) -> _Message:
        if self._listening.done():
            raise ConnectionResetError("router.sock is closed")
        self._last += 1
        key: int | str = request_id if request_id is not None else self._last
        future: asyncio.Future[_Message] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            self._send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
            await self._writer.drain()
            return await future
        finally:
            self._waiting.pop(key, None)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                message = _read(line)
                future = self._waiting.get(message.id) if message.id is not None else None
                if future is not None and not future.done():
                    future.set_result(message)
        except (OSError, ValueError):  # ValueError: a line beyond all bounds, or no JSON at all
            pass
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("router.sock is closed"))
