"""A small MCP client over `router.sock`, for providers that have none of their own: one JSON-RPC message a line.

Calls may run side by side; answers are matched by id. A tool's failure is an answer, not an exception; only a lost
connection raises (OSError).
"""

import asyncio
import binascii
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.jsonrpc.messages import PendingRequests, parse_message, render_notification, render_request
from gatepost.jsonrpc.protocol import JsonRpcFailure, initialize_params

LARGEST = 16 * 1024 * 1024
TOOLS_CHANGED = "notifications/tools/list_changed"


class McpToolHints(msgspec.Struct, frozen=True, rename="camel"):
    """A server's words about a tool's effects."""

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
    pictures: tuple[bytes, ...] = ()  # as the tool gave them; nobody has looked at them yet


class _Content(msgspec.Struct):
    type: str = "text"
    text: str = ""
    data: str = ""


class _CallResult(msgspec.Struct, rename="camel"):
    content: list[_Content] = []
    structured_content: dict[str, Any] | None = None
    is_error: bool = False


class _ToolPage(msgspec.Struct, rename="camel"):
    tools: list[McpTool] = []
    next_cursor: str | None = None


_parse_page = msgspec.json.Decoder(_ToolPage).decode
_parse_call_result = msgspec.json.Decoder(_CallResult).decode


class McpClient:
    """A connection after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._pending = PendingRequests()
        self.tools_changed = False  # since they were listed last
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, path: Path) -> "McpClient":
        tools = cls(*await asyncio.open_unix_connection(str(path), limit=LARGEST))
        with suppress(JsonRpcFailure):  # the first call fails with the reason
            await tools._request("initialize", initialize_params("gatepost-runner", "1"))
        tools._writer.write(render_notification("notifications/initialized") + b"\n")
        return tools

    async def list_tools(self) -> list[McpTool]:
        self.tools_changed = False
        found: list[McpTool] = []
        cursor: str | None = ""
        with suppress(JsonRpcFailure):  # of a session that is being ended
            while cursor is not None:
                page = _parse_page(await self._request("tools/list", {"cursor": cursor} if cursor else {}))
                found += page.tools
                cursor = page.next_cursor or None
        return found

    async def call(self, name: str, args: dict[str, Any], call_id: str | None = None) -> McpToolResult:
        """Use a tool. `call_id`, if given, is the request's id: the same use has the same one in another process."""
        try:
            answer = await self._request("tools/call", {"name": name, "arguments": args}, call_id)
        except JsonRpcFailure as failure:
            return McpToolResult(failure.message, None, True)
        called = _parse_call_result(answer)
        text = "\n".join(part.text for part in called.content if part.text)
        return McpToolResult(text, called.structured_content, called.is_error, tuple(_read_pictures(called.content)))

    @property
    def closed(self) -> bool:
        return self._reading.done()

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()

    async def _request(self, method: str, params: dict[str, Any], request_id: str | None = None) -> bytes:
        if self._reading.done():
            raise ConnectionResetError("router.sock is closed")
        request, answer = self._pending.add(request_id)
        try:
            self._writer.write(render_request(request, method, params) + b"\n")
            await self._writer.drain()
            return await answer
        finally:
            self._pending.remove(request)

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = parse_message(line)
                self.tools_changed |= message.method == TOOLS_CHANGED
                self._pending.answer(message)
        except (OSError, ValueError):  # ValueError: a line beyond all bounds, or no JSON at all
            pass
        finally:
            self._pending.fail(ConnectionResetError("router.sock is closed"))


def _read_pictures(content: Iterable[_Content]) -> Iterator[bytes]:
    """Yield what the images of an answer hold; b'' for one that is not what it says."""
    for part in content:
        if part.type == "image":
            try:
                yield binascii.a2b_base64(part.data)
            except ValueError:  # binascii.Error, or letters that are not ASCII
                yield b""
