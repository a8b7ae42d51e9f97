"""The small MCP client."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gatepost.inside.mcp_client import McpClient, McpTool, McpToolResult

if TYPE_CHECKING:
    from tests.inside.conftest import Router
else:
    Router = object


async def test_tools_are_listed_over_all_pages(router: Router, tmp_path: Path) -> None:
    tools = await McpClient.connect(tmp_path / "run" / "router.sock")

    assert await tools.list_tools() == [
        McpTool("send", "Say something. And more."),
        McpTool("get_work", "Read your work.md\n\nLong."),
        McpTool("look"),
    ]
    await tools.close()


async def test_answers_failures_and_refusals_come_back_as_answers(router: Router, tmp_path: Path) -> None:
    tools = await McpClient.connect(tmp_path / "run" / "router.sock")

    assert await tools.call("send", {"text": "hi"}) == McpToolResult("sent hi")
    assert await tools.call("fail", {}) == McpToolResult("it broke", None, True)
    assert await tools.call("nothing", {}, "my-id") == McpToolResult("no tool is named 'nothing'", None, True)
    assert (await tools.call("inspect_session", {})).structured == {"session_id": "s-1", "folder": "home", "seq": 9}
    assert "my-id" in router.ids
    await tools.close()


async def test_calls_may_run_side_by_side(router: Router, tmp_path: Path) -> None:
    tools = await McpClient.connect(tmp_path / "run" / "router.sock")
    answers = await asyncio.gather(*(tools.call("send", {"text": str(number)}) for number in range(20)))

    assert [answer.text for answer in answers] == [f"sent {number}" for number in range(20)]
    await tools.close()


async def test_a_lost_connection_raises(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    path = tmp_path / "gone.sock"
    server = await asyncio.start_unix_server(hang_up, str(path))
    with pytest.raises(OSError):
        await McpClient.connect(path)
    server.close()
    with pytest.raises(OSError):
        await McpClient.connect(tmp_path / "missing.sock")
